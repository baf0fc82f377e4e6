"""Combine fine-tuning runs as the paper does, choosing members on dev.

Probabilities are averaged for labels and choices; for spans, the scores of the runs that proposed them.

Example:
    litebert ensemble --data glue/SST-2 --members runs/a runs/b runs/c --out runs/together
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    members: tuple[Path, ...]
    """Finished runs of litebert finetune, all of one task."""
    data: str
    """The folder of the task's files."""
    out: Path
    """The folder for the predictions of the ensemble and its scores."""
    all: bool = False
    """Combine all members instead of choosing some."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    from litebert.display import print_json, print_table
    from litebert.finetuning.ensemble import combine_runs

    result = combine_runs(options.members, options.data, options.out, choose=not options.all)
    if options.json:
        print_json(result._asdict() | {"files": list(map(str, result.files)), "gain": result.gain})
        return
    rows = [
        {"run": name, f"{result.split} {result.metric}": score, "member": "yes" if name in result.members else "no"}
        for name, score in result.singles.items()
    ]
    print_table(rows)
    for number, score in enumerate(() if options.all else result.scores, start=1):
        print(f"{', '.join(result.members[:number])}: {score:.2f}")
    reached = f"{result.metric} {result.scores[-1]:.2f}"
    print(f"the ensemble of {len(result.members)} has {reached}: {result.gain:+.2f} over the best alone")
    for split, scores in result.reached.items():
        print(f"{split}: {', '.join(f'{name} {score:.2f}' for name, score in scores.items())}")
    print(f"written: {', '.join(map(str, result.files))}")
