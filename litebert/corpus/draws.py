"""Random numbers that are pure functions of where they are used.

A generator remembers what it has been asked; these do not. A draw is made from a key (which seed, epoch and sample) and
a purpose, so any process can make any sample's draws in any order and get the same numbers. The keys of a whole batch
are mixed at once.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

NUM_ROUNDS = 10
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


def mix(values: Keys) -> Keys:
    """SplitMix64's step: neighbouring values become unrelated ones."""
    mixed = values + GOLDEN
    mixed ^= mixed >> np.uint64(30)
    mixed *= FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def make_keys(*parts: Any) -> Keys:
    """Keys from integers, and arrays of them, of any meaning; equal parts in equal places give equal keys."""
    keys = np.zeros(1, np.uint64)
    for part in parts:
        keys = mix(keys ^ np.asarray(part).astype(np.uint64))
    return keys


def draw(keys: Keys, purpose: int) -> Keys:
    """64 random bits for each key; those for different purposes are unrelated."""
    return mix(keys ^ (np.uint64(purpose) << np.uint64(32)))


def uniform(keys: Keys, purpose: int) -> Floats:
    """A number in [0, 1) for each key."""
    return (draw(keys, purpose) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(keys: Keys, purpose: int, bounds: Any) -> Integers:
    """A whole number from 0 up to but without its bound, for each key."""
    return (uniform(keys, purpose) * bounds).astype(np.int64)


def coin_flips(keys: Keys, purpose: int, numbers: Integers) -> Integers:
    """How many of so many flips of a fair coin are heads, for each key."""
    heads = np.zeros(len(numbers), np.int64)
    keys = draw(keys, purpose)
    for word in range(-(-int(numbers.max(initial=0)) // 64)):
        left = np.clip(numbers - 64 * word, 0, 64).astype(np.uint64)
        bits = draw(keys, word) >> (np.uint64(64) - np.maximum(left, np.uint64(1)))
        heads += np.where(left > 0, np.bitwise_count(bits), 0)
    return heads


def shuffle(places: Integers, size: int, key: Keys) -> Integers:
    """Which card of a deck of `size` lies at each of these places after shuffling with `key`.

    The deck is laid out in a square. A card's column moves it within its row, its row within its column, some rounds
    of that (a Feistel network); from a spot of the square that holds no card it walks on. Nothing of the deck's size is
    ever in memory.
    """
    num_rows = math.isqrt(size - 1) + 1
    num_columns = -(-size // num_rows)
    round_keys = make_keys(key, np.arange(NUM_ROUNDS))
    cards = places.astype(np.uint64)
    outside = np.arange(len(cards))
    while len(outside):
        rows, columns = np.divmod(cards[outside], np.uint64(num_columns))
        for first, second in round_keys.reshape(-1, 2):
            columns = (columns + mix(rows ^ first)) % np.uint64(num_columns)
            rows = (rows + mix(columns ^ second)) % np.uint64(num_rows)
        cards[outside] = rows * np.uint64(num_columns) + columns
        outside = outside[cards[outside] >= size]
    return cards.astype(np.int64)
