import numpy as np
import pytest
from scipy import stats

from litebert.corpus.draws import below, coin_flips, make_keys, shuffle, uniform

KEYS = make_keys(7, np.arange(50_000))


def test_draws_of_neighbouring_keys_are_uniform_and_unrelated() -> None:
    numbers = uniform(KEYS, 1)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers, uniform(KEYS, 2))[0, 1]) < 0.02


def test_a_draw_depends_on_its_key_and_purpose_alone() -> None:
    assert (uniform(KEYS[10:20], 3) == uniform(KEYS, 3)[10:20]).all()
    assert (uniform(KEYS, 3) != uniform(KEYS, 4)).mean() > 0.99
    assert make_keys(1, 2) != make_keys(2, 1)


def test_whole_numbers_are_equally_likely_below_their_bound() -> None:
    counts = np.bincount(below(KEYS, 5, 7), minlength=7)
    assert len(counts) == 7 and stats.chisquare(counts).pvalue > 1e-3
    assert (below(KEYS[:100], 5, np.arange(1, 101)) < np.arange(1, 101)).all()


@pytest.mark.parametrize("number", [0, 1, 5, 64, 65, 200])
def test_coin_flips_are_binomial(number: int) -> None:
    heads = coin_flips(KEYS, 6, np.full(len(KEYS), number))
    assert heads.min() >= 0 and heads.max() <= number
    error = 5 * np.sqrt(number / 4 / len(KEYS)) + 1e-12
    assert abs(heads.mean() - number / 2) <= error
    assert abs(heads.var() - number / 4) <= 0.05 * number / 4


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1000, 12_345])
def test_shuffling_is_a_permutation_of_any_size(size: int) -> None:
    shuffled = shuffle(np.arange(size), size, make_keys(1, size))
    assert sorted(shuffled.tolist()) == list(range(size))
    assert (shuffle(np.arange(size)[::-1], size, make_keys(1, size)) == shuffled[::-1]).all()


def test_every_card_comes_to_every_place_and_behind_every_other_equally_often() -> None:
    size, trials = 12, 4000
    places, neighbours = np.zeros((size, size)), np.zeros((size, size))
    for trial in range(trials):
        cards = shuffle(np.arange(size), size, make_keys(2, trial))
        places[np.arange(size), cards] += 1
        neighbours[cards[:-1], cards[1:]] += 1
    assert stats.chisquare(places.ravel()).pvalue > 1e-4
    assert stats.chisquare(neighbours[~np.eye(size, dtype=bool)]).pvalue > 1e-4
