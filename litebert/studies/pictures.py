"""Figures of studies, drawn for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from litebert.studies.layers import Layers
from litebert.studies.results import Result, gather
from litebert.studies.study import head
from litebert.training.curves import Run, XAxis
from litebert.training.drawing import GRID, choose_colors, make_figure
from litebert.training.intervals import estimate
from litebert.training.plots import draw_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = ("masked_token_loss", "masked_token_accuracy", "sop_accuracy", "pair_accuracy")
LAYERS_CAPTION = "What each layer does to its input, on held-out text."


def draw_curves(runs: Sequence[Run], x: XAxis) -> "Figure":
    known = {key for run in runs for line in run.metrics for key in line}
    return draw_runs(runs, x=x, keys=[key for key in CURVES if key in known])


def dress(axes: "Axes") -> None:
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_layers(measured: Mapping[str, Layers]) -> "Figure":
    """ALBERT's Figure 1: distances on the left, angles on the right."""
    from matplotlib.ticker import MaxNLocator

    figure = make_figure(9, 3.6)
    panels = {"L2 distance": "distances", "angle (degrees)": "angles"}
    for place, (title, name) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, 2, place)
        for (model, layers), color in zip(measured.items(), choose_colors(len(measured)), strict=True):
            values = getattr(layers, name)
            axes.plot(range(1, len(values) + 1), values, "o-", color=color, linewidth=1.5, markersize=4, label=model)
        axes.set_title(f"{title} of a layer's output from its input", fontsize=10)
        axes.set_xlabel("layer")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        dress(axes)
    axes.legend(frameon=False, fontsize=9)
    return figure


def draw_sizes(results: Sequence[Result], measure: str) -> "Figure":
    """A measure over the number of parameters, with a point for each variant and its interval where there is one."""
    from matplotlib.ticker import FuncFormatter

    figure = make_figure(6, 4)
    axes = figure.add_subplot()
    values = gather(results, measure)
    parameters = {result.variant: result.parameters for result in results}
    scale = 1.0 if measure.endswith("loss") else 100.0
    for (name, by_seed), color in zip(values.items(), choose_colors(len(values)), strict=True):
        found = estimate(list(by_seed.values()))
        axes.errorbar(
            parameters[name], scale * found.mean, yerr=scale * (found.margin or 0), fmt="o", color=color, capsize=3,
            label=name,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:.3g}M"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:.3g}M"))
    axes.tick_params(axis="x", which="both", labelsize=8)
    axes.set_xlabel("parameters")
    axes.set_ylabel(head(measure))
    axes.legend(frameon=False, fontsize=8, bbox_to_anchor=(1.01, 1), loc="upper left")
    dress(axes)
    return figure
