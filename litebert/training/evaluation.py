"""What a pre-trained model makes of documents that it has not seen."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from litebert.batch import NO_LABEL, Batch
from litebert.config import require
from litebert.models.heads import MaskedTokenHead
from litebert.models.model import Model
from litebert.training.losses import masked_token_loss

PairQuestion = Literal["sop", "nsp"]
# The classes of a three-way pair head (0 in order, 1 swapped, 2 random) that each question is about.
QUESTION_CLASSES: dict[PairQuestion, tuple[int, int]] = {"sop": (0, 1), "nsp": (0, 2)}


class Measured(NamedTuple):
    """What a model says of held-out sequences; on the CPU, in the order they came in."""

    masked_token_loss: float
    """Mean over all predicted positions, whatever batch they came in."""
    masked_token_accuracy: float
    num_predicted: int
    pair_loss: float
    """Mean over the pairs that have a label; nan where none has, or the model has no pair head."""
    pair_logits_BC: Tensor | None
    pair_labels_B: Tensor
    """`NO_LABEL` where a sequence has none."""
    pooled_BD: Tensor | None


class Answers(NamedTuple):
    """What a model says of one batch."""

    losses_P: Tensor
    num_found_X: Tensor
    """How many of its tokens were found."""
    pair_logits_BC: Tensor | None
    pair_labels_B: Tensor
    pooled_BD: Tensor | None


def measure(model: Model, batches: Iterable[Batch], *, keep_pooled: bool = False) -> Measured:
    """Asks the model's pre-training heads about every batch; `keep_pooled` keeps what `fit_probe` wants."""
    require("masked_token" in model.heads, "the model has no masked-token head to measure; add one")
    require(not keep_pooled or model.pooler is not None, "the model has no pooler; pooled outputs cannot be kept")
    device = next(model.parameters()).device
    with evaluating(model):
        answers = [answer(model, batch.to(device), keep_pooled) for batch in batches]
    require(answers, "there is no batch to measure the model on; give it some held-out documents")
    losses_P, num_found_X, pair_logits_BC, pair_labels_B, pooled_BD = map(join, zip(*answers, strict=True))
    assert losses_P is not None and num_found_X is not None and pair_labels_B is not None
    pair_loss = float("nan")
    if pair_logits_BC is not None:
        pair_loss = float(F.cross_entropy(pair_logits_BC.double(), pair_labels_B, ignore_index=NO_LABEL))
    return Measured(
        masked_token_loss=float(losses_P.double().mean()),
        masked_token_accuracy=float(num_found_X.sum().double() / len(losses_P)),
        num_predicted=len(losses_P),
        pair_loss=pair_loss,
        pair_logits_BC=pair_logits_BC,
        pair_labels_B=pair_labels_B,
        pooled_BD=pooled_BD,
    )


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Without dropout, for as long as it lasts; parts that were frozen by hand stay as they were."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def join(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    """The answers to all batches; none where the model gives none."""
    present = [part for part in parts if part is not None]
    return torch.cat(present) if present else None


@torch.inference_mode()
def answer(model: Model, batch: Batch, keep_pooled: bool) -> Answers:
    features = model.encode(batch)
    tokens = masked_token_loss(cast(MaskedTokenHead, model.heads["masked_token"]), features)
    assert tokens.losses is not None and tokens.num_right is not None
    labels_B = torch.full((batch.num_sequences,), NO_LABEL) if batch.pair_labels_B is None else batch.pair_labels_B
    return Answers(
        losses_P=tokens.losses.cpu(),
        num_found_X=tokens.num_right[None].cpu(),
        pair_logits_BC=model.heads["pair"](features).float().cpu() if "pair" in model.heads else None,
        pair_labels_B=labels_B.cpu(),
        pooled_BD=features.pooled_BD.float().cpu() if keep_pooled and features.pooled_BD is not None else None,
    )


def restrict_logits(logits_BC: Tensor, question: PairQuestion) -> Tensor:
    """What a pair head says when it is asked one question only: in order or not.

    A three-way head is not asked of its third class. A head of two classes has but one answer, whatever the question.
    """
    return logits_BC[:, QUESTION_CLASSES[question]] if logits_BC.shape[1] == 3 else logits_BC
