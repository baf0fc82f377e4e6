"""What every model of a study is asked, in the same words whatever it was trained on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from litebert.corpus.loader import open_mixture
from litebert.corpus.pairs import PairConfig
from litebert.corpus.shards import Corpus
from litebert.models.folder import read_model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.held_out import HeldOut
from litebert.pretraining.preparation import open_held_out
from litebert.studies.layers import Layers, measure_layers
from litebert.training.evaluation import measure

LAYER_SEQUENCES = 256
"""That layers are measured on."""
COUNTED_SHARDS = 4
"""That token frequencies are counted in."""


class Questions:
    """About the same documents, and with the same masks."""

    def __init__(self, base: PretrainConfig) -> None:
        self.base = base
        self.corpora, self.weights = open_mixture(base.corpora)
        self.opened: dict[str, HeldOut | None] = {}

    def open(self, objective: str) -> HeldOut | None:
        if objective not in self.opened:
            pairs = replace(self.base.pairs, objective=objective)  # type: ignore[arg-type]
            self.opened[objective] = open_held_out(replace(self.base, pairs=pairs), self.corpora, self.weights)
        return self.opened[objective]

    def measure(self, folder: Path, pairs: PairConfig) -> dict[str, float]:
        """Masked tokens are asked about in the pairs of the common settings, also of a model that learned on others;
        but not of one that learned on none, and has never seen a second segment."""
        held_out, common = self.open(pairs.objective), self.open(self.base.pairs.objective)
        if held_out is None or common is None:
            return {}
        model = read_model(folder)
        values = held_out.measure(model)
        if held_out is not common and pairs.has_pairs:
            measured = measure(model, common.own.batches())
            values["masked_token_loss"] = measured.masked_token_loss
            values["masked_token_accuracy"] = measured.masked_token_accuracy
        return values

    def measure_frequencies(self) -> dict[str, float]:
        """What one who knows only how frequent tokens are has of the held-out text: the loss, and the accuracy of the
        most frequent token as the answer to everything. A part of a large corpus tells as much."""
        held_out, _ = open_mixture(self.base.corpora, "dev")
        learned_V = count_shares(self.corpora, self.weights, unseen=1.0)
        asked_V = count_shares(held_out, self.weights, unseen=0.0)
        loss = -float(asked_V @ np.log(learned_V))
        return {"masked_token_loss": loss, "masked_token_accuracy": float(asked_V[learned_V.argmax()])}

    def measure_layers(self, folder: Path) -> Layers | None:
        common = self.open(self.base.pairs.objective)
        if common is None:
            return None
        return measure_layers(read_model(folder), common.own.loader.one_epoch(LAYER_SEQUENCES))


def count_shares(corpora: Sequence[Corpus], weights: Sequence[float], *, unseen: float) -> NDArray[np.float64]:
    """The share of each piece among the tokens of a mixture; each is counted as `unseen` more often than it occurs."""
    shares_V = np.zeros(corpora[0].vocabulary.size)
    for corpus, weight in zip(corpora, weights, strict=True):
        counts_V = np.full(len(shares_V), unseen)
        for shard in corpus.shards[:COUNTED_SHARDS]:
            counts_V += np.bincount(shard.tokens, minlength=len(counts_V))
        shares_V += weight * counts_V / counts_V.sum()
    return shares_V / shares_V.sum()
