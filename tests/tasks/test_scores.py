import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.config import UserError
from litebert.tasks.scores import (
    Span,
    accuracy,
    f1,
    find_spans,
    macro_f1,
    matthews,
    pearson,
    root_mean_squared_error,
    score_label_sets,
    score_tags,
    spearman,
)

labels = st.sampled_from(["entailment", "neutral", "contradiction"])
binary = st.sampled_from([0, 1])
numbers = st.floats(-5, 5, width=16)
label_sets = st.sets(st.sampled_from("abcde"))


def rows_of(items: st.SearchStrategy[Any], least: int = 1) -> st.SearchStrategy[tuple[list[Any], list[Any]]]:
    """Two rows of one length."""
    return st.lists(st.tuples(items, items), min_size=least, max_size=30).map(
        lambda pairs: ([first for first, _ in pairs], [second for _, second in pairs])
    )


@pytest.fixture(autouse=True)
def _loud() -> Any:
    """A warning of ours is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def quietly(measure: Callable[..., float], *arguments: Any, **options: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(measure(*arguments, **options))


@settings(max_examples=40, deadline=None)
@given(rows_of(labels))
def test_scores_of_classes_are_those_of_scikit_learn(rows: tuple[list[str], list[str]]) -> None:
    assert accuracy(*rows) == pytest.approx(100 * quietly(sklearn.metrics.accuracy_score, *rows))
    assert macro_f1(*rows) == pytest.approx(100 * quietly(sklearn.metrics.f1_score, *rows, average="macro"))
    assert matthews(*rows) == pytest.approx(100 * quietly(sklearn.metrics.matthews_corrcoef, *rows), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(rows_of(binary))
def test_f1_of_two_classes_is_that_of_scikit_learn_for_either(rows: tuple[list[int], list[int]]) -> None:
    for positive in (0, 1):
        expected = quietly(sklearn.metrics.f1_score, *rows, pos_label=positive, zero_division=0)
        assert f1(*rows, positive) == pytest.approx(100 * expected)


@settings(max_examples=40, deadline=None)
@given(rows_of(numbers, least=2))
def test_correlations_are_those_of_scipy_and_zero_for_a_constant(rows: tuple[list[float], list[float]]) -> None:
    constant = any(len(set(row)) == 1 for row in rows)
    for ours, theirs in ((pearson, scipy.stats.pearsonr), (spearman, scipy.stats.spearmanr)):
        expected = 0.0 if constant else 100 * quietly(lambda *rows, theirs=theirs: theirs(*rows).statistic, *rows)
        assert ours(*rows) == pytest.approx(expected, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(rows_of(numbers))
def test_the_root_mean_squared_error_is_that_of_scikit_learn(rows: tuple[list[float], list[float]]) -> None:
    assert root_mean_squared_error(*rows) == pytest.approx(quietly(sklearn.metrics.root_mean_squared_error, *rows))


@pytest.mark.parametrize("measure", [pearson, spearman])
@settings(max_examples=40, deadline=None)
@given(row=st.lists(st.floats(), min_size=1, max_size=8))
def test_a_correlation_is_a_number_from_minus_100_to_100_whatever_the_rows(
    measure: Callable[..., float], row: list[float]
) -> None:
    assert -100 <= measure(range(len(row)), row) <= 100
    assert -100 <= measure(row, row) <= 100


@pytest.mark.parametrize("measure", [pearson, spearman])
@pytest.mark.parametrize("row", [[0.1] * 3, [1e308] * 3, [1.0, math.nan, 2.0], [1.0, math.inf, 2.0]])
def test_a_row_that_says_nothing_has_no_correlation(measure: Callable[..., float], row: list[float]) -> None:
    assert measure([1, 2, 4], row) == measure(row, [1, 2, 4]) == 0.0


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e300])
def test_a_correlation_does_not_depend_on_the_unit(scale: float) -> None:
    row = np.array([1.0, 3.0, 2.0, 5.0])
    assert pearson([1, 2, 3, 4], list(row * scale)) == pytest.approx(pearson([1, 2, 3, 4], list(row)))
    assert spearman([1, 2, 3, 4], list(row * -scale)) == pytest.approx(-80.0)


@settings(max_examples=40, deadline=None)
@given(rows_of(label_sets))
def test_scores_of_sets_of_labels_are_those_of_scikit_learn(rows: tuple[list[set[str]], list[set[str]]]) -> None:
    names = sorted(set().union(*rows[0], *rows[1]))
    tables = [np.array([[name in one for name in names] for one in row]) for row in rows]
    columns = zip(*(table.T for table in tables), strict=True)
    each = [quietly(sklearn.metrics.f1_score, *pair, zero_division=0) for pair in columns]
    flat = [table.ravel() for table in tables]
    micro = quietly(sklearn.metrics.f1_score, *flat, zero_division=0) if names else 0.0
    assert score_label_sets(*rows) == {
        "micro_f1": pytest.approx(100 * micro),
        "macro_f1": pytest.approx(100 * np.mean(each or [0.0])),
        "exact": pytest.approx(100 * np.mean([(first == second).all() for first, second in zip(*tables, strict=True)])),
    }


def test_what_was_never_predicted_is_wrong_and_no_class_of_its_own() -> None:
    gold, predicted = [0, 0, 1, 1], [0, None, 1, None]
    assert accuracy(gold, predicted) == 50.0
    assert f1(gold, predicted, 1) == macro_f1(gold, predicted) == pytest.approx(200 / 3)
    assert 0 < matthews(gold, predicted) < 100
    assert score_label_sets([(), ("a",)], [None, None]) == {"micro_f1": 0.0, "macro_f1": 0.0, "exact": 0.0}
    assert score_tags([["B-X", "O"]], [None]) == {"accuracy": 0.0, "f1": 0.0, "precision": 0.0, "recall": 0.0}
    assert score_tags([["NOUN", "VERB"]], [None]) == {"accuracy": 0.0, "macro_f1": 0.0}


@pytest.mark.parametrize("measure", [accuracy, macro_f1, matthews, pearson, spearman, root_mean_squared_error])
def test_rows_must_be_there_and_of_one_length(measure: Callable[[Sequence[Any], Sequence[Any]], float]) -> None:
    with pytest.raises(UserError, match="nothing to score"):
        measure([], [])
    with pytest.raises(UserError, match="2 predictions for 1 examples"):
        measure([1], [1, 0])


# Each sentence is tagged beside what it marks, written down by hand.
@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-PER I-PER O B-LOC", {("PER", 1, 3), ("LOC", 4, 5)}),
        ("B-PER B-PER I-PER", {("PER", 0, 1), ("PER", 1, 3)}),
        ("B-PER I-LOC I-LOC O", {("PER", 0, 1), ("LOC", 1, 3)}),
        ("I-PER I-PER O I-LOC I-PER", {("PER", 0, 2), ("LOC", 3, 4), ("PER", 4, 5)}),  # IOB1
        ("I-PER B-PER I-PER", {("PER", 0, 1), ("PER", 1, 3)}),  # IOB1: B- only between neighbours
        ("S-PER B-LOC I-LOC E-LOC I-LOC", {("PER", 0, 1), ("LOC", 1, 4), ("LOC", 4, 5)}),
        ("B-LOC M-LOC E-LOC O S-PER", {("LOC", 0, 3), ("PER", 4, 5)}),
        ("B-A-B I-A-B", {("A-B", 0, 2)}),
        ("O O B X", set()),
        ("", set()),
    ],
)
def test_tags_mark_spans(tags: str, expected: set[tuple[str, int, int]]) -> None:
    assert find_spans(tags.split()) == {Span(*span) for span in expected}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["A", "B", ""]), st.integers(1, 4)), max_size=8))
def test_spans_that_were_written_as_tags_are_found_again(pieces: list[tuple[str, int]]) -> None:
    tags, expected = [], set()
    for kind, length in pieces:
        if kind:
            expected.add(Span(kind, len(tags), len(tags) + length))
        tags += [f"B-{kind}", *[f"I-{kind}"] * (length - 1)] if kind else ["O"] * length
    assert find_spans(tags) == expected


def test_a_span_counts_only_whole_and_of_its_kind_and_in_its_sentence() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-PER"], ["O"]]
    predicted = [["B-PER", "I-PER", "O", "B-PER"], ["O"], ["B-PER"]]
    scores = score_tags(gold, predicted)
    assert scores["precision"] == scores["recall"] == scores["f1"] == pytest.approx(100 / 3)
    assert scores["accuracy"] == 50.0
    assert score_tags(gold, [["B-PER", "O", "O", "B-LOC"], ["B-PER"], ["O"]])["precision"] == pytest.approx(200 / 3)
    assert score_tags(gold, [["O"] * 4, ["B-PER"], ["O"]])["recall"] == pytest.approx(100 / 3)


tag_rows = rows_of(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]))


@settings(max_examples=40, deadline=None)
@given(tag_rows)
def test_f1_of_spans_is_that_of_finding_each_span_there_can_be(rows: tuple[list[str], list[str]]) -> None:
    scores = score_tags([rows[0]], [rows[1]])
    if "f1" not in scores:
        assert {*rows[0], *rows[1]} == {"O"}
        return
    found = [find_spans(row) for row in rows]
    table = [[span in side for span in sorted(found[0] | found[1])] for side in found]
    for name in ("f1", "precision", "recall"):
        expected = quietly(getattr(sklearn.metrics, f"{name}_score"), *table, zero_division=0)
        assert scores[name] == pytest.approx(100 * expected)
    assert scores["accuracy"] == pytest.approx(100 * quietly(sklearn.metrics.accuracy_score, *rows))
    assert score_tags([rows[1]], [rows[0]])["f1"] == pytest.approx(scores["f1"])


def test_tags_that_are_classes_are_scored_as_classes() -> None:
    gold, predicted = [["NOUN", "VERB"], ["NOUN"]], [["NOUN", "NOUN"], ["NOUN"]]
    rows = [[tag for sentence in side for tag in sentence] for side in (gold, predicted)]
    assert score_tags(gold, predicted) == {"accuracy": accuracy(*rows), "macro_f1": macro_f1(*rows)}


def test_a_sentence_with_too_few_tags_is_named() -> None:
    with pytest.raises(UserError, match="^sentence 2 has 2 tags but 1 predicted ones; predict one for each token$"):
        score_tags([["O"], ["O", "O"]], [["O"], ["O"]])
