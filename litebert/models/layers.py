"""The parts of an encoder: the factorised embedding, attention over packed sequences, and the feed-forward network."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from litebert.batch import Batch
from litebert.models.attention import attend, attend_from, make_attention_maps
from litebert.models.gelu import GELULinear
from litebert.models.linear import Linear, Pack, Packs, is_bare, is_plain, linear, project

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "gelu_erf": F.gelu,
    "relu": F.relu,
    "tanh": torch.tanh,
    "linear": lambda values: values,
}


class Embedding(nn.Module):
    """ALBERT 3.1, factorised embedding: a small table of width E, projected to the hidden width D.

    Words, positions and segments are added, normalised and dropped out in the small width, then projected.
    Without a projection (E = D) this is BERT's embedding.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        num_positions: int,
        num_segments: int,
        embedding_size: int,
        hidden_size: int,
        projection: bool,
        dropout: float,
        epsilon: float,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, embedding_size)
        self.positions = nn.Embedding(num_positions, embedding_size)
        self.segments = nn.Embedding(num_segments, embedding_size)
        self.norm = nn.LayerNorm(embedding_size, eps=epsilon)
        self.dropout = nn.Dropout(dropout)
        self.projection = nn.Linear(embedding_size, hidden_size) if projection else nn.Identity()

    def forward(self, batch: Batch) -> Tensor:
        embedded_TE = self.words(batch.token_ids_T)
        embedded_TE = embedded_TE + self.positions(batch.positions_T)
        embedded_TE = embedded_TE + self.segments(batch.segment_ids_T)
        return self.projection(self.dropout(self.norm(embedded_TE)))


class Reading(NamedTuple):
    """Which tokens are read of a packed batch's last hidden states."""

    positions_R: Tensor
    """In increasing order."""
    counts: tuple[int, ...]
    """How many of each sequence."""


class Attention(nn.Module):
    """Multi-head self-attention within each packed sequence; its three input projections are one matrix."""

    def __init__(self, hidden_size: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.query_key_value = Linear(hidden_size, 3 * hidden_size)
        self.output = Linear(hidden_size, hidden_size)

    def forward(
        self,
        hidden_TD: Tensor,
        lengths: tuple[int, ...],
        maps: list[Tensor] | None = None,
        packs: Packs | None = None,
    ) -> Tensor:
        """Given a list for `maps`, also appends to it the attention probabilities of each sequence."""
        projected_TX = project(self.query_key_value, hidden_TD, packs)
        if maps is not None:
            maps.extend(make_attention_maps(projected_TX, lengths, self.num_heads))
        attended_TD = attend(projected_TX, lengths, self.num_heads, self.current_dropout)
        return project(self.output, attended_TD, packs)

    def read(
        self,
        read_RD: Tensor,
        hidden_TD: Tensor,
        lengths: tuple[int, ...],
        reading: Reading,
        packs: Packs | None = None,
    ) -> Tensor:
        """Attention for the tokens that are read alone, `read_RD`, over the keys and values of all."""
        sizes = [hidden_TD.shape[1], 2 * hidden_TD.shape[1]]
        if is_bare(self.query_key_value):
            query_weight, weight = self.split_weight(sizes, by_columns=packs is not None)
            query_bias, bias = torch.split(self.query_key_value.bias, sizes)
            queries_RD = linear(read_RD, query_weight, query_bias)
            # A part is used once, so that its pack brings nothing but a gradient by columns.
            keys_values_TX = linear(hidden_TD, weight, bias, None if packs is None else Pack())
        else:
            queries_TD, keys_values_TX = torch.split(self.query_key_value(hidden_TD), sizes, dim=1)
            queries_RD = queries_TD.index_select(0, reading.positions_R)
        attended_RD = attend_from(
            queries_RD, keys_values_TX, lengths, reading.counts, self.num_heads, self.current_dropout
        )
        return project(self.output, attended_RD, packs)

    def split_weight(self, sizes: list[int], by_columns: bool) -> Sequence[Tensor]:
        """The rows of the one matrix in parts whose gradients lie as those of the layers that they are added to."""
        weight = self.query_key_value.weight
        return (
            [part.t() for part in torch.split(weight.t(), sizes, dim=1)] if by_columns else torch.split(weight, sizes)
        )

    @property
    def current_dropout(self) -> float:
        return self.dropout if self.training else 0.0


class FeedForward(nn.Module):
    """Two matrices with an activation between, applied to each token alone."""

    def __init__(self, hidden_size: int, feed_forward_size: int, activation: str) -> None:
        super().__init__()
        self.up = Linear(hidden_size, feed_forward_size)
        self.is_gelu_tanh = activation == "gelu_tanh"
        self.activation = ACTIVATIONS[activation]
        self.down = Linear(feed_forward_size, hidden_size)

    def forward(self, hidden_TD: Tensor, *, recompute: bool = False, packs: Packs | None = None) -> Tensor:
        """With `recompute`, activated values are not kept for the backward pass but made again from their inputs."""
        raised_TF = project(self.up, hidden_TD, packs)
        if self.is_gelu_tanh and is_bare(self.down) and is_plain(raised_TF, self.down.weight):
            pack = None if packs is None else packs[self.down]
            return GELULinear.apply(raised_TF, self.down.weight, self.down.bias, pack)  # type: ignore[no-untyped-call]
        if recompute:
            return checkpoint(self.lower, raised_TF, packs, use_reentrant=False)
        return self.lower(raised_TF, packs)

    def lower(self, raised_TF: Tensor, packs: Packs | None) -> Tensor:
        return project(self.down, self.activation(raised_TF), packs)
