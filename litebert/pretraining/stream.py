"""The batches of a run, stage by stage, and what changes with them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from litebert.batch import Batch
from litebert.corpus.hard_tokens import REFRESH_STEPS, HardTokens
from litebert.corpus.loader import Loader, State
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig
from litebert.corpus.shards import Corpus
from litebert.models.model import Model
from litebert.pretraining.config import Stage
from litebert.training.losses import Part
from litebert.training.parallel import Ranks


class Stream:
    """Where every step finds its batch, its depth, and what is hard: a pure function of the step's number.

    The place in the corpora is how many sequences were seen, whatever their length was.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        weights: Sequence[float],
        *,
        stages: Sequence[Stage],
        pairs: PairConfig,
        masking: MaskingConfig,
        seed: int,
        ranks: Ranks,
    ) -> None:
        self.corpora, self.weights, self.stages = corpora, weights, stages
        self.pairs, self.masking, self.seed, self.ranks = pairs, masking, seed, ranks
        vocab_size = corpora[0].vocabulary.size
        self.hard_tokens = HardTokens(vocab_size, masking.hardness) if masking.hardness else None

    def batches(self, step: int) -> Iterator[Batch]:
        """This rank's batches from a step on."""
        for stage in self.stages[:-1]:
            if step < stage.end_step:
                yield from itertools.islice(self.open_stage(stage, step), stage.end_step - step)
                step = stage.end_step
        yield from self.open_stage(self.stages[-1], step)  # without an end: who times steps may take more of them

    def open_stage(self, stage: Stage, step: int) -> Loader:
        """The loader of a stage, at the place where a step of it begins."""
        position = stage.first_sequence + (step - stage.first_step) * stage.num_sequences
        return Loader(
            self.corpora,
            replace(self.pairs, length=stage.length),
            self.masking,
            num_sequences=stage.num_sequences,
            weights=self.weights,
            state=State(seed=self.seed, position=position),
            rank=self.ranks.rank,
            num_ranks=self.ranks.num_ranks,
            token_weights=None if self.hard_tokens is None else self.hard_tokens.weights,
        )

    def begin_step(self, model: Model, step: int) -> str | None:
        """Sets the model's depth, and renews what is known of hard tokens; says what has changed."""
        if self.hard_tokens is not None and step and step % REFRESH_STEPS == 0:
            self.gather_news()
            self.hard_tokens.refresh()
        number = int(np.searchsorted([stage.first_step for stage in self.stages], step, side="right")) - 1
        stage = self.stages[number]
        model.encoder.num_layers = stage.num_layers
        if number == 0 or step != stage.first_step:
            return None
        before = self.stages[number - 1]
        changes = {
            "layers": (before.num_layers, stage.num_layers),
            "tokens a sequence": (before.length, stage.length),
            "tokens a step": (before.length * before.num_sequences, stage.length * stage.num_sequences),
        }
        return ", ".join(f"from {old} to {new} {what}" for what, (old, new) in changes.items() if old != new)

    def gather_news(self) -> None:
        """Gives every rank what all have learned of hard tokens since they were last refreshed."""
        if self.hard_tokens is not None:
            self.ranks.add_up_tensor(self.hard_tokens.news_2V)

    def before_saving(self) -> None:
        """Leaves all that is new on the first rank, whose tensors are saved."""
        self.gather_news()
        self.after_loading()

    def after_loading(self) -> None:
        """Every rank has loaded what the first one saved, and must not count it again."""
        if self.hard_tokens is not None and not self.ranks.is_first:
            self.hard_tokens.news_2V.zero_()

    def observe(self, batch: Batch, parts: Mapping[str, Part]) -> None:
        losses_P = parts["masked_token"].losses
        if self.hard_tokens is not None and losses_P is not None and batch.predicted_ids_P is not None:
            self.hard_tokens.observe(batch.predicted_ids_P, losses_P)
