"""Draw the curves of training runs: losses, accuracies, learning rate, gradient norm, speed.

Example:
    litebert plot my-run
    litebert plot my-run other-run --x minutes --out curves.png
    litebert plot my-run --keys loss pair_accuracy --smooth 50
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True, kw_only=True)
class Options:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Folders of runs, each with a metrics.jsonl; a run may still be training."""
    out: Path | None = None
    """The picture to write: .png, .pdf or .svg. By default curves.png, in the folder of a single run, or here for
    several."""
    x: Literal["step", "tokens", "minutes"] = "step"
    """What the horizontal axis counts."""
    smooth: float = 0.9
    """How to smooth what was measured in training: below 1, the weight of a point relative to the one next to it; from
    1 on, the number of points to average; 0 not at all."""
    names: tuple[str, ...] = ()
    """Names for the runs, in the same order; by default those of their folders."""
    keys: tuple[str, ...] = ()
    """What to draw, by its name in metrics.jsonl; by default all that is known."""


def run(options: Options) -> None:
    from litebert.training.curves import Run
    from litebert.training.drawing import image_kind, name_runs, save_figure
    from litebert.training.metrics import read_metrics
    from litebert.training.plots import count_points, draw_runs

    check_options(options)
    out = options.out or (options.runs[0] if len(options.runs) == 1 else Path()) / "curves.png"
    image_kind(out)
    names = options.names or name_runs(options.runs)
    runs = [Run(name, read_metrics(folder)) for name, folder in zip(names, options.runs, strict=True)]
    save_figure(draw_runs(runs, x=options.x, smooth=options.smooth, keys=options.keys), out)
    print(f"{out}: {count(len(runs), 'run')}, {count(count_points(runs, options.keys), 'point')}")


def check_options(options: Options) -> None:
    from litebert.config import require

    require(options.runs, "RUN is missing; name the folder of a training run")
    require(
        not options.names or len(options.names) == len(options.runs),
        f"--names has {count(len(options.names), 'name')} for {count(len(options.runs), 'run')}; give one for each",
    )
    require(
        len(set(options.names)) == len(options.names),
        f"--names are {', '.join(options.names)}; give each run another",
    )
    require(
        0 <= options.smooth < 1 or (options.smooth >= 1 and options.smooth.is_integer()),
        f"--smooth is {options.smooth:g}; give a share below 1 or a whole number of points",
    )


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
