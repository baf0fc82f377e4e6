"""litebert pretrain, called as a user calls it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from litebert.pretraining.pace import Pace
from litebert.training.metrics import read_metrics
from tests.commands.calls import refuse, run
from tests.corpus.made import write_text_corpus

Printed = pytest.CaptureFixture[str]
SMALL = ("--encoder", "hidden_size=32", "num_heads=2", "feed_forward_size=64")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_corpus(tmp_path_factory.mktemp("command") / "corpus")


def arguments(corpus: Path, folder: Path, *more: str) -> list[str]:
    return ["pretrain", "--preset", "albert-nano", "--corpus", str(corpus), "--run", str(folder), *SMALL,
            "--steps", "6", "--length", "32", "--num-sequences", "4", "--evaluation-sequences", "16",
            *more]  # fmt: skip


def test_it_says_what_it_does_and_what_to_do_next(capsys: Printed, corpus: Path, tmp_path: Path) -> None:
    said = run(capsys, *arguments(corpus, tmp_path / "run"))
    assert "the paper's, scaled to this batch, is 5.5e-05" in said
    assert f"{tmp_path}/run/model: 6 steps done" in said and "next: litebert plot" in said


def test_only_a_run_that_was_to_fill_its_minutes_and_did_not_says_so(
    capsys: Printed, caplog: pytest.LogCaptureFixture, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, *arguments(corpus, tmp_path / "steps"))
    assert "minutes" not in caplog.text
    monkeypatch.setattr("litebert.pretraining.preparation.measure_pace", lambda *_: Pace(100.0, 0.0))
    timed = [part for part in arguments(corpus, tmp_path / "minutes", "--minutes", "5") if part not in ("--steps", "6")]
    assert "3 steps done" in run(capsys, *timed)
    assert "of 5 minutes: the machine was busier when steps were timed" in caplog.text
    assert "3 steps done before; to train longer" in run(capsys, *timed)


def test_a_dry_run_writes_nothing(capsys: Printed, corpus: Path, tmp_path: Path) -> None:
    assert "parameters" in run(capsys, *arguments(corpus, tmp_path / "run", "--dry-run"))
    assert not (tmp_path / "run").exists()


def test_a_run_is_gone_on_with_by_its_name_alone(capsys: Printed, corpus: Path, tmp_path: Path) -> None:
    run(capsys, *arguments(corpus, tmp_path / "run"))
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert "6 steps done" in run(capsys, "pretrain", "--run", tmp_path / "run", "--resume")
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_the_config_of_a_run_is_accepted_for_another(capsys: Printed, corpus: Path, tmp_path: Path) -> None:
    run(capsys, *arguments(corpus, tmp_path / "first"))
    run(capsys, "pretrain", "--config", tmp_path / "first" / "config.json", "--run", tmp_path / "second")
    assert (tmp_path / "first" / "config.json").read_text() == (tmp_path / "second" / "config.json").read_text()
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("first", "second")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--learning-rate", "nan"], ": --learning-rate is nan; it must be positive and finite"),
        (["--steps", "0"], ": --steps is 0; it must"),
        (["--length", "1024"], ": --length is 1024; the model has 512 positions"),
        (["--depths", "1", "2@0.5"], "it must end at 3"),
        (["--encoder", "num_layer=3"], "an encoder has no 'num_layer' (did you mean 'num_layers'?)"),
        (["--init", "nowhere"], "nowhere does not exist"),
        (["--parallel", "fsdp"], "fsdp spreads a model over several processes"),
        (["--corpus", "nowhere"], "nowhere"),
        (["--preset", "albert-nanno"], "there is no preset 'albert-nanno'"),
        (["--resume"], "is no run to go on with"),
        (["--config", "nowhere.json"], "nowhere.json does not exist"),
    ],
)
def test_a_users_mistake_is_told_in_a_sentence_before_anything_is_written(
    capsys: Printed, corpus: Path, tmp_path: Path, more: list[str], said: str
) -> None:
    assert said in refuse(capsys, *arguments(corpus, tmp_path / "run", *more))
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_corpus_that_is_missing_is_asked_for(capsys: Printed, tmp_path: Path) -> None:
    assert "there is no corpus; name one" in refuse(capsys, "pretrain", "--preset", "albert-nano", "--run", tmp_path)


def test_a_damaged_config_is_named(capsys: Printed, corpus: Path, tmp_path: Path) -> None:
    run(capsys, *arguments(corpus, tmp_path / "run"))
    (tmp_path / "run" / "config.json").write_text('{"preset": ')
    assert "config.json is not valid JSON" in refuse(capsys, *arguments(corpus, tmp_path / "run"))


def test_a_run_folder_that_is_a_file_is_refused(capsys: Printed, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    assert str(tmp_path / "run") in refuse(capsys, *arguments(corpus, tmp_path / "run"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_saves_and_says_how_to_go_on(corpus: Path, tmp_path: Path, number: int, code: int) -> None:
    folder = tmp_path / "run"
    command = [*arguments(corpus, folder, "--steps", "100000", "--log-every", "5"), "--evaluate-every", "0"]
    with subprocess.Popen([sys.executable, "-m", "litebert", *command], stderr=subprocess.PIPE, text=True) as process:
        while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").stat().st_size:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"stopped by {signal.Signals(number).name}" in said and "run the same command to go on" in said
    step = json.loads((folder / "checkpoints" / said_checkpoint(folder) / "state.json").read_text())["step"]
    assert step >= read_metrics(folder)[-1]["step"] > 0


def said_checkpoint(folder: Path) -> str:
    return (folder / "checkpoints" / "latest").read_text().split()[0]
