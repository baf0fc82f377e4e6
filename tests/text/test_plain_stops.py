import re
import sys
from collections.abc import Callable, Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.text.plain_stops import (
    IS_WORD,
    KINDS,
    LINE_END,
    NUM_LETTERS,
    SPACE,
    find_stops,
    read_characters,
    split_document_sentences,
)
from litebert.text.sentences import EXCLAIMED_NAMES, SPECIAL, split_sentences

# Whatever a rule speaks of, letters of both kinds, and what is at their borders.
SIGNS = "aA1我のI .!?…。｡！？．”’」』）》\"')]“‘«»[、，；,;を\xa0\u3000\u2028\x1f⺀\ufeff\uff00\ud800\n"
# And what takes more than one character: words, special ones among them, and what stands between two sentences.
WORDS = [
    *SIGNS, "dog", "longerword", "Mr", "Messrs", "etc", "Hauptstr", "XIV", "U.S", "Yahoo", "Jeopardy", "Januar", "12",
    "2020", "[12]", "É", "ß", "é", "Я", "😀", "-", "。", ". ", ". The", ". the", '." "I', "? ", "! A",
]  # fmt: skip


def check(documents: Sequence[str]) -> None:
    """Against the sentences of each paragraph by itself."""
    split = [[split_sentences(line) for line in document.split("\n")] for document in documents]
    found = split_document_sentences("\n\n".join(documents))
    assert found.texts == [sentence for document in split for paragraph in document for sentence in paragraph]
    # A blank line is a paragraph of nothing.
    lines = [paragraph for document in split for paragraph in [*document, []]][:-1]
    assert found.paragraph_ends.tolist() == list(accumulate(map(len, lines)))
    assert found.document_ends.tolist() == list(accumulate(sum(map(len, document)) for document in split))


def is_document(text: str) -> bool:
    return all(line.strip() for line in text.split("\n"))


TEXTS = st.text(st.sampled_from(SIGNS)) | st.lists(st.sampled_from(WORDS)).map("".join) | st.text()


@given(st.lists(TEXTS.filter(is_document), min_size=1, max_size=4))
def test_sentences_are_those_of_each_paragraph_by_itself(documents: list[str]) -> None:
    check(documents)


@pytest.mark.parametrize("before", SIGNS)
@pytest.mark.parametrize("stop", ".!?…。｡！？．")
def test_so_they_are_whatever_stands_around_a_stop(before: str, stop: str) -> None:
    around = [f"{start}{before}{stop}{after}{end}" for after in SIGNS for start in ("", "我") for end in ("", "我。我")]
    check(list(filter(is_document, around)))


@pytest.mark.parametrize(
    "text",
    [
        ".”。中",  # the sentence would begin with its stop
        "![12]！3",
        "A.\xa0.  😀”。ａ",  # the word behind the second stop is the last
        "字．．。三",
        "He said (so). Then. It is No. 5. Mr. Smith Str. 5 Yahoo! Inc. is.",
        '"Yes." "No!" he said. \'Why?\' "I" . "You',
        '我说"对。"他说"不。"然后。',
    ],
)
def test_so_they_are_where_a_rule_was_once_wrong_or_nearly(text: str) -> None:
    check([text])


@pytest.mark.parametrize("name", ["wiki_zh.txt.gz", "wiki_en.txt.gz", "novels_en.txt.gz"])
def test_so_they_are_in_real_text(name: str, real_lines: Callable[[str, int], list[str]]) -> None:
    lines = real_lines(name, 5000)
    check(["\n".join(lines[start : start + 7]) for start in range(0, len(lines), 7)])


def test_only_a_line_end_ends_a_paragraph_and_a_blank_line_a_document() -> None:
    found = split_document_sentences("one\u2028two\x0cthree\nfour\n\n五。六。")
    assert found.texts == ["one\u2028two\x0cthree", "four", "五。", "六。"]
    assert found.paragraph_ends.tolist() == [1, 2, 2, 4]
    assert found.document_ends.tolist() == [2, 4]


def test_no_documents_have_no_sentences() -> None:
    assert split_document_sentences("").texts == [] and split_document_sentences("").document_ends.tolist() == [0]


@pytest.mark.parametrize(
    ("text", "ends", "doubtful"),
    [
        ("今天很好。明天是3.14，真的！后天呢？」", [5, 16], []),
        ('He came. "Why?" asked Mr. Hall. "No." She left. He too.', [8, 31, 37, 47], [24]),
    ],
)
def test_most_stops_are_plain(text: str, ends: list[int], doubtful: list[int]) -> None:
    """Else all of this would gain nothing."""
    found = find_stops(read_characters(text))  # where a line end comes first
    assert [(places - 1).tolist() for places in found] == [ends, doubtful]


def test_no_special_word_is_as_long_as_what_is_looked_at() -> None:
    assert max(map(len, SPECIAL)) < NUM_LETTERS >= max(map(len, EXCLAIMED_NAMES))


def test_what_is_taken_for_a_word_is_one() -> None:
    assert all(re.fullmatch(r"\w", chr(code)) for code in range(0x110000) if IS_WORD[code])


def test_every_space_is_known() -> None:
    spaces = {character for character in range(sys.maxunicode + 1) if chr(character).isspace()}
    assert {character for character in range(len(KINDS)) if KINDS[character] in (SPACE, LINE_END)} == spaces
