"""How text is cleaned before it is cut into pieces: ALBERT's way, BERT's, XLNet's, or hardly at all.

A vocabulary that LiteBERT trains holds its cleaning: a map of characters, compiled into the SentencePiece model. The
models that Google released rely instead on Python code that runs before them; it is at the end of this file.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from typing import NamedTuple

WORD_START = "▁"
"""SentencePiece's mark for the space before a word."""
# Formally controls, these are written, around the number that follows them.
ENCLOSING_SIGNS = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
QUOTES = {"``": '"', "''": '"'}


class Normalization(NamedTuple):
    """What becomes of a character when case is kept or not, and of pairs of them; `cased` is the default."""

    clean: Callable[[str, bool], str]
    cased: bool
    pairs: Mapping[str, str] = {}


@functools.cache
def character_map(name: str, *, cased: bool) -> Mapping[str, str]:
    """What a normalisation makes of each character, and of each pair of them, that does not stay as it is."""
    clean = NORMALIZATIONS[name].clean
    changes = dict(NORMALIZATIONS[name].pairs)
    for character in filter(is_written, map(chr, range(1, sys.maxunicode + 1))):
        parts = character if cased else character.lower()
        target = "".join(" " if is_space(part) else clean(part, cased) for part in parts)
        if not cased:  # once more, one by one: a plain form may be a capital, and only in a word has sigma two forms
            target = "".join(map(str.lower, target))
        if target != character:
            changes[character] = target
    return changes


def clean_albert(character: str, cased: bool) -> str:
    """Compatibility forms and accented letters become plain; Korean syllables, taken apart with them, stay whole."""
    if is_control(character) or is_selector(character):
        return ""
    parts = unicodedata.normalize("NFKD", character)
    return unicodedata.normalize("NFKC", "".join(part for part in parts if not is_mark(part)))


def clean_bert(character: str, cased: bool) -> str:
    """Chinese characters stand alone; accents are removed only together with capitals."""
    if is_control(character) or character == "\ufffd":
        return ""
    kept = character if cased else "".join(filter(is_no_accent, unicodedata.normalize("NFD", character)))
    return f" {kept} " if is_ideograph(character) else kept


def clean_nothing(character: str, cased: bool) -> str:
    return character


NORMALIZATIONS = {
    "albert": Normalization(clean_albert, cased=False),
    "bert": Normalization(clean_bert, cased=False),
    "xlnet": Normalization(clean_albert, cased=True, pairs=QUOTES),
    "none": Normalization(clean_nothing, cased=True),
}


def is_written(character: str) -> bool:
    """Not unassigned, for private use, or half of a pair."""
    return unicodedata.category(character) not in ("Cn", "Co", "Cs")


def is_space(character: str) -> bool:
    """SentencePiece takes its own mark in a text for a space, so it is one."""
    return character.isspace() or character == WORD_START


def is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf") and character not in ENCLOSING_SIGNS


def is_selector(character: str) -> bool:
    """A mark without a form of its own, which says how the character before it is drawn or joined."""
    name = unicodedata.name(character, "") if unicodedata.category(character) == "Mn" else ""
    return "VARIATION SELECTOR" in name or name == "COMBINING GRAPHEME JOINER"


def is_mark(character: str) -> bool:
    """What is written on, or around, the character before."""
    return unicodedata.combining(character) > 0 or unicodedata.category(character) == "Me"


def is_no_accent(character: str) -> bool:
    return unicodedata.category(character) != "Mn"


def is_ideograph(character: str) -> bool:
    return unicodedata.name(character, "").startswith(("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH"))


def normalize_albert(text: str, *, lower_case: bool = True) -> str:
    """Google's preparation for ALBERT: single spaces, compatibility forms, no accents, lower case."""
    if not text.isascii():
        text = remove_marks(unicodedata.normalize("NFKD", " ".join(text.split())))
    elif not text.isprintable():  # of ASCII's spaces only the common one is; SentencePiece makes one of several
        text = " ".join(text.split())
    return text.lower() if lower_case else text


def normalize_xlnet(text: str, *, lower_case: bool = False) -> str:
    """Google's preparation for XLNet: ALBERT's, with two single quotes made a double one, and case kept."""
    for pair, quote in QUOTES.items():
        text = text.replace(pair, quote)
    return normalize_albert(text, lower_case=lower_case)


def remove_marks(text: str) -> str:
    return possible_marks().sub(lambda found: "" if unicodedata.combining(found[0]) else found[0], text)


@functools.cache
def possible_marks() -> re.Pattern[str]:
    """Finds all combining marks, and whatever lies beyond the first plane: only there is a large set looked up fast."""
    marks = "".join(filter(unicodedata.combining, map(chr, range(0x10000))))
    return re.compile(f"[{marks}\U00010000-\U0010ffff]")
