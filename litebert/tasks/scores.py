"""The scores of benchmarks that ask for labels, numbers or tags.

Shares are from 0 to 100, and so are correlations, as GLUE reports them. Where a score is a fraction of nothing by
nothing it is 0. A prediction that is None was never made: it is right about nothing.
"""

import itertools
import math
import operator
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.config import require

Label = Hashable
Counts = Mapping[Label, int]

SPAN_TAG = re.compile(r"([BIMES])-(.+)", re.DOTALL)
OPENING = ("B", "S")
CLOSING = ("E", "S")


class Span(NamedTuple):
    """What is tagged from one token up to but without another."""

    kind: str
    start: int
    end: int


def accuracy(gold: Sequence[Label], predicted: Sequence[Label]) -> float:
    check_lengths(gold, predicted)
    return 100.0 * sum(map(operator.eq, gold, predicted)) / len(gold)


def f1(gold: Sequence[Label], predicted: Sequence[Label], positive: Label) -> float:
    """Of finding one of two classes."""
    check_lengths(gold, predicted)
    hits = sum(positive == right == said for right, said in zip(gold, predicted, strict=True))
    return f1_of_counts(hits, sum(positive == label for label in gold), sum(positive == label for label in predicted))


def macro_f1(gold: Sequence[Label], predicted: Sequence[Label]) -> float:
    """The mean over all classes that occur, or that were predicted."""
    check_lengths(gold, predicted)
    hits = Counter(right for right, said in zip(gold, predicted, strict=True) if right == said)
    return mean_f1(hits, Counter(gold), Counter(predicted))


def matthews(gold: Sequence[Label], predicted: Sequence[Label]) -> float:
    """Matthews' correlation of two or more classes."""
    check_lengths(gold, predicted)
    total, hits = len(gold), sum(map(operator.eq, gold, predicted))
    rights, sayings = Counter(gold), Counter(predicted)
    chance = sum(count * sayings[label] for label, count in rights.items())
    spread_of_gold = total**2 - sum(count**2 for count in rights.values())
    spread_of_predicted = total**2 - sum(count**2 for count in sayings.values())
    spread = math.sqrt(spread_of_gold * spread_of_predicted)
    return 100.0 * (hits * total - chance) / spread if spread else 0.0


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """The correlation of two rows of numbers; 0 where one is constant or has a number that is not finite."""
    check_lengths(gold, predicted)
    return correlate(np.asarray(gold, np.float64), np.asarray(predicted, np.float64))


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """The correlation of the ranks of two rows of numbers; 0 where `pearson` is 0 for want of numbers."""
    check_lengths(gold, predicted)
    rows = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    if not all(np.isfinite(row).all() for row in rows):
        return 0.0
    return correlate(*map(rank, rows))


def root_mean_squared_error(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """In the unit of the numbers; less is better."""
    check_lengths(gold, predicted)
    return math.dist(gold, predicted) / math.sqrt(len(gold))


def score_label_sets(
    gold: Sequence[Collection[Label]], predicted: Sequence[Collection[Label] | None]
) -> dict[str, float]:
    """`micro_f1`, `macro_f1` and `exact`, the share of examples with no label too many or too few, where any number of
    labels may be right at once."""
    check_lengths(gold, predicted)
    rights, sayings, hits = Counter[Label](), Counter[Label](), Counter[Label]()
    exact = 0
    for right, said in zip(map(set, gold), predicted, strict=True):
        rights.update(right)
        sayings.update(set(said or ()))
        hits.update(right.intersection(said or ()))
        exact += said is not None and right == set(said)
    return {
        "micro_f1": f1_of_counts(hits.total(), rights.total(), sayings.total()),
        "macro_f1": mean_f1(hits, rights, sayings),
        "exact": 100.0 * exact / len(gold),
    }


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str] | None]) -> dict[str, float]:
    """Scores of sentences by their tags.

    Where tags mark spans, such as B-PER and I-PER, these are `f1`, `precision` and `recall` of whole spans, and the
    tokens' `accuracy`; where they are classes, such as parts of speech, `accuracy` and `macro_f1`.
    """
    check_lengths(gold, predicted)
    sentences = [match_tags(number, *pair) for number, pair in enumerate(zip(gold, predicted, strict=True), 1)]
    rights = [tag for tags, _ in sentences for tag in tags]
    sayings = [tag for _, tags in sentences for tag in tags]
    scores = {"accuracy": accuracy(rights, sayings)}
    if not marks_spans(itertools.chain(rights, sayings)):
        return scores | {"macro_f1": macro_f1(rights, sayings)}
    spans = [(find_spans(right), find_spans(said)) for right, said in sentences]
    hits = sum(len(right & said) for right, said in spans)
    num_right, num_said = (sum(map(len, side)) for side in zip(*spans, strict=True))
    return scores | {
        "f1": f1_of_counts(hits, num_right, num_said),
        "precision": 100.0 * hits / max(1, num_said),
        "recall": 100.0 * hits / max(1, num_right),
    }


