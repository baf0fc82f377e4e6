"""The metrics of runs -> what is drawn of them: which panels, and the points of each run's curve."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, NamedTuple

import numpy as np

from litebert.config import nearest, require
from litebert.training.metrics import BASELINES, NAMES, SO_FAR, Line, companion_key

Numbers = np.ndarray[Any, np.dtype[np.float64]]
XAxis = Literal["step", "tokens", "minutes"]

# The key of a line that stands on the x axis, how many of it are one unit, and the unit.
X_AXES: dict[XAxis, tuple[str, float, str]] = {
    "step": ("step", 1, "steps"),
    "tokens": ("tokens", 1e6, "million tokens"),
    "minutes": ("seconds", 60, "minutes"),
}
# What an evaluation says beside a score: sop_low and sop_high bound sop_accuracy, sop_shallow needs no model.
COMPANIONS = ("low", "high", *BASELINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The picture of one key, in training and held out."""

    key: str
    title: str
    is_log: bool = False
    is_smoothed: bool = True
    from_zero: bool = False

    @property
    def percent(self) -> float | None:
        """What makes percents of the numbers, if they are such; the scores of tasks are percents already."""
        if not self.key.endswith("accuracy"):
            return None
        return 1.0 if self.key.startswith("dev") else 100.0


RESULTS = tuple(Panel(key=key, title=name + " (nats)" * key.endswith("loss")) for key, name in NAMES.items())
PROGRESS = (
    Panel(key="learning_rate", title="learning rate", is_smoothed=False, from_zero=True),
    Panel(key="gradient_norm", title="gradient norm", is_log=True),
    Panel(key="tokens_per_second", title="tokens per second", from_zero=True),
)
PAIRS = Panel(key="pair_accuracy", title="pair accuracy in training")
PANELS = {panel.key: panel for panel in (*RESULTS, PAIRS, *PROGRESS)}


class Run(NamedTuple):
    name: str
    metrics: Sequence[Line]


class Points(NamedTuple):
    xs: Numbers
    ys: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What one run says of one key."""

    train: Points
    smoothed: Points
    held_out: Points
    companions: Mapping[str, Points]


def choose_panels(runs: Sequence[Run], keys: Sequence[str]) -> list[Panel]:
    known = find_keys(runs, ("train", "evaluation"))
    require(known, "the runs have measured nothing yet; wait for their first line")
    for key in keys:
        require(key in known, f"no run has measured {key!r}{nearest(key, known)}")
    if keys:
        return [make_panel(key) for key in dict.fromkeys(keys)]
    scores = find_scores(find_keys(runs, ("evaluation",)))
    # The loss of pre-training is the sum of two, each with a better place to be seen.
    loss = ["loss"] if "loss" in known and "masked_token_loss" not in known else []
    wanted = [*loss, *(panel.key for panel in RESULTS), *scores, *(panel.key for panel in PROGRESS)]
    return [make_panel(key) for key in dict.fromkeys(wanted) if key in known] or [make_panel(key) for key in known]


def make_panel(key: str) -> Panel:
    return PANELS.get(key) or Panel(key=key, title=key.replace("_", " "))


def find_keys(runs: Iterable[Run], kinds: Sequence[str]) -> list[str]:
    """What lines of these kinds measure, in the order of its first appearance."""
    lines = (line for run in runs for line in run.metrics if line["kind"] in kinds)
    return list(dict.fromkeys(key for line in lines for key in line if key != "step" and is_number(line[key])))


def find_scores(keys: Sequence[str]) -> list[str]:
    beside = {companion_key(key, companion) for key in keys for companion in COMPANIONS}
    return [key for key in keys if key not in beside and key not in SO_FAR]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_curve(run: Run, panel: Panel, x: XAxis, amount: float) -> Curve:
    train = read_points(run, "train", panel.key, x)
    beside = {name: read_points(run, "evaluation", companion_key(panel.key, name), x) for name in COMPANIONS}
    return Curve(
        train=train,
        smoothed=Points(train.xs, smooth_panel(train.ys, panel, limit_amount(amount, len(train.ys)))),
        held_out=read_points(run, "evaluation", panel.key, x),
        companions=beside,
    )


def read_points(run: Run, kind: str, key: str, x: XAxis = "step") -> Points:
    lines = [line for line in run.metrics if line["kind"] == kind and is_number(line.get(key))]
    if not lines:
        return Points(np.empty(0), np.empty(0))
    return Points(place_lines(run, lines, x), np.array([line[key] for line in lines], float))


def place_lines(run: Run, lines: Sequence[Line], x: XAxis) -> Numbers:
    """Where lines stand on the x axis by their steps, since some, such as events, say no more."""
    key, unit, _ = X_AXES[x]
    known = [(line["step"], line[key]) for line in run.metrics if is_number(line.get(key)) and isfinite(line[key])]
    require(known, f"the metrics of {run.name} have no {key!r}; draw them without --x {x}")
    steps, places = np.array(sorted([(0, 0), *known]), float).T
    return np.interp([line["step"] for line in lines], steps, places) / unit


def find_end(runs: Sequence[Run], x: XAxis) -> float:
    """The right end of the x axis, a little after the last line."""
    return max(float(place_lines(run, run.metrics, x).max()) for run in runs) * 1.01 or 1.0


def limit_amount(amount: float, number: int) -> float:
    """What a curve of so many points bears: a mean of an eighth of them, else its ends would be drawn to its middle."""
    if amount >= 1:
        return amount  # asked for in points
    width = max(number / 8, 1)
    return min(amount, (width - 1) / (width + 1))


def smooth_panel(values: Numbers, panel: Panel, amount: float) -> Numbers:
    if not panel.is_smoothed:
        return values
    if not panel.is_log:
        return smooth_values(values, amount)
    # Where factors are what is seen, the mean is of factors too: one wild step does not lift hundreds after it.
    logarithms = np.log(values, where=values > 0, out=np.full_like(values, np.nan))
    return np.exp(smooth_values(logarithms, amount))


def smooth_values(values: Numbers, amount: float) -> Numbers:
    """A mean of the points around each, so that it lags behind nothing; what is not finite is left out.

    Below 1, `amount` is what a point weighs beside the one next to it; from 1 on, it is the number of points.
    """
    is_finite = np.isfinite(values)
    filled = np.where(is_finite, values, 0)

    def fade(numbers: Numbers) -> Numbers:
        return np.array([*itertools.accumulate(numbers, lambda total, number: amount * total + number)], float)

    def add_up(numbers: Numbers) -> Numbers:
        if amount < 1:
            return fade(numbers) + fade(numbers[::-1])[::-1] - numbers
        return np.convolve(numbers, np.ones(min(int(amount), len(numbers))), "same")

    if not is_finite.any():
        return values
    weights = np.maximum(add_up(is_finite.astype(float)), np.finfo(float).tiny)
    return np.where(is_finite, add_up(filled) / weights, np.nan)
