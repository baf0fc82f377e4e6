from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.text import word_table
from litebert.text.vocabulary import open_vocabulary
from litebert.text.word_table import WordTable, cut_blocks


def spell(words: list[bytes]) -> list[list[int]]:
    """A model whose pieces are bytes, in pairs."""
    return [[sum(word[place : place + 2]) for place in range(0, len(word), 2)] for word in words]


def encode_plainly(text: bytes) -> list[list[int]]:
    return [[token for row in spell(line.split(b" ")) for token in row] for line in text.split(b"\n")]


def encode_with(table: WordTable, text: bytes) -> list[list[int]]:
    tokens, counts = table.encode_lines(text)
    assert counts.sum() == len(tokens)
    return [part.tolist() for part in np.split(tokens, np.cumsum(counts)[:-1])]


texts = st.lists(st.sampled_from([b"a", b"ab", b"the", b" ", b"  ", b"\n", b"\xe4\xb8\xad", b"x" * 60, b"y" * 300]))


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(texts, max_size=4), block_size=st.sampled_from([4, 64, 1 << 18]))
def test_lines_are_encoded_as_their_words(parts: list[list[bytes]], block_size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_table, "BLOCK_SIZE", block_size)
        table = WordTable(spell, np.dtype(np.uint16))
        for part in parts:
            text = b"".join(part)
            assert encode_with(table, text) == encode_plainly(text)
            assert b"".join(cut_blocks(text)) == text + b"\n"


def test_each_word_is_asked_for_once_and_long_ones_are_not_kept() -> None:
    asked: list[bytes] = []

    def encode(words: list[bytes]) -> list[list[int]]:
        asked.extend(words)
        return spell(words)

    table = WordTable(encode, np.dtype(np.uint16))
    long = b"z" * 49
    for _ in range(3):
        assert encode_with(table, b"one two one\ntwo " + long) == encode_plainly(b"one two one\ntwo " + long)
    assert sorted(asked) == [b"one", b"two", *[long] * 3]


def test_a_full_table_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_table, "NUM_SLOTS", 64)
    table = WordTable(spell, np.dtype(np.uint32))
    random = np.random.default_rng(0)
    for _ in range(100):
        text = b" ".join(str(number).encode() for number in random.integers(0, 500, 20))
        assert encode_with(table, text) == encode_plainly(text)
    assert table.num_words <= 64


def test_words_that_share_a_slot_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_table, "first_slots", lambda hashes: np.zeros(len(hashes), np.int64))
    table = WordTable(spell, np.dtype(np.uint16))
    text = b" ".join(str(number).encode() for number in range(300))
    assert encode_with(table, text) == encode_with(table, text) == encode_plainly(text)


def test_a_text_is_encoded_alike_alone_and_among_others(data: Path) -> None:
    """By its words, whatever stands beside it; and like SentencePiece but for ties."""
    from litebert.text.documents import Reader, find_sources

    vocabulary = open_vocabulary(data / "vocab" / "xlnet-en-spiece.model")
    lines = [
        line
        for name in ("wiki_en", "wiki_zh")
        for document in list(
            zip(range(40), Reader().read(find_sources([data / "text" / f"{name}.txt.gz"])[0]), strict=False)
        )
        for line in document[1].split("\n")
    ]
    tokens, counts = vocabulary.encode_many(lines)
    together = np.split(tokens, np.cumsum(counts)[:-1])
    assert all(
        part.tolist() == vocabulary.encode_many([line])[0].tolist() for part, line in zip(together, lines, strict=True)
    )


def test_a_model_whose_pieces_hold_several_words_is_given_whole_texts(tmp_path: Path) -> None:
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    SentencePieceTrainer.Train(
        sentence_iterator=iter(["of the people by the people for the people"] * 50),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=40,
        split_by_whitespace=False,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    text = "for the people by the people"
    assert any("▁" in piece[1:] for piece in processor.encode(text, out_type=str))
    assert open_vocabulary(tmp_path).encode(text) == processor.encode(text)
