import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from litebert.config import UserError
from litebert.tasks.race import LETTERS, TASKS, ChoiceExample, fill_blank
from litebert.tasks.task import Limits, Prediction, Sample, pack
from litebert.text.vocabulary import Vocabulary, open_vocabulary

RACE = TASKS["race"]
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] we see a the fox dog bird tree who where is in sits . ?"
# The questions of RACE, by split and level, as its paper counts them.
OFFICIAL_COUNTS = {"train": (25421, 62445), "dev": (1436, 3451), "test": (1436, 3498)}


def make_passage(name: str = "middle1.txt", **changes: Any) -> dict[str, Any]:
    options = [["a fox", "a dog", "a bird", "a tree"], ["the tree", "the fox", "the dog", "the bird"]]
    return {
        "article": f"the fox sits in the tree . the {name} is there .",
        "questions": ["we see  _  in the tree .", "where is the fox ?"],
        "options": options,
        "answers": ["A", "D"],
        "id": name,
    } | changes


def write_lines(path: Path, *passages: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(passage) + "\n" for passage in passages).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.fixture
def vocabulary(tmp_path: Path) -> Vocabulary:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS.split()) + "\n")
    return open_vocabulary(tmp_path / "vocab.txt")


def make_examples(number: int = 3, passage: str = "the fox sits in the tree .") -> list[ChoiceExample]:
    options = ("a fox", "a dog", "a bird", "a tree")
    return [
        ChoiceExample(f"high{n}.txt-1", f"a, line {n}", passage, "we see _ .", options, LETTERS[n % 4], "high")
        for n in range(number)
    ]


def content(examples: list[ChoiceExample]) -> list[ChoiceExample]:
    """Examples but for where they were found."""
    return sorted(example._replace(place="") for example in examples)


def test_the_three_ways_to_keep_the_data_give_the_same_examples(tmp_path: Path) -> None:
    passages = {level: [make_passage(f"{level}{number}.txt") for number in range(12)] for level in ("middle", "high")}
    for level, some in passages.items():
        write_lines(tmp_path / "google" / "dev" / level / "all.txt", *some)
        for passage in some:
            write_lines(tmp_path / "official" / "dev" / level / passage["id"].removeprefix(level), passage)
    everything = [passage | {"level": level} for level, some in passages.items() for passage in some]
    write_lines(tmp_path / "lines" / "dev.jsonl.gz", *everything)
    read = {kind: RACE.read(tmp_path / kind, "dev") for kind in ("google", "official", "lines")}
    assert len(read["lines"]) == 48
    assert content(read["google"]) == content(read["official"]) == content(read["lines"])
    assert {example.level for example in read["lines"]} == {"middle", "high"}


@pytest.mark.parametrize("kind", ["google", "lines"])
def test_a_level_is_the_part_of_the_whole_that_is_of_it(tmp_path: Path, kind: str) -> None:
    passages = [make_passage("middle1.txt"), make_passage("high1.txt"), make_passage("high2.txt")]
    if kind == "lines":
        write_lines(tmp_path / "train.jsonl", *passages)
    else:
        write_lines(tmp_path / "train" / "middle" / "all.txt", *passages[:1])
        write_lines(tmp_path / "train" / "high" / "all.txt", *passages[1:])
    middle, high = (TASKS[f"race-{level}"].read(tmp_path, "train") for level in ("middle", "high"))
    assert [example.id for example in middle] == ["middle1.txt-1", "middle1.txt-2"]
    assert [*middle, *high] == RACE.read(tmp_path, "train")


def test_one_file_of_all_passages_stands_for_those_it_was_made_of(tmp_path: Path) -> None:
    for level in ("middle", "high"):
        for name in ("1.txt", "all.txt"):
            write_lines(tmp_path / "dev" / level / name, make_passage(f"{level}1.txt"))
    assert len(RACE.read(tmp_path, "dev")) == 4


