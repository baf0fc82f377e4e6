import pytest
import torch

from litebert.batch import Batch
from litebert.config import UserError


def test_padding_is_taken_out_and_put_back() -> None:
    token_ids = torch.tensor([[7, 8, 9], [5, 0, 0], [6, 4, 0]])
    batch = Batch.from_padded(token_ids, (token_ids != 0).long())
    assert batch.lengths == (3, 1, 2)
    assert batch.token_ids_T.tolist() == [7, 8, 9, 5, 6, 4]
    assert batch.positions_T.tolist() == [0, 1, 2, 0, 0, 1]
    assert batch.starts_B.tolist() == [0, 3, 4]
    assert torch.equal(batch.pad(batch.token_ids_T), token_ids)


def test_segments_are_kept_and_are_0_unless_given() -> None:
    assert Batch.pack([[1, 2], [3]]).segment_ids_T.tolist() == [0, 0, 0]
    assert Batch.pack([[1, 2], [3]], [[0, 1], [1]]).segment_ids_T.tolist() == [0, 1, 1]


def test_reordering_moves_whole_sequences_and_says_where_each_token_was() -> None:
    batch = Batch.pack([[1], [2, 3], [4, 5, 6]])
    assert batch.longest_first == [2, 1, 0]
    moved, tokens_T = batch.reorder(batch.longest_first)
    assert moved.lengths == (3, 2, 1)
    assert moved.token_ids_T.tolist() == [4, 5, 6, 2, 3, 1]
    assert torch.equal(batch.token_ids_T[tokens_T], moved.token_ids_T)


@pytest.mark.parametrize("mask", [[[0, 1, 1]], [[1, 0, 1]], [[0, 0, 0]]])
def test_padding_anywhere_but_on_the_right_is_refused(mask: list[list[int]]) -> None:
    with pytest.raises(UserError, match="row 0 of attention_mask .* put the padding on the right"):
        Batch.from_padded(torch.ones(1, 3, dtype=torch.long), torch.tensor(mask))


def test_an_empty_sequence_and_lengths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="none may be empty"):
        Batch.pack([[1], []])
    with pytest.raises(UserError, match="none may be empty"):
        Batch.pack([])
    with pytest.raises(UserError, match="segment_ids_T has shape"):
        Batch.pack([[1, 2]], [[0]])


def test_a_split_batch_has_the_same_sequences_and_predictions() -> None:
    lengths = (3, 5, 2, 4, 1)
    batch = Batch(
        lengths=lengths,
        token_ids_T=torch.arange(15),
        segment_ids_T=torch.arange(15) % 2,
        predicted_positions_P=torch.tensor([1, 2, 7, 8, 13, 14]),
        predicted_ids_P=torch.tensor([11, 12, 17, 18, 113, 114]),
        pair_labels_B=torch.arange(5),
    )
    parts = batch.split(2)
    assert [part.lengths for part in parts] == [(3, 5), (2, 4), (1,)]
    assert torch.equal(torch.cat([part.token_ids_T for part in parts]), batch.token_ids_T)
    assert [part.predicted_positions_P.tolist() for part in parts] == [[1, 2, 7], [0, 5], [0]]  # type: ignore[union-attr]
    assert [part.predicted_ids_P.tolist() for part in parts] == [[11, 12, 17], [18, 113], [114]]  # type: ignore[union-attr]
    assert [part.pair_labels_B.tolist() for part in parts] == [[0, 1], [2, 3], [4]]  # type: ignore[union-attr]
    bare = Batch.pack([[1, 2], [3]]).split(1)
    assert [part.token_ids_T.tolist() for part in bare] == [[1, 2], [3]] and bare[0].predicted_ids_P is None


ASKED = Batch(
    lengths=(3, 5, 2, 4),
    token_ids_T=torch.arange(14),
    segment_ids_T=torch.zeros(14, dtype=torch.long),
    labels_BX=torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]),
    token_labels_T=torch.tensor([-100, 1, 2] + [-100] * 5 + [3, 4, 5, 6, 7, 8]),
    spans_BX=torch.tensor([[1, 2], [0, 0], [1, 1], [2, 3]]),
    allowed_T=torch.arange(14) % 3 == 0,
)
ANSWERS = {"labels_BX": ASKED.num_sequences, "token_labels_T": 14, "spans_BX": ASKED.num_sequences, "allowed_T": 14}


def test_a_split_batch_has_the_same_answers() -> None:
    parts = ASKED.split(3)
    assert [part.lengths for part in parts] == [(3, 5, 2), (4,)]
    for name, size in ANSWERS.items():
        pieces = [getattr(part, name) for part in parts]
        assert torch.equal(torch.cat(pieces), getattr(ASKED, name)) and len(getattr(ASKED, name)) == size
        assert [len(piece) for piece in pieces] == ([3, 1] if size == 4 else [10, 4])


def test_sequences_that_are_taken_keep_their_own_answers() -> None:
    taken = ASKED.take(1, 3)
    assert taken.token_ids_T.tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert taken.labels_BX.tolist() == [[0.0, 0.0], [1.0, 1.0]]  # type: ignore[union-attr]
    assert taken.token_labels_T.tolist() == [-100, -100, -100, -100, -100, 3, 4]  # type: ignore[union-attr]
    assert taken.spans_BX.tolist() == [[0, 0], [1, 1]]  # type: ignore[union-attr]
    assert taken.allowed_T.tolist() == [True, False, False, True, False, False, True]  # type: ignore[union-attr]
    bare = Batch.pack([[1, 2], [3]]).take(0, 1)
    assert all(getattr(bare, name) is None for name in ANSWERS)


def test_moving_a_batch_moves_its_answers() -> None:
    moved = ASKED.to("meta")
    assert all(getattr(moved, name).is_meta for name in ("token_ids_T", "segment_ids_T", *ANSWERS))


@pytest.mark.parametrize(
    ("ids", "segments", "said"),
    [
        ((2, 3), (2, 4), r"token_type_ids has shape \(2, 4\); input_ids has \(2, 3\)"),
        ((2, 0), (2, 0), r"input_ids has shape \(2, 0\); it has a row for each sequence, and tokens in it"),
        ((3,), (3,), r"input_ids has shape \(3,\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(ids: tuple[int, ...], segments: tuple[int, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Batch.from_padded(torch.ones(ids, dtype=torch.long), None, torch.zeros(segments, dtype=torch.long))
