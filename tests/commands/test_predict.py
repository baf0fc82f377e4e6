"""litebert predict, called as a user calls it."""

import gzip
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from litebert.tasks.text import TextColumns
from tests.commands.calls import refuse, run
from tests.finetuning.made import SIZES, Finished, finish, make_config, run_to_end, write_data, write_start

Printed = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_start(tmp_path_factory.mktemp("command") / "start")


@pytest.fixture(scope="module")
def done(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run that knows good from bad."""
    return finish("sst2", tmp_path_factory.mktemp("command"), start, steps=40)


@pytest.fixture(scope="module")
def tagger(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return finish("tags", tmp_path_factory.mktemp("command"), start, steps=40)


def test_a_text_gets_its_labels_with_their_probabilities(capsys: Printed, done: Finished) -> None:
    for text, label in (("the good dog", "1"), ("the bad dog", "0")):
        rows = run(capsys, "predict", "--model", done.run / "model", "--text", text).splitlines()
        (first, share), (second, rest) = (row.split() for row in rows if row.strip()[:1] in ("0", "1"))
        assert (first, {first, second}) == (label, {"0", "1"})
        assert float(share) > 0.5 and float(share) + float(rest) == pytest.approx(1, abs=1e-3)


def test_labels_must_be_those_of_the_head(capsys: Printed, done: Finished, tmp_path: Path) -> None:
    model = shutil.copytree(done.run / "model", tmp_path / "model")
    content = json.loads((model / "task.json").read_text())
    for labels in (["0"], ["0", "0"], ["0", "1", "2"]):
        (model / "task.json").write_text(json.dumps(content | {"labels": labels}))
        said = refuse(capsys, "predict", "--model", model, "--text", "the good dog")
        assert f"task.json names {len({*labels})} different labels, and the head of" in said


def test_programs_get_json(capsys: Printed, done: Finished) -> None:
    said = json.loads(run(capsys, "predict", "--model", done.run / "model", "--text", "the good dog", "--json"))
    assert said["answer"] == "1" == next(iter(said["probabilities"]))
    assert sum(said["probabilities"].values()) == pytest.approx(1)


def test_a_number_is_printed_alone(capsys: Printed, start: Path, tmp_path: Path) -> None:
    folder = finish("number", tmp_path, start, steps=2).run
    asked = ("predict", "--model", folder / "model", "--text", "anna sees it")
    said = run(capsys, *asked)
    assert -100 < float(said) < 100
    assert json.loads(run(capsys, *asked, "--json")) == {
        "answer": pytest.approx(float(said), abs=1e-4),
        "notes": [],
    }


def test_the_leaderboard_of_glue_gets_its_file_and_its_archive(capsys: Printed, done: Finished, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = run(capsys, "predict", "--model", done.run / "model", "--data", done.config.data, "--out", out, "--zip")
    assert f"12 predictions in {out}/sst2-test.jsonl, {out}/SST-2.tsv" in said
    assert f"{out}/glue-submission.zip (without CoLA.tsv, MRPC.tsv, " in said and "SST-2.tsv," not in said.split("(")[1]
    header, *rows = (out / "SST-2.tsv").read_text().splitlines()
    assert header == "index\tprediction"
    texts = [line.split("\t") for line in Path(done.config.data, "test.tsv").read_text().splitlines()[1:]]
    assert rows == [f"{index}\t{int('good' in text)}" for index, text in texts] and len(rows) == SIZES["test"]
    with zipfile.ZipFile(out / "glue-submission.zip") as archive:
        assert archive.namelist() == ["SST-2.tsv"]
        assert archive.read("SST-2.tsv") == (out / "SST-2.tsv").read_bytes()
    assert (out / "SST-2.tsv").read_bytes() == (done.run / "predictions" / "SST-2.tsv").read_bytes()


def test_a_file_whose_tags_are_not_known_is_tagged(capsys: Printed, tagger: Finished, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text('{"text": ["the", "dog", "sees", "anna"]}\n{"text": "dora is big"}\n')
    run(capsys, "predict", "--model", tagger.run / "model", "--data", tmp_path / "new.jsonl", "--out", tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "new-predictions.jsonl").read_text().splitlines()]
    assert [row["prediction"] for row in rows] == [["O", "O", "O", "B-NAME"], ["B-NAME", "O", "O"]]


@pytest.mark.parametrize("blank", ['"label": ""', '"label": null', '"other": 1'])
def test_a_label_that_is_left_empty_is_not_known(capsys: Printed, start: Path, tmp_path: Path, blank: str) -> None:
    model = finish("label", tmp_path, start, steps=1).run / "model"
    (tmp_path / "new.jsonl").write_text(f'{{"text": "the good dog", {blank}}}\n')
    run(capsys, "predict", "--model", model, "--data", tmp_path / "new.jsonl", "--out", tmp_path)
    assert json.loads((tmp_path / "new-predictions.jsonl").read_text())["prediction"] in ("no", "yes")


def test_labels_of_a_file_to_predict_may_be_wrong_or_missing(capsys: Printed, start: Path, tmp_path: Path) -> None:
    model = finish("label", tmp_path, start, steps=1).run / "model"
    rows = [{"text": "the good dog", "label": "whatever"}, {"text": "it is", "label": ""}, {"text": "a", "label": "no"}]
    (tmp_path / "new.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run(capsys, "predict", "--model", model, "--data", tmp_path / "new.jsonl", "--out", tmp_path)
    assert len((tmp_path / "new-predictions.jsonl").read_text().splitlines()) == 3
    said = refuse(capsys, "evaluate", "--task", "text", "--model", model, "--data", tmp_path / "new.jsonl")
    assert "the label is empty; fill it or leave the row out" in said, "what is scored has to be right"


@pytest.mark.parametrize("file", ["new.reviews.jsonl", "new.reviews.jsonl.gz"])
def test_predictions_bear_the_name_of_what_was_predicted(
    capsys: Printed, start: Path, tmp_path: Path, file: str
) -> None:
    folder = finish("label", tmp_path, start, steps=1)
    model, out = folder.run / "model", tmp_path / "out"
    rows = b'{"text": "the good dog"}\n' * 3
    (tmp_path / file).write_bytes(gzip.compress(rows) if file.endswith(".gz") else rows)
    said = run(capsys, "predict", "--model", model, "--data", tmp_path / file, "--out", out)
    assert f"3 predictions in {out}/new.reviews-predictions.jsonl" in said
    for split in ("dev", "test"):
        run(capsys, "predict", "--model", model, "--data", folder.config.data, "--split", split, "--out", out)
        assert len((out / f"{split}-predictions.jsonl").read_text().splitlines()) == SIZES[split]
    run(capsys, "evaluate", "--model", model, "--data", folder.config.data, "--out", tmp_path / "scored")
    assert [path.name for path in (tmp_path / "scored").iterdir()] == ["dev-predictions.jsonl"]
    assert (tmp_path / file).read_bytes()[:2] in (b"\x1f\x8b", b'{"'), "the file itself is as it was"


def test_a_model_for_two_texts_is_given_two(capsys: Printed, start: Path, tmp_path: Path) -> None:
    data = write_data("label", tmp_path / "data")
    for file in data.iterdir():
        rows = [json.loads(line) | {"second": "it is"} for line in file.read_text().splitlines()]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    config = make_config("label", data, start, steps=1, columns=TextColumns(second="second"))
    run_to_end(config, tmp_path / "run")
    capsys.readouterr()
    asked = ("predict", "--model", tmp_path / "run" / "model", "--text", "the good dog")
    assert "was fine-tuned for two texts; give the second with --second" in refuse(capsys, *asked)
    assert "yes" in run(capsys, *asked, "--second", "it is")


def test_a_model_that_tags_or_answers_is_not_given_a_text(
    capsys: Printed, tagger: Finished, start: Path, tmp_path: Path
) -> None:
    folders = tagger.run, finish("squad1", tmp_path, start, steps=1).run
    capsys.readouterr()
    for folder in folders:
        said = refuse(capsys, "predict", "--model", folder / "model", "--text", "anna sees the dog")
        assert f"{folder}/model does not classify texts; give --data with its examples" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "there is nothing to predict; give --text or --data"),
        (["--text", "it is", "--data", "nowhere"], "there is both a text and data to predict"),
        (["--text", " "], "--text is empty; give some"),
        (["--text", "it is", "--second", "the rain"], "was fine-tuned for one text; leave --second out"),
        (["--text", "it is", "--out", "out"], "--out goes with --data; what is said of a text is printed"),
        (["--text", "it is", "--split", "dev"], "--split goes with --data"),
        (["--text", "it is", "--zip"], "--zip goes with --data"),
        (["--data", "nowhere"], "there is no place for the predictions; name a folder with --out"),
        (["--data", "nowhere", "--out", "out"], "nowhere does not exist; correct the path"),
        (["--text", "it is", "--model", "nowhere"], "nowhere does not exist"),
    ],
)
def test_a_users_mistake_is_told_in_a_sentence(
    capsys: Printed, done: Finished, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refuse(capsys, "predict", "--model", done.run / "model", *more)
    assert not list(tmp_path.iterdir())


def test_predictions_are_not_written_among_the_files_of_a_run(capsys: Printed, done: Finished) -> None:
    before = sorted(done.run.iterdir())
    call = ("predict", "--model", done.run / "model", "--data", done.config.data, "--out", done.run)
    assert f"{done.run} is the folder of a run (checkpoints is there); choose another --out" in refuse(capsys, *call)
    assert sorted(done.run.iterdir()) == before


def test_an_archive_without_a_test_is_refused(capsys: Printed, done: Finished, tmp_path: Path) -> None:
    call = ("predict", "--model", done.run / "model", "--data", done.config.data, "--split", "dev", "--out", tmp_path)
    assert "there is no file for the leaderboard to put in" in refuse(capsys, *call, "--zip")
    assert not list(tmp_path.glob("*.zip"))
