import itertools
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.text.normalize import (
    ENCLOSING_SIGNS,
    NORMALIZATIONS,
    character_map,
    is_written,
    normalize_albert,
    normalize_xlnet,
)

WAYS = [(name, cased) for name in NORMALIZATIONS for cased in (False, True)]
# Letters with and without accents, marks apart from them, ideographs, syllables, spaces, emoji, ligatures, controls.
WRITING = st.text(
    st.one_of(
        st.characters(max_codepoint=0x52F),
        st.characters(min_codepoint=0x3041, max_codepoint=0x9FFF, categories=["Lo", "Lm"]),
        st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),
        st.characters(min_codepoint=0xFB00, max_codepoint=0xFFEF, categories=["L", "N", "P"]),
        st.sampled_from(list("\u200d\ufe0f\u20e3\u00a0\u3000\u2581\u0600\r\n\t 1#'`👍🏽👨👩🇩🇪")),
    )
)


def written() -> Iterator[str]:
    return filter(is_written, map(chr, range(1, sys.maxunicode + 1)))


def spaced(text: str) -> str:
    return " ".join(text.split())


def apply(changes: Mapping[str, str], text: str) -> str:
    return "".join(changes.get(character, character) for character in text)


@pytest.mark.parametrize(
    ("name", "cased", "text", "cleaned"),
    [
        ("albert", False, "Ｃafé\u00a0ÀLA ﬁn", "cafe ala fin"),
        ("albert", True, "Ｃafé ÀLA", "Cafe ALA"),
        ("albert", False, "한국 soft\u00adhyphen\u200b ❤\ufe0f 1\u20e3", "한국 softhyphen ❤ 1"),
        ("albert", False, "a\u2028b\x85c\u2581d\x07", "a b c d"),
        ("bert", False, "Ａ中É\ufffd", "ａ 中 e"),
        ("bert", True, "Ａ中É", "Ａ 中 É"),
        ("xlnet", True, "Café ½", "Cafe 1⁄2"),
        ("none", True, "Café\u00a0½\u200b\x07", "Café ½\u200b\x07"),
        ("none", False, "CAFÉ İ", "café i\u0307"),
        ("albert", False, "\u0600\u0661 ΟΔΟΣ", "\u0600\u0661 οδοσ"),
    ],
)
def test_a_map_cleans_as_its_name_says(name: str, cased: bool, text: str, cleaned: str) -> None:
    assert spaced(apply(character_map(name, cased=cased), text)) == cleaned


def test_only_xlnets_map_joins_quotes() -> None:
    quotes = {source for name in NORMALIZATIONS for source in character_map(name, cased=True) if len(source) > 1}
    assert quotes == {"``", "''"}
    assert not quotes & character_map("albert", cased=True).keys()


@pytest.mark.parametrize(("name", "cased"), WAYS)
def test_what_has_been_cleaned_stays_as_it_is(name: str, cased: bool) -> None:
    changes = character_map(name, cased=cased)
    for target in set(changes.values()):
        assert spaced(apply(changes, target)) == spaced(target)


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_without_case_a_letter_and_its_capital_become_the_same(name: str) -> None:
    changes = character_map(name, cased=False)
    for character in written():
        assert spaced(apply(changes, character.lower())) == spaced(apply(changes, character))


@pytest.mark.parametrize("cased", [False, True])
def test_berts_map_is_tokenizers_bert_normalizer(cased: bool) -> None:
    changes = character_map("bert", cased=cased)
    peer = tokenizers.normalizers.BertNormalizer(lowercase=not cased)
    odd = {c for c in written() if spaced(apply(changes, c)) != spaced(peer.normalize_str(c))}
    odd -= ENCLOSING_SIGNS | {"\u2581"}  # those are written, and this is SentencePiece's space
    # tokenizers keeps to an older Unicode: marks and controls that are younger stay.
    assert {unicodedata.category(c) for c in odd} <= {"Mn", "Mc", "Cf"} and len(odd) < 400


@settings(deadline=None)
@given(WRITING)
def test_alberts_map_is_googles_preparation_with_syllables_whole(text: str) -> None:
    # Google's code keeps controls, joiners, selectors and signs around letters, and lower-cases a sigma by its place.
    removed = {c for c in text if c in "\u034f\u200d\ufe0f" or unicodedata.category(c) in ("Cc", "Cf", "Me")}
    text = "".join(c for c in text if c.isspace() or c not in removed | {"\u2581", "Σ", "\u03f9"})
    google = unicodedata.normalize("NFKC", normalize_albert(text))
    ours = apply(character_map("albert", cased=False), text)
    assert spaced(unicodedata.normalize("NFKC", ours)) == spaced(google)


@pytest.mark.parametrize(("name", "cased"), [("albert", False), ("bert", False), ("xlnet", True), ("none", False)])
def test_sentencepiece_and_tokenizers_clean_alike(make_folder: Callable[..., Path], name: str, cased: bool) -> None:
    folder = make_folder(name, cased)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    peer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).normalizer
    changes = character_map(name, cased=cased)

    def check(text: str) -> None:
        assert processor.Normalize(text).replace("▁", " ").strip() == peer.normalize_str(text)

    characters = written()
    while chunk := "y x".join(itertools.islice(characters, 1000)):
        check(chunk)

    @settings(deadline=None)
    @given(WRITING)
    def check_writing(text: str) -> None:
        # Known: a mark that is kept is lost to tokenizers upon a character that is changed.
        kept = [c for c in text if unicodedata.category(c)[0] == "M" or c == "\u200d"]
        if not any(changes.get(c, c) for c in kept):
            check(text)

    check_writing()


def test_googles_preparations() -> None:
    assert normalize_albert("  Ａ\u3000 CAFÉ\n") == "a cafe"
    assert normalize_albert("É", lower_case=False) == "E"
    assert normalize_albert("``a'' 𝐀\U00016af0") == "``a'' a"
    assert normalize_xlnet("``É''") == '"E"'
    assert normalize_xlnet("É", lower_case=True) == "e"


@given(st.text())
def test_googles_preparation_is_the_same_in_the_words_of_unicode(text: str) -> None:
    parts = unicodedata.normalize("NFKD", " ".join(text.split()))
    expected = "".join(part for part in parts if not unicodedata.combining(part)).lower()
    # The spaces that are left in plain text SentencePiece makes one.
    assert spaced(normalize_albert(text)) == spaced(expected)
