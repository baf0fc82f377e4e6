"""What the sequences of a run are like, before any is trained on: how long, how much is predicted, how much work."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import torch

from litebert.batch import Batch
from litebert.corpus.draws import make_keys
from litebert.corpus.loader import Loader, State
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import NUM_MARKS, draw_lengths
from litebert.corpus.shards import Corpus
from litebert.models.encoder import EncoderConfig
from litebert.pretraining.config import PretrainConfig
from litebert.training.costs import Work, count_flops, count_recomputed

SAMPLE = 2048
"""How many sequences tell the lengths of all."""


class Sequences(NamedTuple):
    """What sequences are like, told by a sample."""

    lengths: tuple[int, ...]
    mean_predicted: float
    """Predicted tokens of a sequence."""

    def work(self, num_sequences: int, num_layers: int) -> Work:
        """So many sequences, with the lengths of the sample."""
        lengths = tuple(itertools.islice(itertools.cycle(self.lengths), num_sequences))
        predicted = round(self.mean_predicted * num_sequences)
        return Work(lengths=lengths, num_predicted=predicted, num_layers=num_layers)


class Source(Protocol):
    """Where the sequences of one length come from."""

    sequences: Sequences

    @property
    def epoch_size(self) -> int | None: ...

    def batches(self, num_sequences: int) -> Iterator[Batch]:
        """Batches to be timed."""


class CorpusSource:
    """The sequences of a corpus, made as for a run."""

    def __init__(
        self, config: PretrainConfig, length: int, corpora: Sequence[Corpus], weights: Sequence[float]
    ) -> None:
        self.config, self.corpora, self.weights = config, corpora, weights
        self.pairs, self.masking = replace(config.pairs, length=length), average_masking(config.masking)
        batch = self.open(SAMPLE, num_threads=0).make_sequences(np.arange(SAMPLE))
        assert batch.predicted_ids_P is not None
        self.sequences = Sequences(batch.lengths, len(batch.predicted_ids_P) / SAMPLE)

    @property
    def epoch_size(self) -> int:
        return self.open(1).epoch_size

    def open(self, num_sequences: int, num_threads: int = 1) -> Loader:
        return Loader(
            self.corpora,
            self.pairs,
            self.masking,
            num_sequences=num_sequences,
            weights=self.weights,
            state=State(seed=self.config.seed),
            num_threads=num_threads,
        )

    def batches(self, num_sequences: int) -> Iterator[Batch]:
        yield from self.open(num_sequences)


class RandomSource:
    """Random tokens, in sequences as long as `PairConfig` draws them."""

    epoch_size = None

    def __init__(self, config: PretrainConfig, length: int, vocab_size: int) -> None:
        self.vocab_size, self.has_pairs = vocab_size, config.pairs.has_pairs
        marks = NUM_MARKS if self.has_pairs else NUM_MARKS - 1
        drawn = draw_lengths(replace(config.pairs, length=length), make_keys(config.seed, np.arange(SAMPLE))) + marks
        lengths = tuple(int(number) for number in drawn)
        masking = average_masking(config.masking)
        most = masking.max_predictions or length
        self.sequences = Sequences(lengths, sum(min(most, masking.rate * number) for number in lengths) / SAMPLE)

    def batches(self, num_sequences: int) -> Iterator[Batch]:
        order = itertools.cycle(self.sequences.lengths)
        num_predicted = max(1, round(self.sequences.mean_predicted * num_sequences))
        while True:
            lengths = tuple(itertools.islice(order, num_sequences))
            token_ids_T = torch.randint(self.vocab_size, (sum(lengths),))
            predicted_P = torch.randperm(len(token_ids_T))[:num_predicted].sort().values
            yield Batch(
                lengths=lengths,
                token_ids_T=token_ids_T,
                segment_ids_T=torch.zeros_like(token_ids_T),
                predicted_positions_P=predicted_P,
                predicted_ids_P=token_ids_T[predicted_P],
                pair_labels_B=torch.zeros(num_sequences, dtype=torch.long) if self.has_pairs else None,
            )


def average_masking(masking: MaskingConfig) -> MaskingConfig:
    """The schedule of the rate is a straight line: its mean costs the same."""
    return masking.at_rate((masking.rate + masking.last_rate) / 2)


def count_operations(encoder: EncoderConfig, work: Work, config: PretrainConfig) -> tuple[int, int]:
    """The useful operations, and all, with those that checkpointing repeats."""
    useful = count_flops(encoder, work.lengths, work.num_predicted, work.num_layers)
    return useful, useful + count_recomputed(encoder, work, config.checkpointing)
