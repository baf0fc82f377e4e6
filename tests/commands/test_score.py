"""litebert score, called as a user calls it."""

import json
from pathlib import Path

import pytest

from litebert.__main__ import main
from tests.commands.calls import refuse, run
from tests.finetuning.made import Finished, finish, write_start

Printed = pytest.CaptureFixture[str]
KINDS = {
    "label": ("text",),
    "number": ("text", "--score", "score"),
    "tags": ("text", "--tags", "tags"),
    "squad2": ("squad2",),
    "choice": ("race",),
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    folder = tmp_path_factory.mktemp("score")
    start = write_start(folder / "start")
    return {kind: finish(kind, folder / kind, start, steps=3) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_have_the_scores_that_their_run_wrote(
    capsys: Printed, done: dict[str, Finished], kind: str
) -> None:
    config, folder, scores = done[kind]
    call = ["score", "--task", *KINDS[kind], "--gold", config.data, "--json"]
    for split in ("dev", "test"):
        file = folder / scores["files"][split]
        found = json.loads(run(capsys, *call, "--split", split, "--predictions", file))
        assert found == pytest.approx(scores[split])
    dev = ("--predictions", folder / scores["files"]["dev"])
    assert run(capsys, *call, *dev) == run(capsys, *call, *dev, "--split", "dev"), "dev, if nothing is said"


def test_the_file_of_anyone_is_scored_and_what_it_lacks_is_wrong(capsys: Printed, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\n" + "it is\t1\n" * 3 + "it is\t0\n")
    (tmp_path / "said.tsv").write_text("index\tprediction\n0\t1\n1\t0\n3\t0\n")
    said = run(
        capsys, "score", "--task", "sst2", "--gold", tmp_path / "dev.tsv", "--predictions", tmp_path / "said.tsv"
    )
    assert "1 of 4 examples have no prediction and count as wrong" in said
    assert ["accuracy", "50"] in [row.split() for row in said.splitlines()]
    main(
        ["score", "--task", "sst2", "--gold", f"{tmp_path}/dev.tsv", "--predictions", f"{tmp_path}/said.tsv", "--json"]
    )
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"accuracy": 50.0}
    assert printed.err == "1 of 4 examples have no prediction and count as wrong\n", "no part of the JSON"
    (tmp_path / "said.tsv").write_text("index\tprediction\n0\t1\n1\t0\n2\t1\n3\t0\n4\t0\n")
    said = run(
        capsys, "score", "--task", "sst2", "--gold", tmp_path / "dev.tsv", "--predictions", tmp_path / "said.tsv"
    )
    assert "1 of 5 predictions are of no example there" in said


def test_a_label_that_no_example_has_is_told(capsys: Printed, tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text("text,label\nit is,a\nit was,b\nit will,a\n")
    (tmp_path / "said.tsv").write_text("index\tprediction\n0\ta\n1\tb\n2\tc\n")
    call = ("score", "--task", "text", "--gold", tmp_path / "dev.csv", "--predictions", tmp_path / "said.tsv")
    assert "no example has the label 'c', which was predicted; macro F1 counts it as a class" in run(capsys, *call)
    (tmp_path / "said.tsv").write_text("index\tprediction\n0\ta\n1\tb\n2\tb\n")
    assert "no example" not in run(capsys, *call)
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nit is\t1\n")
    (tmp_path / "said.tsv").write_text("index\tprediction\n0\t0\n")
    call = ("score", "--task", "sst2", "--gold", tmp_path / "dev.tsv", "--predictions", tmp_path / "said.tsv")
    assert "macro" not in run(capsys, *call), "which SST-2 does not have"


def test_the_diagnostic_set_has_no_dev_and_is_scored_as_it_is(capsys: Printed, tmp_path: Path) -> None:
    rows = ["entailment", "neutral", "contradiction", "neutral"]
    gold = ["Premise\tHypothesis\tLabel", *(f"it is\tit is\t{label}" for label in rows)]
    (tmp_path / "gold.tsv").write_text("\n".join(gold) + "\n")
    (tmp_path / "AX.tsv").write_text("index\tprediction\n" + "".join(f"{n}\t{label}\n" for n, label in enumerate(rows)))
    said = run(capsys, "score", "--task", "ax", "--gold", tmp_path / "gold.tsv", "--predictions", tmp_path / "AX.tsv",
               "--json")  # fmt: skip
    assert json.loads(said) == {"matthews": 100.0, "accuracy": 100.0}


def test_a_users_mistake_is_told_in_a_sentence(capsys: Printed, done: dict[str, Finished], tmp_path: Path) -> None:
    config, folder, scores = done["label"]
    predictions = folder / scores["files"]["dev"]
    call = ("score", "--task", "text", "--gold", config.data, "--predictions")
    assert "no task 'texts' (did you mean 'text'?)" in refuse(capsys, *call, predictions, "--task", "texts")
    assert "nowhere" in refuse(capsys, *call, tmp_path / "nowhere.jsonl")
    assert "there is no column 'stars'" in refuse(capsys, *call, predictions, "--label", "stars")
    (tmp_path / "said.jsonl").write_text('{"id": "0", "prediction": "no"}\n{"id": "0", "prediction": "no"}\n')
    assert "said.jsonl, line 2: the id '0' is there twice" in refuse(capsys, *call, tmp_path / "said.jsonl")
    (tmp_path / "other.jsonl").write_text('{"id": "a", "prediction": "no"}\n')
    said = refuse(capsys, *call, tmp_path / "other.jsonl")
    assert "24 of 24 examples have no prediction (the first is '0'" in said and "predict this split" in said
