"""Sentences of scripts without spaces, encoded many at a time.

A call of SentencePiece for each sentence takes half as long again as its work. No piece goes beyond a word: sentences
that are joined by spaces are cut as they are alone, and the marks of words tell where each begins. For that to hold to
the last id,
- scores must add up without rounding, else what stands before a word could decide between two ways to cut it. Ours are
  multiples of 2^-10, so that sums are exact up to 2^14: that is how much is joined;
- no character may vanish or become a space, else marks do not count words. Each is tried once, between letters.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.text.normalize import WORD_START
from litebert.text.spiece import has_round_scores, list_scores

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

LARGEST_SUM = 2.0**14
"""The largest sum of such scores that single precision, with its 24 bits, holds exactly."""
UNKNOWN_PENALTY = 10.0
"""What SentencePiece takes off the lowest score for a character that has no piece."""
NUM_CHARACTERS = 0x110000
WITHIN_WORD = re.compile(f"{WORD_START}a[^{WORD_START}]a")
"""What becomes of a character between two letters that stays one character, though maybe another."""
UNTRIED, PLAIN, ODD = range(3)
"""Kinds of characters: odd ones vanish, become spaces or are spelled out."""


class Joined(NamedTuple):
    """Sentences in one text, with a space between."""

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
        self.is_exact = has_round_scores(processor)
        """Whether sentences may be joined at all."""
        self.num_joined = int(LARGEST_SUM / (UNKNOWN_PENALTY - min(list_scores(processor))))
        """Characters of a call, none of which costs more than an unknown one."""
        self.kinds = np.full(NUM_CHARACTERS, UNTRIED, np.uint8)

    def fit(self, joined: Joined) -> NDArray[np.bool_]:
        """Which sentences may be encoded with others."""
        kinds = self.kinds[joined.characters]
        is_new = kinds == UNTRIED
        if is_new.any():
            met = np.zeros(NUM_CHARACTERS, bool)
            met[joined.characters[is_new]] = True
            for character in np.flatnonzero(met).tolist():
                self.kinds[character] = PLAIN if self.try_character(chr(character)) else ODD
            kinds = self.kinds[joined.characters]
        fits = np.diff(joined.ends, prepend=0) <= self.num_joined
        fits[np.searchsorted(joined.ends, np.flatnonzero(kinds == ODD), side="right")] = False
        return fits

    def try_character(self, character: str) -> bool:
        """Whether it is a part of a word wherever it stands. The space itself, which parts words, counts as well."""
        return character == " " or WITHIN_WORD.fullmatch(self.processor.normalize(f"a{character}a")) is not None

    def encode(self, joined: Joined, token_type: "np.dtype[Any]") -> tuple[NDArray[Any], NDArray[np.int64]] | None:
        """The ids of sentences that fit, end to end, and how many each has; nothing where that cannot be told."""
        parts = [self.processor.encode(part, return_type="numpy") for part in self.cut(joined)]
        tokens = np.concatenate([np.empty(0, token_type), *parts], dtype=token_type, casting="unsafe")
        # A word begins where a space, or nothing, stands before what is none; its first piece has the mark.
        is_space = np.concatenate([[True], joined.characters == ord(" ")])
        words = np.flatnonzero(is_space[:-1] > is_space[1:])
        marks = np.flatnonzero(self.begins_word[tokens])
        if len(words) != len(marks):  # characters that are plain by themselves have become something else together
            return None
        firsts = np.searchsorted(words, joined.ends)  # in words, of what follows each sentence
        return tokens, np.diff(np.concatenate([marks, [len(tokens)]])[firsts], prepend=0)

    def cut(self, joined: Joined) -> Iterator[bytes]:
        """The text in parts of whole sentences, each as long as may be joined."""
        ends, start, number = joined.ends.tolist(), 0, 0
        while number < len(ends):
            number = bisect_right(ends, start + self.num_joined, number)
            yield joined.text[start : ends[number - 1] - 1].encode(errors="replace")
            start = ends[number - 1]


def join_sentences(sentences: Sequence[str]) -> Joined:
    text = " ".join(sentences)
    # Half a surrogate pair, which UTF-8 does not have, is a question mark in either.
    characters = np.frombuffer(text.encode("utf-32-le", errors="replace"), np.uint32)
    return Joined(text, characters, np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)) + 1))
