import math

import numpy as np
import pytest
import torch

from litebert.config import UserError
from litebert.training.intervals import estimate, interval_by_document


def bootstrap(correct: np.ndarray, documents: np.ndarray, num_draws: int = 4000) -> tuple[float, float]:
    """The middle 95 % of accuracies when documents are drawn again, with all their windows."""
    random, number = np.random.default_rng(0), documents.max() + 1
    right, sizes = np.bincount(documents, correct), np.bincount(documents)
    drawn = random.integers(0, number, (num_draws, number))
    low, high = np.quantile(right[drawn].sum(1) / sizes[drawn].sum(1), [0.025, 0.975])
    return float(low), float(high)


def draw_answers(num_documents: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents of very different sizes, some easy and some hard."""
    random = np.random.default_rng(seed)
    documents = np.repeat(np.arange(num_documents), random.integers(1, 40, num_documents))
    return random.random(len(documents)) < random.beta(3, 1.5, num_documents)[documents], documents


def test_the_interval_is_that_of_a_bootstrap_over_documents() -> None:
    correct, documents = draw_answers(300, seed=0)
    interval = interval_by_document(correct, documents)
    low, high = bootstrap(correct, documents)
    assert interval.value == correct.mean()
    assert interval.low == pytest.approx(low, abs=0.004) and interval.high == pytest.approx(high, abs=0.004)
    naive = 1.96 * math.sqrt(interval.value * (1 - interval.value) / len(correct))
    assert interval.high - interval.low > 2 * 1.5 * naive


def test_the_interval_holds_the_truth_nineteen_times_of_twenty() -> None:
    """The truth is the mean of what documents' accuracies are drawn from, whatever their sizes."""
    found = [interval_by_document(*draw_answers(25, seed)) for seed in range(600)]
    covered = np.mean([interval.low <= 2 / 3 <= interval.high for interval in found])
    assert 0.91 < covered < 0.98


def test_windows_of_one_document_count_as_one_if_they_all_agree() -> None:
    random = np.random.default_rng(0)
    right = random.random(200) < 0.7
    once = interval_by_document(right, np.arange(200))
    repeated = interval_by_document(np.repeat(right, 50), np.repeat(np.arange(200) * 7, 50))
    assert repeated == pytest.approx(once)
    naive = 1.96 * math.sqrt(once.value * (1 - once.value) / (200 * 50))
    assert repeated.high - repeated.low > 7 * 2 * naive


def test_independent_windows_have_the_binomial_interval() -> None:
    right = np.random.default_rng(0).random(5000) < 0.7
    interval = interval_by_document(torch.from_numpy(right), torch.arange(5000))
    margin = 1.96 * math.sqrt(right.mean() * (1 - right.mean()) / 5000)
    assert interval.high - interval.value == pytest.approx(margin, rel=2e-3)
    assert interval.value - interval.low == pytest.approx(margin, rel=2e-3)


def test_few_documents_claim_little() -> None:
    assert interval_by_document([1, 0, 1, 1], [4, 4, 4, 4]) == (0.75, 0.0, 1.0)
    assert interval_by_document([1, 1, 1, 0], [0, 0, 1, 1])[1:] == (0.0, 1.0), "clipped"
    value, low, high = interval_by_document(np.ones(300), np.repeat(np.arange(3), 100))
    assert (value, high) == (1.0, 1.0) and low**3 == pytest.approx(0.025), "three documents right would be this rare"
    assert interval_by_document(np.zeros(5), np.arange(5))[:2] == (0.0, 0.0)
    nothing = interval_by_document([], [])
    assert math.isnan(nothing.value) and nothing[1:] == (0.0, 1.0)
    with pytest.raises(UserError, match="2 answers and the documents of 3"):
        interval_by_document([1, 0], [1, 2, 3])


def test_a_mean_has_student_s_interval() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2 and found.margin == pytest.approx(4.3027 * 1 / 3**0.5, rel=1e-4)
    assert estimate([5.0]).margin is None
