"""What a model under way makes of documents that it does not learn from (ALBERT's Table 5).

Beside the masked tokens it is asked two questions of segment pairs, whether they are swapped and whether the second is
random, also if it was trained on the other, or on neither: then a linear probe reads the answer off its frozen pooled
output. Each accuracy stands beside that of a shallow baseline, without which it says little.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.baseline import majority_share, shallow_baseline
from litebert.corpus.loader import Loader
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig
from litebert.corpus.shards import Corpus
from litebert.models.model import Model
from litebert.training.evaluation import PairQuestion, measure, restrict_logits
from litebert.training.intervals import interval_by_document
from litebert.training.probe import fit_probe

BATCH_SIZE = 32
PROBED_FOR_EACH = 2
"""How many sequences a probe learns from for each one that it is asked of."""
BASELINE_SEQUENCES = 20_000


class SplitSample(NamedTuple):
    """A number of sequences of a split, always the same."""

    loader: Loader
    num_sequences: int

    def batches(self) -> Iterator[Batch]:
        return self.loader.one_epoch(self.num_sequences)

    @property
    def labels(self) -> np.ndarray:
        labels = [batch.pair_labels_B for batch in self.batches()]
        return np.concatenate([part.numpy() for part in labels if part is not None])

    @property
    def documents(self) -> np.ndarray:
        return self.loader.documents(np.arange(min(self.num_sequences, self.loader.epoch_size)))


class PairTask:
    """One question about segment pairs."""

    def __init__(self, question: PairQuestion, held_out: SplitSample, train: Loader) -> None:
        self.question, self.held_out, self.train = question, held_out, train
        self.probed = SplitSample(train, PROBED_FOR_EACH * held_out.num_sequences)

    @cached_property
    def shallow(self) -> float:
        """The baseline's accuracy; it takes some seconds and never changes."""
        train = SplitSample(self.train, BASELINE_SEQUENCES).batches()
        predicted = shallow_baseline(train, self.held_out.batches(), self.train.vocabulary.size)
        return float((predicted == self.labels[self.labels != NO_LABEL]).mean())

    @cached_property
    def labels(self) -> np.ndarray:
        return self.held_out.labels

    @property
    def can_be_asked(self) -> bool:
        """Whether there are pairs of both kinds to learn from and to ask of; not so where paragraphs are sentences."""
        samples = (self.labels, self.probed.labels)
        return all(len(np.unique(labels[labels != NO_LABEL])) > 1 for labels in samples)

    def measure(self, predicted_B: Tensor, name: str) -> dict[str, float]:
        labelled = self.labels != NO_LABEL
        correct = (predicted_B.numpy() == self.labels)[labelled]
        accuracy, low, high = interval_by_document(correct, self.held_out.documents[labelled])
        return {
            f"{name}_accuracy": accuracy,
            f"{name}_low": low,
            f"{name}_high": high,
            f"{name}_shallow": self.shallow,
            f"{name}_majority": majority_share(self.labels),
        }

    def read(self, logits_BC: Tensor | None) -> Tensor:
        """What the model's own pair head says."""
        assert logits_BC is not None
        return restrict_logits(logits_BC, self.question).argmax(dim=1)

    def probe(self, model: Model) -> Tensor:
        """What a plane through the frozen pooled outputs says."""
        learned = measure(model, self.probed.batches(), keep_pooled=True)
        asked = measure(model, self.held_out.batches(), keep_pooled=True)
        assert learned.pooled_BD is not None and asked.pooled_BD is not None
        # After 100 steps its answers no longer change, though its weights still do.
        probe = fit_probe(learned.pooled_BD, learned.pair_labels_B, max_steps=100)
        return probe.predict(asked.pooled_BD)


def list_questions(pairs: PairConfig, has_others: bool) -> dict[str, tuple[PairQuestion, PairConfig]]:
    """Each question with the pairs that it is asked of: sentence order also in windows of the other kind, and what is
    random where there are other documents to take it from."""
    windows: Literal["document", "paragraph"] = "paragraph" if pairs.windows == "document" else "document"
    asked: dict[str, tuple[PairQuestion, PairConfig]] = {
        "sop": ("sop", replace(pairs, objective="sop")),
        f"sop_{windows}": ("sop", replace(pairs, objective="sop", windows=windows)),
    }
    return asked | ({"nsp": ("nsp", replace(pairs, objective="nsp"))} if has_others else {})


class HeldOut:
    """Everything that is asked of a model during a run."""

    def __init__(
        self,
        train: Sequence[Corpus],
        held_out: Sequence[Corpus],
        weights: Sequence[float],
        *,
        pairs: PairConfig,
        masking: MaskingConfig,
        num_sequences: int,
    ) -> None:
        masking = masking.at_rate(masking.last_rate)

        def load(corpora: Sequence[Corpus], config: PairConfig) -> Loader:
            return Loader(corpora, config, masking, num_sequences=BATCH_SIZE, weights=weights)

        has_others = all(corpus.num_documents > 1 for corpus in (*train, *held_out))
        self.objective = pairs.objective
        self.own = SplitSample(load(held_out, pairs), num_sequences)
        tasks = {
            name: PairTask(question, SplitSample(load(held_out, asked), num_sequences), load(train, asked))
            for name, (question, asked) in list_questions(pairs, has_others).items()
        }
        self.tasks = {name: task for name, task in tasks.items() if task.can_be_asked}

    def measure(self, model: Model) -> dict[str, float]:
        measured = measure(model, self.own.batches())
        values = {
            "masked_token_loss": measured.masked_token_loss,
            "masked_token_accuracy": measured.masked_token_accuracy,
        }
        for name, task in self.tasks.items() if model.config.num_segments > 1 else ():
            if name == self.objective:  # the same sequences
                values |= task.measure(task.read(measured.pair_logits_BC), name)
            elif self.objective in (task.question, "three-way"):
                values |= task.measure(task.read(measure(model, task.held_out.batches()).pair_logits_BC), name)
            elif model.pooler is not None:
                values |= task.measure(task.probe(model), name)
        return values