def test_a_file_may_be_named_itself(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", make_passage("p1"), make_passage("p2"))
    examples = RACE.read(path, "dev")
    assert [example.id for example in examples] == ["p1-1", "p1-2", "p2-1", "p2-2"]
    assert examples[3].place == f"{path}, line 2, question 2"
    assert examples[0][3:] == ("we see  _  in the tree .", ("a fox", "a dog", "a bird", "a tree"), "A", "")


def test_only_questions_of_the_test_may_lack_their_answers(tmp_path: Path) -> None:
    passage = make_passage()
    del passage["answers"]
    path = write_lines(tmp_path / "secret.jsonl", passage)
    examples = RACE.read(path, "test")
    assert [example.answer for example in examples] == [None, None]
    with pytest.raises(UserError, match="line 1, question 1: there is no answer"):
        RACE.read(path, "dev")
    with pytest.raises(UserError, match="line 1, question 1: there is no answer"):
        RACE.score(examples, {example.id: Prediction("A") for example in examples})
    with pytest.raises(UserError, match="2 of 2 examples have no prediction"):
        RACE.score(examples, {})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"answers": ["A", "E"]}, "line 2, question 2: the answer is 'E'; it must be one of A, B, C, D$"),
        ({"answers": ["A", "AB"]}, "line 2, question 2: the answer is 'AB'"),
        ({"answers": ["A", None]}, "line 2, question 2: there is no answer; add it"),
        ({"answers": None}, "line 2, question 1: there is no answer; add it"),
        ({"answers": ["A"]}, "line 2: there are 2 questions but 1 answers; give each question one"),
        ({"answers": "AD"}, "line 2: 'answers' is a str; it must be a list"),
        ({"article": None}, "line 2: there is no 'article'; add what is missing"),
        ({"article": None, "id": None}, "line 2: there is no 'article', no 'id'; add what is missing"),
        ({"article": ["a"]}, "line 2: 'article' is a list; it must be a string"),
        ({"questions": 3}, "line 2: 'questions' is a int; it must be a list"),
        ({"questions": ["a", 2]}, "line 2, question 2: 2 must be a string"),
        ({"options": [["a"] * 4, ["a"] * 3]}, "line 2, question 2: there are 3 options; there must be 4"),
        ({"options": [["a"] * 5, ["a"] * 4]}, "line 2, question 1: there are 5 options; there must be 4"),
        ({"options": [["a"] * 4, ["a", "b", None, "c"]]}, "line 2, question 2: None must be a string"),
        ({"options": [["a"] * 4, None]}, "line 2, question 2: None must be a string"),
        ({"level": "college"}, "line 2: the level is 'college'; it must be middle or high"),
        ({"id": "high0.txt"}, "line 2, question 1: its id 'high0.txt-1' is also that of .*line 1, question 1"),
    ],
)
def test_what_is_wrong_with_a_passage_is_said_with_its_place(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = write_lines(tmp_path / "dev.jsonl", make_passage("high0.txt"), make_passage(**changes))
    with pytest.raises(UserError, match=f"^{path}, {said}"):
        RACE.read(tmp_path, "dev")


@pytest.mark.parametrize("line", ['{"article": "a"', "nonsense", "[1, 2]", "\ufffd"])
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str) -> None:
    path = write_lines(tmp_path / "train.jsonl", make_passage())
    path.write_text(path.read_text() + "\n" + line)
    with pytest.raises(UserError, match=f"^{path}, line 3: (not JSON|a JSON list)"):
        RACE.read(tmp_path, "train")


def test_folders_and_splits_that_are_not_there_are_named(tmp_path: Path) -> None:
    write_lines(tmp_path / "dev" / "middle" / "1.txt", make_passage())
    with pytest.raises(UserError, match="has neither train.jsonl nor the folder train;"):
        RACE.read(tmp_path, "train")
    with pytest.raises(UserError, match="dev/high does not exist; correct the path"):
        RACE.read(tmp_path, "dev")
    with pytest.raises(UserError, match="RACE has no split 'development'"):
        RACE.read(tmp_path, "development")
    with pytest.raises(UserError, match="nowhere does not exist"):
        RACE.read(tmp_path / "nowhere", "dev")


def test_a_task_of_one_level_wants_to_know_each_passages_level(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "dev.jsonl", make_passage("p1"))
    with pytest.raises(UserError, match="line 1, question 1: no 'level', which race-high needs; say middle or high"):
        TASKS["race-high"].read(path, "dev")
    path = write_lines(tmp_path / "dev.jsonl", make_passage("middle1"))
    with pytest.raises(UserError, match="dev.jsonl has no questions of race-high for dev"):
        TASKS["race-high"].read(path, "dev")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("we see  _  .", "we see  a\\1 fox  ."),
        ("____ sits .", "a\\1 fox sits ."),
        ("we _ the _ .", "we a\\1 fox the a\\1 fox ."),
        ("who sits ?", "who sits ? a\\1 fox"),
    ],
)
def test_an_option_fills_every_blank_or_follows_the_question(question: str, text: str) -> None:
    assert fill_blank(question, "a\\1 fox") == text


