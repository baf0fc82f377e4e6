"""Pre-train a model on a corpus, or continue a run that was stopped.

Example:
    litebert pretrain --preset albert-micro --corpus my-corpus --run runs/micro
    litebert pretrain --preset albert-base --corpus my-corpus --run runs/base --num-sequences 256
    litebert pretrain --run runs/base --resume
    torchrun --nproc-per-node 8 -m litebert -- pretrain --preset albert-base --corpus my-corpus --run runs/base
"""

from dataclasses import dataclass, field
from pathlib import Path

from litebert.pretraining.config import PretrainConfig


@dataclass(frozen=True, kw_only=True)
class Options:
    run: Path
    """The folder of the run. If a run is there already it continues, provided that the other options are the same or
    left out."""
    config: Path | None = None
    """Start from the settings of another run, its config.json; other options override them."""
    settings: PretrainConfig = field(default_factory=PretrainConfig)
    resume: bool = False
    """Fail unless the run is there already. (A run that is there continues in any case.)"""
    dry_run: bool = False
    """Print what would be done, and stop."""


def find_default(arguments: list[str]) -> Options:
    import tyro

    from litebert.beginnings import begin_pretraining

    return Options(run=tyro.MISSING, settings=begin_pretraining(arguments))


def run(options: Options) -> None:
    from contextlib import nullcontext

    from litebert.config import require
    from litebert.display import print_fields
    from litebert.pretraining.preparation import describe_run, prepare
    from litebert.pretraining.run import carry_out
    from litebert.training.checkpoint import find_checkpoints, step_of
    from litebert.training.lock import hold
    from litebert.training.parallel import join_ranks
    from litebert.training.signals import end_stopped

    require(
        not options.resume or (options.run / "config.json").exists(),
        f"{options.run} is no run to go on with: it has no config.json; leave out --resume to begin it",
    )
    with join_ranks() as ranks, nullcontext() if options.dry_run else hold(options.run, ranks):
        prepared = prepare(options.settings, options.run, ranks)
        if ranks.is_first:
            print_fields(describe_run(prepared))
        if options.dry_run:
            return
        steps = prepared.training.schedule.steps
        was_done = any(step_of(path) == steps for path in find_checkpoints(options.run / "checkpoints"))
        outcome = carry_out(prepared, options.run, ranks)
        if ranks.is_first and outcome.stopped_by is None:
            skipped = f", {outcome.num_skipped:,} of them skipped" if outcome.num_skipped else ""
            longer = f"; to train longer, begin another run with --init {options.run}/model"
            print(f"{options.run}/model: {steps:,} steps done{skipped}{' before' + longer if was_done else ''}")
            if not was_done and options.settings.steps is None:
                warn_of_haste(options.run, options.settings.minutes)
            print(f"next: litebert plot {options.run}")
    if outcome.stopped_by is not None:
        end_stopped(outcome.stopped_by, f" at step {outcome.step:,} of {steps:,} and saved", ranks)


def warn_of_haste(run: Path, minutes: float | None) -> None:
    """Says so where a run whose steps were to fill so many minutes was much shorter."""
    import logging

    from litebert.training.metrics import read_metrics

    spent = read_metrics(run)[-1].get("seconds", 0.0) / 60
    if minutes is not None and spent < 0.6 * minutes:
        logging.getLogger(__name__).warning(
            "done in %.1f of %g minutes: the machine was busier when steps were timed, before the first; begin another "
            "--run for more",
            spent,
            minutes,
        )
