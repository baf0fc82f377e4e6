"""Many documents -> their sentences, where most stops are plain: the characters beside them say that they end one.

A wide stop before a letter is plain, and so is a narrow one between small letters and a capital, with quotes beside it
or without. Arrays find those for all documents at once and cut there. What has stops of other kinds between two cuts is
left to `split_sentences`, for which nothing behind a plain stop matters: the sentences are those that it makes of each
paragraph.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.text.sentences import (
    CONTINUATIONS,
    EXCLAIMED_NAMES,
    NARROW_STOPS,
    OTHER_STOPS,
    QUOTES,
    SPECIAL,
    STREET,
    WIDE,
    WIDE_STOPS,
    split_sentences,
)

Places = NDArray[np.int64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.uint64]

# What a character is to the stop beside it; the stops themselves are at the end.
NARROW_LETTER, SMALL_LETTER, CAPITAL, WIDE_LETTER, CONTINUATION, CLOSER, STRAIGHT, OPENER, SPACE, LINE_END = range(10)
NARROW_STOP, WIDE_STOP, OTHER_STOP = range(10, 13)
STRAIGHT_QUOTES, OPENERS = frozenset("\"'"), frozenset("“‘«»[")
LAST_SPACE, LAST_CAPITAL = 0x3000, 0x52F
NUM_LETTERS = 8
"""Of the end of a word: no word that is special has so many."""


def make_kinds() -> NDArray[np.uint8]:
    """What each character is."""
    kinds = np.full(0x110000, NARROW_LETTER, np.uint8)
    kinds[ord(WIDE[0]) : ord(WIDE[1]) + 1] = WIDE_LETTER
    for characters, kind in {
        frozenset("abcdefghijklmnopqrstuvwxyz"): SMALL_LETTER,
        frozenset(filter(str.isupper, map(chr, range(LAST_CAPITAL + 1)))): CAPITAL,
        CONTINUATIONS: CONTINUATION,
        QUOTES: CLOSER,  # also those that go on with a sentence
        OPENERS: OPENER,
        STRAIGHT_QUOTES: STRAIGHT,  # which do both
        frozenset(filter(str.isspace, map(chr, range(LAST_SPACE + 1)))): SPACE,
        frozenset("\n"): LINE_END,
        NARROW_STOPS: NARROW_STOP,
        WIDE_STOPS: WIDE_STOP,
        OTHER_STOPS: OTHER_STOP,
    }.items():
        kinds[[ord(character) for character in characters]] = kind
    return kinds


def find_word_characters() -> Flags:
    """Which characters are surely of words: those of Latin, Greek and Cyrillic, of Chinese, Japanese and Korean."""
    found = np.zeros(0x110000, bool)
    found[: LAST_CAPITAL + 1] = [chr(code).isalnum() for code in range(LAST_CAPITAL + 1)]
    for first, last in ("ぁゖ", "ァヺ", "㐀䶿", "一鿿", "가힣"):
        found[ord(first) : ord(last) + 1] = True
    return found


def number_words(words: Iterable[str]) -> Numbers:
    """A number for each: its letters from the last to the first, eight bits each."""
    return np.array([int.from_bytes(word[::-1].encode(), "little") for word in words if word.isascii()], np.uint64)


KINDS, IS_WORD = make_kinds(), find_word_characters()
SPECIAL_NUMBERS, STREET_NUMBERS, NAME_NUMBERS = map(number_words, (SPECIAL, STREET, EXCLAIMED_NAMES))
SHIFTS_L = np.arange(0, 8 * NUM_LETTERS, 8, dtype=np.uint64)
LAST_THREE = np.uint64(0xFFFFFF)


class Sentences(NamedTuple):
    """Of some documents, whose lines are their paragraphs."""

    texts: list[str]
    paragraph_ends: Places
    """How many there are up to the end of each line."""
    document_ends: Places


class Characters(NamedTuple):
    """Those of a text with a line end before it and behind it, and of which kind each is."""

    codes: NDArray[np.uint32]
    kinds: NDArray[np.uint8]


def read_characters(text: str) -> Characters:
    codes = np.frombuffer(f"\n{text}\n".encode("utf-32-le", "surrogatepass"), np.uint32)
    return Characters(codes, KINDS.take(codes))


def split_document_sentences(text: str) -> Sentences:
    """The sentences of documents with blank lines between them, none of them empty."""
    characters = read_characters(text)
    line_ends = np.flatnonzero(characters.kinds == LINE_END)
    ends = line_ends[1:]
    cuts, others = find_stops(characters)
    is_whole = find_whole(characters, line_ends)
    cuts = cuts[~is_whole[np.searchsorted(line_ends, cuts) - 1]]
    part_ends = np.sort(np.concatenate([cuts, ends]))
    # What a part ends before, a space or a line end, belongs to none.
    is_between = (characters.kinds[part_ends] == SPACE) | (characters.kinds[part_ends] == LINE_END)
    part_begins = np.concatenate([[1], (part_ends + is_between)[:-1]])
    lasts = np.searchsorted(part_ends, ends)
    places = zip((part_begins - 1).tolist(), (part_ends - 1).tolist(), strict=True)  # characters begin with a line end
    parts = [text[begin:end] for begin, end in places]
    is_doubtful = np.zeros(len(parts), bool)
    is_doubtful[lasts[is_whole]] = True
    is_doubtful[np.searchsorted(part_ends, others, side="right")] = True
    is_doubtful &= part_begins < part_ends
    sentences, sizes = split_parts(parts, np.flatnonzero(is_doubtful).tolist())
    paragraph_ends = np.cumsum(sizes)[lasts]
    is_blank = sizes[lasts[:-1]] == 0
    return Sentences(sentences, paragraph_ends, paragraph_ends[np.append(is_blank, True)])


def find_stops(characters: Characters) -> tuple[Places, Places]:
    """Where sentences plainly end, behind a stop, and the stops where they may; at others none does.

    A narrow stop ends nothing within a word or a number, or before a small letter, nor does any at the end of a line.
    """
    codes, kinds = characters
    stops = np.flatnonzero(kinds >= NARROW_STOP)
    before, stop, after = kinds[stops - 1], kinds[stops], kinds[stops + 1]
    is_wide, is_narrow = stop == WIDE_STOP, stop == NARROW_STOP
    is_closed = (after == CLOSER) | (after == STRAIGHT)
    ends = stops + 1 + is_closed
    behind, following = (kinds.take(ends + offset, mode="clip") for offset in (0, 1))
    is_opened = (following == OPENER) | (following == STRAIGHT)
    letter = kinds.take(ends + 1 + is_opened, mode="clip")
    is_spaced = is_narrow & (behind == SPACE)
    is_behind_quote = ((before == CLOSER) | (before == STRAIGHT)) & (codes[stops - 1] != ord("]"))  # no note: .[1]
    is_behind_word = IS_WORD.take(codes[stops - 1 - is_behind_quote])

    is_plain = is_wide & is_behind_word & (np.where(after == SPACE, following, after) <= WIDE_LETTER)
    is_plain |= is_spaced & (letter == CAPITAL) & is_behind_word & (is_behind_quote | is_closed)
    possible = np.flatnonzero(is_spaced & (letter == CAPITAL) & (before == SMALL_LETTER) & ~is_closed)
    is_plain[possible] = ends_plainly(codes, stops[possible])
    is_none = (is_narrow & (after < WIDE_LETTER)) | (is_spaced & (letter == SMALL_LETTER))
    is_none |= (behind == LINE_END) | (is_wide & (after == CONTINUATION))
    return ends[is_plain], stops[~is_plain & ~is_none]


def ends_plainly(codes: NDArray[np.uint32], stops_N: Places) -> Flags:
    """Whether narrow stops between small letters and a capital need no thought: question marks do not, nor do others
    behind words that are not special."""
    stop_N = codes[stops_N]
    letters_NL = codes[np.maximum(stops_N[:, None] - np.arange(1, NUM_LETTERS + 1), 0)]
    is_letter_NL = (letters_NL | 0x20) - ord("a") < 26  # of ASCII; numbers without a sign are never below 0
    sizes_N = np.where(is_letter_NL.all(axis=1), NUM_LETTERS, is_letter_NL.argmin(axis=1))
    begins_N = codes[stops_N - sizes_N - 1]
    is_word_N = (sizes_N == NUM_LETTERS) | (begins_N == ord(" ")) | (begins_N == ord("\n"))
    is_inside_NL = np.arange(NUM_LETTERS) < sizes_N[:, None]
    words_N = np.bitwise_or.reduce(np.where(is_inside_NL, letters_NL, 0).astype(np.uint64) << SHIFTS_L, axis=1)
    is_special_N = np.isin(words_N, SPECIAL_NUMBERS) | np.isin(words_N & LAST_THREE, STREET_NUMBERS)
    ends_at_full_stop_N = is_word_N & (sizes_N > 1) & ~is_special_N
    ends_at_mark_N = is_word_N & ~np.isin(words_N, NAME_NUMBERS)
    return np.select(
        [stop_N == ord("."), stop_N == ord("!")], [ends_at_full_stop_N, ends_at_mark_N], default=np.array(True)
    )


def find_whole(characters: Characters, line_ends: Places) -> Flags:
    """Which paragraphs are not cut: what is empty or not stripped, and what has wide characters and straight quotes,
    which open or close by how many came before."""
    codes, kinds = characters
    begins, ends = line_ends[:-1] + 1, line_ends[1:]
    is_whole = (begins == ends) | (kinds[begins] == SPACE) | (kinds[ends - 1] == SPACE)
    is_wide = (kinds == WIDE_LETTER) | (kinds == WIDE_STOP)
    has_both = [np.logical_or.reduceat(found, line_ends[:-1]) for found in (is_wide, codes == ord('"'))]
    return is_whole | np.logical_and(*has_both)


def split_parts(parts: Sequence[str], doubtful: Sequence[int]) -> tuple[list[str], Places]:
    """Sentences, where some of the parts may be several, and others are empty; and how many each part has."""
    sentences: list[str] = []
    sizes = np.fromiter(map(bool, parts), np.int64, len(parts))
    behind = 0
    for number in doubtful:
        found = split_sentences(parts[number])
        sentences += parts[behind:number]
        sentences += found
        sizes[number] = len(found)
        behind = number + 1
    return list(filter(None, [*sentences, *parts[behind:]])), sizes