@settings(deadline=None, max_examples=50)
@given(st.text("ab _"), st.text("ab _"))
def test_no_letter_of_a_question_or_an_option_is_lost(question: str, option: str) -> None:
    def letters(text: str) -> list[str]:
        return sorted(text.replace("_", "").replace(" ", ""))

    num_blanks = len(re.findall("_+", question))
    assert letters(fill_blank(question, option)) == letters(question + max(1, num_blanks) * option)


@pytest.mark.parametrize("limits", [Limits(length=64), Limits(length=12), Limits(length=10, choice_length=3)])
def test_samples_are_packed_as_the_released_code_does(vocabulary: Vocabulary, limits: Limits) -> None:
    examples = make_examples()
    encoded = RACE.encode(examples, vocabulary, RACE.ask(examples), limits)
    expected = []
    for number, example in enumerate(examples):
        for letter, option in zip(LETTERS, example.options, strict=True):
            text = vocabulary.encode(f"we see {option} .")[-limits.choice_length :]
            passage = vocabulary.encode(example.passage)
            while 3 + len(passage) + len(text) > limits.length:
                passage = passage[:-1]
            ids = vocabulary.add_special(passage, text)
            expected.append((ids, len(passage) + 2, number, int(letter == example.answer)))
    assert [(s.token_ids.tolist(), *s[1:4]) for s in encoded.samples] == expected
    assert max(len(sample.token_ids) for sample in encoded.samples) <= limits.length


def test_a_choice_is_cut_too_where_it_alone_is_too_long(vocabulary: Vocabulary) -> None:
    example = make_examples(1)[0]._replace(question=" ".join(["the fox sees"] * 20))
    encoded = RACE.encode([example], vocabulary, RACE.ask([example]), Limits(length=16, choice_length=128))
    assert {len(sample.token_ids) for sample in encoded.samples} == {16}
    assert {sample.second for sample in encoded.samples} == {2}
    dog = vocabulary.look_up("a dog [SEP]")
    assert encoded.samples[1].token_ids[-3:].tolist() == dog
    assert encoded.notes[1] == "4 of 4 questions with an option were cut to their last 13 tokens"


def test_a_note_counts_each_cut_passage_once_with_the_share_it_lost(vocabulary: Vocabulary) -> None:
    short, long = make_examples(2), make_examples(2, passage=" ".join(["fox"] * 20))
    examples = [*short, *(example._replace(id=example.id + "x") for example in long)]
    # Options of two words make a choice of five tokens: 20 - 3 - 5 = 12 of 20 are left.
    encoded = RACE.encode(examples, vocabulary, RACE.ask(examples), Limits(length=20))
    assert len(encoded.notes) == 1
    assert encoded.notes[0].startswith("1 of 2 passages were cut to fit in 20 tokens")
    assert "lost 40.0 % of their tokens" in encoded.notes[0]
    assert not RACE.encode(examples, vocabulary, RACE.ask(examples), Limits(length=28)).notes


def test_a_batch_holds_a_label_for_each_option(vocabulary: Vocabulary) -> None:
    examples = make_examples(4)
    question = RACE.ask(examples)
    assert (question.kind, question.num_choices) == ("choice", 4)
    batch = pack(RACE.encode(examples, vocabulary, question, Limits()).samples)
    assert batch.labels_BX is not None
    assert batch.labels_BX.reshape(-1, 4).argmax(dim=1).tolist() == [0, 1, 2, 3]
    assert batch.labels_BX.sum() == 4
    secret = [example._replace(answer=None) for example in examples]
    assert pack(RACE.encode(secret, vocabulary, question, Limits()).samples).labels_BX is None


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.floats(-1000, 1000, width=32), min_size=4, max_size=4), min_size=1, max_size=5))
def test_probabilities_are_the_softmax_over_a_questions_options(rows: list[list[float]]) -> None:
    examples = make_examples(len(rows))
    samples = [Sample(np.zeros(4, np.int32), 4, number) for number in range(len(rows)) for _ in LETTERS]
    outputs = [np.float32(number) for row in rows for number in row]
    predictions = RACE.decode(examples, samples, outputs, RACE.ask(examples), Limits())
    assert list(predictions) == [example.id for example in examples]
    for row, prediction in zip(rows, predictions.values(), strict=True):
        np.testing.assert_allclose(prediction.probabilities, softmax(row), rtol=1e-6, atol=1e-12)
        assert prediction.answer == LETTERS[int(np.argmax(prediction.probabilities))]


