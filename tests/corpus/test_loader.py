import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch

from litebert.batch import Batch
from litebert.config import UserError
from litebert.corpus.loader import Loader, Mixture, State
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig
from litebert.corpus.shards import Corpus
from tests.corpus.made import origin, random_shape

PAIRS = PairConfig(length=48)
MASKING = MaskingConfig()


def load(corpora: list[Corpus], num_sequences: int = 16, **options: object) -> Loader:
    return Loader(corpora, PAIRS, MASKING, num_sequences=num_sequences, **options)  # type: ignore[arg-type]


def take(loader: Loader, number: int) -> list[Batch]:
    return list(itertools.islice(loader, number))


def rows(batches: list[Batch]) -> list[tuple[object, ...]]:
    """Everything about each sequence, whatever batch it came in."""
    found = []
    for batch in batches:
        assert batch.predicted_positions_P is not None and batch.predicted_ids_P is not None
        assert batch.pair_labels_B is not None
        for number, (start, length) in enumerate(zip(batch.starts, batch.lengths, strict=True)):
            inside = (batch.predicted_positions_P >= start) & (batch.predicted_positions_P < start + length)
            found.append(
                (
                    tuple(batch.token_ids_T[start : start + length].tolist()),
                    tuple(batch.segment_ids_T[start : start + length].tolist()),
                    tuple((batch.predicted_positions_P[inside] - start).tolist()),
                    tuple(batch.predicted_ids_P[inside].tolist()),
                    int(batch.pair_labels_B[number]),
                )
            )
    return found


def original(row: tuple[object, ...]) -> list[int]:
    """A row's tokens before any was hidden."""
    tokens, _, positions, ids, _ = row
    restored = list(tokens)  # type: ignore[call-overload]
    for position, token in zip(positions, ids, strict=True):  # type: ignore[call-overload]
        restored[position] = token
    return restored


@pytest.mark.parametrize("num_threads", [0, 1, 4])
def test_the_stream_is_the_same_for_any_number_of_threads(corpus: Corpus, num_threads: int) -> None:
    expected = rows([load([corpus]).make_batch(16 * n) for n in range(12)])
    assert rows(take(load([corpus], num_threads=num_threads), 12)) == expected


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_the_stream_is_the_same_for_any_number_of_ranks(corpus: Corpus, num_ranks: int) -> None:
    ranks = [rows(take(load([corpus], rank=rank, num_ranks=num_ranks), 6)) for rank in range(num_ranks)]
    share = 16 // num_ranks
    together = [row for n in range(6) for rank in ranks for row in rank[n * share : (n + 1) * share]]
    assert together == rows(take(load([corpus]), 6))


def test_batches_of_another_size_have_the_same_sequences(corpus: Corpus) -> None:
    assert rows(take(load([corpus], 4), 12)) == rows(take(load([corpus], 16), 3))


def test_every_window_comes_once_in_an_epoch_and_in_another_order_in_the_next(corpus: Corpus) -> None:
    loader = Loader([corpus], PairConfig(length=48, short_share=0), MASKING, num_sequences=1)
    size = loader.epoch_size
    epochs = [rows([loader.make_sequences(np.arange(e * size, (e + 1) * size))]) for e in (0, 1)]
    windows = [[frozenset(map(origin, (t for t in original(row) if t > 4))) for row in epoch] for epoch in epochs]
    assert Counter(windows[0]) == Counter(windows[1])
    assert windows[0] != windows[1]
    assert rows(list(loader.one_epoch())) == epochs[0]
    documents, places = [min(window)[0] for window in windows[0]], np.arange(size)
    assert abs(np.corrcoef(documents, places)[0, 1]) < 5 / np.sqrt(size), "neighbours are mixed"


