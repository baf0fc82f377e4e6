"""What the sequences of a run are like, before any is trained on: how long, how much is predicted, how much work."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from litebert.batch import Batch
from litebert.corpus.draws import make_keys
from litebert.corpus.loader import Loader, State
from litebert.corpus.pairs import NUM_MARKS, draw_lengths
from litebert.corpus.shards import Corpus
from litebert.models.encoder import EncoderConfig
from litebert.pretraining.config import PretrainConfig, Stage
from litebert.training.costs import Work, count_flops, count_recomputed

SAMPLE = 2048
"""How many sequences tell the lengths of all."""


class Source:
    """What the sequences of a stage are like: the corpus's own, or without one such as PairConfig draws them."""

    def __init__(
        self, config: PretrainConfig, stage: Stage, corpora: list[Corpus], weights: list[float], size: int = SAMPLE
    ) -> None:
        self.config, self.stage, self.corpora, self.weights = config, stage, corpora, weights
        self.pairs = replace(config.pairs, length=stage.length)
        masking = config.masking
        rate = (masking.rate + (masking.rate if masking.final_rate is None else masking.final_rate)) / 2
        # The schedule of the rate is a straight line: its mean costs the same.
        self.masking = replace(masking, rate=rate, final_rate=None, rate_sequences=0, hardness=0.0)
        if corpora:
            batch = self.open(size, num_threads=0).make_sequences(np.arange(size))
            assert batch.predicted_ids_P is not None
            self.lengths, self.predicted = batch.lengths, len(batch.predicted_ids_P) / size
            return
        marks = NUM_MARKS if self.pairs.has_pairs else NUM_MARKS - 1
        drawn = draw_lengths(self.pairs, make_keys(config.seed, np.arange(size))) + marks
        self.lengths = tuple(int(length) for length in drawn)
        most = masking.max_predictions or self.pairs.length
        self.predicted = sum(min(most, rate * length) for length in self.lengths) / size

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

    def work(self, num_sequences: int, num_layers: int | None = None) -> Work:
        """So many sequences, with the lengths of the sample."""
        lengths = tuple(itertools.islice(itertools.cycle(self.lengths), num_sequences))
        predicted = round(self.predicted * num_sequences)
        return Work(lengths=lengths, num_predicted=predicted, num_layers=num_layers or self.stage.num_layers)

    def batches(self, vocab_size: int, num_sequences: int) -> Iterator[Batch]:
        """Batches to be timed: the corpus's, made as for a run, or random tokens."""
        if self.corpora:
            yield from self.open(num_sequences)
        order = itertools.cycle(self.lengths)
        while True:
            lengths = tuple(itertools.islice(order, num_sequences))
            size = sum(lengths)
            token_ids_T = torch.randint(vocab_size, (size,))
            predicted_P = torch.randperm(size)[: max(1, round(self.predicted * num_sequences))].sort().values
            yield Batch(
                lengths=lengths,
                token_ids_T=token_ids_T,
                segment_ids_T=torch.zeros_like(token_ids_T),
                predicted_positions_P=predicted_P,
                predicted_ids_P=token_ids_T[predicted_P],
                pair_labels_B=torch.zeros(num_sequences, dtype=torch.long) if self.pairs.has_pairs else None,
            )


def count_operations(encoder: EncoderConfig, work: Work, config: PretrainConfig) -> tuple[int, int]:
    """The useful operations, and all, with those that checkpointing repeats."""
    useful = count_flops(encoder, work.lengths, work.num_predicted, work.num_layers)
    return useful, useful + count_recomputed(encoder, work, config.checkpointing)
