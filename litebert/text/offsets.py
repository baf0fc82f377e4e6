"""Ids -> characters: where in a text, as it was written, each of its pieces stands.

An engine cuts a text that was changed before: spaces joined, accents removed, one sign made several. Each change is
followed character by character, so a span is exact also where the change made the text longer or shorter. Where pieces
share a sign, such as the two of a ligature, each stands for all of it.
"""

import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from litebert.text.normalize import WORD_START

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

# What a preparation takes together: runs of space, and pairs of quotes; all else it takes one by one.
UNIT = re.compile(r"\s+|``|''|.", re.DOTALL)
Span = tuple[int, int]
Piece = tuple[int, int, int]
"""An id with its span."""

BLANK: Span = (0, 0)
"""Of a piece that stands for no character, such as SentencePiece's mark of a space alone."""


class Alignment(NamedTuple):
    """A changed text, and for each of its characters the span in the text before the change."""

    text: str
    spans: Sequence[Span]


class Spans(NamedTuple):
    """The ids of a text, and the first character that each stands for and the one after its last.

    Both only ever grow. A piece that stands for no character is empty, at the beginning of the next.
    """

    ids: list[int]
    begins: list[int]
    ends: list[int]


def align_preparation(text: str, prepare: Callable[[str], str]) -> Alignment:
    """Follows one of Google's preparations, which change each unit of a text as if it were alone.

    But for spaces, of which they keep those of plain text, and for sigma, whose form heeds the letters around it; its
    length does not.
    """
    prepared = prepare(text)
    if text.isascii() and len(prepared) == len(text):
        return Alignment(prepared, list_characters(0, len(text)))
    spans: list[Span] = []
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    keeps_spaces = text.isascii() and text.isprintable()
    for unit in UNIT.finditer(text) if keeps_spaces else UNIT.finditer(text, begin, end):
        spans += align_unit(unit, prepare, keeps_spaces)
    if len(spans) != len(prepared):
        raise AssertionError(f"{text!r} is prepared as {prepared!r}, but unit by unit in {len(spans)} characters")
    return Alignment(prepared, spans)


def align_unit(unit: re.Match[str], prepare: Callable[[str], str], keeps_spaces: bool) -> list[Span]:
    if unit[0].isspace():
        return list_characters(*unit.span()) if keeps_spaces else [unit.span()]
    length = len(prepare(unit[0]))
    return list_characters(*unit.span()) if length == len(unit[0]) else [unit.span()] * length


def list_characters(begin: int, end: int) -> list[Span]:
    return [(place, place + 1) for place in range(begin, end)]


def align_normalization(text: str, processor: "SentencePieceProcessor") -> Alignment:
    """Follows SentencePiece's own change of a text: it says where what it took together begins."""
    normalized, places = processor.Normalize(text, with_offsets=True)
    spans: list[Span] = []
    end = len(text)
    for begin, following in zip(reversed(places[:-1]), reversed(places[1:]), strict=True):
        if begin < following:
            end = following
            # What was left out is counted to what stands before it, though that did not come of it.
            while end > begin + 1 and not is_kept(text[end - 1], processor):
                end -= 1
        spans.append((begin, end))
    return Alignment(normalized, spans[::-1])


def is_kept(character: str, processor: "SentencePieceProcessor") -> bool:
    """Whether SentencePiece makes something visible of a character."""
    return (character.isascii() and character.isalnum()) or is_visible(processor.Normalize(character))


def is_visible(text: str) -> bool:
    return bool(text.strip(WORD_START).strip())


def cut_aligned(text: str, processor: "SentencePieceProcessor", prepare: Callable[[str], str] | None) -> list[Piece]:
    """SentencePiece's ids of a text with their spans in it, BLANK for those that stand for no character."""
    before = align_preparation(text, prepare) if prepare else Alignment(text, list_characters(0, len(text)))
    normalized, places = align_normalization(before.text, processor)
    # A vocabulary may cut an unknown character into its bytes, so the pieces are laid along those.
    characters = [index for index, character in enumerate(normalized) for _ in character.encode()]
    found, place = [], 0
    cut = processor.encode(before.text, return_type="offset_mapping")
    for index, piece in zip(cut["ids"], cut["pieces"], strict=True):
        size = 1 if processor.IsByte(index) else len(piece.encode())
        visible = [places[at] for at in characters[place : place + size] if is_visible(normalized[at])]
        span = (before.spans[visible[0][0]][0], before.spans[visible[-1][1] - 1][1]) if visible else BLANK
        found.append((index, *span))
        place += size
    return found


def cut_plain(text: str, processor: "SentencePieceProcessor") -> list[Piece] | None:
    """The same by SentencePiece's own offsets, in a third of the time: for a word that no preparation changes, and of
    which SentencePiece makes one character of each. Of other texts nothing, for its offsets are then too coarse."""
    normalized, places = processor.Normalize(text, with_offsets=True)
    if places != [0, *range(len(text) + 1)] or WORD_START in normalized[1:]:
        return None
    cut = processor.encode(text, return_type="offset_mapping")
    return [
        (index, *(span if span[0] < span[1] else BLANK)) for index, span in zip(cut["ids"], cut["offsets"], strict=True)
    ]


def join_spans(text: str, found: Sequence[Piece]) -> Spans:
    """Pieces in the order of a text. Those that stand for nothing take their place among the others, and marks that
    were left out, such as accents, belong to the letter before them."""
    ids, begins, ends = map(list, zip(*found, strict=True)) if found else ([], [], [])
    following = len(text.rstrip())
    for index in reversed(range(len(found))):
        if begins[index] >= ends[index]:
            begins[index] = ends[index] = following
        elif not text.isascii():
            while ends[index] < following and unicodedata.category(text[ends[index]]).startswith("M"):
                ends[index] += 1
        following = begins[index]
    # Within a sign that became several words, a piece between them stands for it too.
    return Spans(ids, begins, list(itertools.accumulate(ends, max)))


def strip_span(text: str, begin: int, end: int) -> Span:
    """A span without the space at its ends, or BLANK if there is nothing else in it."""
    visible = text[begin:end].strip()
    if not visible:
        return BLANK
    begin = text.index(visible, begin)
    return begin, begin + len(visible)
