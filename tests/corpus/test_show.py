"""Samples as people read them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from litebert.batch import Batch
from litebert.corpus.show import read_samples, to_html, to_terminal
from litebert.text.vocabulary import open_vocabulary

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sing", "##ing", "birds", "中", "国", ",", "7"]


@pytest.fixture
def batch() -> Batch:
    packed = Batch.pack([[2, 5, 6, 7, 4, 11, 9, 10, 3]])
    return replace(packed, predicted_positions_P=torch.tensor([4]), predicted_ids_P=torch.tensor([8]))


def test_words_of_wordpiece_stand_apart_and_chinese_ones_do_not(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    (sample,) = read_samples(batch, open_vocabulary(tmp_path), "none")
    assert str(to_terminal(sample)) == "[CLS] the singing [MASK]←birds ,中国 [SEP]"
    assert " the singing<ruby>[MASK]<rt>birds</rt></ruby>,中国 " in to_html(sample)
