"""Endless batches, whose content is a pure function of a seed and a position in the stream.

The stream is the windows of a corpus in a new order each epoch, each window once; or those of several corpora, mixed by
weight. A batch is the next so many sequences of it. Nothing depends on how many processes share the work or how many
threads prepare it, so a run can stop, change their number and go on with the same samples. Where it is, is three
numbers: seed, epoch, position.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch

from litebert.batch import Batch
from litebert.config import UserError, require
from litebert.corpus.draws import Floats, Integers, Keys, make_keys, shuffle
from litebert.corpus.index import Split
from litebert.corpus.masking import MaskingConfig, Text, hide
from litebert.corpus.pairs import PairConfig, Pairs, Segments
from litebert.corpus.shards import Corpus, open_corpus

# A mixture is dealt in rounds of this many sequences, in each of which every corpus has its exact share.
ROUND_SIZE = 1000
GROUP_TOKENS = 1 << 15


class State(NamedTuple):
    """Where a stream is: what has been seen is `position` sequences of an epoch, and all epochs before it."""

    seed: int = 0
    epoch: int = 0
    position: int = 0


BEGINNING = State()


def open_mixture(parts: Sequence[str], split: Split = "train") -> tuple[list[Corpus], list[float]]:
    """The corpora and weights of a mixture that is written as `wiki=0.7 books=0.3`."""
    corpora, weights = [], []
    for part in parts:
        path, _, weight = part.rpartition("=")
        try:
            weights.append(float(weight))
        except ValueError:
            raise UserError(f"{part!r} names no corpus and weight; write it as my-corpus=0.7") from None
        require(
            path and 0 < weights[-1] < math.inf,
            f"{part!r} needs a corpus and a weight above 0; write it as my-corpus=0.7",
        )
        corpora.append(open_corpus(path, split))
    check_corpora(corpora, weights)
    Mixture(weights, seed=0)  # refuses weights that cannot be dealt out
    return corpora, weights


def check_corpora(corpora: Sequence[Corpus], weights: Sequence[float]) -> None:
    """Refuses corpora that cannot be mixed."""
    require(corpora, "there is no corpus to make batches of; name one")
    first = corpora[0]
    for corpus in corpora[1:]:
        require(
            corpus.vocabulary.fingerprint == first.vocabulary.fingerprint,
            f"{first.path} and {corpus.path} have different vocabularies; corpora of one mixture need the same",
        )
    require(
        len(weights) == len(corpora),
        f"there are {len(corpora)} corpora and {len(weights)} weights; give each corpus one",
    )


class Mixture:
    """Which corpus each position of the stream takes its sequence from, and how many it took before."""

    def __init__(self, weights: Sequence[float], seed: int) -> None:
        require(
            min(weights) > 0, f"a corpus has the weight {min(weights):g}; leave it out, or give it a weight above 0"
        )
        require(math.isfinite(sum(weights)), "the weights of the corpora are too large to add up; give smaller ones")
        exact = np.array(weights) / sum(weights) * ROUND_SIZE
        self.counts = np.floor(exact).astype(np.int64)
        self.counts[np.argsort(self.counts - exact, kind="stable")[: ROUND_SIZE - self.counts.sum()]] += 1
        require(self.counts.min() > 0, f"a corpus has less than 1/{ROUND_SIZE} of the weight; give it more")
        self.seed = seed

    def deal(self, positions_B: Integers) -> tuple[Integers, Integers]:
        """The corpus of each position, and the place in that corpus's own stream."""
        if len(self.counts) == 1:
            return np.zeros_like(positions_B), positions_B
        sources_B, places_B = np.empty_like(positions_B), np.empty_like(positions_B)
        rounds_B, slots_B = np.divmod(positions_B, ROUND_SIZE)
        ends = np.cumsum(self.counts)
        for number in np.unique(rounds_B).tolist():
            cards = shuffle(slots_B[rounds_B == number], ROUND_SIZE, make_keys(self.seed, number))
            sources = np.searchsorted(ends, cards, side="right")
            sources_B[rounds_B == number] = sources
            places_B[rounds_B == number] = cards - (ends - self.counts)[sources] + number * self.counts[sources]
        return sources_B, places_B


