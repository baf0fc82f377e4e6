"""What tests start with torchrun: trains on several ranks and writes what happened, for the tests to look at.

torchrun --nproc-per-node 2 -m tests.training.ranks FOLDER
"""

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from litebert.batch import Batch
from litebert.models.model import Model
from litebert.training.loop import LoopConfig, Training
from litebert.training.losses import Part, Pretraining
from litebert.training.optimizer import OptimizerConfig
from litebert.training.parallel import Ranks, gather_weights, join_ranks
from tests.training.made import make_batch, make_training, watch_training


class PoisonedOnOneRank(Pretraining):
    """Step 6, the seventh pass after the one that warms up, is no number on the last rank, and fine elsewhere."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.calls = ranks, -1

    def measure(self, model: Model, batch: Batch) -> dict[str, Part]:
        self.calls += 1
        parts = super().measure(model, batch)
        factor = float("nan") if self.calls == 6 and self.ranks.rank == self.ranks.num_ranks - 1 else 1.0
        return parts | {"masked_token": parts["masked_token"]._replace(total=parts["masked_token"].total * factor)}


def evaluate(model: Model, step: int) -> dict[str, float]:
    with torch.no_grad():
        return {"score": float(model(make_batch(1000)).logits["pair"].sum())}


def cases(ranks: Ranks, folder: Path) -> Iterator[tuple[str, Callable[[], tuple[Training, Path | None]]]]:
    settings = LoopConfig(log_every=1)
    yield "ddp", lambda: (make_training(ranks), None)
    yield "ddp in pieces", lambda: (make_training(ranks, loop=replace(settings, micro_sequences=2)), None)
    yield "ddp, adamw", lambda: (make_training(ranks, optimizer=OptimizerConfig(optimizer="adamw")), None)
    yield "poisoned", lambda: (make_training(ranks, objective=PoisonedOnOneRank(ranks)), None)
    yield "saved", lambda: (make_training(ranks, loop=replace(settings, save_every=7)), folder / "saved")
    yield "one to two", lambda: (make_training(ranks), folder / "saved by one")
    if ranks.num_ranks > 1:
        fsdp = replace(settings, parallel="fsdp")
        yield "fsdp", lambda: (make_training(ranks, loop=fsdp, evaluate=evaluate), folder / "fsdp")
        yield "fsdp in pieces", lambda: (make_training(ranks, loop=replace(fsdp, micro_sequences=2)), None)
        yield (
            "fsdp, adamw",
            lambda: (
                make_training(ranks, loop=fsdp, optimizer=OptimizerConfig(optimizer="adamw")),
                folder / "fsdp adamw",
            ),
        )
        yield "fsdp goes on", lambda: (make_training(ranks, loop=fsdp), folder / "saved by one, too")


@contextmanager
def note_failure(name: str, results: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        results[name] = {"error": f"{type(error).__name__}: {error}"}
        raise


def run_all(ranks: Ranks, folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, make in cases(ranks, folder):
        with note_failure(name, results):
            training, checkpoints = make()
            _, notes = watch_training(training, checkpoints, ranks)
            results[name] = describe(training, notes.lines)
    return results


def describe(training: Training, lines: list[dict[str, Any]]) -> dict[str, Any]:
    weights = gather_weights(training.model)
    return {
        "lines": lines,
        "weights": {key: float(tensor.double().abs().sum()) for key, tensor in weights.items()},
        "bytes": hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in weights.values())).hexdigest(),
    }


def stop_at_twelve(model: Model, step: int) -> None:
    if step == 12:
        raise InterruptedError


def run_in_parts(ranks: Ranks, folder: Path, part: str, parallel: Any) -> dict[str, Any]:
    """A run that nothing happens to and one that is cut off; or the rest of the latter, in a new process."""
    loop = LoopConfig(log_every=1, save_every=5, parallel=parallel)
    results: dict[str, Any] = {}
    if part == "stopped":
        straight = make_training(ranks, loop=loop)
        _, notes = watch_training(straight, None, ranks)
        results["straight"] = describe(straight, notes.lines)
        with contextlib.suppress(InterruptedError):
            watch_training(make_training(ranks, loop=loop, begin_step=stop_at_twelve), folder / "cut off", ranks)
    else:
        resumed = make_training(ranks, loop=loop)
        _, notes = watch_training(resumed, folder / "cut off", ranks)
        results["resumed"] = describe(resumed, notes.lines)
    return results


if __name__ == "__main__":
    torch.set_num_threads(1)
    with join_ranks() as joined:
        target, what, *how = Path(sys.argv[1]), *sys.argv[2:]
        made = run_all(joined, target) if what == "all" else run_in_parts(joined, target, what, how[0])
        if joined.is_first:
            Path(target, f"{what}.json").write_text(json.dumps(made))
