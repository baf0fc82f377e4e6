"""What fine-tuning minimises: one question, asked of every sequence, of every token, or of sequences to choose from."""

from collections.abc import Callable
from typing import cast

import torch.nn.functional as F
from torch import Tensor

from litebert.batch import NO_LABEL, Batch
from litebert.config import UserError
from litebert.models.heads import FORBIDDEN, AnswerableSpanHead, Features, HeadKind
from litebert.models.model import Model
from litebert.training.losses import Part

NAME = "answer"
"""Of the only part of these losses."""


class Answering:
    """The objective of a model with one fine-tuning head."""

    def __init__(self, kind: HeadKind, num_choices: int = 1) -> None:
        """`num_choices` sequences after one another are the options of one question."""
        self.kind, self.num_choices = kind, num_choices

    def count(self, batch: Batch) -> dict[str, int]:
        if batch.token_labels_T is not None:
            return {NAME: int((batch.token_labels_T != NO_LABEL).sum())}
        if self.kind == "classes" and batch.labels_BX is not None and not batch.labels_BX.is_floating_point():
            return {NAME: int((batch.labels_BX != NO_LABEL).sum())}
        return {NAME: batch.num_sequences // self.num_choices}

    def measure(self, model: Model, batch: Batch) -> dict[str, Part]:
        features = model.encode(batch)
        if self.kind == "answerable_span":
            return {NAME: answerable_span_loss(cast(AnswerableSpanHead, model.heads[self.kind]), features)}
        logits = model.heads[self.kind](features).float()
        if self.kind == "choice":
            return {NAME: choice_loss(logits.view(-1, self.num_choices), labels_of(batch))}
        return {NAME: LOSSES[self.kind](logits, batch)}


def labels_of(batch: Batch) -> Tensor:
    if batch.labels_BX is None:
        raise UserError("the batch has no labels to learn from; give each of its sequences one")
    return batch.labels_BX


def class_loss(logits_BC: Tensor, batch: Batch) -> Part:
    """Cross-entropy of classes, squared error of numbers, or each of several labels as a question of its own."""
    labels_BX = labels_of(batch)
    if not labels_BX.is_floating_point():
        total = F.cross_entropy(logits_BC, labels_BX, ignore_index=NO_LABEL, reduction="sum")
        return Part(total, (logits_BC.argmax(dim=1) == labels_BX).sum())
    if labels_BX.ndim == 1:
        return Part(F.mse_loss(logits_BC.squeeze(1), labels_BX, reduction="sum"))
    losses_BC = F.binary_cross_entropy_with_logits(logits_BC, labels_BX, reduction="none")
    return Part(losses_BC.mean(dim=1).sum(), ((logits_BC > 0) == (labels_BX > 0)).all(dim=1).sum())


def choice_loss(logits_BX: Tensor, labels_B: Tensor) -> Part:
    """Cross-entropy among the options of each question, of which one is labelled 1."""
    right_B = labels_B.view_as(logits_BX).argmax(dim=1)
    total = F.cross_entropy(logits_BX, right_B, reduction="sum")
    return Part(total, (logits_BX.argmax(dim=1) == right_B).sum())


def token_class_loss(logits_TC: Tensor, batch: Batch) -> Part:
    """Cross-entropy of the tokens that have a class."""
    if batch.token_labels_T is None:
        raise UserError("the batch has no labels of tokens to learn from; give each token one")
    total = F.cross_entropy(logits_TC, batch.token_labels_T, ignore_index=NO_LABEL, reduction="sum")
    return Part(total, (logits_TC.argmax(dim=1) == batch.token_labels_T).sum())


def spans_of(batch: Batch) -> Tensor:
    if batch.spans_BX is None:
        raise UserError("the batch has no answers to learn from; give each of its sequences a span")
    return batch.spans_BX


def span_loss(logits_TX: Tensor, batch: Batch) -> Part:
    """SQuAD 1.1's: the mean of the cross-entropies of the start and the end, among all tokens of a sequence."""
    spans_BX = spans_of(batch)
    outside_BL = batch.pad(logits_TX.new_ones(batch.num_tokens)) == 0
    start_BL, end_BL = batch.pad(logits_TX).masked_fill(outside_BL[..., None], FORBIDDEN).unbind(dim=-1)
    return score_spans(start_BL, end_BL, spans_BX)


def score_spans(start_BL: Tensor, end_BL: Tensor, spans_BX: Tensor) -> Part:
    """Half of either side's cross-entropy; a span is right if both its sides are."""
    first_B, last_B = spans_BX.unbind(dim=1)
    losses = [
        F.cross_entropy(logits, side, reduction="sum") for logits, side in ((start_BL, first_B), (end_BL, last_B))
    ]
    right_B = (start_BL.argmax(dim=1) == first_B) & (end_BL.argmax(dim=1) == last_B)
    return Part((losses[0] + losses[1]) / 2, right_B.sum())


def answerable_span_loss(head: AnswerableSpanHead, features: Features) -> Part:
    """SQuAD 2.0's: the end is scored from the true start; half of whether there is an answer is added."""
    spans_BX = spans_of(features.batch)
    made = head(features, starts_B=spans_BX[:, 0], allowed_T=features.batch.allowed_T)
    part = score_spans(made.start_logits_BL.float(), made.end_logits_BSL[:, 0].float(), spans_BX)
    absent_B = (spans_BX[:, 0] == 0).float()
    absence = F.binary_cross_entropy_with_logits(made.unanswerable_B.float(), absent_B, reduction="sum")
    return part._replace(total=part.total + absence / 2)


LOSSES: dict[HeadKind, Callable[[Tensor, Batch], Part]] = {
    "classes": class_loss,
    "token_classes": token_class_loss,
    "span": span_loss,
}
