"""Predictions on dev as people look at them: what is taken for what, and whether confidence is deserved."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from litebert.tasks.task import Example, Predictions, Question
from litebert.training.drawing import COLORS, GREY, make_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_BINS = 10
LEAST_SHARE = 0.12
"""Above this share of right answers a count fits below its point."""
MOST_LABELS = 40
"""Beyond which a matrix of labels cannot be read."""


def draw_pictures(run: Path, question: Question, examples: Sequence[Example], predictions: Predictions) -> list[Path]:
    """Writes the pictures that suit a question, and says which."""
    figures: dict[str, Figure] = {}
    if question.kind == "number":
        figures["numbers.png"] = draw_numbers(examples, predictions)
    elif question.kind in ("classes", "choice"):
        if 0 < len(question.labels) <= MOST_LABELS:
            figures["confusion.png"] = draw_confusion(question.labels, examples, predictions)
        right = [predictions[example.id].answer == example.gold for example in examples]
        figures["calibration.png"] = draw_calibration(right, confidences(examples, predictions))
    for name, figure in figures.items():
        save_figure(figure, run / name)
    return [run / name for name in figures]


def confidences(examples: Sequence[Example], predictions: Predictions) -> list[float]:
    """The probability of each answer that was given."""
    return [max(predictions[example.id].probabilities) for example in examples]


def draw_confusion(labels: Sequence[str], examples: Sequence[Example], predictions: Predictions) -> "Figure":
    """How many examples of each label were given each label; the shade is the share of the row."""
    numbers = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), int)
    for example in examples:
        counts[numbers[example.gold], numbers[predictions[example.id].answer]] += 1
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = max(3.2, 0.5 * len(labels) + 2)
    figure = make_figure(size + 0.6, size)
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (row, column), count in np.ndenumerate(counts):
        color = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, f"{count:,}", ha="center", va="center", color=color, fontsize=9)
    is_long = max(map(len, labels)) > 3
    axes.set_xticks(range(len(labels)), labels, rotation=45 if is_long else 0, ha="right" if is_long else "center")
    axes.set_yticks(range(len(labels)), labels)
    axes.set(xlabel="predicted", ylabel="true", title=f"{np.trace(counts):,} of {counts.sum():,} are right")
    return figure


def draw_calibration(right: Sequence[bool], confident: Sequence[float]) -> "Figure":
    """The share that is right among answers of like confidence, beside the diagonal where both are the same."""
    bins = choose_bins(confident)
    error = measure_calibration(right, confident)
    figure = make_figure(4.4, 3.8)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    for number in np.unique(bins):
        chosen = bins == number
        share, mean = np.asarray(right)[chosen].mean(), np.asarray(confident)[chosen].mean()
        axes.plot(mean, share, "o", color=COLORS[0], markersize=3 + 15 * np.sqrt(chosen.mean()), alpha=0.8)
        below = -16 if share > LEAST_SHARE else 10  # or else on the axis
        axes.annotate(f"{chosen.sum():,}", (mean, share), xytext=(0, below), textcoords="offset points", ha="center",
                      fontsize=7, color=GREY)  # fmt: skip
    axes.set(xlabel="probability given to the answer", ylabel="share that is right", xlim=(0, 1.02), ylim=(0, 1.05))
    axes.set_title(f"calibration error {error:.1%}", fontsize=10)
    return figure


def measure_calibration(right: Sequence[bool], confident: Sequence[float]) -> float:
    """The expected calibration error: by how much confidence and success differ, over bins of like confidence."""
    right_N, confident_N = np.asarray(right, float), np.asarray(confident)
    gaps = np.bincount(choose_bins(confident), right_N - confident_N, NUM_BINS)
    return float(np.abs(gaps).sum() / max(len(right_N), 1))


def choose_bins(confident: Sequence[float]) -> NDArray[np.int64]:
    return np.minimum((np.asarray(confident) * NUM_BINS).astype(np.int64), NUM_BINS - 1)


def draw_numbers(examples: Sequence[Example], predictions: Predictions) -> "Figure":
    """Each prediction over what is true."""
    true = [example.gold for example in examples]
    predicted = [predictions[example.id].answer for example in examples]
    figure = make_figure(4.2, 4.0)
    axes = figure.add_subplot()
    ends = [min(true), max(true)]
    axes.plot(ends, ends, color=GREY, linewidth=1, linestyle="--")
    axes.plot(true, predicted, "o", color=COLORS[0], markersize=3, alpha=0.35, markeredgewidth=0)
    axes.set(xlabel="true", ylabel="predicted")
    return figure
