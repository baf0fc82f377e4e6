import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.config import UserError
from litebert.tasks.task import Limits, pack
from litebert.tasks.windows import ABSENT, Paragraph, WindowSample, cut_windows, encode_paragraph, slide
from litebert.text.vocabulary import Vocabulary, open_vocabulary

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES = st.tuples(st.integers(0, 60), st.integers(1, 20), st.integers(1, 25))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join([*MARKS, *map(str, range(100)), *(f"##{n}" for n in range(100))]) + "\n")
    return open_vocabulary(file)


def cut(vocabulary: Vocabulary, text: str, answer: tuple[int, int] | None, **limits: int) -> list[WindowSample]:
    paragraph = encode_paragraph(vocabulary, text)
    return list(cut_windows(vocabulary, [7, 8, 9], paragraph, answer, Limits(**limits), example=4))


@given(SIZES)
def test_windows_reach_from_the_first_token_to_the_last_as_berts_do(sizes: tuple[int, int, int]) -> None:
    num_tokens, room, stride = sizes
    expected, begin = [], 0
    while True:
        width = min(room, num_tokens - begin)
        expected.append((begin, begin + width))
        if begin + width >= num_tokens:
            break
        begin += min(width, stride)
    windows = slide(*sizes)
    assert [(window.begin, window.end) for window in windows] == expected
    assert windows[0].begin == 0 and windows[-1].end == num_tokens


@given(SIZES)
def test_each_token_is_best_in_the_window_with_most_around_it(sizes: tuple[int, int, int]) -> None:
    windows = slide(*sizes)
    for token in range(sizes[0]):
        scores = {}
        for number, (begin, end, _) in enumerate(windows):
            if begin <= token < end:
                scores[number] = min(token - begin, end - token - 1) + 0.01 * (end - begin)
        best = max(scores, key=lambda number: (scores[number], -number))
        chosen = [n for n, w in enumerate(windows) if w.begin <= token < w.end and w.is_best[token - w.begin]]
        assert chosen == [best]


def test_a_sample_is_the_question_and_a_window(vocabulary: Vocabulary) -> None:
    numbers = " ".join(map(str, range(10, 30)))
    samples = cut(vocabulary, numbers, None, length=14, stride=5)
    assert len(samples) == 4
    for sample in samples:
        begin, end = sample.paragraph
        cls, first, sep, second, last = np.split(sample.token_ids, [1, 4, 5, len(sample.token_ids) - 1])
        assert [*cls, *sep, *last] == [vocabulary.special.cls, vocabulary.special.sep, vocabulary.special.sep]
        assert first.tolist() == [7, 8, 9] and sample.second == begin == 5 and end == len(sample.token_ids) - 1
        words = numbers.split()[sample.window.begin : sample.window.end]
        assert [vocabulary.piece(index) for index in second] == words
        assert sample.example == 4 and sample.span is None and len(sample.token_ids) <= 14
    allowed = pack(samples).allowed_T
    assert allowed is not None and int(allowed.sum()) == sum(1 + s.paragraph[1] - s.paragraph[0] for s in samples)


def test_an_answer_is_in_the_windows_that_hold_all_of_it_and_at_the_first_token_in_the_others(
    vocabulary: Vocabulary,
) -> None:
    samples = cut(vocabulary, " ".join(map(str, range(10, 30))), (6, 8), length=14, stride=5)
    held = [[vocabulary.piece(i) for i in s.token_ids[s.span[0] : s.span[1] + 1]] for s in samples]
    assert held == [["[CLS]"], ["16", "17", "18"], ["[CLS]"], ["[CLS]"]]
    samples = cut(vocabulary, "1 2 3", (0, 0), length=14)
    assert [sample.span for sample in samples] == [(5, 5)]
    assert [sample.span for sample in cut(vocabulary, "1 2 3", ABSENT, length=14)] == [(0, 0)]


def test_a_paragraph_without_tokens_is_asked_about_all_the_same(vocabulary: Vocabulary) -> None:
    (sample,) = cut(vocabulary, " ", None)
    assert sample.paragraph == (5, 5) and len(sample.token_ids) == 6


def test_a_long_question_is_cut(vocabulary: Vocabulary) -> None:
    (sample,) = cut(vocabulary, "1", None, question_length=2)
    assert sample.token_ids[1:4].tolist() == [7, 8, vocabulary.special.sep]


def test_a_question_that_leaves_no_room_is_refused(vocabulary: Vocabulary) -> None:
    paragraph = encode_paragraph(vocabulary, "1 2 3")
    with pytest.raises(UserError, match="a question of 5 tokens leaves no room .* length of 8; raise length"):
        list(cut_windows(vocabulary, [7] * 5, paragraph, None, Limits(length=8), 0))


@given(st.data())
def test_the_tokens_of_some_characters_are_the_fewest_that_cover_them(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    ends = np.cumsum(sizes)
    paragraph = Paragraph(sizes, ends - sizes, ends)
    if not ends[-1]:
        return
    begin = data.draw(st.integers(0, int(ends[-1]) - 1))
    end = data.draw(st.integers(begin + 1, int(ends[-1])))
    touching = [n for n, size in enumerate(sizes) if size and ends[n] > begin and ends[n] - size < end]
    assert paragraph.find_tokens(begin, end) == (touching[0], touching[-1])
    assert paragraph.find_tokens(int(ends[-1]), int(ends[-1]) + 1) is None


def test_a_sample_keeps_its_window_on_its_way_to_another_process(vocabulary: Vocabulary) -> None:
    (sample,) = cut(vocabulary, "12 13", (0, 1))
    copy = pickle.loads(pickle.dumps(sample))
    assert copy.span == sample.span and copy.window.begin == 0
    assert copy.source.ends.tolist() == sample.source.ends.tolist() == [2, 5]


def test_the_tokens_of_a_paragraph_know_its_characters(vocabulary: Vocabulary) -> None:
    paragraph = encode_paragraph(vocabulary, " 12  3 ")
    assert paragraph.find_tokens(1, 3) == (0, 0) and paragraph.find_characters(0, 1) == (1, 6)


def test_samples_of_real_paragraphs_hold_every_token(data: Path) -> None:
    vocabulary = open_vocabulary(data / "vocab" / "albert-zh-bert-vocab.txt")
    text = "《战国无双3》是由光荣和ω-force开发的战国无双系列的正统第三续作。" * 20
    paragraph = encode_paragraph(vocabulary, text)
    samples = list(cut_windows(vocabulary, [9], paragraph, None, Limits(length=64, stride=20), 0))
    kept = [sample.token_ids[sample.second : -1][sample.window.is_best] for sample in samples]
    assert np.concatenate(kept).tolist() == paragraph.ids
