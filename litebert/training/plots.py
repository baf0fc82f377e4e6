"""Curves of runs, from their metrics, drawn for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from litebert.training.curves import (
    X_AXES,
    Curve,
    Numbers,
    Panel,
    Points,
    Run,
    XAxis,
    choose_panels,
    find_end,
    place_lines,
    read_curve,
    read_points,
)
from litebert.training.drawing import GREY, GRID, INK, choose_colors, make_figure
from litebert.training.metrics import BASELINES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

LegendPlace = Literal["outside upper left", "outside lower left"]

# How much of the beginning may run off a panel: a loss falls as far in its first steps as in all that follow.
EARLY_SHARE = 0.03
# How much of training may run off it above, and as much below.
OUTLIER_SHARE = 0.01
LONGEST_LABEL = 36


class Event(NamedTuple):
    place: float
    message: str
    color: str


def draw_runs(runs: Sequence[Run], *, x: XAxis = "step", smooth: float = 0.9, keys: Sequence[str] = ()) -> "Figure":
    """A panel for each of `keys`, or for all that people ask for first and any of the runs has."""
    panels = choose_panels(runs, keys)
    columns = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 9: 3}.get(len(panels), 4)
    rows = -(-len(panels) // columns)
    size = (7.5, 5.0) if len(panels) == 1 else (4.4 * columns, 3.2 * rows + 0.7)
    figure = make_figure(*size)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.08)
    colors = choose_colors(len(runs))
    end = find_end(runs, x)
    events = find_events(runs, colors, x)
    styles: set[str] = set()
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        curves = [read_curve(run, panel, x, smooth) for run in runs]
        for curve, color in zip(curves, colors, strict=True):
            styles |= draw_curve(axes, curve, color)
        limit_values(axes, curves, panel)
        draw_events(axes, events, end, with_labels=place == 0)
        dress_axes(axes, panel, X_AXES[x][2] if place + columns >= len(panels) else "")
        axes.set_xlim(0, end)
    draw_legends(figure, runs, colors, styles)
    return figure


def count_points(runs: Sequence[Run], keys: Sequence[str] = ()) -> int:
    """How many measurements `draw_runs` draws."""
    panels = choose_panels(runs, keys)
    kinds = ("train", "evaluation")
    return sum(len(read_points(run, kind, panel.key).xs) for run in runs for panel in panels for kind in kinds)


def draw_curve(axes: "Axes", curve: Curve, color: str) -> set[str]:
    """Draws what there is, and says which styles of line it used."""
    used = set()
    if len(curve.train.xs):
        if not np.allclose(curve.train.ys, curve.smoothed.ys, rtol=1e-9, atol=0, equal_nan=True):
            axes.plot(*curve.train, color=color, alpha=0.25, linewidth=0.7, zorder=1.5)
            used.add(SMOOTHED)
        marker = "o" if len(curve.train.xs) == 1 else None  # a line needs two points
        axes.plot(*curve.smoothed, color=color, marker=marker, markersize=4, **STYLES["training"])
        used.add("training")
    if len(curve.held_out.xs):
        axes.plot(*curve.held_out, color=color, zorder=3, **STYLES["held out"])
        used.add("held out")
    low, high = curve.companions["low"], curve.companions["high"]
    if len(low.xs) and np.array_equal(low.xs, high.xs):
        axes.fill_between(low.xs, low.ys, high.ys, color=color, alpha=0.15, linewidth=0)
        used.add("95 % interval")
    for key, name in BASELINES.items():
        if len(curve.companions[key].xs):
            # The majority is the same for every run that is held against the same pairs.
            axes.plot(*curve.companions[key], color=GREY if key == "majority" else color, **STYLES[name])
            used.add(name)
    return used


SMOOTHED = "training, smoothed"
STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 1.5},
    "held out": {
        "linewidth": 1.2,
        "marker": "o",
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
    },
    "95 % interval": {"linewidth": 7, "alpha": 0.3},
    BASELINES["shallow"]: {"linewidth": 1.2, "linestyle": (0, (4, 2))},
    BASELINES["majority"]: {"linewidth": 1.2, "linestyle": ":"},
}


def limit_values(axes: "Axes", curves: Sequence[Curve], panel: Panel) -> None:
    """Gives the room to what follows the first steps, and to no outlier of training; what was held out is in sight."""
    values = np.concatenate([part for curve in curves for part in find_extent(curve)])
    if panel.is_log and (values > 0).any():
        axes.set_yscale("log", nonpositive="mask")
        values = np.log(values[values > 0])
    elif panel.from_zero:
        values = np.append(values, 0)
    if len(values) and values.min() < values.max():
        margin = 0.06 * (values.max() - values.min())
        limits = np.array([values.min() - margin, values.max() + margin])
        axes.set_ylim(*(np.exp(limits) if axes.get_yscale() == "log" else limits))


def find_extent(curve: Curve) -> list[Numbers]:
    held_out = [leave_early(points) for points in (curve.held_out, *curve.companions.values())]
    train = np.sort(leave_early(curve.train))
    num_outliers = round(OUTLIER_SHARE * len(train))
    return [*held_out, train[num_outliers : len(train) - num_outliers], leave_early(curve.smoothed)[-1:]]


def leave_early(points: Points) -> Numbers:
    """The finite values but those of the first steps, unless there are no others."""
    is_finite = np.isfinite(points.ys)
    is_late = is_finite & (points.xs > EARLY_SHARE * points.xs.max(initial=0))
    return points.ys[is_late if is_late.any() else is_finite]


def draw_events(axes: "Axes", events: Sequence[Event], end: float, *, with_labels: bool) -> None:
    """A thin line for each event. Where labels would cover each other, the first one stands."""
    closest = end / 35
    last = -closest
    for event in events:
        axes.axvline(event.place, color=event.color, alpha=0.5, linewidth=0.7, zorder=0.9)
        if with_labels and event.message and event.place - last >= closest:
            last = event.place
            label_event(axes, event, on_left=event.place >= closest)


def label_event(axes: "Axes", event: Event, *, on_left: bool) -> None:
    from matplotlib.patheffects import withStroke

    is_long = len(event.message) > LONGEST_LABEL
    axes.annotate(
        event.message[: LONGEST_LABEL - 1] + "…" if is_long else event.message,
        (event.place, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-2 if on_left else 2, -4),
        textcoords="offset points",
        rotation=90,
        horizontalalignment="right" if on_left else "left",
        verticalalignment="top",
        fontsize=7,
        color=event.color,
        parse_math=False,
        path_effects=[withStroke(linewidth=2, foreground="white")],
    )


def find_events(runs: Sequence[Run], colors: Sequence[str], x: XAxis) -> list[Event]:
    """In order; what happened in several runs alike is there once, in grey."""
    found: dict[tuple[float, str], str] = {}
    for run, color in zip(runs, colors, strict=True):
        lines = [line for line in run.metrics if line["kind"] == "event"]
        for place, line in zip(place_lines(run, lines, x), lines, strict=True):
            key = (float(place), str(line.get("message", "")))
            found[key] = color if len(runs) > 1 and found.get(key, color) == color else GREY
    return sorted(Event(place, message, color) for (place, message), color in found.items())


def dress_axes(axes: "Axes", panel: Panel, x_label: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axes.set_title(panel.title, fontsize=11, loc="left", parse_math=False)
    axes.set_xlabel(x_label, fontsize=9.5)
    axes.tick_params(labelsize=9, color=GREY, labelcolor=INK, length=3)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    percent = panel.percent
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.10g}" if percent is None else f"{percent * value:.4g}%")
    )
    if axes.get_yscale() == "log":
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(MaxNLocator(6) if high < 10 * low else LogLocator(subs=(1, 3)))
        axes.yaxis.set_minor_locator(NullLocator())


def draw_legends(figure: "Figure", runs: Sequence[Run], colors: Sequence[str], styles: set[str]) -> None:
    """The runs by colour above the panels, what the kinds of line mean below."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=color, linewidth=3) for color in colors]
    draw_legend(figure, "outside upper left", handles, [run.name for run in runs], size=11)
    kinds = [style for style in STYLES if style in styles]
    handles = [Line2D([], [], color=GREY, **STYLES[style]) for style in kinds]
    names = [SMOOTHED if style == "training" and SMOOTHED in styles else style for style in kinds]
    draw_legend(figure, "outside lower left", handles, names, size=9.5)


def draw_legend(
    figure: "Figure", place: LegendPlace, handles: "Sequence[Line2D]", names: Sequence[str], size: float
) -> None:
    width = (5 + 0.62 * max(map(len, names))) * size / 72
    columns = max(1, int(figure.get_figwidth() / width))
    legend = figure.legend(handles, ["?"] * len(names), loc=place, ncols=columns, frameon=False, fontsize=size)
    # Given here and not above, since matplotlib drops names that begin with _ and takes $ for mathematics.
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
