"""A linear layer whose large products go to oneDNN where that multiplies faster than the library torch would take.

On x86 torch multiplies single-precision matrices with Intel's MKL, which keeps its best kernels for Intel's processors.
oneDNN, in every build of torch, has the same kernels for all. It prepares them anew for each shape, though, and a
packed batch has another number of tokens at every step: that pays for large products alone.
"""

import functools
import os
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SMALLEST_PRODUCT = 1 << 29
"""Multiplications from which on the better kernel saves more than its preparation costs."""
NUM_KEPT = 8
"""Shapes whose kernels are kept: a forward or a backward pass has at most five, which come again in every layer."""
is_limited = False


class Linear(nn.Linear):
    """`nn.Linear` for packed tokens."""

    def forward(self, values_TX: Tensor) -> Tensor:
        return linear(values_TX, self.weight, self.bias)


def is_bare(module: nn.Module) -> bool:
    """Whether its weights say all of it: nothing that is put in its place or hung onto it would be passed by."""
    return type(module) is Linear and not (module._forward_hooks or module._forward_pre_hooks)


def linear(values_TX: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`F.linear` for packed tokens."""
    if is_plain(values_TX, weight) and uses_onednn(values_TX, weight):
        return OneDNNProduct.apply(values_TX, weight, bias)  # type: ignore[no-untyped-call]
    return F.linear(values_TX, weight, bias)


def is_plain(*tensors: Tensor) -> bool:
    """Whether these are matrices that are computed with as they are: in single precision, on CPU, by no compiler."""
    return (
        all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
        and all(tensor.ndim == 2 and tensor.is_cpu and tensor.dtype == torch.float32 for tensor in tensors)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def uses_onednn(values_TX: Tensor, weight: Tensor) -> bool:
    return is_limited and len(values_TX) * weight.numel() >= SMALLEST_PRODUCT and prefers_onednn()


def limit_onednn() -> None:
    """Lets products go to oneDNN from here on, and has it forget what it prepared for shapes that are gone.

    torch and oneDNN each keep it for the last 1,024 shapes, some megabytes for each, and every step brings new ones.
    Both ask the environment how many to keep, before their first product: this is for programs, when they start.
    """
    global is_limited
    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(NUM_KEPT))
    is_limited = True


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
            multiply(grad_TX, weight.t()) if for_values else None,
            grad_TX.t() @ values_TX if for_weight else None,
            grad_TX.sum(dim=0) if for_bias else None,
        )


def multiply(values_TX: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`values @ weight.T + bias` by the library that is faster at it."""
    return (multiply_by_onednn if uses_onednn(values_TX, weight) else F.linear)(values_TX, weight, bias)


def multiply_by_onednn(values_TX: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(values_TX, weight, bias, "none", [], "")
