"""The tanh form of GELU with the matrix behind it, on CPU: the activated values are not kept but made again.

    gelu(x) = x/2 (1 + tanh u/2) = x sigmoid(u),  u = 2 sqrt(2/pi) (x + 0.044715 x^3)

torch's kernels take their time for the tanh. By way of the sigmoid the backward pass computes value and slope together
in the time that torch needs for the slope, so nothing is lost by keeping only x. All is done in blocks that stay in a
core's cache from one operation to the next.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from litebert.models.linear import Pack, differentiate_weight, multiply, multiply_back

BLOCK_SIZE = 1 << 17
"""Numbers, 512 KiB of them."""
LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715 * LINEAR
"""u = LINEAR x + CUBIC x^3."""


class GELULinear(torch.autograd.Function):
    """`gelu(raised) @ weight.T + bias`."""

    @staticmethod
    def forward(ctx: Any, raised_TF: Tensor, weight: Tensor, bias: Tensor, pack: Pack | None) -> Tensor:
        ctx.save_for_backward(raised_TF, weight)
        ctx.pack = pack
        activated_TF = torch.empty_like(raised_TF)
        for raised_X, activated_X in cut(raised_TF, activated_TF):
            open_gate(raised_X, out=activated_X).mul_(raised_X)
        return multiply(activated_TF, weight, bias, pack)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TX: Tensor) -> tuple[Tensor | None, ...]:
        raised_TF, weight = ctx.saved_tensors
        pack, ctx.pack = ctx.pack, None  # else it would stay for as long as anyone holds on to the loss
        grad_TF = multiply_back(grad_TX, weight, pack)
        activated_TF = differentiate(raised_TF, grad_TF)
        _, for_weight, for_bias, _ = ctx.needs_input_grad
        return (
            grad_TF,
            differentiate_weight(grad_TX, activated_TF, pack) if for_weight else None,
            grad_TX.sum(dim=0) if for_bias else None,
            None,
        )


def differentiate(raised_TF: Tensor, grad_TF: Tensor) -> Tensor:
    """The activated values; their gradient becomes that of the raised ones, where it lies."""
    activated_TF = torch.empty_like(raised_TF)
    for raised_X, grad_X, activated_X in cut(raised_TF, grad_TF, activated_TF):
        gate_X = open_gate(raised_X)
        torch.mul(raised_X, gate_X, out=activated_X)
        # The slope of x sigmoid(u) is sigmoid(u) + x sigmoid(u) (1 - sigmoid(u)) u'.
        slope_X = torch.addcmul(raised_X.new_tensor(LINEAR), raised_X, raised_X, value=3 * CUBIC).mul_(activated_X)
        grad_X.mul_(slope_X.addcmul_(slope_X, gate_X, value=-1).add_(gate_X))
    return activated_TF


def open_gate(raised_X: Tensor, out: Tensor | None = None) -> Tensor:
    """sigmoid(u)."""
    rising_X = torch.addcmul(raised_X.new_tensor(LINEAR), raised_X, raised_X, value=CUBIC, out=out)
    return rising_X.mul_(raised_X).sigmoid_()


def cut(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Blocks of tensors of one shape."""
    yield from zip(*(torch.split(tensor.view(-1), BLOCK_SIZE) for tensor in tensors), strict=True)
