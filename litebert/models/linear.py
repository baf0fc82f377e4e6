"""A linear layer whose large products go to oneDNN where that multiplies faster than the library torch would take.

On x86 torch multiplies single-precision matrices with Intel's MKL, which keeps its best kernels for Intel's processors.
oneDNN, in every build of torch, has the same kernels for all. It prepares them anew for each shape, though, and a
packed batch has another number of tokens at every step: that pays for large products alone.
"""

import functools
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SMALLEST_PRODUCT = 1 << 29
"""Multiplications from which on the better kernel saves more than its preparation costs."""


class Linear(nn.Linear):
    """`nn.Linear` for packed tokens."""

    def forward(self, values_TX: Tensor, outputs: slice | None = None) -> Tensor:
        """All outputs, or those of a slice alone."""
        weight, bias = (self.weight, self.bias) if outputs is None else (self.weight[outputs], self.bias[outputs])
        if len(values_TX) * weight.numel() >= SMALLEST_PRODUCT and can_use_onednn(values_TX, weight):
            return OneDNNProduct.apply(values_TX, weight, bias)  # type: ignore[no-untyped-call]
        return F.linear(values_TX, weight, bias)


def can_use_onednn(values_TX: Tensor, weight: Tensor) -> bool:
    return (
        prefers_onednn()
        and values_TX.is_cpu
        and values_TX.ndim == 2
        and values_TX.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


@functools.cache
def prefers_onednn() -> bool:
    """Decided by the processor's maker and not by timing, so that a run that goes on computes as it did before."""
    processors = Path("/proc/cpuinfo")
    is_amd = processors.exists() and "AuthenticAMD" in processors.read_text()
    return is_amd and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")  # type: ignore[no-untyped-call]


class OneDNNProduct(torch.autograd.Function):
    """`values @ weight.T + bias`. The weights' gradient, which sums over the tokens, is left to torch's library."""

    @staticmethod
    def forward(ctx: Any, values_TX: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(values_TX, weight)
        return multiply(values_TX, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TX: Tensor) -> tuple[Tensor | None, ...]:
        values_TX, weight = ctx.saved_tensors
        for_values, for_weight, for_bias = ctx.needs_input_grad
        return (
            multiply(grad_TX, weight.t(), None) if for_values else None,
            grad_TX.t() @ values_TX if for_weight else None,
            grad_TX.sum(dim=0) if for_bias else None,
        )


def multiply(values_TX: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(values_TX, weight, bias, "none", [], "")
