"""Paragraphs that are longer than a model reads at once: windows that slide over them, and answers among their tokens.

A sample is `[CLS] question [SEP] window [SEP]`. It keeps where in the paragraph its tokens were written, so that an
answer is always a slice of the paragraph itself.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.config import require
from litebert.tasks.task import Limits, Sample, join_segments
from litebert.text.vocabulary import Vocabulary

Places = NDArray[np.int64]

ABSENT = (-1, -1)
"""The tokens of an answer that is in no window."""


class Paragraph(NamedTuple):
    """A paragraph's tokens, and which of its characters each stands for."""

    ids: list[int]
    begins: Places
    ends: Places

    def find_tokens(self, begin: int, end: int) -> tuple[int, int] | None:
        """The first and last of the fewest tokens that cover some characters; None where no token stands for them."""
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.begins, end, side="left")) - 1
        return (first, last) if first <= last else None

    def find_characters(self, first: int, last: int) -> tuple[int, int]:
        return int(self.begins[first]), int(self.ends[last])


class Window(NamedTuple):
    """The tokens of a paragraph from `begin` up to but without `end`."""

    begin: int
    end: int
    is_best: NDArray[np.bool_]
    """Whether no other window has more around each of its tokens."""


class WindowSample(Sample):
    """A sample that knows its window: what is needed to say in characters what a model said in tokens."""

    window: Window
    source: Paragraph


def encode_paragraph(vocabulary: Vocabulary, text: str) -> Paragraph:
    ids, begins, ends = vocabulary.encode_spans(text)
    return Paragraph(ids, np.array(begins, np.int64), np.array(ends, np.int64))


@functools.lru_cache(maxsize=1 << 14)
def slide(num_tokens: int, room: int, stride: int) -> tuple[Window, ...]:
    """Windows over a paragraph, each as wide as there is room, until its end is reached; over an empty one, one."""
    begins = [0]
    while begins[-1] + room < num_tokens:
        begins.append(begins[-1] + min(room, stride))
    bounds = [(begin, min(begin + room, num_tokens)) for begin in begins]
    best = find_best_windows(num_tokens, bounds)
    return tuple(Window(begin, end, best[begin:end] == number) for number, (begin, end) in enumerate(bounds))


def find_best_windows(num_tokens: int, bounds: Sequence[tuple[int, int]]) -> Places:
    """The number of each token's best window, by BERT's rule: that which has most around it on its poorer side, and a
    hundredth of its length; of equals the first."""
    tokens = np.arange(num_tokens)
    context = np.full((len(bounds), num_tokens), -np.inf)
    for row, (begin, end) in zip(context, bounds, strict=True):
        inside = tokens[begin:end]
        row[begin:end] = np.minimum(inside - begin, end - 1 - inside) + 0.01 * (end - begin)
    return context.argmax(axis=0)


def cut_windows(
    vocabulary: Vocabulary,
    question: Sequence[int],
    paragraph: Paragraph,
    answer: tuple[int, int] | None,
    limits: Limits,
    example: int,
) -> Iterator[WindowSample]:
    """The samples of one question about a paragraph. `answer` has its first and last token there; it may be ABSENT, and
    None says that nothing is to be learned."""
    question = question[: limits.question_length]
    room = limits.length - len(question) - 3
    require(
        room > 0,
        f"a question of {len(question)} tokens leaves no room for its paragraph in a length of {limits.length}; raise "
        "length or lower question_length",
    )
    for window in slide(len(paragraph.ids), room, limits.stride):
        token_ids, second = join_segments(vocabulary, question, paragraph.ids[window.begin : window.end])
        span = None if answer is None else place_answer(answer, window, second)
        inside = second, second + window.end - window.begin
        sample = WindowSample(token_ids, second, example, span=span, paragraph=inside)
        sample.window, sample.source = window, paragraph
        yield sample


def place_answer(answer: tuple[int, int], window: Window, second: int) -> tuple[int, int]:
    """An answer's tokens in a sample; the first token of all, twice, where the window does not hold the whole of it."""
    first, last = answer
    if first < window.begin or last >= window.end:
        return 0, 0
    return first - window.begin + second, last - window.begin + second