def test_three_numbers_resume_the_stream_anywhere(corpus: Corpus) -> None:
    loader = load([corpus], state=State(seed=3))
    expected = rows(take(loader, 200))
    assert loader.epoch_size < 200 * 16, "the stream passes into a new epoch"
    for number in (0, 1, 77, 160):
        first = load([corpus], state=State(seed=3))
        take(first, number)
        state = State(*map(int, first.state))
        assert 0 <= state.position < loader.epoch_size
        assert rows(take(load([corpus], state=state, num_threads=2), 200 - number)) == expected[16 * number :]


def test_another_seed_gives_another_stream(corpus: Corpus) -> None:
    one, two = (rows(take(load([corpus], state=State(seed=seed)), 3)) for seed in (0, 1))
    assert not set(one) & set(two)


def test_tokens_segments_and_predictions_belong_together(corpus: Corpus) -> None:
    special = corpus.vocabulary.special
    for row in rows(take(load([corpus]), 60)):
        tokens, segments, positions, _, label = row
        restored = original(row)
        ends = [place for place, token in enumerate(restored) if token == special.sep]
        assert restored[0] == special.cls and ends[-1] == len(restored) - 1
        assert restored.count(special.cls) == 1 and len(ends) == (1 if label == -100 else 2)
        assert list(segments) == [0] * (ends[0] + 1) + [1] * (len(restored) - ends[0] - 1)  # type: ignore[call-overload]
        assert not {0, *ends} & set(positions), "marks are never predicted"  # type: ignore[call-overload]
        assert all(token > 4 for place, token in enumerate(restored) if place not in (0, *ends))
        hidden = set(positions)  # type: ignore[call-overload]
        starts = [place for place, token in enumerate(restored) if (token - 5) % 3 != 1 or place - 1 in (0, *ends)]
        for begin, end in itertools.pairwise([*starts, len(restored)]):
            word = {place for place in range(begin, end) if place not in ends}
            assert word <= hidden or not word & hidden, "words stay whole"
        assert len(tokens) <= 48  # type: ignore[arg-type]


def test_a_loader_of_two_threads_hands_out_tensors_that_are_its_own(corpus: Corpus) -> None:
    batches = take(load([corpus], num_threads=2), 3)
    before = [batch.token_ids_T.clone() for batch in batches]
    batches[0].token_ids_T.zero_()
    assert torch.equal(batches[1].token_ids_T, before[1])
    assert rows(take(load([corpus]), 1)) != rows(batches[:1]), "and the corpus on disk is untouched"


