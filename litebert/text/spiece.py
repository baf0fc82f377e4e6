"""SentencePiece's model file: what can be read and changed in it without its library's help."""

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from litebert.protobuf import read_message

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

SCORE_UNIT = 2.0**-10
"""The scores of vocabularies that LiteBERT trains are multiples of it."""
SCORE_TAG = b"\x15"  # protobuf's, for a second field of four bytes


def load_model(model: bytes) -> "SentencePieceProcessor":
    """Raises a RuntimeError for what is no model."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return processor


def are_round(scores: Sequence[float]) -> bool:
    """Whether sums of these scores are exact."""
    return all(score % SCORE_UNIT == 0 for score in scores)


def is_our_model(processor: "SentencePieceProcessor") -> bool:
    """Whether LiteBERT trained it: the scores of others are not round, or whole, as those of byte pairs are."""
    scores = list_scores(processor)
    return are_round(scores) and any(score % 1 for score in scores)


def list_scores(processor: "SentencePieceProcessor") -> list[float]:
    return [processor.GetScore(index) for index in range(processor.GetPieceSize())]


def read_character_map(model: bytes) -> bytes:
    """The compiled map of characters: ModelProto.normalizer_spec.precompiled_charsmap."""
    normalizer_spec = dict(read_message(model))[3]
    return dict(read_message(normalizer_spec))[2]


def change_scores(model: bytes, change: Callable[[str, float], float]) -> bytes:
    """The model with another score for some pieces. In the file a piece is its length, its text, a tag, its score."""
    processor, changed, place = load_model(model), bytearray(model), 0
    for index in range(processor.GetPieceSize()):
        piece, score = processor.IdToPiece(index), processor.GetScore(index)
        wanted = change(piece, score)
        if wanted != score:
            text = piece.encode()
            place = changed.index(bytes([len(text)]) + text + SCORE_TAG, place) + 1 + len(text) + len(SCORE_TAG)
            changed[place : place + 4] = struct.pack("<f", wanted)
    return bytes(changed)
