"""Small models and made-up batches to train on, each a pure function of the step's number."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from litebert.batch import Batch
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.training.loop import LoopConfig, Outcome, Training, train
from litebert.training.losses import Pretraining
from litebert.training.optimizer import OptimizerConfig
from litebert.training.parallel import Ranks
from litebert.training.schedule import ScheduleConfig

CONFIG = EncoderConfig(
    vocab_size=97, embedding_size=16, hidden_size=32, num_layers=3, num_heads=2, feed_forward_size=64, num_positions=24,
    initializer_range=0.15,
)  # fmt: skip


def make_batch(step: int, num_sequences: int = 24) -> Batch:
    """Sequences of several lengths; what is hidden can be told from the token before it."""
    draw = torch.Generator().manual_seed(step)
    lengths = torch.randint(6, 20, (num_sequences,), generator=draw).tolist()
    tokens_T = torch.randint(5, CONFIG.vocab_size, (sum(lengths),), generator=draw)
    positions_P = torch.randperm(len(tokens_T), generator=draw)[: len(tokens_T) // 7].sort().values
    targets_P = (tokens_T[positions_P - 1] * 7) % CONFIG.vocab_size
    tokens_T[positions_P] = 4
    return Batch(
        lengths=tuple(lengths),
        token_ids_T=tokens_T,
        segment_ids_T=torch.randint(0, 2, (len(tokens_T),), generator=draw),
        predicted_positions_P=positions_P,
        predicted_ids_P=targets_P,
        pair_labels_B=torch.randint(0, 2, (num_sequences,), generator=draw),
    )


def batches_of(ranks: Ranks, num_sequences: int = 24) -> Callable[[int], Iterator[Batch]]:
    """Each rank's share of the same batches."""

    def batches(step: int) -> Iterator[Batch]:
        size = num_sequences // ranks.num_ranks
        while True:
            yield make_batch(step, num_sequences).take(ranks.rank * size, (ranks.rank + 1) * size)
            step += 1

    return batches


def make_training(ranks: Ranks | None = None, *, steps: int = 20, dropout: float = 0.0, **changes: Any) -> Training:
    ranks = ranks or Ranks()
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "model": Model(replace(CONFIG, hidden_dropout=dropout, attention_dropout=dropout), PRETRAINING),
        "objective": Pretraining(),
        "optimizer": OptimizerConfig(),
        "schedule": ScheduleConfig(steps=steps, learning_rate=0.01, warmup_steps=3),
        "loop": LoopConfig(log_every=1),
        "batches": batches_of(ranks),
    }
    return Training(**settings | changes)


class Notes:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, kind: str, step: int, **values: Any) -> None:
        self.lines.append({"kind": kind, "step": step, **values})

    def __enter__(self) -> "Notes":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def column(self, key: str, kind: str = "train") -> list[Any]:
        return [line[key] for line in self.lines if line["kind"] == kind]


def watch_training(training: Training, folder: Path | None = None, ranks: Ranks | None = None) -> tuple[Outcome, Notes]:
    notes = Notes()
    return train(training, folder, ranks=ranks, watch=lambda step: notes), notes


def weights_of(training: Training) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in training.model.state_dict().items()}


def same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """To the last bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
