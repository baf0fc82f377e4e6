"""litebert study, report and layers, called as a user calls them."""

import json
from pathlib import Path

import pytest

from litebert.studies.catalogue import STUDIES
from tests.commands.calls import refuse, run
from tests.corpus.made import write_text_corpus
from tests.finetuning.made import write_start

Printed = pytest.CaptureFixture[str]
SMALL = ("--encoder", "hidden_size=32", "num_heads=2", "feed_forward_size=64", "--length", "32", "--num-sequences", "4",
         "--evaluation-sequences", "32", "--steps", "2")  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_corpus(tmp_path_factory.mktemp("study") / "corpus")


def test_the_list_says_what_each_study_asks(capsys: Printed) -> None:
    said = run(capsys, "study", "--list")
    assert all(study.question in said and study.source in said for study in STUDIES.values())
    assert [row["study"] for row in json.loads(run(capsys, "study", "--list", "--json"))] == list(STUDIES)
    assert run(capsys, "study", "--list", "--preset", "albert-small", "--steps", "9") == said  # it is of no preset's


def test_a_study_prints_its_table_and_what_comes_next(capsys: Printed, corpus: Path, tmp_path: Path) -> None:
    arguments = ["study", "dropout", "--corpus", corpus, "--out", tmp_path / "out", *SMALL]
    said = run(capsys, *arguments)
    assert "without dropout" in said and "paper: downstream" in said and "one seed cannot show an order" in said
    assert f"next: litebert report {tmp_path}/out/dropout" in said
    content = json.loads(run(capsys, *arguments, "--json"))
    assert len(content["results"]) == 2
    said = run(capsys, "report", tmp_path / "out" / "dropout", "--out", tmp_path / "report.html")
    assert "complete in itself" in said and (tmp_path / "report.html").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["study"], "NAME is missing"),
        (["study", "shering"], "there is no study 'shering' (did you mean 'sharing'?)"),
        (["study", "sharing"], "there is no corpus"),
        (["study", "sharing", "--corpus", "nowhere"], "nowhere"),
        (["study", "sharing", "--minutes", "3"], "--minutes is 3.0; say with --budget"),
        (["study", "sharing", "--budget", "long"], ": --budget is 'long'"),
        (["study", "sharing", "--preset", "albert-nona"], "did you mean 'albert-nano'?"),
        (["report"], "FOLDER is missing"),
        (["report", "nowhere"], "nowhere is no folder"),
        (["layers", "nowhere", "--text", "nothing.txt"], "nowhere"),
    ],
)
def test_mistakes_are_one_sentence(
    capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refuse(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_layers_are_measured_on_any_text(capsys: Printed, tmp_path: Path) -> None:
    model = write_start(tmp_path / "model")
    (tmp_path / "text.txt").write_text("the dog sees a bird .\nanna finds the old house .\n\nrain .\n")
    arguments = ["layers", model, "--text", tmp_path / "text.txt", "--length", "8"]
    said = run(capsys, *arguments, "--out", tmp_path / "layers.png")
    assert "model: distance" in said and (tmp_path / "layers.png").exists()
    assert list(json.loads(run(capsys, *arguments, "--names", "mine", "--json"))) == ["mine"]
    assert "--names is a b; give each of the 1 models one" in refuse(capsys, *arguments, "--names", "a", "b")
    (layers,) = json.loads(run(capsys, *arguments, "--json")).values()
    assert layers["num_tokens"] == 8 + 8 + 4 and len(layers["angles"]) == 2
    assert "--length is 999; " in refuse(capsys, *arguments, "--length", "999")
    (tmp_path / "empty.txt").write_text("\n")
    empty = ["layers", model, "--text", tmp_path / "empty.txt", "--length", "8"]
    assert "no text; leave it out" in refuse(capsys, *empty)
    assert "no text to measure" in refuse(capsys, *empty, "--skip-bad")
