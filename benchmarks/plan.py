"""What litebert plan predicts for this machine beside what a short run then measures: memory, and time of a step.

    python benchmarks/plan.py --corpus my-corpus --rows nano micro

Both are called as a user calls them, one after the other, without evaluation. The run's memory is the most that its
process ever had resident; its time is that between the first and the last line of its log, so that neither its start
nor its end counts. The machine should have nothing else to do: the two are seconds apart.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from sides import tell


@dataclass(frozen=True)
class Row:
    """A run."""

    arguments: tuple[str, ...]
    steps: int


ROWS = {
    "nano": Row(("--preset", "albert-nano"), 400),
    "micro": Row(("--preset", "albert-micro"), 240),
    "bert-micro": Row(("--preset", "bert-micro"), 240),
    "mini-lamb": Row(("--preset", "albert-mini", "--optimizer", "lamb"), 100),
    "mini-grown": Row(("--preset", "albert-mini", "--depths", "2", "6@0.5", "--lengths", "64", "128@0.5"), 160),
    "small-32": Row(("--preset", "albert-small", "--num-sequences", "32"), 24),
    "small-32-layers": Row(
        ("--preset", "albert-small", "--num-sequences", "32", "--checkpointing", "layers"), 24
    ),
    "base-8": Row(("--preset", "albert-base", "--num-sequences", "8", "--length", "128"), 16),
    "base-8-micro": Row(
        ("--preset", "albert-base", "--num-sequences", "8", "--length", "128", "--micro-sequences", "2"), 16
    ),
}  # fmt: skip
RowName = Literal[
    "nano", "micro", "bert-micro", "mini-lamb", "mini-grown", "small-32", "small-32-layers", "base-8", "base-8-micro"
]
LINES = 8
"""Of the log; the time between the first and the last counts."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compares plans with runs."""

    corpus: Path
    rows: tuple[RowName, ...] = ("nano", "micro", "bert-micro", "mini-lamb", "small-32", "small-32-layers", "base-8")
    json: Path | None = None
    """Also write the figures here."""


def call(*arguments: str) -> tuple[str, int]:
    """What a command printed, and the most bytes it ever had resident."""
    with subprocess.Popen([sys.executable, "-m", "litebert", *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"litebert {' '.join(arguments)} ended with {process.returncode}"
    return printed, usage.ru_maxrss * 1024


def predict(row: Row, corpus: Path) -> dict[str, float]:
    """By stages as the run goes through them: the lines of its log leave out the first."""
    printed, _ = call("plan", *row.arguments, "--corpus", str(corpus), "--steps", str(row.steps), "--json")
    plan: dict[str, Any] = json.loads(printed)
    memory = plan["memory"]["by_checkpointing"][plan["memory"]["checkpointing"]]
    return {"predicted_bytes": memory["total"], "predicted_seconds": plan["step"]["seconds"]}


def measure(row: Row, corpus: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        settings = ("--steps", str(row.steps), "--evaluation-sequences", "0", "--log-every", str(row.steps // LINES))
        run = Path(folder) / "run"
        _, most = call("pretrain", *row.arguments, "--corpus", str(corpus), "--run", str(run), *settings)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    first, *_, last = (line for line in lines if line["kind"] == "train")
    seconds = (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])
    return {"measured_bytes": most, "measured_seconds": seconds}


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    results = {name: predict(ROWS[name], options.corpus) | measure(ROWS[name], options.corpus) for name in options.rows}
    rows = [
        {
            "run": name,
            "memory, predicted": f"{figures['predicted_bytes'] / 1e6:,.0f} MB",
            "memory, measured": f"{figures['measured_bytes'] / 1e6:,.0f} MB",
            "ratio": f"{figures['predicted_bytes'] / figures['measured_bytes']:.2f}",
            "step, predicted": f"{figures['predicted_seconds']:.3f} s",
            "step, measured": f"{figures['measured_seconds']:.3f} s",
            "ratio of seconds": f"{figures['predicted_seconds'] / figures['measured_seconds']:.2f}",
        }
        for name, figures in results.items()
    ]
    tell(rows, results, options.json)


if __name__ == "__main__":
    main()
