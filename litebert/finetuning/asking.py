"""What a model says of samples."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from litebert.batch import Batch
from litebert.models.heads import AnswerableSpanHead, Features, HeadKind
from litebert.models.model import Model, require_finite
from litebert.tasks.task import Beam, Sample, pack
from litebert.training.evaluation import evaluating

BATCH_TOKENS = 1 << 13
"""Most tokens of a batch when predicting."""
BEAM_SIZE = 5
"""Starts that are considered where answers may be missing, and ends for each of them (ALBERT's released code)."""


def ask(model: Model, samples: Sequence[Sample], kind: HeadKind) -> list[Any]:
    """One output for each sample, as `Task.decode` wants it.

    Samples go through the model by their length, so that those of one length are attended to at once.
    """
    device = next(model.parameters()).device
    outputs: list[Any] = [None] * len(samples)
    with evaluating(model), torch.inference_mode():
        for numbers in group_by_length(samples):
            batch = pack([samples[number] for number in numbers]).to(device)
            for number, output in zip(numbers, ANSWERS[kind](model, model.encode(batch)), strict=True):
                outputs[number] = output
    return outputs


def group_by_length(samples: Sequence[Sample]) -> Iterator[list[int]]:
    """The numbers of samples that make a batch, longest first."""
    group: list[int] = []
    tokens = 0
    for number in sorted(range(len(samples)), key=lambda number: -len(samples[number].token_ids)):
        length = len(samples[number].token_ids)
        if group and tokens + length > BATCH_TOKENS:
            yield group
            group, tokens = [], 0
        group.append(number)
        tokens += length
    if group:
        yield group


def score_sequences(model: Model, features: Features) -> list[Any]:
    """An array of logits for each sequence."""
    return list(require_finite(model.heads["classes"](features)).float().cpu().numpy())


def score_choices(model: Model, features: Features) -> list[Any]:
    return require_finite(model.heads["choice"](features)).squeeze(1).float().tolist()


def score_tokens(kind: HeadKind) -> Callable[[Model, Features], list[Any]]:
    """An array for each sequence, by token and output."""

    def score(model: Model, features: Features) -> list[Any]:
        logits_TX: Tensor = require_finite(model.heads[kind](features)).float().cpu()
        return [part.numpy() for part in torch.split(logits_TX, list(features.batch.lengths))]

    return score


def search_spans(model: Model, features: Features) -> list[Beam]:
    """The likeliest starts, and for each the likeliest ends."""
    batch: Batch = features.batch
    made = cast(AnswerableSpanHead, model.heads["answerable_span"])(
        features, allowed_T=batch.allowed_T, num_starts=BEAM_SIZE
    )
    starts = made.start_logits_BL.float().log_softmax(dim=1).gather(1, made.starts_BS)
    require_finite(made.start_logits_BL)
    ends = require_finite(made.end_logits_BSL).float().log_softmax(dim=2).topk(made.starts_BS.shape[1], dim=2)
    rows = zip(
        *(tensor.cpu().numpy() for tensor in (made.starts_BS, starts, ends.indices, ends.values)),
        require_finite(made.unanswerable_B).float().tolist(),
        strict=True,
    )
    return [Beam(*row) for row in rows]


ANSWERS: dict[HeadKind, Callable[[Model, Features], list[Any]]] = {
    "classes": score_sequences,
    "choice": score_choices,
    "token_classes": score_tokens("token_classes"),
    "span": score_tokens("span"),
    "answerable_span": search_spans,
}
