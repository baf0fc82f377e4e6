"""Between which bounds a measured number would be found again, 19 times of 20: on other documents, or other seeds."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from litebert.config import require

TAIL = 0.025
"""What a 95 % interval leaves out at either side."""


class Interval(NamedTuple):
    """A measured share, and between which bounds it would be found on other documents, 19 times of 20."""

    value: float
    low: float
    high: float


def interval_by_document(correct_B: ArrayLike, documents_B: ArrayLike) -> Interval:
    """The share that is correct. Windows of one document go together: documents are what is counted, not windows.

    One document says nothing of others, so its interval is everything.
    """
    correct_B, (_, documents_B) = np.asarray(correct_B, float), np.unique(np.asarray(documents_B), return_inverse=True)
    require(
        len(correct_B) == len(documents_B),
        f"there are {len(correct_B)} answers and the documents of {len(documents_B)}; give each answer its document",
    )
    num_documents = int(documents_B.max(initial=-1)) + 1
    value = float(correct_B.mean()) if len(correct_B) else float("nan")
    if num_documents < 2:
        return Interval(value, 0.0, 1.0)
    if value in (0.0, 1.0):
        # Without any spread the formula below would claim certainty. If each document is all right or all wrong, as
        # many of them are an exact binomial experiment, with this bound.
        margin = 1 - TAIL ** (1 / num_documents)
    else:
        residuals = np.bincount(documents_B, correct_B - value)
        variance = num_documents / (num_documents - 1) * np.square(residuals).sum() / len(correct_B) ** 2
        # Student's quantile, not the normal one: held-out documents can be as few as a handful of novels.
        margin = find_quantile(num_documents - 1) * float(np.sqrt(variance))
    return Interval(value, max(0.0, value - margin), min(1.0, value + margin))


class Estimate(NamedTuple):
    """What runs that differ by their seeds come to."""

    mean: float
    margin: float | None
    """Half of the interval; none where there is only one seed."""


def estimate(values: Sequence[float]) -> Estimate:
    """The mean, with Student's interval; nothing is said of runs of which one has come to no number."""
    if not all(map(math.isfinite, values)):
        return Estimate(math.nan, None)
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean, None)
    return Estimate(mean, find_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)))


def find_quantile(num_degrees: int) -> float:
    """Student's, which many degrees of freedom bring to the normal 1.96."""
    from scipy.special import stdtrit  # slow to import

    return float(stdtrit(num_degrees, 1 - TAIL))
