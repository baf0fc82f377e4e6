"""One encoder for all: ALBERT, BERT and RoBERTa are numbers given to it."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from litebert.batch import Batch
from litebert.config import check_count, check_fields, require
from litebert.models.layers import Attention, Embedding, FeedForward, Reading
from litebert.models.linear import Pack, Packs, is_large
from litebert.models.sharing import sharing_map

Activation = Literal["gelu_tanh", "gelu_erf", "relu", "tanh", "linear"]
Checkpointing = Literal["nothing", "activations", "layers"]
"""What training computes again in the backward pass instead of keeping it: the feed-forward networks' activated values
(a quarter of a layer's memory, for one cheap operation), or all but each layer's input.
"""
MOST_LAYERS = 4096
LARGEST_SIZE = 1 << 28
SHARED_BY_MANY = 4
"""Layers from which on packing a matrix for all of them pays."""


class LayerPacks(NamedTuple):
    """Where a layer's two halves find their matrices packed, if they do."""

    attention: Packs | None
    feed_forward: Packs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """The numbers of an encoder; the defaults are ALBERT-base's, version 2."""

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    feed_forward_size: int = 3072
    sharing: str = "all"
    """all, none, attention, ffn, groups=M, cycle=M, sandwich, or a list such as 0,1,1,0 or 0:0,0:1 (attention:ffn)."""
    projection: bool = True
    """Whether a matrix leads from the embedding to the hidden width. BERT has none."""
    num_positions: int = 512
    num_segments: int = 2
    activation: Activation = "gelu_tanh"
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    layer_norm_epsilon: float = 1e-12
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("vocab_size", "embedding_size", "hidden_size", "num_heads", "feed_forward_size",
                     "num_positions", "num_segments"):  # fmt: skip
            check_count(name, getattr(self, name), LARGEST_SIZE)
        check_count("num_layers", self.num_layers, MOST_LAYERS)
        for name in ("hidden_dropout", "attention_dropout"):
            require(0 <= getattr(self, name) < 1, f"{name} is {getattr(self, name)}; it must be in [0, 1)")
        require(
            self.hidden_size % self.num_heads == 0,
            f"hidden_size is {self.hidden_size}, which {self.num_heads} heads do not divide; "
            "choose a num_heads that divides it",
        )
        require(
            self.projection or self.embedding_size == self.hidden_size,
            f"embedding_size {self.embedding_size} differs from hidden_size {self.hidden_size}: it needs a projection",
        )
        for name in ("layer_norm_epsilon", "initializer_range"):
            require(
                0 < getattr(self, name) < math.inf, f"{name} is {getattr(self, name)}; it must be positive and finite"
            )
        sharing_map(self.sharing, self.num_layers)

    def flops_per_token(self, length: int, num_layers: int | None = None) -> int:
        """Floating-point operations of the matrix products of one forward pass, per token of a sequence of `length`.

        `num_layers` is how many are run, where those are not all.
        """
        projection = self.embedding_size * self.hidden_size if self.projection else 0
        attention = 4 * self.hidden_size**2 + 2 * length * self.hidden_size
        feed_forward = 2 * self.hidden_size * self.feed_forward_size
        layers = self.num_layers if num_layers is None else num_layers
        return 2 * (projection + layers * (attention + feed_forward))


class BlockNorms(nn.Module):
    """The two layer normalisations of a block, each after its half (post-LN)."""

    def __init__(self, hidden_size: int, epsilon: float) -> None:
        super().__init__()
        self.attention = nn.LayerNorm(hidden_size, eps=epsilon)
        self.feed_forward = nn.LayerNorm(hidden_size, eps=epsilon)


@dataclass(frozen=True, slots=True)
class Encoded:
    """What an encoder makes of a batch."""

    hidden_TD: Tensor
    depths: tuple[Tensor, ...] | None = None
    """On request: the hidden states before the first layer and after each, `num_layers + 1` of them."""
    attention_maps: tuple[tuple[Tensor, ...], ...] | None = None
    """On request: for every depth, each sequence's attention probabilities, [heads, length, length]."""

    def restore(self, order: list[int], tokens_T: Tensor) -> "Encoded":
        """Everything in the order of the batch that `Batch.reorder` was given."""
        places_T = torch.argsort(tokens_T)
        places_B = sorted(range(len(order)), key=order.__getitem__)
        return Encoded(
            permute(self.hidden_TD, places_T, tokens_T),
            self.depths and tuple(permute(hidden_TD, places_T, tokens_T) for hidden_TD in self.depths),
            self.attention_maps and tuple(tuple(maps[place] for place in places_B) for maps in self.attention_maps),
        )


class Permutation(torch.autograd.Function):
    """Rows in another order. Their gradient is the rows in the first order; torch would add them up one by one."""

    @staticmethod
    def forward(ctx: Any, values_TX: Tensor, order_T: Tensor, inverse_T: Tensor) -> Tensor:
        ctx.save_for_backward(order_T, inverse_T)
        return values_TX.index_select(0, order_T)

    @staticmethod
    def backward(ctx: Any, grad_TX: Tensor) -> tuple[Tensor, None, None]:
        order_T, inverse_T = ctx.saved_tensors
        return permute(grad_TX, inverse_T, order_T), None, None


def permute(values_TX: Tensor, order_T: Tensor, inverse_T: Tensor) -> Tensor:
    return Permutation.apply(values_TX, order_T, inverse_T)  # type: ignore[no-untyped-call]


class Encoder(nn.Module):
    """Packed tokens -> hidden states."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.checkpointing: Checkpointing = "nothing"
        self.num_layers = config.num_layers
        """How many layers are run. Where all share their weights, training may begin with fewer."""
        self.embedding = Embedding(
            vocab_size=config.vocab_size,
            num_positions=config.num_positions,
            num_segments=config.num_segments,
            embedding_size=config.embedding_size,
            hidden_size=config.hidden_size,
            projection=config.projection,
            dropout=config.hidden_dropout,
            epsilon=config.layer_norm_epsilon,
        )
        pairs = sharing_map(config.sharing, config.num_layers)
        blocks = list(dict.fromkeys(pairs))
        self.depths = [(*pair, blocks.index(pair)) for pair in pairs]
        num_attentions, num_feed_forwards = (len(set(half)) for half in zip(*pairs, strict=True))
        self.attentions = nn.ModuleList(
            Attention(config.hidden_size, config.num_heads, config.attention_dropout) for _ in range(num_attentions)
        )
        self.feed_forwards = nn.ModuleList(
            FeedForward(config.hidden_size, config.feed_forward_size, config.activation)
            for _ in range(num_feed_forwards)
        )
        self.norms = nn.ModuleList(BlockNorms(config.hidden_size, config.layer_norm_epsilon) for _ in blocks)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.apply(partial(initialize, std=config.initializer_range))

    def forward(self, batch: Batch, *, keep_depths: bool = False, keep_attention_maps: bool = False) -> Encoded:
        """Hidden states in the order of the batch's tokens; inside, sequences run longest first."""
        self.check(batch)
        order = batch.longest_first
        if order == sorted(order):
            return self.encode(batch, keep_depths, keep_attention_maps)
        sorted_batch, tokens_T = batch.reorder(order)
        encoded = self.encode(sorted_batch, keep_depths, keep_attention_maps)
        return encoded.restore(order, tokens_T)

    def read(self, batch: Batch, positions_R: Tensor) -> Tensor:
        """The hidden states of some tokens alone, in the order that is given: the last layer makes no others.

        Its queries, its feed-forward network and what follows are then a matter of those tokens, exactly as before.
        """
        self.check(batch)
        sorted_batch, tokens_T = batch.reorder(batch.longest_first)
        places_R, order_R = torch.argsort(tokens_T)[positions_R].sort()
        starts_B = sorted_batch.starts_B
        bounds = [*torch.searchsorted(places_R, starts_B).tolist(), len(places_R)]
        reading = Reading(places_R, tuple(end - start for start, end in itertools.pairwise(bounds)))
        hidden_RD = self.encode(sorted_batch, reading=reading).hidden_TD
        return permute(hidden_RD, torch.argsort(order_R), order_R)

    def encode(
        self,
        batch: Batch,
        keep_depths: bool = False,
        keep_attention_maps: bool = False,
        reading: Reading | None = None,
    ) -> Encoded:
        hidden_TD = self.embedding(batch)
        depths, maps = [hidden_TD], []
        packs = self.share_packs(len(hidden_TD))
        for depth in range(self.num_layers):
            layer_maps: list[Tensor] | None = [] if keep_attention_maps else None
            is_last = depth == self.num_layers - 1
            run = partial(self.run_layer, depth, packs[depth], reading=reading if is_last else None)
            if self.checkpointing == "layers" and self.training:
                hidden_TD = checkpoint(run, hidden_TD, batch.lengths, layer_maps, use_reentrant=False)
            else:
                hidden_TD = run(hidden_TD, batch.lengths, layer_maps)
            if keep_depths:
                depths.append(hidden_TD)
            if layer_maps is not None:
                maps.append(tuple(layer_maps))
        return Encoded(hidden_TD, tuple(depths) if keep_depths else None, tuple(maps) if keep_attention_maps else None)

    def share_packs(self, num_tokens: int) -> list[LayerPacks]:
        """For every depth, where its two halves find their matrices packed: where many layers have them in common."""
        blocks = [(attention, feed_forward) for attention, feed_forward, _ in self.depths[: self.num_layers]]
        uses = [Counter(half) for half in zip(*blocks, strict=True)]
        sizes = num_tokens, self.config.hidden_size, self.config.feed_forward_size
        packs = Packs(Pack) if not torch.compiler.is_compiling() and is_large(*sizes) else None
        return [
            LayerPacks(
                *(packs if use[block] >= SHARED_BY_MANY else None for use, block in zip(uses, pair, strict=True))
            )
            for pair in blocks
        ]

    def run_layer(
        self,
        depth: int,
        packs: LayerPacks,
        hidden_TD: Tensor,
        lengths: tuple[int, ...],
        maps: list[Tensor] | None,
        reading: Reading | None,
    ) -> Tensor:
        """What a layer makes of all tokens, or of those that are read."""
        attention, feed_forward, block = self.depths[depth]
        attend, norms = cast(Attention, self.attentions[attention]), cast(BlockNorms, self.norms[block])
        if reading is None:
            hidden_RD, attended_RD = hidden_TD, attend(hidden_TD, lengths, maps, packs.attention)
        else:
            hidden_RD = hidden_TD.index_select(0, reading.positions_R)
            attended_RD = attend.read(hidden_RD, hidden_TD, lengths, reading, packs.attention)
        hidden_RD = norms.attention(hidden_RD + self.dropout(attended_RD))
        recompute = self.checkpointing == "activations" and self.training
        transformed_RD = self.feed_forwards[feed_forward](hidden_RD, recompute=recompute, packs=packs.feed_forward)
        return norms.feed_forward(hidden_RD + self.dropout(transformed_RD))

    def check(self, batch: Batch) -> None:
        """Refuses what the embedding tables do not reach; ids on a device are left to it, so as not to wait for it."""
        longest = max(batch.lengths)
        require(
            longest <= self.config.num_positions,
            f"a sequence has {longest} tokens; the model has {self.config.num_positions} positions: "
            "shorten it or split it into windows",
        )
        if batch.token_ids_T.is_cpu and not torch.compiler.is_compiling():
            tables = {"token": (batch.token_ids_T, self.config.vocab_size)}
            tables["segment"] = (batch.segment_ids_T, self.config.num_segments)
            for name, (ids_T, size) in tables.items():
                lowest, highest = (int(value) for value in ids_T.aminmax())
                require(
                    lowest >= 0 and highest < size,
                    f"the batch has {name} ids from {lowest} to {highest}; the model has {size}, counted from 0",
                )


def initialize(module: nn.Module, std: float) -> None:
    """Truncated normal at two standard deviations for matrices and tables, zero for biases (ALBERT's released code)."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
