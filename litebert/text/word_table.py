"""Words that were encoded before, looked up many at a time.

A corpus repeats its words, so a model need cut each only once. Python's dictionaries are no faster than SentencePiece
at finding them again; a hash table in arrays is: the words of a block are hashed, found and their tokens gathered by a
few operations on whole arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]
Tokens = NDArray[np.unsignedinteger[Any]]

NUM_SLOTS = 1 << 20
MOST_TOKENS = 1 << 22
"""How many tokens are kept before the table begins anew."""
LONGEST_WORD = 48
"""In bytes. What is longer, such as a sentence of a script without spaces, will hardly come again."""
BLOCK_SIZE = 1 << 18
"""Bytes that are looked up at a time: so many that arrays pay, and so few that they stay in the cache."""
FACTOR = 0x9E3779B97F4A7C15
NEW_LINE = ord("\n")
IS_SPACE = np.isin(np.arange(256), [ord(" "), NEW_LINE])


class WordTable:
    """Encodes lines of text by their words, which spaces separate. `encode` is asked for new words, once each."""

    def __init__(self, encode: Callable[[list[bytes]], Sequence[Sequence[int]]], token_type: "np.dtype[Any]") -> None:
        self.encode = encode
        self.powers, self.inverses = make_powers(BLOCK_SIZE)
        self.tokens: Tokens = np.empty(1 << 16, token_type)
        self.clear()

    def clear(self) -> None:
        self.keys: Hashes = np.zeros(NUM_SLOTS, np.uint64)
        self.begins: Places = np.zeros(NUM_SLOTS, np.int64)
        self.sizes: Places = np.zeros(NUM_SLOTS, np.int64)
        self.num_words = self.num_tokens = 0

    def encode_lines(self, text: bytes) -> tuple[Tokens, Places]:
        """The tokens of a text, and how many each of its lines has."""
        found = [self.encode_block(block) for block in cut_blocks(text)]
        tokens, sizes, ends_line = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return tokens, np.diff(np.cumsum(sizes)[ends_line], prepend=0)

    def encode_block(self, text: bytes) -> tuple[Tokens, Places, NDArray[np.bool_]]:
        """The tokens, how many each word has, and whether a line ends with it."""
        if len(text) > BLOCK_SIZE:  # a word longer than a block
            (row,) = self.encode([text[:-1]])
            return np.array(row, self.tokens.dtype), np.array([len(row)]), np.array([text.endswith(b"\n")])
        if self.num_words > NUM_SLOTS // 2 or self.num_tokens > MOST_TOKENS:
            self.clear()
        data = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(IS_SPACE[data])
        starts = np.append(0, ends[:-1] + 1)
        hashes = self.hash_words(data, starts, ends)
        slots = self.find(hashes)
        begins, sizes = self.begins[slots], self.sizes[slots]
        sizes[starts == ends] = 0
        new = np.flatnonzero((slots < 0) & (starts < ends))
        if len(new):
            begins[new], sizes[new] = self.learn(text, starts[new], ends[new], hashes[new])
        totals = np.cumsum(sizes)
        tokens = self.tokens[np.repeat(begins - totals + sizes, sizes) + np.arange(totals[-1])]
        return tokens, sizes, data[ends] == NEW_LINE

    def hash_words(self, data: NDArray[np.uint8], starts: Places, ends: Places) -> Hashes:
        """A polynomial of each word's bytes, from one running sum over all of them, never 0."""
        sums = np.zeros(len(data) + 1, np.uint64)
        np.cumsum((data + np.uint64(1)) * self.powers[: len(data)], out=sums[1:])
        hashes = (sums[ends] - sums[starts]) * self.inverses[starts]
        hashes ^= hashes >> np.uint64(32)
        hashes *= np.uint64(FACTOR)
        return (hashes ^ (hashes >> np.uint64(29))) | np.uint64(1 << 63)

    def find(self, hashes: Hashes) -> Places:
        """The slot of each hash, or -1 where it is not in the table."""
        found = np.full(len(hashes), -1)
        pending, slots = np.arange(len(hashes)), first_slots(hashes)
        while len(pending):
            keys = self.keys[slots]
            hit = keys == hashes[pending]
            found[pending[hit]] = slots[hit]
            left = ~hit & (keys != 0)
            pending, slots = pending[left], next_slots(slots[left])
        return found

    def learn(self, text: bytes, starts: Places, ends: Places, hashes: Hashes) -> tuple[Places, Places]:
        """Encodes words that are not in the table: where each one's tokens begin, and how many they are."""
        hashes, firsts, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        bounds = zip(starts[firsts].tolist(), ends[firsts].tolist(), strict=True)
        rows = self.encode([text[start:end] for start, end in bounds])
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        begins = self.num_tokens + np.cumsum(sizes) - sizes
        self.append(np.fromiter(chain.from_iterable(rows), self.tokens.dtype, int(sizes.sum())))
        short = (ends - starts)[firsts] <= LONGEST_WORD
        slots = self.insert(hashes[short])
        self.begins[slots], self.sizes[slots] = begins[short], sizes[short]
        return begins[inverse], sizes[inverse]

    def append(self, tokens: Tokens) -> None:
        end = self.num_tokens + len(tokens)
        if end > len(self.tokens):
            grown = np.empty(max(end, 2 * len(self.tokens)), self.tokens.dtype)
            grown[: self.num_tokens] = self.tokens[: self.num_tokens]
            self.tokens = grown
        self.tokens[self.num_tokens : end] = tokens
        self.num_tokens = end

    def insert(self, hashes: Hashes) -> Places:
        """Gives each of some new hashes, all different, a slot."""
        taken = np.empty(len(hashes), np.int64)
        pending, slots = np.arange(len(hashes)), first_slots(hashes)
        while len(pending):
            free = self.keys[slots] == 0
            self.keys[slots[free]] = hashes[pending[free]]  # of several that want one slot, the last has it
            won = self.keys[slots] == hashes[pending]
            taken[pending[won]] = slots[won]
            pending, slots = pending[~won], next_slots(slots[~won])
        self.num_words += len(hashes)
        return taken


def cut_blocks(text: bytes) -> Iterator[bytes]:
    """A text in parts of whole words, each word with the space or line end behind it."""
    text += b"\n"
    start = 0
    while start < len(text):
        last = max(text.rfind(b" ", start, start + BLOCK_SIZE), text.rfind(b"\n", start, start + BLOCK_SIZE))
        if last < 0:
            following = [text.find(space, start) for space in (b" ", b"\n")]
            last = min(place for place in following if place >= 0)
        yield text[start : last + 1]
        start = last + 1


def first_slots(hashes: Hashes) -> Places:
    return (hashes & np.uint64(NUM_SLOTS - 1)).astype(np.int64)


def next_slots(slots: Places) -> Places:
    return (slots + 1) & (NUM_SLOTS - 1)


def make_powers(number: int) -> tuple[Hashes, Hashes]:
    """The powers of an odd number modulo 2^64, and their inverses."""
    factors = np.full((2, number + 1), [[FACTOR], [pow(FACTOR, -1, 1 << 64)]], np.uint64)
    factors[:, 0] = 1
    powers, inverses = np.cumprod(factors, axis=1, dtype=np.uint64)
    return powers, inverses