class Loader:
    """Batches of one corpus, or of several by weight."""

    def __init__(
        self,
        corpora: Sequence[Corpus],
        pairs: PairConfig,
        masking: MaskingConfig,
        *,
        num_sequences: int,
        weights: Sequence[float] = (1.0,),
        state: State = BEGINNING,
        rank: int = 0,
        num_ranks: int = 1,
        num_threads: int = 1,
        token_weights: Floats | None = None,
    ) -> None:
        """`num_sequences` are those of all ranks together; each rank gets its equal share of every batch.

        `num_threads` prepare batches ahead of time; with 0, a batch is made when it is asked for. `token_weights` say
        how readily each token is hidden; they may change between batches, so none is made ahead of time.
        """
        check_corpora(corpora, weights)
        require(0 <= rank < num_ranks, f"the rank is {rank} of {num_ranks}; it must be from 0 to {num_ranks - 1}")
        require(
            0 <= state.seed < 1 << 63 and min(state) >= 0,
            f"the state is {tuple(state)}; its numbers are from 0 on, and the seed is below 2^63",
        )
        require(num_threads >= 0, f"the number of threads is {num_threads}; it must be at least 0")
        require(
            num_sequences > 0 and num_sequences % num_ranks == 0,
            f"a batch has {num_sequences} sequences and there are {num_ranks} ranks; make it a multiple of that",
        )
        self.pairs = [Pairs(corpus, pairs, state.seed) for corpus in corpora]
        self.shards = [shard for corpus in corpora for shard in corpus.shards]
        (self.token_type,) = {shard.tokens.dtype for shard in self.shards}  # the vocabulary's size decides it
        self.first_shards = np.cumsum([0, *(len(corpus.shards) for corpus in corpora)])
        self.first_documents = np.cumsum([0, *(corpus.num_documents for corpus in corpora)])
        self.mixture = Mixture(weights, state.seed)
        self.masking = masking
        self.vocabulary = corpora[0].vocabulary
        self.replacements = np.flatnonzero(~self.vocabulary.is_special)
        self.seed = state.seed
        self.share = slice(rank * num_sequences // num_ranks, (rank + 1) * num_sequences // num_ranks)
        self.num_sequences = num_sequences
        self.num_threads = num_threads if token_weights is None else 0
        self.token_weights = token_weights
        self.position = state.epoch * self.epoch_size + state.position

    @property
    def epoch_size(self) -> int:
        """The sequences of an epoch: all windows of all corpora."""
        return sum(map(len, self.pairs))

    @property
    def state(self) -> State:
        """Where to go on: behind the last batch that was handed out."""
        return State(self.seed, *divmod(self.position, self.epoch_size))

    def __iter__(self) -> Iterator[Batch]:
        with ThreadPoolExecutor(max(1, self.num_threads)) as threads:
            ahead: deque[Future[list[Batch]]] = deque()
            while True:
                while len(ahead) < 2 * self.num_threads:
                    position = self.position + len(ahead) * self.group_size * self.num_sequences
                    ahead.append(threads.submit(self.make_batches, position, self.group_size))
                batches = ahead.popleft().result() if ahead else self.make_batches(self.position, self.group_size)
                for batch in batches:
                    self.position += self.num_sequences
                    yield batch

    @property
    def group_size(self) -> int:
        """How many batches are made at once: enough tokens that operations on arrays pay, few enough for the cache."""
        if self.token_weights is not None:
            return 1
        longest = self.pairs[0].config.length * (self.share.stop - self.share.start)
        return max(1, GROUP_TOKENS // longest)

    def make_batch(self, position: int) -> Batch:
        """This rank's share of the batch that begins at a position of the stream."""
        return self.make_batches(position, 1)[0]

    def make_batches(self, position: int, number: int) -> list[Batch]:
        """This rank's share of the next so many batches."""
        positions = position + np.arange(number * self.num_sequences).reshape(number, self.num_sequences)
        share = positions[:, self.share]
        return self.make_sequences(share.ravel()).split(share.shape[1])

    def one_epoch(self, num_sequences: int | None = None) -> Iterator[Batch]:
        """The first epoch, or only so many sequences of it: what a model is evaluated on. Of one corpus each window
        comes once; of a mixture, as many sequences as there are windows, by weight."""
        end = min(num_sequences or self.epoch_size, self.epoch_size)
        step = self.group_size * self.num_sequences
        for start in range(0, end, step):
            yield from self.make_sequences(np.arange(start, min(start + step, end))).split(self.num_sequences)

    def make_sequences(self, positions_B: Integers) -> Batch:
        """The sequences at these positions of the stream."""
        segments, keys_B = self.draw_segments(positions_B)
        text, segment_ids_T = self.read_text(segments)
        rates_B = self.masking.rates(positions_B)
        mask = self.vocabulary.special.mask
        shown_T, predicted_P = hide(text, keys_B, rates_B, self.masking, mask, self.replacements, self.token_weights)
        return Batch(
            lengths=tuple(text.lengths_B.tolist()),
            token_ids_T=torch.from_numpy(shown_T),
            segment_ids_T=torch.from_numpy(segment_ids_T),
            predicted_positions_P=torch.from_numpy(predicted_P),
            predicted_ids_P=torch.from_numpy(text.token_ids_T[predicted_P]),
            pair_labels_B=torch.from_numpy(segments.labels_B) if self.pairs[0].config.has_pairs else None,
        )

    def draw_segments(self, positions_B: Integers) -> tuple[Segments, Keys]:
        """Where the tokens of each position's sequence lie, in the shards of all corpora, and its key."""
        shards_2B, begins_2B, lengths_2B = np.empty((3, 2, len(positions_B)), np.int64)
        labels_B, kinds_B = np.empty((2, len(positions_B)), np.int64)
        drawn = Segments(shards_2B, begins_2B, lengths_2B, labels_B, kinds_B)
        keys_B = np.empty(len(positions_B), np.uint64)
        for source, chosen, epochs, windows in self.find_windows(positions_B):
            keys_B[chosen] = make_keys(self.seed, source, epochs, windows)
            segments = self.pairs[source].segments(windows, keys_B[chosen])
            for array, part in zip(drawn, segments, strict=True):
                array[..., chosen] = part
            drawn.shards_2B[:, chosen] += self.first_shards[source]
        return drawn, keys_B

    def find_windows(self, positions_B: Integers) -> Iterator[tuple[int, Integers, Integers, Integers]]:
        """For each corpus, which of these positions take a window of it, in which of its epochs, and which window."""
        sources_B, places_B = self.mixture.deal(positions_B)
        for source, pairs in enumerate(self.pairs):
            chosen = np.flatnonzero(sources_B == source)
            epochs, places = np.divmod(places_B[chosen], len(pairs))
            windows = np.empty_like(places)
            for epoch in np.unique(epochs).tolist():
                key = make_keys(self.seed, source, epoch)
                windows[epochs == epoch] = shuffle(places[epochs == epoch], len(pairs), key)
            yield source, chosen, epochs, windows

    def documents(self, positions_B: Integers) -> Integers:
        """The document that each position's window lies in, by a number that no other document of any corpus has.

        A random second segment comes from another one, which is not told.
        """
        documents_B = np.empty_like(positions_B)
        for source, chosen, _, windows in self.find_windows(positions_B):
            documents_B[chosen] = self.first_documents[source] + self.pairs[source].documents(windows)
        return documents_B

    def read_text(self, segments: Segments) -> tuple[Text, Integers]:
        """[CLS] first [SEP] second [SEP] of all sequences end to end, and the segment of each token."""
        lengths_2B, special = segments.lengths_2B, self.vocabulary.special
        parts_B2 = np.stack([lengths_2B[0] + 2, lengths_2B[1] + (lengths_2B[1] > 0)], axis=1)
        ends_B2 = np.cumsum(parts_B2).reshape(parts_B2.shape)
        firsts_B = ends_B2[:, 0] - parts_B2[:, 0]
        tokens_T = np.empty(int(ends_B2[-1, -1]), np.int64)
        is_mark_T = np.zeros(len(tokens_T), bool)
        for places, mark in ((ends_B2 - 1, special.sep), (firsts_B, special.cls)):
            tokens_T[places], is_mark_T[places] = mark, True
        # In the order of the sequences, the first segment of each before the second.
        shards, begins, ends = (
            array_2B.T.ravel().tolist()
            for array_2B in (segments.shards_2B, segments.begins_2B, segments.begins_2B + lengths_2B)
        )
        runs = [(self.shards[shard], begin, end) for shard, begin, end in zip(shards, begins, ends, strict=True)]
        read = b"".join([shard.read_tokens(begin, end) for shard, begin, end in runs])
        tokens_T[~is_mark_T] = np.frombuffer(read, self.token_type)
        starts_word_T = self.vocabulary.starts_word[tokens_T]
        places = np.stack([firsts_B + 1, ends_B2[:, 0]], axis=1).ravel().tolist()
        for (shard, begin, end), place in zip(runs, places, strict=True):
            if shard.entry.has_word_starts:
                starts_word_T[place : place + end - begin] = shard.word_starts(begin, end)
        segment_ids_T = np.repeat(np.tile([0, 1], len(parts_B2)), parts_B2.ravel())
        is_unknown_T = tokens_T == special.unknown
        return Text(tokens_T, parts_B2.sum(axis=1), starts_word_T, is_mark_T, is_unknown_T), segment_ids_T
