"""The same run with several seeds, and what can be said of all of them together."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from litebert.files import write_json_file
from litebert.finetuning.config import FinetuneConfig
from litebert.finetuning.preparation import Prepared, prepare
from litebert.finetuning.results import scores_by_split
from litebert.finetuning.run import carry_out
from litebert.training.loop import Outcome
from litebert.training.parallel import Ranks


def finetune_seeds(
    config: FinetuneConfig, num_seeds: int, run: Path, ranks: Ranks, tell: Callable[[Prepared], None]
) -> tuple[Outcome, list[dict[str, Any]]]:
    """Runs in folders of their own, one after the other; of those that are done already only the end is made again.

    A run that is stopped stops those after it. `tell` is told of each run before it begins.
    """
    scores: list[dict[str, Any]] = []
    for seed in range(config.seed, config.seed + num_seeds):
        folder = find_seed(run, seed)
        prepared = prepare(replace(config, seed=seed), folder, ranks)
        tell(prepared)
        outcome, result = carry_out(prepared, folder, ranks)
        if outcome.stopped_by is not None:
            break
        scores.append(result)
    if ranks.is_first and len(scores) == num_seeds:
        write_json_file(run / "scores.json", {"seeds": num_seeds, **summarize(scores)})
    return outcome, scores


def find_seed(run: Path, seed: int) -> Path:
    return run / f"seed-{seed}"


def find_seeds(run: Path) -> list[Path]:
    """The runs of a folder of several seeds."""
    return sorted(run.glob("seed-*"), key=lambda seed: (len(seed.name), seed.name))


def summarize(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """The median, as the paper reports it, the mean and the spread of every score of every split."""
    return {
        split: {
            name: describe([run[split][name] for run in runs])
            for name in values
            if all(name in run[split] for run in runs)  # F1 is a score only where two labels were told apart
        }
        for split, values in scores_by_split(runs[0]).items()
    }


def describe(values: Sequence[float]) -> dict[str, float]:
    return {
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
        "lowest": min(values),
        "highest": max(values),
    }
