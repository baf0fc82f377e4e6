import sys
from collections.abc import Callable, Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.text.plain_stops import KINDS, LINE_END, SPACE, find_stops, split_documents
from litebert.text.sentences import split_sentences

# Whatever a rule speaks of, letters of both kinds, and what is at their borders.
SIGNS = "aA1我のI .!?…。｡！？．”’」』）》\"')]“‘«»[、，；,;を\xa0\u3000\u2028\x1f⺀\ufeff\uff00\ud800\n"


def check(documents: Sequence[str]) -> None:
    """Against the sentences of each paragraph by itself."""
    split = [[split_sentences(line) for line in document.split("\n")] for document in documents]
    found = split_documents("\n\n".join(documents))
    assert found.texts == [sentence for document in split for paragraph in document for sentence in paragraph]
    # A blank line is a paragraph of nothing.
    lines = [paragraph for document in split for paragraph in [*document, []]][:-1]
    assert found.paragraph_ends.tolist() == list(accumulate(map(len, lines)))
    assert found.document_ends.tolist() == list(accumulate(sum(map(len, document)) for document in split))


def is_document(text: str) -> bool:
    return all(line.strip() for line in text.split("\n"))


@given(st.lists((st.text(st.sampled_from(SIGNS)) | st.text()).filter(is_document), min_size=1, max_size=4))
def test_sentences_are_those_of_each_paragraph_by_itself(documents: list[str]) -> None:
    check(documents)


@pytest.mark.parametrize("before", SIGNS)
@pytest.mark.parametrize("stop", ".!?…。｡！？．")
def test_so_they_are_whatever_stands_around_a_stop(before: str, stop: str) -> None:
    around = [f"{start}{before}{stop}{after}{end}" for after in SIGNS for start in ("", "我") for end in ("", "我。我")]
    check(list(filter(is_document, around)))


@pytest.mark.parametrize("name", ["wiki_zh.txt.gz", "wiki_en.txt.gz"])
def test_so_they_are_in_real_text(name: str, real_lines: Callable[[str, int], list[str]]) -> None:
    lines = real_lines(name, 5000)
    check(["\n".join(lines[start : start + 7]) for start in range(0, len(lines), 7)])


def test_only_a_line_end_ends_a_paragraph_and_a_blank_line_a_document() -> None:
    found = split_documents("one\u2028two\x0cthree\nfour\n\n五。六。")
    assert found.texts == ["one\u2028two\x0cthree", "four", "五。", "六。"]
    assert found.paragraph_ends.tolist() == [1, 2, 2, 4]
    assert found.document_ends.tolist() == [2, 4]


def test_no_documents_have_no_sentences() -> None:
    assert split_documents("").texts == [] and split_documents("").document_ends.tolist() == [0]


def test_most_chinese_stops_are_plain() -> None:
    """Else all of this would gain nothing."""
    plain, others = find_stops(KINDS[[ord(letter) for letter in "\n今天很好。明天是3.14，真的！后天呢？」\n"]])
    assert plain.tolist() == [5, 16] and others.tolist() == [20]


def test_every_space_is_known() -> None:
    spaces = {character for character in range(sys.maxunicode + 1) if chr(character).isspace()}
    assert {character for character in range(len(KINDS)) if KINDS[character] in (SPACE, LINE_END)} == spaces
