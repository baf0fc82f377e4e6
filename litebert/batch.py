"""A batch is packed: the real tokens of all its sequences lie end to end, and no padding is ever multiplied.

Shapes are suffixes of names, with one legend for the whole package:

    T  packed tokens        B  sequences        L  positions of a sequence, or of the longest where they are padded
    P  predicted positions  V  vocabulary       C  classes
    E  embedding            D  hidden           F  feed-forward
    H  attention heads      K  size of a head   S  starts of an answer that are considered
    R  tokens that a head reads                 X  whatever has no letter of its own

so `hidden_TD` holds one vector of the hidden size for every packed token, and `logits_PV` one score per vocabulary
entry for every predicted position.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from litebert.config import require

NO_LABEL = -100
"""The label of a sequence that has none: nothing is learned from it."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Sequences laid end to end, with what is to be predicted from them."""

    lengths: tuple[int, ...]
    token_ids_T: Tensor
    segment_ids_T: Tensor
    predicted_positions_P: Tensor | None = None
    """Where in T a token is to be predicted, in increasing order."""
    predicted_ids_P: Tensor | None = None
    """The tokens that stood there."""
    pair_labels_B: Tensor | None = None
    """How each sequence's two segments relate: 0 in order, 1 swapped (ALBERT) or unrelated (BERT); `NO_LABEL` if it has
    only one."""
    labels_BX: Tensor | None = None
    """What is to be said of each sequence: a class, a number, whether it is the right choice; or a row of 0 and 1."""
    token_labels_T: Tensor | None = None
    """The class of each token; `NO_LABEL` where it has none."""
    spans_BX: Tensor | None = None
    """The first and last token of each sequence's answer, counted within it; 0 and 0 where it has none."""
    allowed_T: Tensor | None = None
    """Where an answer may lie."""

    def __post_init__(self) -> None:
        require(self.lengths and min(self.lengths) > 0, "a batch needs at least one sequence, and none may be empty")
        num_tokens = sum(self.lengths)
        for name in ("token_ids_T", "segment_ids_T"):
            size = tuple(getattr(self, name).shape)
            require(size == (num_tokens,), f"{name} has shape {size}; the lengths add up to ({num_tokens},)")

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids_T)

    @property
    def num_sequences(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> list[int]:
        """Where in T each sequence begins."""
        return [0, *itertools.accumulate(self.lengths[:-1])]

    @cached_property
    def starts_B(self) -> Tensor:
        return torch.tensor(self.starts, device=self.token_ids_T.device)

    @cached_property
    def positions_T(self) -> Tensor:
        """Each token's position within its own sequence."""
        return torch.cat([torch.arange(length) for length in self.lengths]).to(self.token_ids_T.device)

    @classmethod
    def pack(
        cls,
        sequences: Sequence[Sequence[int]],
        segments: Sequence[Sequence[int]] | None = None,
        labels: Sequence[Any] | None = None,
    ) -> "Batch":
        """Lays lists of token ids end to end; every token is in segment 0 unless `segments` says otherwise.

        `labels` are what is to be said of each sequence.
        """
        require(
            labels is None or len(labels) == len(sequences),
            f"there are {len(sequences)} sequences and {len(labels or ())} labels; give each sequence one",
        )
        token_ids = torch.tensor(list(itertools.chain.from_iterable(sequences)), dtype=torch.long)
        segment_ids = (
            torch.zeros_like(token_ids)
            if segments is None
            else torch.tensor(list(itertools.chain.from_iterable(segments)), dtype=torch.long)
        )
        return cls(
            lengths=tuple(map(len, sequences)),
            token_ids_T=token_ids,
            segment_ids_T=segment_ids,
            labels_BX=None if labels is None else torch.tensor(labels),
        )

    @classmethod
    def from_padded(
        cls, token_ids_BL: Tensor, mask_BL: Tensor | None = None, segment_ids_BL: Tensor | None = None
    ) -> "Batch":
        """Takes the real tokens out of a batch padded on the right, as transformers' tokenizers make them."""
        require(
            token_ids_BL.dim() == 2 and token_ids_BL.numel() > 0,
            f"input_ids has shape {tuple(token_ids_BL.shape)}; it has a row for each sequence, and tokens in it",
        )
        for name, given_BL in (("attention_mask", mask_BL), ("token_type_ids", segment_ids_BL)):
            require(
                given_BL is None or given_BL.shape == token_ids_BL.shape,
                f"{name} has shape {tuple(() if given_BL is None else given_BL.shape)}; "
                f"input_ids has {tuple(token_ids_BL.shape)}",
            )
        kept_BL = torch.ones_like(token_ids_BL, dtype=torch.bool) if mask_BL is None else mask_BL.bool()
        holes = (kept_BL[:, 1:] & ~kept_BL[:, :-1]).any(dim=1) | ~kept_BL[:, 0]
        require(
            not holes.any(),
            f"row {int(holes.nonzero()[0]) if holes.any() else 0} of attention_mask does not begin with its tokens; "
            "put the padding on the right",
        )
        return cls(
            lengths=tuple(kept_BL.sum(dim=1).tolist()),
            token_ids_T=token_ids_BL[kept_BL],
            segment_ids_T=(torch.zeros_like(token_ids_BL) if segment_ids_BL is None else segment_ids_BL)[kept_BL],
        )

    def pad(self, values_TX: Tensor, width: int | None = None) -> Tensor:
        """Values per packed token -> per sequence and position, with zeros where there is no token.

        As wide as the longest sequence, unless a `width` is given.
        """
        width = width or max(self.lengths)
        return place_rows(values_TX, find_places(self.lengths, width).to(values_TX.device), self.num_sequences, width)

    @property
    def longest_first(self) -> list[int]:
        """The sequences by falling length, so that those of one length are neighbours."""
        return sorted(range(self.num_sequences), key=lambda index: -self.lengths[index])

    def reorder(self, order: Sequence[int]) -> tuple["Batch", Tensor]:
        """The same sequences in another order, and for each of its tokens where it stood in this batch.

        Only the inputs are moved; what is to be predicted stays behind.
        """
        starts = self.starts
        tokens_T = torch.cat([torch.arange(self.lengths[index]) + starts[index] for index in order])
        tokens_T = tokens_T.to(self.token_ids_T.device)
        reordered = Batch(
            lengths=tuple(self.lengths[index] for index in order),
            token_ids_T=self.token_ids_T[tokens_T],
            segment_ids_T=self.segment_ids_T[tokens_T],
        )
        return reordered, tokens_T

    def split(self, num_sequences: int) -> list["Batch"]:
        """The same sequences in batches of so many; the last may have fewer."""
        bounds = [*range(0, self.num_sequences, num_sequences), self.num_sequences]
        return [self.take(start, stop) for start, stop in itertools.pairwise(bounds)]

    def take(self, start: int, stop: int) -> "Batch":
        """The sequences from `start` up to but without `stop`, with what is to be predicted of them."""
        begin, end = sum(self.lengths[:start]), sum(self.lengths[:stop])
        places = {"B": slice(start, stop), "T": slice(begin, end), "P": self.find_predicted(begin, end)}
        sliced: dict[str, Any] = {
            field.name: value[places[field.name.rsplit("_", 1)[1][0]]]
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        if self.predicted_positions_P is not None:
            sliced["predicted_positions_P"] = sliced["predicted_positions_P"] - begin
        return Batch(lengths=self.lengths[start:stop], **sliced)

    def find_predicted(self, begin: int, end: int) -> slice:
        """Which of the predicted positions lie between two places of T."""
        if self.predicted_positions_P is None:
            return slice(None)
        bounds = torch.tensor([begin, end], device=self.predicted_positions_P.device)
        return slice(*torch.searchsorted(self.predicted_positions_P, bounds).tolist())

    def to(self, device: torch.device | str) -> "Batch":
        moved: dict[str, Any] = {
            field.name: value.to(device, non_blocking=True)
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return dataclasses.replace(self, **moved)


def find_places(counts: Sequence[int], width: int) -> Tensor:
    """For rows that lie end to end, so many of each sequence, where they stand if every sequence has `width` places."""
    columns_X = torch.cat([torch.arange(count) for count in counts])
    return torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)) * width + columns_X


def place_rows(values_XX: Tensor, places_X: Tensor, num_sequences: int, width: int) -> Tensor:
    """Rows at their places, by sequence and column, and zeros at all others."""
    padded = values_XX.new_zeros(num_sequences * width, *values_XX.shape[1:])
    return padded.index_copy(0, places_X, values_XX).view(num_sequences, width, *values_XX.shape[1:])
