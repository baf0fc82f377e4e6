"""A linear layer whose large products go to oneDNN where that multiplies faster than the library torch would take.

On x86 torch multiplies single-precision matrices with Intel's MKL, which keeps its best kernels for Intel's processors.
oneDNN, in every build of torch, has the same kernels for all. It prepares them anew for each shape, though, and a
packed batch has another number of tokens at every step: that pays for large products alone.
"""

import functools
import math
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SMALLEST_PRODUCT = 1 << 28
"""Multiplications from which on the better kernel saves more than its preparation costs."""
OPERATORS = "_linear_pointwise", "_reorder_linear_weight"
"""Those of torch's own compiler that are used here. They are private: where one is missing, torch multiplies."""
NUM_KEPT = 16
"""Shapes whose kernels are kept: a backward pass has ten or so, seven of which come again in every layer."""
is_limited = False


class Pack:
    """A matrix in oneDNN's own layout, for all products of a pass that use it.

    oneDNN brings a matrix into blocks at every product, for up to a tenth of the product's time. One that many layers
    share is brought there once for all of them, and once more, transposed, for the way back.
    """

    def __init__(self) -> None:
        self.laid_out: dict[str, Tensor] = {}

    def find(self, weight: Tensor, num_tokens: int, way: Literal["forward", "back"]) -> Tensor:
        """`weight` as products of about so many tokens want it; on the way back it is the transposed one."""
        if way not in self.laid_out:
            self.laid_out[way] = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), num_tokens)
        return self.laid_out[way]


Packs = defaultdict[nn.Module, Pack]
"""The packs of a pass, each by the layer whose matrix it is."""


class Linear(nn.Linear):
    """`nn.Linear` for packed tokens."""

    def forward(self, values_TX: Tensor) -> Tensor:
        return linear(values_TX, self.weight, self.bias)


def is_bare(module: nn.Module) -> bool:
    """Whether its weights say all of it: nothing that is put in its place or hung onto it would be passed by."""
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return type(module) is Linear and not any(hooks) and "forward" not in vars(module)


def project(layer: nn.Module, values_TX: Tensor, packs: Packs | None) -> Tensor:
    """`layer(values)`, with what `packs` has of its matrix."""
    if packs is not None and is_bare(layer):
        return linear(values_TX, layer.weight, layer.bias, packs[layer])  # type: ignore[arg-type]
    return layer(values_TX)


def linear(values_TX: Tensor, weight: Tensor, bias: Tensor, pack: Pack | None = None) -> Tensor:
    """`F.linear` for packed tokens."""
    if is_plain(values_TX, weight) and (pack is not None or uses_onednn(values_TX, weight)):
        return OneDNNProduct.apply(values_TX, weight, bias, pack)  # type: ignore[no-untyped-call]
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
    return is_large(len(values_TX), *weight.shape)


def is_large(*sizes: int) -> bool:
    """Whether a product of these three sizes goes to oneDNN."""
    return is_limited and math.prod(sizes) >= SMALLEST_PRODUCT and prefers_onednn()


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
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return is_amd and has_onednn and all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS)


class OneDNNProduct(torch.autograd.Function):
    """`values @ weight.T + bias`."""

    @staticmethod
    def forward(ctx: Any, values_TX: Tensor, weight: Tensor, bias: Tensor, pack: Pack | None) -> Tensor:
        ctx.save_for_backward(values_TX, weight)
        ctx.pack = pack
        return multiply(values_TX, weight, bias, pack)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TX: Tensor) -> tuple[Tensor | None, ...]:
        values_TX, weight = ctx.saved_tensors
        pack, ctx.pack = ctx.pack, None  # else it would stay for as long as anyone holds on to the loss
        for_values, for_weight, for_bias, _ = ctx.needs_input_grad
        return (
            multiply_back(grad_TX, weight, pack) if for_values else None,
            differentiate_weight(grad_TX, values_TX, pack) if for_weight else None,
            grad_TX.sum(dim=0) if for_bias else None,
            None,
        )


def multiply(values_TX: Tensor, weight: Tensor, bias: Tensor, pack: Pack | None) -> Tensor:
    """`values @ weight.T + bias` by the library that is faster at it."""
    if not uses_onednn(values_TX, weight):
        return F.linear(values_TX, weight, bias)
    return multiply_by_onednn(values_TX, pack.find(weight, len(values_TX), "forward") if pack else weight, bias)


def multiply_back(grad_TX: Tensor, weight: Tensor, pack: Pack | None) -> Tensor:
    """`grad @ weight`, likewise."""
    if not uses_onednn(grad_TX, weight):
        return grad_TX @ weight
    return multiply_by_onednn(grad_TX, pack.find(weight.t(), len(grad_TX), "back") if pack else weight.t())


def differentiate_weight(grad_TX: Tensor, values_TY: Tensor, pack: Pack | None) -> Tensor:
    """`grad.T @ values`, which oneDNN is the faster one at where it comes out wider than high.

    A matrix that is higher than wide gets its gradient by columns then. Bringing that back to rows costs more than one
    layer gains: only those that share their matrix do it, after their gradients, which lie alike, have been added up.
    """
    height, width = grad_TX.shape[1], values_TY.shape[1]
    if height > width and pack is not None:
        return differentiate_weight(values_TY, grad_TX, pack).t()
    if height < width and is_large(len(grad_TX), height, width):
        return multiply_by_onednn(grad_TX.t(), values_TY.t())
    return grad_TX.t() @ values_TY


def multiply_by_onednn(values_TX: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(values_TX, weight, bias, "none", [], "")
