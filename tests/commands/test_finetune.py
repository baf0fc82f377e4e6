"""litebert finetune, called as a user calls it."""

import dataclasses
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from litebert.__main__ import main
from litebert.recipes import find_recipe
from litebert.training.metrics import read_metrics
from tests.commands.calls import refuse, run
from tests.finetuning.made import lines_of, read_file, weights_of, write_data, write_start

Printed = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_start(tmp_path_factory.mktemp("command") / "start")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data("label", tmp_path_factory.mktemp("command") / "reviews")


def arguments(data: Path, start: Path, folder: Path, *more: str) -> list[str]:
    return ["finetune", "--task", "text", "--data", str(data), "--init", str(start), "--run", str(folder),
            "--steps", "6", "--num-examples", "16", "--length", "32", *more]  # fmt: skip


def test_it_says_what_it_does_and_what_to_do_next(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    said = run(capsys, *arguments(data, start, tmp_path / "run"))
    assert "text: classes of 2" in said and "96 to learn from, 24 in dev" in said
    assert "6 of 16: 1 epochs; length 32" in said and "no 50.0%, yes 50.0%" in said
    assert "by laptop" in said, "a small model is given what suits it"
    score = read_file(tmp_path / "run", "scores.json")["dev"]["accuracy"]
    assert any(row.split() == ["dev", "accuracy", f"{score:.4g}", "50"] for row in said.splitlines()), (
        "and of one label"
    )
    assert f"{tmp_path}/run/model is the best on dev; next: litebert predict --model {tmp_path}/run/model" in said


def test_a_dry_run_writes_nothing(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    for seeds in ("1", "3"):
        assert "to learn from" in run(capsys, *arguments(data, start, tmp_path / "run", "--dry-run", "--seeds", seeds))
    assert not (tmp_path / "run").exists()


def test_what_was_cut_is_told(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    said = run(capsys, *arguments(data, start, tmp_path / "run", "--dry-run", "--length", "8"))
    assert "note  train: " in said and "examples were cut to 8 tokens; a greater length" in said


def test_a_run_is_gone_on_with_by_its_name_alone_and_is_not_trained_on(
    capsys: Printed, data: Path, start: Path, tmp_path: Path
) -> None:
    first = run(capsys, *arguments(data, start, tmp_path / "run"))
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes(), weights_of(tmp_path / "run")
    assert run(capsys, *arguments(data, start, tmp_path / "run")) == first
    assert run(capsys, "finetune", "--run", tmp_path / "run") == first
    assert ((tmp_path / "run" / "metrics.jsonl").read_bytes(), weights_of(tmp_path / "run")) == before
    run(capsys, "finetune", "--config", tmp_path / "run" / "config.json", "--run", tmp_path / "second")
    assert weights_of(tmp_path / "second") == weights_of(tmp_path / "run")


def test_several_seeds_have_a_table_of_medians(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    said = run(capsys, *arguments(data, start, tmp_path / "run", "--seeds", "2", "--steps", "2"))
    scores = [read_file(tmp_path / "run" / f"seed-{seed}", "scores.json")["dev"]["accuracy"] for seed in (0, 1)]
    best = scores.index(max(scores))
    assert "median" in said and "deviation" in said and f"{tmp_path}/run/seed-{best}/model is the best on dev" in said
    assert "holds runs of several seeds; name one of them" in refuse(capsys, *arguments(data, start, tmp_path / "run"))
    single = arguments(data, start, tmp_path / "run" / "seed-0", "--seeds", "2")
    assert "is a run of one seed; start a new --run" in refuse(capsys, *single)
    assert "--seeds is 0; it must be at least 1" in refuse(capsys, *arguments(data, start, tmp_path, "--seeds", "0"))


def test_programs_get_json(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    said = json.loads(run(capsys, *arguments(data, start, tmp_path / "run", "--json")))
    written = read_file(tmp_path / "run", "scores.json")
    assert said["runs"] == [written] and said["best"] == str(tmp_path / "run" / "model")
    assert said["scores"]["dev"]["accuracy"]["median"] == written["dev"]["accuracy"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, None), (signal.SIGINT, 130)])
def test_a_signal_saves_and_says_how_to_go_on(
    capsys: Printed, data: Path, start: Path, tmp_path: Path, number: int, code: int | None
) -> None:
    folder = tmp_path / "run"

    def send() -> None:
        while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").stat().st_size:
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    long = arguments(data, start, folder, "--steps", "100000", "--log-every", "2", "--evaluate-every", "0")
    if code is None:
        main([*map(str, long), "--json"])
    else:
        with pytest.raises(SystemExit) as exit_code:
            main([*map(str, long), "--json"])
        assert exit_code.value.code == code
    printed, said = capsys.readouterr()
    assert not printed, "what reads JSON is told nothing else"
    assert f"stopped by {signal.Signals(number).name} at step " in said and "run the same command to go on" in said
    assert (folder / "checkpoints" / "latest").is_file() and not (folder / "scores.json").exists()
    assert read_metrics(folder)[0]["step"] == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--data", ""], "there is nothing between the quotes behind --data"),
        (["--data", "nowhere"], "nowhere does not exist; correct the path"),
        (["--init", ""], "there is nothing between the quotes behind --init"),
        (["--init", "nowhere"], "nowhere does not exist"),
        (["--task", "sst3"], "there is no task 'sst3' (did you mean 'sst2'?)"),
        (["--task", "ax"], "ax is a test alone; fine-tune for a task that has data to learn from"),
        (["--task", "sst2", "--label", "label"], "sst2 has its own columns; name none, or use --task text"),
        (["--epochs", "inf"], ": --epochs is inf; it must be above 0, up to 1,000,000"),
        (["--config", "nowhere.json", "--recipe", "laptop"], "--recipe and --config each say all settings"),
        (["--recipe", "papers"], "there is no recipe 'papers' (did you mean 'paper-"),
        (["--length", "64"], ": --length is 64; the model has 48 positions"),
        (["--length", "4"], ": --length is 4; it must be at least 8"),
        (["--first", "review"], "there is no column 'review'; name one of those that are there ('text', 'label')"),
        (["--score", "label"], "line 1: 'no' is no number; correct it"),
        (["--label", "label", "--score", "x"], "the columns label and score are both given; give only one of them"),
        (["--freeze", "half"], ": --freeze is 'half'; it must be nothing, embedding, encoder or a number of layers"),
        (["--encoder", "hidden_size=24"], "has misshapen"),
        (["--learning-rate", "-1"], "--learning-rate is -1.0; it must be positive and finite"),
        (["--steps", "0"], ": --steps is 0; it must be at least 1"),
        (["--seeds", "two"], "--seeds"),
        (["--config", "nowhere.json"], "nowhere.json does not exist"),
    ],
)
def test_a_users_mistake_is_told_in_a_sentence_before_anything_is_written(
    capsys: Printed, data: Path, start: Path, tmp_path: Path, more: list[str], said: str
) -> None:
    assert said in refuse(capsys, *arguments(data, start, tmp_path / "run", *more))
    assert not (tmp_path / "run").exists()


def change_line(path: Path, number: int, content: str) -> None:
    lines = path.read_text().splitlines()
    lines[number - 1] = content
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("file", "line", "content", "said"),
    [
        ("dev", 3, '{"text": "it is", "label": "maybe"}', "dev.jsonl, line 3: the label 'maybe' is not one of those"),
        ("train", 7, '{"text": "it is", "label": ', "train.jsonl, line 7: "),
        ("train", 2, '{"text": "it is"}', "train.jsonl, line 2: there is no column 'label'"),
        ("train", 5, '{"text": " ", "label": "no"}', "train.jsonl, line 5: 'text' is empty; fill it"),
        ("dev", 4, '["it is", "no"]', "dev.jsonl, line 4: a JSON list, not an object"),
    ],
)
def test_a_mistake_in_the_data_is_told_with_its_line(
    capsys: Printed, data: Path, start: Path, tmp_path: Path, file: str, line: int, content: str, said: str
) -> None:
    copy = shutil.copytree(data, tmp_path / "data")
    change_line(copy / f"{file}.jsonl", line, content)
    assert said in refuse(capsys, *arguments(copy, start, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_row_of_glue_with_a_cell_too_many_is_told_with_its_line(capsys: Printed, start: Path, tmp_path: Path) -> None:
    data = write_data("sst2", tmp_path / "SST-2")
    change_line(data / "train.tsv", 9, "it is\tgood\t1")
    said = refuse(capsys, *arguments(data, start, tmp_path / "run", "--task", "sst2"))
    assert "train.tsv, line 9: 3 cells where there are 2 columns ('sentence', 'label'); mend it" in said


def test_data_that_lack_something_are_refused(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data, tmp_path / "data")
    call = arguments(copy, start, tmp_path / "run")
    (copy / "dev.jsonl").write_text("")
    assert "dev.jsonl has no rows; fill it or name another" in refuse(capsys, *call)
    (copy / "dev.jsonl").unlink()
    assert f"{copy} has no dev or validation or valid (" in refuse(capsys, *call)
    (copy / "train.jsonl").unlink()
    assert f"{copy} has no train (" in refuse(capsys, *call)
    one = arguments(data / "train.jsonl", start, tmp_path / "run")
    assert "train.jsonl is one file for train and dev; give the folder that holds both" in refuse(capsys, *one)
    alike = shutil.copytree(data, tmp_path / "alike")
    (alike / "train.jsonl").write_text('{"text": "it is", "label": "no"}\n' * 3)
    said = refuse(capsys, *arguments(alike, start, tmp_path / "run"))
    assert "the examples' labels are 'no'; give at least 2 to tell apart" in said
    assert not (tmp_path / "run").exists()


def test_a_model_without_a_vocabulary_is_refused(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    bare = shutil.copytree(start, tmp_path / "bare")
    (bare / "vocab.txt").unlink()
    assert f"{bare} has no vocabulary; put its spiece.model" in refuse(capsys, *arguments(data, bare, tmp_path / "run"))


def test_a_run_of_pre_training_is_not_written_over(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    stored = json.dumps(dataclasses.asdict(find_recipe("albert-nano")))
    (tmp_path / "config.json").write_text(stored)
    assert "is a run of another kind; start a new --run" in refuse(capsys, *arguments(data, start, tmp_path))
    refuse(capsys, "finetune", "--run", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_text() == stored


def test_a_run_with_another_config_is_refused(capsys: Printed, data: Path, start: Path, tmp_path: Path) -> None:
    run(capsys, *arguments(data, start, tmp_path / "run", "--steps", "2"))
    before = lines_of(tmp_path / "run")
    said = refuse(capsys, *arguments(data, start, tmp_path / "run", "--steps", "2", "--epochs", "9"))
    assert "is a run with another config (now --epochs 9.0 instead of --epochs 5.0); give the same to go on" in said
    assert lines_of(tmp_path / "run") == before
