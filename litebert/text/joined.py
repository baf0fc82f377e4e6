"""Sentences of scripts without spaces, encoded many at a time.

A call of SentencePiece for each sentence takes half as long again as its work. No piece goes beyond a word: sentences
that are joined by spaces are cut as they are alone, and the marks of words tell where each begins. For that to hold to
the last id,
- scores must add up without rounding, else what stands before a word could decide between two ways to cut it. Ours are
  multiples of 2^-10, so that sums are exact up to 2^14: no more is joined. A text's best score is at least that of its
  single characters, which bounds the sum;
- no character may vanish or become a space, else marks do not count words. Each is tried once, between letters.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.text.normalize import WORD_START
from litebert.text.spiece import are_round, list_scores

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

LARGEST_SUM = 2.0**14
"""The largest sum of such scores that single precision, with its 24 bits, holds exactly."""
UNKNOWN_PENALTY = 10.0
"""What SentencePiece takes off the lowest score for a character that has no piece."""
NUM_CHARACTERS = 0x110000
TRIED = re.compile("a.a", re.DOTALL)
"""What becomes of a character between two letters that stays one character, though maybe another."""
UNTRIED, ODD = 0, 255
"""Instead of costs, of characters that were not met yet, and of those that vanish, become spaces or are spelled out."""


class Joined(NamedTuple):
    """Sentences in one text, with a space behind each."""

    text: str
    characters: NDArray[np.uint32]
    """Their numbers."""
    ends: NDArray[np.int64]
    """Where each sentence and the space behind it end."""


class JoinedEncoder:
    """Encodes with a model whose pieces keep to words."""

    def __init__(self, processor: "SentencePieceProcessor", pieces: Sequence[str]) -> None:
        self.processor = processor
        self.begins_word = np.array([piece.startswith(WORD_START) for piece in pieces])
        scores = list_scores(processor)
        self.is_exact = are_round(scores)
        """Whether sentences may be joined at all."""
        self.unknown_cost = UNKNOWN_PENALTY - min(scores)
        self.known_costs = {
            piece: round_up(-scores[index])
            for index, piece in enumerate(pieces)
            if len(piece) == 1 and not (processor.IsControl(index) or processor.IsUnused(index))
        }
        """Of pieces of one character."""
        self.most = int(LARGEST_SUM - self.unknown_cost)
        """What sentences that are joined may cost, with room for one more piece, of whatever score."""
        self.costs = np.full(NUM_CHARACTERS, UNTRIED, np.uint8)
        """By how much each character lowers a score at most."""
        self.costs[ord(" ")] = self.cost_of(WORD_START)  # which alone may part words

    def weigh(self, joined: Joined) -> NDArray[np.int64]:
        """What each sentence costs; more than any may where it cannot be joined."""
        costs = self.costs.take(joined.characters)  # in half the time of [...]
        is_new = costs == UNTRIED
        if is_new.any():
            met = np.zeros(NUM_CHARACTERS, bool)
            met[joined.characters[is_new]] = True
            numbers = np.flatnonzero(met)
            self.costs[numbers] = self.try_characters("".join(map(chr, numbers.tolist())))
            costs = self.costs.take(joined.characters)
        weights = np.add.reduceat(costs, joined.ends - np.diff(joined.ends, prepend=0), dtype=np.int64)
        weights[np.searchsorted(joined.ends, np.flatnonzero(costs == ODD), side="right")] = self.most + 1
        return weights

    def try_characters(self, characters: str) -> list[int]:
        """The cost of each that is a part of a word wherever it stands.

        They are tried together, as words; where there are more words than characters, some of them part words.
        """
        words = self.processor.normalize(" ".join(f"a{character}a" for character in characters)).split(WORD_START)[1:]
        if len(words) == len(characters):
            return [self.cost_of(word[1]) if TRIED.fullmatch(word) else ODD for word in words]
        if len(characters) == 1:
            return [ODD]
        middle = len(characters) // 2
        return self.try_characters(characters[:middle]) + self.try_characters(characters[middle:])

    def cost_of(self, piece: str) -> int:
        """Of one character."""
        return self.known_costs.get(piece, round_up(self.unknown_cost))

    def encode(
        self, joined: Joined, weights: NDArray[np.int64], token_type: "np.dtype[Any]"
    ) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
        """The ids of the sentences that fit, end to end, and how many each has; nothing where that cannot be told."""
        parts = [self.processor.encode(part, return_type="numpy") for part in self.cut(joined, weights)]
        tokens = np.concatenate([np.empty(0, token_type), *parts], dtype=token_type, casting="unsafe")
        # A word begins where a space, or nothing, stands before what is none; its first piece has the mark.
        is_space = np.concatenate([[True], joined.characters == ord(" ")])
        words = np.flatnonzero(is_space[:-1] > is_space[1:])
        num_words = np.where(weights <= self.most, np.diff(np.searchsorted(words, joined.ends), prepend=0), 0)
        marks = np.flatnonzero(self.begins_word.take(tokens))
        if num_words.sum() != len(marks):  # characters that are plain by themselves have become something else together
            return None
        return tokens, np.diff(np.append(marks, len(tokens))[np.cumsum(num_words)], prepend=0)

    def cut(self, joined: Joined, weights: NDArray[np.int64]) -> Iterator[bytes]:
        """The sentences that fit in parts, each as long as may be joined."""
        ends, sums, number = joined.ends.tolist(), np.cumsum(weights).tolist(), 0
        for odd in [*np.flatnonzero(weights > self.most).tolist(), len(ends)]:
            while number < odd:
                start, before = (ends[number - 1], sums[number - 1]) if number else (0, 0)
                number = bisect_right(sums, before + self.most, number, odd)
                yield joined.text[start : ends[number - 1] - 1].encode(errors="replace")
            number = odd + 1


def round_up(cost: float) -> int:
    """At least to 1, and to no more than there is room for."""
    return min(max(math.ceil(cost), 1), ODD)


def join_lines(lines: str) -> Joined:
    """Sentences with a line end between them."""
    # Half a surrogate pair, which UTF-8 does not have, is a question mark in either.
    characters = np.frombuffer(f"{lines}\n".encode("utf-32-le", errors="replace"), np.uint32).copy()
    ends = np.flatnonzero(characters == ord("\n"))
    characters[ends] = ord(" ")
    return Joined(lines.replace("\n", " ") + " ", characters, ends + 1)