def test_the_accuracy_of_both_levels_is_also_given_apart() -> None:
    high = make_examples(4)
    middle = [example._replace(id=f"m{n}", level="middle") for n, example in enumerate(high)]
    predictions = {example.id: Prediction(example.answer) for example in [*high[:1], *middle[:3]]}
    predictions |= {high[1].id: Prediction("D")}  # wrong; three more have none, which is wrong too
    assert RACE.score([*high, *middle], predictions) == {
        "accuracy": 50.0,
        "accuracy_middle": 75.0,
        "accuracy_high": 25.0,
    }
    assert RACE.score(high, predictions) == {"accuracy": 25.0, "accuracy_high": 25.0}
    assert TASKS["race-high"].score(high, predictions) == {"accuracy": 25.0}
    assert RACE.metric in RACE.score(high, predictions)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    examples = make_examples(3)
    predictions = {example.id: Prediction("B", (0.125, 0.5, 0.25, 0.125)) for example in examples}
    paths = RACE.write_predictions(tmp_path / "new", "dev", examples, predictions)
    assert [path.name for path in paths] == ["race-dev.jsonl"]
    assert json.loads(paths[0].read_text().splitlines()[0]) == {
        "id": "high0.txt-1", "prediction": "B", "probabilities": [0.125, 0.5, 0.25, 0.125],
    }  # fmt: skip
    assert RACE.read_predictions(paths[0]) == predictions
    with pytest.raises(UserError, match="1 of . examples have no prediction .the first is 'high2.txt-1'"):
        RACE.write_predictions(tmp_path, "dev", examples, {e.id: Prediction("A") for e in examples[:2]})


def test_letters_of_other_systems_are_read_from_an_object_or_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"p-1": "A",\n "p-2": "D"}')
    (tmp_path / "a.tsv").write_text("id\tprediction\np-1\tA\np-2\tD\n")
    (tmp_path / "a.jsonl").write_text('{"id": "p-1", "prediction": "A"}\n{"id": "p-2", "prediction": "D"}\n')
    expected = {"p-1": Prediction("A"), "p-2": Prediction("D")}
    assert all(RACE.read_predictions(tmp_path / name) == expected for name in ("a.json", "a.tsv", "a.jsonl"))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.tsv", "id\tprediction\np\tE\n", "line 2: the prediction is 'E'; it must be one of A, B, C, D"),
        ("a.tsv", "id\tprediction\np\tA\np\tB\n", "line 3: the id 'p' is there twice"),
        ("a.tsv", "id\tprediction\np\tA\tB\n", "line 2: 3 cells"),
        ("a.jsonl", '{"id": "p"}', "line 1: .*'prediction'"),
        ("a.jsonl", '{"id": "p", "prediction": ["A"]}', r"line 1: the prediction is \['A'\]"),
        ("a.jsonl", '{"id": "p", "prediction": "A", "probabilities": [1, 0]}', "line 1: the probabilities are"),
        ("a.jsonl", '{"id": "p", "prediction": "A", "probabilities": [1, 0, "x", 0]}', "line 1: 'x' is no number"),
        ("a.json", '{"p": 1}', "'p': the prediction is 1"),
    ],
)
def test_what_is_wrong_with_predictions_is_said_with_its_place(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=f"^{tmp_path / name}, {said}"):
        RACE.read_predictions(tmp_path / name)


@pytest.mark.parametrize("split", OFFICIAL_COUNTS)
def test_race_has_as_many_questions_as_its_paper_says(data: Path, split: str) -> None:
    examples = RACE.read(data / "race", split)
    levels = [example.level for example in examples]
    assert (levels.count("middle"), levels.count("high"), len(levels)) == (
        *OFFICIAL_COUNTS[split],
        sum(OFFICIAL_COUNTS[split]),
    )


def test_the_real_questions_fit_their_length_and_end_in_their_option(data: Path) -> None:
    vocabulary = open_vocabulary(data / "vocab" / "albert-en-30k-clean.model")
    examples = TASKS["race-middle"].read(data / "race", "dev")
    encoded = RACE.encode(examples, vocabulary, RACE.ask(examples), Limits(length=512))
    assert len(encoded.samples) == 4 * 1436
    assert max(len(sample.token_ids) for sample in encoded.samples) <= 512
    for number, sample in list(enumerate(encoded.samples))[::97]:
        example, option = examples[number // 4], examples[number // 4].options[number % 4]
        second = sample.token_ids[sample.second : -1].tolist()
        assert second == vocabulary.encode(fill_blank(example.question, option))
    right = [sample.label for sample in encoded.samples]
    assert [LETTERS[np.argmax(right[n : n + 4])] for n in range(0, len(right), 4)] == [e.answer for e in examples]
