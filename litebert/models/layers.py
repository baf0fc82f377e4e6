"""The parts of an encoder: the factorised embedding, attention over packed sequences, and the feed-forward network."""

import itertools
import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from litebert.batch import Batch
from litebert.models.linear import Linear

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


class Attention(nn.Module):
    """Multi-head self-attention within each packed sequence; its three input projections are one matrix.

    Sequences must lie longest first, so that those of one length are neighbours and are multiplied together where they
    lie: nothing is gathered, nothing is masked, and even here no padding is multiplied.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.query_key_value = Linear(hidden_size, 3 * hidden_size)
        self.output = Linear(hidden_size, hidden_size)

    def forward(self, hidden_TD: Tensor, lengths: tuple[int, ...], maps: list[Tensor] | None = None) -> Tensor:
        """Given a list for `maps`, also appends to it the attention probabilities of each sequence."""
        runs = [(length, len(list(run))) for length, run in itertools.groupby(lengths)]
        parts = self.query_key_value(hidden_TD).split([length * number for length, number in runs])
        contexts = [self.attend(part, *run, maps) for part, run in zip(parts, runs, strict=True)]
        return self.output(contexts[0] if len(contexts) == 1 else torch.cat(contexts))

    def attend(self, projected_TX: Tensor, length: int, number: int, maps: list[Tensor] | None) -> Tensor:
        projected = projected_TX.view(number, length, 3, self.num_heads, -1)
        query_BHLK, key_BHLK, value_BHLK = (part.transpose(1, 2) for part in projected.unbind(2))
        if maps is not None:
            scores_BHLL = query_BHLK @ key_BHLK.transpose(-1, -2) / math.sqrt(query_BHLK.shape[-1])
            maps.extend(scores_BHLL.softmax(dim=-1))
        dropout = self.dropout if self.training else 0.0
        context_BHLK = F.scaled_dot_product_attention(query_BHLK, key_BHLK, value_BHLK, dropout_p=dropout)
        return context_BHLK.transpose(1, 2).reshape(number * length, -1)


class FeedForward(nn.Module):
    """Two matrices with an activation between, applied to each token alone."""

    def __init__(self, hidden_size: int, feed_forward_size: int, activation: str) -> None:
        super().__init__()
        self.up = Linear(hidden_size, feed_forward_size)
        self.activation = ACTIVATIONS[activation]
        self.down = Linear(feed_forward_size, hidden_size)

    def forward(self, hidden_TD: Tensor, *, recompute: bool = False) -> Tensor:
        """With `recompute`, activated values are not kept for the backward pass but made again from their inputs."""
        raised_TF = self.up(hidden_TD)
        return checkpoint(self.lower, raised_TF, use_reentrant=False) if recompute else self.lower(raised_TF)

    def lower(self, raised_TF: Tensor) -> Tensor:
        return self.down(self.activation(raised_TF))