def test_marks_are_never_hidden_whatever_their_ids(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """In RoBERTa's vocabularies [CLS] has the id 0, and in others any piece may."""
    monkeypatch.setattr(corpus.vocabulary, "special", corpus.vocabulary.special._replace(cls=0, pad=2))
    for batch in take(load([corpus]), 30):
        assert not set(batch.starts) & set(batch.predicted_positions_P.tolist())  # type: ignore[union-attr]
        assert batch.token_ids_T[batch.starts].tolist() == [0] * 16


def test_corpora_are_mixed_by_weight(make_corpus: Callable[..., Corpus]) -> None:
    one, two = make_corpus(random_shape(60, seed=1)), make_corpus(random_shape(60, seed=2))
    loader = load([one, two], weights=[0.7, 0.3], num_sequences=100)
    sources, places = loader.mixture.deal(np.arange(5000))
    assert np.bincount(sources).tolist() == [3500, 1500]
    assert all(abs(np.bincount(sources[n : n + 500], minlength=2)[0] - 350) < 60 for n in range(0, 5000, 500))
    for source in (0, 1):
        assert sorted(places[sources == source].tolist()) == list(range(np.sum(sources == source)))
    alone = Counter(rows([load([one]).make_sequences(np.arange(len(loader.pairs[0])))]))
    first = len(loader.pairs[0])
    positions = np.flatnonzero((sources == 0) & (places < first))
    assert sum((alone - Counter(rows([loader.make_sequences(positions)]))).values()) == 0, (
        "each window once, as if alone"
    )


def test_the_stream_of_a_mixture_resumes_and_splits_as_that_of_one(make_corpus: Callable[..., Corpus]) -> None:
    corpora = [make_corpus(random_shape(40, seed=seed)) for seed in (1, 2, 3)]
    weights = [1.0, 2.0, 0.5]
    expected = rows(take(load(corpora, weights=weights), 30))
    resumed = load(corpora, weights=weights)
    take(resumed, 11)
    assert rows(take(load(corpora, weights=weights, state=resumed.state), 19)) == expected[11 * 16 :]
    ranks = [rows(take(load(corpora, weights=weights, rank=rank, num_ranks=2), 4)) for rank in (0, 1)]
    assert [row for n in range(4) for rank in ranks for row in rank[n * 8 : n * 8 + 8]] == expected[:64]


def test_what_cannot_be_loaded_is_refused(corpus: Corpus, make_corpus: Callable[..., Corpus]) -> None:
    with pytest.raises(UserError, match="there is no corpus"):
        load([])
    with pytest.raises(UserError, match="a batch has 16 sequences and there are 3 ranks; make it a multiple of that"):
        load([corpus], num_ranks=3)
    with pytest.raises(UserError, match="the rank is 2 of 2; it must be from 0 to 1"):
        load([corpus], rank=2, num_ranks=2)
    with pytest.raises(UserError, match="the state is .*; its numbers are from 0 on, and the seed is below"):
        load([corpus], state=State(seed=1 << 64))
    with pytest.raises(UserError, match="the number of threads is -1"):
        load([corpus], num_threads=-1)
    with pytest.raises(UserError, match="different vocabularies; corpora of one mixture need the same"):
        load([corpus, make_corpus([[3, 4]])])
    with pytest.raises(UserError, match="a corpus has the weight -1"):
        Mixture([1, -1], 0)
    with pytest.raises(UserError, match="less than 1/1000 of the weight"):
        Mixture([1, 1e-9], 0)
    with pytest.raises(UserError, match="2 corpora and 1 weights"):
        load([corpus, corpus], weights=[1.0])


def shown_documents(batch: Batch) -> list[set[int]]:
    """The documents that each sequence's tokens say they come from."""
    return [{origin(token)[0] for token in original(row) if token > 4} for row in rows([batch])]


@pytest.mark.parametrize("windows", ["document", "paragraph"])
@pytest.mark.parametrize("fidelity", ["paper", "google"])
def test_a_position_is_in_the_document_that_its_tokens_come_from(corpus: Corpus, windows: str, fidelity: str) -> None:
    pairs = PairConfig(length=48, windows=windows, fidelity=fidelity)  # type: ignore[arg-type]
    loader = Loader([corpus], pairs, MASKING, num_sequences=16)
    positions = np.arange(loader.epoch_size + 300)
    shown = shown_documents(loader.make_sequences(positions))
    documents = loader.documents(positions).tolist()
    assert set(documents) == set(range(400)), "the documents of all shards"
    assert all(document in own for document, own in zip(documents, shown, strict=True))
    assert fidelity == "google" or all(len(own) == 1 for own in shown)


def test_a_sequence_with_a_random_partner_is_in_the_document_of_its_first_segment(corpus: Corpus) -> None:
    loader = Loader([corpus], PairConfig(length=48, objective="nsp"), MASKING, num_sequences=1)
    positions = np.arange(500)
    firsts = [origin(original(row)[1])[0] for row in rows([loader.make_sequences(positions)])]
    assert loader.documents(positions).tolist() == firsts


def test_documents_of_different_corpora_have_different_numbers(make_corpus: Callable[..., Corpus]) -> None:
    corpora = [make_corpus(random_shape(60, seed=seed), num_shards=2) for seed in (1, 2)]
    loader = load(corpora, weights=[0.7, 0.3])
    positions = np.random.default_rng(0).permutation(5000)[:3000]
    sources, _ = loader.mixture.deal(positions)
    shown = [min(own) for own in shown_documents(loader.make_sequences(positions))]
    assert loader.documents(positions).tolist() == (60 * sources + shown).tolist()
