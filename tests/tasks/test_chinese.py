import json
from pathlib import Path

import pytest

from litebert.tasks.chinese import TASKS
from litebert.tasks.task import Limits, Prediction, Question, describe_balance
from litebert.text.vocabulary import open_vocabulary

SPAN = Question("span")
CONTEXT = "基于《跑跑卡丁车》所开发的游戏，由韩国Nexon开发与发行。"


def test_cmrcs_first_layout_is_read_like_squads(tmp_path: Path) -> None:
    squad = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": [
        {"id": "Q", "question": "由谁开发？", "answers": [{"text": "Nexon", "answer_start": -1}]}]}]}]}  # fmt: skip
    flat = [{"context_id": "C", "context_text": CONTEXT, "qas": [
        {"query_id": "Q", "query_text": "由谁开发？", "answers": ["Nexon"]}]}]  # fmt: skip
    for name, content in (("cmrc2018_train.json", squad), ("cmrc2018_dev.json", flat)):
        (tmp_path / name).write_text(json.dumps(content))
    (first,), (second,) = (TASKS["cmrc2018"].read(tmp_path, split) for split in ("train", "dev"))
    assert first._replace(place="") == second._replace(place="")
    assert first.answers == (("Nexon", -1),)


def test_the_first_score_is_the_mean_of_both(tmp_path: Path) -> None:
    task = TASKS["cmrc2018"]
    content = {"data": [{"context": CONTEXT, "qas": [
        {"id": key, "question": "由谁开发？", "answers": [{"text": "韩国", "answer_start": 0}]} for key in "ab"
    ]}]}  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps(content))
    scores = task.score(task.read(tmp_path / "a.json", "dev"), {"a": Prediction("韩国"), "b": Prediction("国")})
    # Of two characters one is found: the precision is 1, the recall 1/2, and F1 2/3.
    assert task.metric == "average" and scores["exact"] == 50
    assert scores["f1"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert scores["average"] == pytest.approx((scores["exact"] + scores["f1"]) / 2)


@pytest.mark.parametrize(
    ("name", "folder", "total", "exact", "moved"),
    [("cmrc2018", "cmrc2018", 3219, 3218, 3), ("drcd", "drcd", 3524, 3522, 0)],
)
def test_the_answers_of_the_real_questions_are_found(
    data: Path, name: str, folder: str, total: int, exact: int, moved: int
) -> None:
    task, vocabulary = TASKS[name], open_vocabulary(data / "vocab" / "albert-zh-bert-vocab.txt")
    examples = task.read(data / "zh" / folder, "dev")
    encoded = task.encode(examples, vocabulary, SPAN, Limits(length=512))
    assert f"{total:,} answers: {exact:,} match whole tokens, {total - exact} were widened" in encoded.notes[0]
    assert [note.split()[0] for note in encoded.notes[1:] if "found away" in note] == [str(moved)] * (moved > 0)
    held = {}
    for sample in encoded.samples:
        if sample.span != (0, 0):
            first, last = (place - sample.second + sample.window.begin for place in sample.span)
            begin, end = sample.source.find_characters(first, last)
            held[sample.example] = examples[sample.example].context[begin:end]
    assert len(held) == total
    assert sum(held[n] == example.answers[0][0].strip() for n, example in enumerate(examples)) == exact


def test_chnsenticorp_is_read_as_it_is_handed_out(data: Path) -> None:
    folder = data / "zh" / "chnsenticorp"
    task, balance = TASKS["chnsenticorp"], {}
    for split in ("train", "dev", "test"):
        examples = task.read(folder, split)
        _, *lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")
        assert [(example.label, example.first) for example in examples] == [tuple(line.split("\t")) for line in lines]
        balance[split] = describe_balance(examples, task.ask(examples))
    assert balance["train"] == {"0": 4801, "1": 4799}
    assert sum(balance["dev"].values()) == sum(balance["test"].values()) == 1200
