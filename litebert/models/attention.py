"""Attention within each of the sequences of a packed batch.

Sequences must lie longest first, so that those of one length are neighbours, a run, and are multiplied together where
they lie: nothing is gathered, nothing is masked, and even here no padding is multiplied.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from litebert.batch import find_places, place_rows
from litebert.models.linear import is_plain


def attend(projected_TX: Tensor, lengths: tuple[int, ...], num_heads: int, dropout: float = 0.0) -> Tensor:
    """What each token makes of those of its sequence, given each one's query, key and value side by side."""
    if dropout == 0 and can_use_kernels(projected_TX):
        return PackedAttention.apply(projected_TX, lengths, num_heads)  # type: ignore[no-untyped-call]
    contexts = []
    for run_BLX in split_runs(projected_TX, lengths):
        query_BHLK, key_BHLK, value_BHLK = take_apart(run_BLX, num_heads)
        context_BHLK = F.scaled_dot_product_attention(query_BHLK, key_BHLK, value_BHLK, dropout_p=dropout)
        contexts.append(context_BHLK.transpose(1, 2).reshape(-1, projected_TX.shape[1] // 3))
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts)


def attend_from(
    queries_RD: Tensor,
    keys_values_TX: Tensor,
    lengths: Sequence[int],
    counts: Sequence[int],
    num_heads: int,
    dropout: float = 0.0,
) -> Tensor:
    """Attention for some of the tokens alone: their queries lie end to end, `counts` of each sequence."""
    counts_left = iter(counts)
    runs = [tuple(itertools.islice(counts_left, len(list(run)))) for _, run in itertools.groupby(lengths)]
    parts = torch.split(queries_RD, list(map(sum, runs)))
    contexts = []
    for run, queries_XD, run_BLX in zip(runs, parts, split_runs(keys_values_TX, lengths), strict=True):
        if not len(queries_XD):
            continue
        places_X = find_places(run, max(run)).to(queries_XD.device)
        (query_BHXK,) = take_apart(place_rows(queries_XD, places_X, len(run), max(run)), num_heads, 1)
        key_BHLK, value_BHLK = take_apart(run_BLX, num_heads, 2)
        context_BHXK = F.scaled_dot_product_attention(query_BHXK, key_BHLK, value_BHLK, dropout_p=dropout)
        contexts.append(context_BHXK.transpose(1, 2).reshape(-1, queries_RD.shape[1]).index_select(0, places_X))
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts)


def make_attention_maps(projected_TX: Tensor, lengths: tuple[int, ...], num_heads: int) -> Iterator[Tensor]:
    """The attention probabilities of each sequence, [heads, length, length]."""
    for run_BLX in split_runs(projected_TX, lengths):
        query_BHLK, key_BHLK, _ = take_apart(run_BLX, num_heads)
        scores_BHLL = query_BHLK @ key_BHLK.transpose(-1, -2) / math.sqrt(query_BHLK.shape[-1])
        yield from scores_BHLL.softmax(dim=-1)


def split_runs(values_TX: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Views of the sequences of each length, BLX."""
    runs = [(len(list(run)), length) for length, run in itertools.groupby(lengths)]
    parts = torch.split(values_TX, [number * length for number, length in runs])
    return [part.view(*run, -1) for part, run in zip(parts, runs, strict=True)]


def take_apart(run_BLX: Tensor, num_heads: int, num_parts: int = 3) -> tuple[Tensor, ...]:
    """Views of the parts that lie side by side, as a rule query, key and value, each BHLK."""
    return run_BLX.view(*run_BLX.shape[:2], num_parts, num_heads, -1).permute(2, 0, 3, 1, 4).unbind()


def can_use_kernels(values_TX: Tensor) -> bool:
    return (
        is_plain(values_TX)
        and torch.backends.cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call]  # `sdpa_kernel` sets it, on CPU too
        and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward")
    )


class PackedAttention(torch.autograd.Function):
    """The kernels `F.scaled_dot_product_attention` calls, without the copies that joining their results would cost.

    Each run's context, and on the way back its three gradients, goes straight to its place among all tokens'.
    """

    @staticmethod
    def forward(ctx: Any, projected_TX: Tensor, lengths: tuple[int, ...], num_heads: int) -> Tensor:
        context_TD = projected_TX.new_empty(len(projected_TX), projected_TX.shape[1] // 3)
        log_sums = []
        for run_BLX, context_BLD in zip(
            split_runs(projected_TX, lengths), split_runs(context_TD, lengths), strict=True
        ):
            attended_BHLK, log_sums_BHL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                *take_apart(run_BLX, num_heads)
            )
            take_apart(context_BLD, num_heads, 1)[0].copy_(attended_BHLK)
            log_sums.append(log_sums_BHL)
        ctx.save_for_backward(projected_TX, context_TD, *log_sums)
        ctx.lengths, ctx.num_heads = lengths, num_heads
        return context_TD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_TD: Tensor) -> tuple[Tensor, None, None]:
        projected_TX, context_TD, *log_sums = ctx.saved_tensors
        projected_grad_TX = torch.empty_like(projected_TX)
        runs = (
            split_runs(values, ctx.lengths)
            for values in (projected_TX, context_TD, grad_TD.contiguous(), projected_grad_TX)
        )
        for run_BLX, context_BLD, grad_BLD, run_grad_BLX, log_sums_BHL in zip(*runs, log_sums, strict=True):
            (context_BHLK,), (grad_BHLK,) = (take_apart(values, ctx.num_heads, 1) for values in (context_BLD, grad_BLD))
            grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                grad_BHLK, *take_apart(run_BLX, ctx.num_heads), context_BHLK, log_sums_BHL, 0.0, False
            )
            for place_BHLK, part_BHLK in zip(take_apart(run_grad_BLX, ctx.num_heads), grads, strict=True):
                place_BHLK.copy_(part_BHLK)
        return projected_grad_TX, None, None
