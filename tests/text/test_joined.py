"""Sentences that are encoded together get the ids that each gets by itself."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from litebert.text import spiece
from litebert.text.engines import SentencePieceEngine
from litebert.text.joined import JoinedEncoder, join_lines
from litebert.text.sentences import split_sentences
from litebert.text.vocabulary import open_vocabulary

# What vanishes, becomes a space, is spelled out or joins its neighbour, beside what stays as it is.
ODD = "\u200b\u3000\u00a8\u00a0\ufdfa\u0301\ufe0f\u1100\u1161\t\r\ud800"
SENTENCE = st.text(st.sampled_from("中文字符在这里。 ab1,.'é" + ODD) | st.characters(), max_size=80)


def encode_alone(encoder: SentencePieceEngine, sentences: Sequence[str]) -> list[list[int]]:
    return [
        encoder.processor.encode(sentence.replace("\n", " ").encode(errors="replace").decode())
        for sentence in sentences
    ]


def split_rows(tokens: np.ndarray, counts: np.ndarray) -> list[list[int]]:
    return [row.tolist() for row in np.split(tokens, np.cumsum(counts)[:-1])]


@pytest.fixture(scope="session", params=["albert", "bert", "xlnet", "none"])
def encoder(request: pytest.FixtureRequest, make_folder: Callable[..., Path]) -> SentencePieceEngine:
    found = open_vocabulary(make_folder(request.param)).engine
    assert isinstance(found, SentencePieceEngine) and found.joined.is_exact
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(["你好。", "", " ", "再见 。", "\u200b", "a\u3000b", "中\u00a8文", "结束。"])
@given(st.lists(SENTENCE, min_size=1, max_size=40))
def test_joined_sentences_have_the_ids_that_each_has_alone(encoder: SentencePieceEngine, sentences: list[str]) -> None:
    tokens, counts = encoder.encode_unspaced("\n".join(sentence.replace("\n", " ") for sentence in sentences))
    assert split_rows(tokens, counts) == encode_alone(encoder, sentences)


def test_odd_characters_are_found_and_others_are_not(make_folder: Callable[..., Path]) -> None:
    encoder = open_vocabulary(make_folder("albert")).engine.joined
    sentences = ["中文字符。", "a\u3000b", "字", "\u200b", "word and word", "中\u00a8文", "é", "\u337f", "\u2581"]
    fits = [True, False, True, False, True, False, True, False, False]
    assert (encoder.weigh(join_lines("\n".join(sentences))) <= encoder.most).tolist() == fits


def test_characters_that_are_tried_together_cost_what_each_does(encoder: SentencePieceEngine) -> None:
    tried = encoder.joined.try_characters
    characters = "".join(map(chr, [*range(1, 0xD800), *range(0xE000, 0x10000), *range(0x1F000, 0x1F800)]))
    assert tried(characters) == [cost for character in characters for cost in tried(character)]
    assert len({*tried(characters)}) > 5


def test_no_more_is_joined_than_adds_up_exactly(make_folder: Callable[..., Path]) -> None:
    encoder = open_vocabulary(make_folder("albert")).engine.joined
    unknown = next(chr(code) for code in range(0x4E00, 0x9FFF) if encoder.processor.encode(chr(code))[-1] == 1)
    longest = encoder.most // encoder.cost_of(unknown)
    sentences = [letter * length for letter in ("中", unknown) for length in (1, 7, longest - 1, 100, longest - 1, 3)]
    joined = join_lines("\n".join(sentences))
    weights = encoder.weigh(joined)
    weights[3] = encoder.most + 1
    parts = [part.decode() for part in encoder.cut(joined, weights)]
    assert " ".join(parts) == " ".join(sentences[:3] + sentences[4:])
    assert len(parts) < len(sentences)
    for part in parts:
        known = [index for index in encoder.processor.encode(part) if not encoder.processor.IsUnknown(index)]
        # SentencePiece makes one id of several unknown characters, which each cost something.
        score = sum(map(encoder.processor.GetScore, known)) - encoder.unknown_cost * part.count(unknown)
        largest = np.float32(score - encoder.unknown_cost)
        assert score >= -encoder.weigh(join_lines(part)).sum(), "it costs less than was reckoned"
        assert largest - np.float32(2**-10) != largest, "the last bit would be lost"
    assert encoder.weigh(join_lines(unknown * (longest + 1)))[0] > encoder.most


def test_scores_of_others_are_not_added_up_together(
    make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spiece, "SCORE_UNIT", 3.0)
    encoder = open_vocabulary(make_folder("albert")).engine
    own = JoinedEncoder(encoder.processor, encoder.pieces)
    assert not own.is_exact
    monkeypatch.setitem(encoder.__dict__, "joined", own)
    monkeypatch.setattr(JoinedEncoder, "encode", None)
    assert split_rows(*encoder.encode_unspaced("中文。\n字")) == encode_alone(encoder, ["中文。", "字"])


def test_where_marks_do_not_count_words_each_is_encoded_alone(
    make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = open_vocabulary(make_folder("albert")).engine
    monkeypatch.setattr(JoinedEncoder, "try_characters", lambda _, characters: [1] * len(characters))
    monkeypatch.setitem(encoder.__dict__, "joined", JoinedEncoder(encoder.processor, encoder.pieces))
    sentences = ["中文。", "a\u3000b", "字"]
    assert split_rows(*encoder.encode_unspaced("\n".join(sentences))) == encode_alone(encoder, sentences)


def test_real_chinese_is_encoded_as_sentence_by_sentence(
    real_lines: Callable[[str, int], list[str]], make_folder: Callable[..., Path]
) -> None:
    encoder = open_vocabulary(make_folder("albert")).engine
    lines = "\n".join(s for line in real_lines("wiki_zh.txt.gz", 5000) for s in split_sentences(line))
    together, apart = encoder.encode_unspaced(lines), encoder.encode_apart(lines)
    assert all(map(np.array_equal, together, apart))
