"""Two processes and one train the same model."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from litebert.config import UserError
from litebert.training.checkpoint import load_checkpoint
from litebert.training.loop import LoopConfig
from litebert.training.optimizer import OptimizerConfig
from litebert.training.parallel import Ranks, join_ranks
from tests.training.made import make_training, watch_training
from tests.training.ranks import evaluate

ROOT = Path(__file__).parents[2]


def start_ranks(number: int, folder: Path, *what: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(number), "--standalone"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "-m", "tests.training.ranks", str(folder), *what],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / f"{what[0]}.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    stopped = make_training(steps=20, loop=LoopConfig(log_every=1, save_every=9, keep=9))

    def stop(model: object, step: int) -> None:
        if step == 12:
            raise InterruptedError

    stopped.begin_step = stop
    with pytest.raises(InterruptedError):
        watch_training(stopped, folder / "saved by one")
    shutil.copytree(folder / "saved by one", folder / "saved by one, too")
    return folder


@pytest.fixture(scope="module")
def two(folder: Path) -> dict[str, Any]:
    return start_ranks(2, folder, "all")


def losses(result: dict[str, Any]) -> list[float]:
    return [line["loss"] for line in result["lines"] if "loss" in line]


def train_alone(**changes: Any) -> list[float]:
    _, notes = watch_training(make_training(**changes))
    return notes.column("loss")


@pytest.mark.parametrize("name", ["ddp", "ddp in pieces", "fsdp", "fsdp in pieces"])
def test_two_ranks_have_the_losses_of_one_for_twenty_steps(two: dict[str, Any], name: str) -> None:
    assert len(losses(two[name])) == 20
    assert losses(two[name]) == pytest.approx(train_alone(), abs=1e-6)


@pytest.mark.parametrize("name", ["ddp, adamw", "fsdp, adamw"])
def test_two_ranks_have_the_losses_of_one_with_adamw(two: dict[str, Any], name: str) -> None:
    expected = train_alone(optimizer=OptimizerConfig(optimizer="adamw"))
    assert losses(two[name]) == pytest.approx(expected, abs=1e-6)


def test_every_line_of_the_log_speaks_of_all_ranks(two: dict[str, Any]) -> None:
    _, alone = watch_training(make_training())
    for ours, theirs in zip(two["ddp"]["lines"], alone.lines, strict=True):
        for key in ("step", "tokens", "sequences", "masked_token_accuracy", "pair_accuracy", "learning_rate"):
            assert ours[key] == theirs[key], key


def test_what_is_no_number_on_one_rank_is_skipped_on_all(two: dict[str, Any]) -> None:
    events = [line["message"] for line in two["poisoned"]["lines"] if line["kind"] == "event"]
    assert len(events) == 1 and events[0].startswith("step 6 was skipped: the gradient's norm is nan")
    assert all(torch.isfinite(torch.tensor(losses(two["poisoned"]))))
    assert len(losses(two["poisoned"])) == 19


@pytest.mark.parametrize("name", ["one to two", "fsdp goes on"])
def test_a_run_saved_by_one_goes_on_at_two(two: dict[str, Any], name: str) -> None:
    found = losses(two[name])
    assert found == pytest.approx(train_alone()[9:], abs=1e-6)


@pytest.mark.parametrize("saved", ["saved", "fsdp", "fsdp adamw"])
def test_a_run_saved_by_two_goes_on_at_one(two: dict[str, Any], folder: Path, tmp_path: Path, saved: str) -> None:
    found = load_checkpoint(folder / saved)
    assert found is not None and found.step == 20
    name = {"saved": "saved", "fsdp": "fsdp", "fsdp adamw": "fsdp, adamw"}[saved]
    for key, total in two[name]["weights"].items():
        assert float(found.tensors[f"model.{key}"].double().abs().sum()) == total
    # One process goes on from there as from a checkpoint of its own.
    optimizer = OptimizerConfig(optimizer="adamw" if "adamw" in saved else "lamb")
    alone = folder / f"alone {optimizer.optimizer}"
    watch_training(make_training(optimizer=optimizer), alone)
    expected, found_losses = (
        watch_training(make_training(steps=25, optimizer=optimizer), path)[1].column("loss")
        for path in (shutil.copytree(alone, tmp_path / "alone"), folder / saved)
    )
    assert len(found_losses) == 5 and found_losses == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("number", "parallel"), [(3, "ddp"), (2, "fsdp")])
def test_ranks_that_were_cut_off_go_on_bit_for_bit(tmp_path: Path, number: int, parallel: str) -> None:
    straight = start_ranks(number, tmp_path, "stopped", parallel)["straight"]
    resumed = start_ranks(number, tmp_path, "resumed", parallel)["resumed"]
    assert [line["step"] for line in resumed["lines"]] == list(range(11, 21))
    assert losses(resumed) == losses(straight)[10:]
    assert resumed["bytes"] == straight["bytes"]


def test_a_model_in_parts_is_whole_when_it_is_evaluated(two: dict[str, Any]) -> None:
    _, alone = watch_training(make_training(evaluate=evaluate))
    found = [line["score"] for line in two["fsdp"]["lines"] if line["kind"] == "evaluation"]
    assert found == pytest.approx(alone.column("score", "evaluation"), abs=1e-4)


def test_fsdp_of_one_process_is_refused() -> None:
    with pytest.raises(UserError, match="fsdp spreads a model over several processes; start them with torchrun"):
        watch_training(make_training(loop=LoopConfig(parallel="fsdp")), ranks=Ranks())


@pytest.mark.parametrize("name", ["WORLD_SIZE", "LOCAL_RANK"])
def test_an_environment_that_torchrun_did_not_make_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "many")
    with pytest.raises(UserError, match=f"{name} is 'many' in the environment; leave it to torchrun"), join_ranks():
        pass


def test_ranks_that_cannot_meet_are_told_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(UserError, match="WORLD_SIZE is 2 but the ranks cannot meet"), join_ranks():
        pass


@pytest.mark.parametrize("num_that_see", [0, 1, 2])
def test_all_ranks_must_see_the_same_folder(num_that_see: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "add_up", lambda *_: [float(num_that_see)])
    with pytest.raises(UserError, match="see run/x and others do not; put") if num_that_see == 1 else nullcontext():
        Ranks(num_ranks=2).agree_whether(True, "run/x")
