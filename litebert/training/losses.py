"""What training minimises."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from litebert.batch import NO_LABEL, Batch
from litebert.config import UserError, require
from litebert.models.heads import Features, MaskedTokenHead, Model

# How many logits are made at a time, with as many softmaxes beside them: 32 MiB in all.
CHUNK_SIZE = 1 << 22


def pretraining_loss(model: Model, batch: Batch) -> Tensor:
    """ALBERT's: masked tokens plus, where the model has a pair head, the order of the segments, unweighted."""
    features = model.encode(batch)
    require("masked_token" in model.heads, "the model has no masked-token head to pre-train; add one")
    loss = masked_token_loss(cast(MaskedTokenHead, model.heads["masked_token"]), features)
    if "pair" in model.heads:
        loss = loss + pair_loss(model.heads["pair"](features), batch.pair_labels_B)
    return loss


def pair_loss(logits_BC: Tensor, labels_B: Tensor | None) -> Tensor:
    """Mean cross-entropy of the pairs that have a label; nothing where none has."""
    if labels_B is None:
        raise UserError("the model has a pair head, but the batch has no pair labels")
    total = F.cross_entropy(logits_BC, labels_B, ignore_index=NO_LABEL, reduction="sum")
    return total / (labels_B != NO_LABEL).sum().clamp(min=1)


def masked_token_loss(head: MaskedTokenHead, features: Features) -> Tensor:
    """Mean cross-entropy at the predicted positions, without ever holding all their logits."""
    targets_P = features.batch.predicted_ids_P
    if targets_P is None or features.batch.predicted_positions_P is None:
        raise UserError("the batch says nothing of what is to be predicted; give it predicted positions and ids")
    if torch.is_autocast_enabled(features.hidden_TD.device.type):
        return F.cross_entropy(head(features), targets_P, reduction="sum") / max(1, len(targets_P))
    total = TiedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        head.prepare(features), features.words_VE, head.bias, targets_P, torch.is_grad_enabled()
    )
    return total / max(1, len(targets_P))


class TiedCrossEntropy(torch.autograd.Function):
    """Summed cross-entropy of `prepared @ words.T + bias`, whose gradients are made chunk by chunk on the way forward.

    The logits of a vocabulary are the largest tensor of a step and are read only twice; here a chunk of them is made,
    turned into its own gradient in place, multiplied and forgotten.
    """

    @staticmethod
    def forward(
        ctx: Any, prepared_PE: Tensor, words_VE: Tensor, bias_V: Tensor, targets_P: Tensor, with_gradients: bool
    ) -> Tensor:
        total = prepared_PE.new_zeros(())
        prepared_grad_PE, words_grad_VE, bias_grad_V = map(torch.zeros_like, (prepared_PE, words_VE, bias_V))
        rows = max(1, min(len(prepared_PE), CHUNK_SIZE // len(words_VE)))
        buffers = prepared_PE.new_empty(2, rows, len(words_VE))
        for start in range(0, len(prepared_PE), rows):
            chunk = slice(start, start + rows)
            targets_P1 = targets_P[chunk, None]
            logits_PV, log_shares_PV = buffers[:, : len(targets_P1)]
            torch.addmm(bias_V, prepared_PE[chunk], words_VE.t(), out=logits_PV)
            torch.log_softmax(logits_PV, dim=-1, out=log_shares_PV)
            total -= log_shares_PV.gather(1, targets_P1).sum()
            if with_gradients:
                grad_PV = log_shares_PV.exp_()  # softmax less one at the target is the gradient of the loss
                grad_PV.scatter_add_(1, targets_P1, grad_PV.new_full(targets_P1.shape, -1.0))
                torch.mm(grad_PV, words_VE, out=prepared_grad_PE[chunk])
                words_grad_VE.addmm_(grad_PV.t(), prepared_PE[chunk])
                bias_grad_V += grad_PV.sum(dim=0)
        ctx.save_for_backward(prepared_grad_PE, words_grad_VE, bias_grad_V)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *(saved * grad for saved in ctx.saved_tensors), None, None