def marks_spans(tags: Iterable[str | None]) -> bool:
    """Whether some tag begins or goes on with a span."""
    return any(tag is not None and tag.startswith(("B-", "I-")) for tag in tags)


def find_spans(tags: Sequence[str | None]) -> set[Span]:
    """The spans of a sentence whose tags are BIO, or BIOES or BMES.

    An I- opens a span too where there is none of its kind to go on with: so some data are written (IOB1), and so
    the usual scripts read what a model that may predict anything has predicted.
    """
    spans, kind, start = set(), None, 0
    for place, tag in enumerate([*tags, None]):
        match = SPAN_TAG.fullmatch(tag or "")
        prefix, found = match.groups() if match else (None, None)
        if kind is not None and (prefix in OPENING or found != kind):
            spans.add(Span(kind, start, place))
            kind = None
        if kind is None:
            kind, start = found, place
        if kind is not None and prefix in CLOSING:
            spans.add(Span(kind, start, place + 1))
            kind = None
    return spans


def match_tags(
    number: int, gold: Sequence[str], predicted: Sequence[str] | None
) -> tuple[Sequence[str], Sequence[str | None]]:
    """The tags of a sentence and as many predicted ones."""
    if predicted is None:
        return gold, [None] * len(gold)
    require(
        len(gold) == len(predicted),
        f"sentence {number} has {len(gold)} tags but {len(predicted)} predicted ones; predict one for each token",
    )
    return gold, predicted


def check_lengths(gold: Sequence[object], predicted: Sequence[object]) -> None:
    require(len(gold), "there is nothing to score; name a split whose examples have labels")
    require(
        len(gold) == len(predicted),
        f"there are {len(predicted)} predictions for {len(gold)} examples; make one for each",
    )


def f1_of_counts(hits: int, num_gold: int, num_predicted: int) -> float:
    return 200.0 * hits / max(1, num_gold + num_predicted)


def mean_f1(hits: Counts, gold: Counts, predicted: Counts) -> float:
    """The mean over all labels of either side."""
    labels = (gold.keys() | predicted.keys()) - {None}
    scores = [f1_of_counts(hits.get(name, 0), gold.get(name, 0), predicted.get(name, 0)) for name in labels]
    return math.fsum(scores) / max(1, len(scores))


def correlate(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    if not all(np.isfinite(row).all() and row.min() < row.max() for row in (first, second)):
        return 0.0
    return float(100.0 * np.clip(standardize(first) @ standardize(second), -1.0, 1.0))


def standardize(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers of mean 0 and length 1; the largest is made 1 before, so that no square is too large or too small."""
    row = row / np.abs(row).max()
    row = row - row.mean()
    return row / np.linalg.norm(row)


def rank(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each number in their order; equal ones share the mean of theirs."""
    _, places, counts = np.unique(row, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]
