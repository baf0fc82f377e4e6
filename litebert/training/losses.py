"""What pre-training minimises; `answer_losses.py` has what fine-tuning does.

A loss is made of parts, each a sum over what it counts: predicted positions, labelled pairs. A step divides each sum by
the count of the whole step, over all its pieces and all ranks, so how a batch was cut up changes nothing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from litebert.batch import NO_LABEL, Batch
from litebert.config import UserError, require
from litebert.models.heads import Features, MaskedTokenHead
from litebert.models.model import Model

# How many logits are made at a time: 16 MiB at most, and of so many positions. Of more, no product is faster, and the
# buffers that MKL keeps for them are larger than the logits.
CHUNK_SIZE = 1 << 22
CHUNK_ROWS = 128


class Part(NamedTuple):
    """One part of a loss, summed over what it counts."""

    total: Tensor
    num_right: Tensor | None = None
    """How many were predicted right; nothing is learned from it."""
    losses: Tensor | None = None
    """Each one's loss; nothing is learned from it."""


class Objective(Protocol):
    """What a training loop needs to know of a loss."""

    def count(self, batch: Batch) -> dict[str, int]:
        """How many there are in a batch of what each part is summed over."""
        ...

    def measure(self, model: Model, batch: Batch) -> dict[str, Part]:
        """The parts of the loss, by the same names."""
        ...


class Pretraining:
    """ALBERT's: masked tokens plus, where the model has a pair head, the order of the segments, unweighted."""

    def count(self, batch: Batch) -> dict[str, int]:
        counts = {"masked_token": 0 if batch.predicted_ids_P is None else len(batch.predicted_ids_P)}
        if batch.pair_labels_B is not None:
            counts["pair"] = int((batch.pair_labels_B != NO_LABEL).sum())
        return counts

    def measure(self, model: Model, batch: Batch) -> dict[str, Part]:
        features = model.encode(batch)
        require("masked_token" in model.heads, "the model has no masked-token head to pre-train; add one")
        parts = {"masked_token": masked_token_loss(cast(MaskedTokenHead, model.heads["masked_token"]), features)}
        if "pair" in model.heads:
            parts["pair"] = pair_loss(model.heads["pair"](features), batch.pair_labels_B)
        return parts


def weigh(parts: Mapping[str, Part], counts: Mapping[str, float]) -> Tensor:
    """The loss to minimise, where each part is divided by its count over the whole step."""
    return cast(Tensor, sum(part.total / max(1, counts[name]) for name, part in parts.items()))


def mean_loss(objective: Objective, model: Model, batch: Batch) -> Tensor:
    """For those with a training loop of their own: what a batch alone would be a step of."""
    return weigh(objective.measure(model, batch), objective.count(batch))


def pair_loss(logits_BC: Tensor, labels_B: Tensor | None) -> Part:
    """Cross-entropy of the pairs that have a label; nothing where none has."""
    if labels_B is None:
        raise UserError("the model has a pair head, but the batch has no pair labels")
    total = F.cross_entropy(logits_BC, labels_B, ignore_index=NO_LABEL, reduction="sum")
    return Part(total, (logits_BC.argmax(dim=1) == labels_B).sum())


def masked_token_loss(head: MaskedTokenHead, features: Features) -> Part:
    """Cross-entropy at the predicted positions, without ever holding all their logits."""
    targets_P = features.batch.predicted_ids_P
    if targets_P is None or features.batch.predicted_positions_P is None:
        raise UserError("the batch says nothing of what is to be predicted; give it predicted positions and ids")
    if torch.is_autocast_enabled(targets_P.device.type):
        logits_PV = head(features)
        losses_P = F.cross_entropy(logits_PV.float(), targets_P, reduction="none")
        return Part(losses_P.sum(), (logits_PV.argmax(dim=1) == targets_P).sum(), losses_P.detach())
    return Part(
        *TiedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            head.prepare(features), features.words_VE, head.bias, targets_P, torch.is_grad_enabled()
        )
    )


def chunk_rows(num_predicted: int, vocab_size: int) -> int:
    """Of how many positions logits are made at a time."""
    return max(1, min(num_predicted, CHUNK_ROWS, CHUNK_SIZE // vocab_size))


class TiedCrossEntropy(torch.autograd.Function):
    """Summed cross-entropy of `prepared @ words.T + bias`, whose gradients are made chunk by chunk on the way forward.

    The logits of a vocabulary are the largest tensor of a step and are read only twice; here a chunk of them is made,
    turned into its own gradient in place, multiplied and forgotten.
    """

    @staticmethod
    def forward(
        ctx: Any, prepared_PE: Tensor, words_VE: Tensor, bias_V: Tensor, targets_P: Tensor, with_gradients: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The sum, how many targets have the highest logit, and each position's own loss."""
        losses_P, num_right = prepared_PE.new_empty(len(targets_P)), torch.zeros_like(targets_P[:1]).sum()
        inputs = (prepared_PE, words_VE, bias_V) if with_gradients else ()
        gradients = [torch.zeros_like(tensor) for tensor in inputs]
        rows = chunk_rows(len(prepared_PE), len(words_VE))
        buffer_PV = prepared_PE.new_empty(rows, len(words_VE))
        for start in range(0, len(prepared_PE), rows):
            chunk = slice(start, start + rows)
            targets_P1 = targets_P[chunk, None]
            logits_PV = torch.addmm(bias_V, prepared_PE[chunk], words_VE.t(), out=buffer_PV[: len(targets_P1)])
            best_P, target_P = logits_PV.amax(dim=1), logits_PV.gather(1, targets_P1)[:, 0]
            shares_PV = torch.softmax(logits_PV, dim=-1, out=logits_PV)  # in place: row by row, as a test compares
            # The best one's share is never small, so its logarithm leads back to the sum of all exponentials.
            torch.sub(best_P - target_P, shares_PV.amax(dim=1).log(), out=losses_P[chunk])
            num_right += (target_P == best_P).sum()
            if with_gradients:
                prepared_grad_PE, words_grad_VE, bias_grad_V = gradients
                # The shares, less one at the target, are the gradient of the loss.
                grad_PV = shares_PV.scatter_add_(1, targets_P1, shares_PV.new_full(targets_P1.shape, -1.0))
                torch.mm(grad_PV, words_VE, out=prepared_grad_PE[chunk])
                words_grad_VE.addmm_(grad_PV.t(), prepared_PE[chunk])
                bias_grad_V += grad_PV.sum(dim=0)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(num_right, losses_P)
        return losses_P.sum(), num_right, losses_P

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        return *(saved * grad for saved in ctx.saved_tensors), None, None
