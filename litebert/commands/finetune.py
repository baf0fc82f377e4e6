"""Fine-tune a model folder on a benchmark or on data of your own, or continue a run that was stopped.

Example:
    litebert finetune --task sst2 --data glue/SST-2 --init my-albert --run runs/sst2
    litebert finetune --task squad2 --data squad --init my-albert --run runs/squad2
    litebert finetune --task text --data reviews --first review --label stars --init my-albert --run runs/stars
    litebert finetune --task rte --data glue/RTE --init runs/mnli/model --run runs/rte --seeds 5
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litebert.finetuning.config import FinetuneConfig

if TYPE_CHECKING:
    from litebert.finetuning.preparation import Prepared


@dataclass(frozen=True, kw_only=True)
class Options:
    run: Path
    """The folder of the run. If a run is there already it continues, provided that the other options are the same."""
    config: Path | None = None
    """Start from the settings of another run, its config.json; other options override them."""
    settings: FinetuneConfig = field(default_factory=FinetuneConfig)
    seeds: int = 1
    """Repeat the run with this many seeds, each in a folder of its own, and report the median, mean and spread."""
    dry_run: bool = False
    """Print what would be done, and stop."""
    json: bool = False
    """Print the scores as JSON instead of a table."""


def find_default(arguments: list[str]) -> Options:
    import tyro

    from litebert.beginnings import begin_finetuning

    return Options(run=tyro.MISSING, settings=begin_finetuning(arguments))


def run(options: Options) -> None:
    from contextlib import nullcontext

    from litebert.config import require
    from litebert.finetuning.preparation import Prepared, prepare
    from litebert.finetuning.run import carry_out
    from litebert.finetuning.seeds import find_seed, find_seeds, finetune_seeds
    from litebert.training.lock import hold
    from litebert.training.parallel import join_ranks
    from litebert.training.signals import end_stopped

    require(options.seeds > 0, f"--seeds is {options.seeds}; it must be at least 1")
    is_single, has_seeds = (options.run / "config.json").exists(), find_seeds(options.run)
    require(not (is_single and options.seeds > 1), f"{options.run} is a run of one seed; start a new --run")
    require(not (has_seeds and options.seeds == 1), f"{options.run} holds runs of several seeds; name one of them")
    with join_ranks() as ranks, nullcontext() if options.dry_run else hold(options.run, ranks):

        def tell(prepared: Prepared) -> None:
            if not ranks.is_first or options.json:
                return
            if options.seeds > 1:
                number = prepared.config.seed - options.settings.seed + 1
                print(f"seed {prepared.config.seed}, {number} of {options.seeds}", flush=True)
            if prepared.config.seed == options.settings.seed:  # to the others the same is done
                print_run(prepared)

        if options.seeds > 1 and not options.dry_run:
            outcome, scores = finetune_seeds(options.settings, options.seeds, options.run, ranks, tell)
            folders = [find_seed(options.run, options.settings.seed + place) for place in range(options.seeds)]
        else:
            prepared = prepare(options.settings, options.run, ranks)
            tell(prepared)
            if options.dry_run:
                return
            outcome, result = carry_out(prepared, options.run, ranks)
            scores, folders = [result], [options.run]
        if ranks.is_first and outcome.stopped_by is None:
            print_scores(scores, folders, as_json=options.json)
    if outcome.stopped_by is not None:
        end_stopped(outcome.stopped_by, f" at step {outcome.step:,} and saved", ranks)


def print_run(prepared: "Prepared") -> None:
    from litebert.display import print_fields
    from litebert.finetuning.preparation import describe_run

    print_fields(describe_run(prepared))
    for note in prepared.notes:
        print(f"note  {note}")


def print_scores(runs: list[dict[str, Any]], folders: list[Path], *, as_json: bool) -> None:
    """Of one run, or of several seeds."""
    from litebert.display import print_json, print_table
    from litebert.finetuning.results import MAJORITY, find_score
    from litebert.finetuning.seeds import summarize
    from litebert.finetuning.selection import read_best

    _, folder = max(zip(map(find_score, runs), folders, strict=True), key=lambda found: found[0])
    if as_json:
        print_json({"best": str(folder / "model"), "scores": summarize(runs), "runs": runs})
        return
    majority = runs[0][MAJORITY]
    print_table(
        [
            {
                "split": split,
                "score": name,
                **(values if len(runs) > 1 else {"": values["median"]}),
                **({"most frequent label": majority[split].get(name, "-")} if majority else {}),
            }
            for split, scores in summarize(runs).items()
            for name, values in scores.items()
        ]
    )
    if stuck := (read_best(folder) or {}).get("stuck"):
        print(f"{folder}/model is the best on dev, but it has learned nothing but one answer: {stuck}")
        return
    print(f"{folder}/model is the best on dev; next: litebert predict --model {folder}/model --data FILE --out FOLDER")
