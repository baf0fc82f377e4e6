"""The baseline on pairs whose order is told by what it can see, or by nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from litebert.batch import NO_LABEL, Batch
from litebert.config import UserError
from litebert.corpus.baseline import count_pieces, majority_share, shallow_baseline
from litebert.corpus.loader import Loader
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig
from litebert.corpus.shards import Corpus

CLS, SEP, MASK, OPENER, VOCAB_SIZE = 2, 3, 4, 5, 60


def make_batch(pairs: list[tuple[list[int], list[int]]], labels: list[int]) -> Batch:
    sequences = [[CLS, *first, SEP, *second, SEP] if second else [CLS, *first, SEP] for first, second in pairs]
    segments = [[0] * (len(first) + 2) + [1] * (len(second) + bool(second)) for first, second in pairs]
    return replace(Batch.pack(sequences, segments), pair_labels_B=torch.tensor(labels))


def make_batches(num_batches: int, seed: int, num_classes: int = 2) -> list[Batch]:
    """Pairs of random pieces: with label 0 the first segment begins with the opener, with 1 the second, with 2 none.

    It also stands further on in every segment.
    """
    random = np.random.default_rng(seed)
    batches = []
    for _ in range(num_batches):
        labels = random.integers(0, num_classes, 32).tolist()
        pairs = []
        for label in labels:
            first, second = (random.integers(OPENER + 1, VOCAB_SIZE, random.integers(5, 12)).tolist() for _ in "ab")
            first[4], second[4] = OPENER, OPENER
            if label < 2:
                (first, second)[label][0] = OPENER
            pairs.append((first, second))
        batches.append(make_batch(pairs, labels))
    return batches


def labels_of(batches: list[Batch]) -> np.ndarray:
    return torch.cat([batch.pair_labels_B for batch in batches]).numpy()  # type: ignore[misc]


def hide_some(batch: Batch, seed: int) -> Batch:
    """A third of the tokens that are not marks, hidden; all openers among them."""
    generator = torch.Generator().manual_seed(seed)
    inner_T = batch.token_ids_T > MASK
    hidden_T = inner_T & ((torch.rand(batch.num_tokens, generator=generator) < 1 / 3) | (batch.token_ids_T == OPENER))
    positions_P = hidden_T.nonzero().squeeze(1)
    return replace(
        batch,
        token_ids_T=torch.where(hidden_T, MASK, batch.token_ids_T),
        predicted_positions_P=positions_P,
        predicted_ids_P=batch.token_ids_T[positions_P],
    )


@pytest.mark.parametrize("num_classes", [2, 3])
def test_what_the_first_piece_tells_is_learned(num_classes: int) -> None:
    train, held_out = make_batches(60, 0, num_classes), make_batches(20, 1, num_classes)
    predicted = shallow_baseline(train, held_out, VOCAB_SIZE)
    assert np.mean(predicted == labels_of(held_out)) > 0.97


def test_shuffled_labels_leave_it_at_chance() -> None:
    generator = torch.Generator().manual_seed(0)
    train = [
        replace(batch, pair_labels_B=torch.randint(0, 2, (batch.num_sequences,), generator=generator))
        for batch in make_batches(60, 0)
    ]
    held_out = make_batches(40, 1)
    correct = shallow_baseline(train, held_out, VOCAB_SIZE) == labels_of(held_out)
    assert abs(correct.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(correct))


def test_hidden_tokens_are_put_back() -> None:
    train, held_out = make_batches(30, 0), make_batches(20, 1)
    expected = shallow_baseline(train, held_out, VOCAB_SIZE)
    hidden = [[hide_some(batch, seed) for seed, batch in enumerate(part)] for part in (train, held_out)]
    before = [batch.token_ids_T.clone() for batch in hidden[0]]
    assert np.array_equal(shallow_baseline(*hidden, VOCAB_SIZE), expected)
    assert all(torch.equal(batch.token_ids_T, tokens) for batch, tokens in zip(hidden[0], before, strict=True))
    lost = [[replace(batch, predicted_positions_P=None) for batch in part] for part in hidden]
    assert not np.array_equal(shallow_baseline(*lost, VOCAB_SIZE), expected), "hiding does take something away"


def test_a_row_counts_what_a_loop_over_the_tokens_counts() -> None:
    random = np.random.default_rng(0)
    pairs = [
        tuple(random.integers(0, VOCAB_SIZE, random.integers(low, 9)).tolist() for low in (1, 0)) for _ in range(50)
    ]
    expected = np.zeros((50, 7, VOCAB_SIZE))
    for row, pair in zip(expected, pairs, strict=True):
        for segment, tokens in enumerate(pair):
            for place, token in enumerate(tokens):
                row[0, token] += (1, -1)[segment]
                if place < 3:
                    row[1 + 3 * segment + place, token] = 1
    counted = count_pieces(make_batch(pairs, [0] * 50), VOCAB_SIZE).toarray()  # type: ignore[arg-type]
    assert np.array_equal(counted, expected.reshape(50, -1))


def test_sequences_without_a_label_are_left_out_and_the_rest_keep_their_order() -> None:
    train, held_out = make_batches(30, 0), make_batches(4, 1)
    expected = shallow_baseline(train, held_out, VOCAB_SIZE)
    alone = make_batch([([9, 10], []), ([OPENER, 9], [])], [NO_LABEL, NO_LABEL])
    some = [held_out[0], alone, *held_out[1:]]
    assert np.array_equal(shallow_baseline([*train, alone], some, VOCAB_SIZE), expected)


def test_the_batches_of_a_loader_are_understood(corpus: Corpus) -> None:
    """In a made corpus later sentences have larger ids, but each document has its own: nothing carries over."""
    loader = Loader([corpus], PairConfig(length=32), MaskingConfig(), num_sequences=16)
    batches = list(loader.one_epoch())
    labels = labels_of(batches)
    predicted = shallow_baseline(batches, batches, corpus.vocabulary.size)
    assert len(predicted) == np.sum(labels != NO_LABEL) < len(labels)
    assert set(predicted) == {0, 1}
    assert np.mean(predicted == labels[labels != NO_LABEL]) > 0.6, "it knows what it was fitted to"


def test_the_majority_is_the_share_of_the_most_frequent_label() -> None:
    assert majority_share([0, 1, 1, NO_LABEL, NO_LABEL, NO_LABEL, 2]) == 0.5
    assert majority_share(torch.tensor([1, 1, 1])) == 1.0
    assert np.isnan(majority_share([NO_LABEL]))


def test_what_cannot_be_learned_from_is_refused() -> None:
    batches = make_batches(2, 0)
    with pytest.raises(UserError, match="no pair labels"):
        shallow_baseline([replace(batches[0], pair_labels_B=None)], batches, VOCAB_SIZE)
    with pytest.raises(UserError, match="there are no batches"):
        shallow_baseline([], batches, VOCAB_SIZE)
    with pytest.raises(UserError, match="the 1 labelled pairs .* no two different labels"):
        shallow_baseline([make_batch([([9], [10])], [0])], batches, VOCAB_SIZE)
