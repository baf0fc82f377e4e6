"""What is asked of an encoder's hidden states, one head per question."""

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.config import check_fields, require
from litebert.models.encoder import EncoderConfig, initialize
from litebert.models.layers import ACTIVATIONS

HeadKind = Literal["masked_token", "pair", "classes", "choice", "token_classes", "span", "answerable_span"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadConfig:
    """One question."""

    kind: HeadKind
    num_classes: int = 2
    """Of `pair` (2, or 3 with unrelated segments), `classes` and `token_classes`; 1 makes `classes` a regression."""
    dropout: float = 0.1
    """On what a fine-tuning head sees, as in the paper; the two pre-training heads and `span` have none."""
    labels: tuple[str, ...] = ()
    """The classes' names, if they have any."""
    several: bool = False
    """Whether any number of the `classes` may be right at once, each a question of its own."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.num_classes >= 1, f"num_classes is {self.num_classes}; it must be at least 1")
        require(0 <= self.dropout < 1, f"dropout is {self.dropout}; it must be in [0, 1)")
        require(
            not self.labels or len(self.labels) == self.num_classes,
            f"there are {len(self.labels)} labels for {self.num_classes} classes; give each class one",
        )
        require(
            self.kind != "pair" or self.num_classes in (2, 3),
            f"a pair head has {self.num_classes} classes; segments are in order, swapped or unrelated: choose 2 or 3",
        )


POOLED_KINDS: frozenset[HeadKind] = frozenset({"pair", "classes", "choice"})
"""The heads that read the pooled first token."""
TOKEN_KINDS: frozenset[HeadKind] = frozenset({"token_classes", "span", "answerable_span"})
"""The heads that read every token."""
PRETRAINING = (HeadConfig(kind="masked_token"), HeadConfig(kind="pair"))
FORBIDDEN = -1e30
"""The logit of an answer where none may lie."""


class Features(NamedTuple):
    """What a head sees."""

    batch: Batch
    hidden_TD: Tensor | None
    """Of all tokens, where a head reads them all."""
    predicted_PD: Tensor | None
    """Those at the predicted positions (all, if the batch names none), where there is a masked-token head."""
    pooled_BD: Tensor | None
    words_VE: Tensor
    """The embedding table, to which the masked-token head is tied."""


class MaskedTokenHead(nn.Module):
    """Scores the vocabulary at predicted positions only; its output matrix is the embedding table itself."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.embedding_size)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def prepare(self, features: Features) -> Tensor:
        """Hidden states at the predicted positions -> the width of the table."""
        return self.norm(self.activation(self.transform(features.predicted_PD)))

    def forward(self, features: Features) -> Tensor:
        return F.linear(self.prepare(features), features.words_VE, self.bias)


class LinearHead(nn.Module):
    """One matrix over each sequence's pooled first token (segment order, a class, a number, how good a choice it is) or
    over each token (its class; how well an answer starts and ends there, as for SQuAD 1.1).
    """

    def __init__(self, hidden_size: int, num_outputs: int, dropout: float, *, pooled: bool) -> None:
        super().__init__()
        self.pooled = pooled
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_size, num_outputs)

    def forward(self, features: Features) -> Tensor:
        return self.output(self.dropout(features.pooled_BD if self.pooled else features.hidden_TD))


class Spans(NamedTuple):
    """What an `AnswerableSpanHead` says; S is 1 with given starts, else the number of best starts."""

    start_logits_BL: Tensor
    starts_BS: Tensor
    """Where in its sequence each considered answer starts."""
    end_logits_BSL: Tensor
    """Given each of those starts, how well the answer ends at each token."""
    unanswerable_B: Tensor
    """The logit of there being no answer."""

    def widen(self, width: int) -> "Spans":
        """With columns beyond the longest sequence, where no answer lies."""
        start_logits_BL, end_logits_BSL = (
            F.pad(logits, (0, width - logits.shape[-1]), value=FORBIDDEN)
            for logits in (self.start_logits_BL, self.end_logits_BSL)
        )
        return self._replace(start_logits_BL=start_logits_BL, end_logits_BSL=end_logits_BSL)


class AnswerableSpanHead(nn.Module):
    """SQuAD 2.0's head, from XLNet: the end is chosen knowing the start, and a third part says if there is an answer.

    The end's first matrix sees a token beside the start; its product is taken apart, so that the tokens' half is
    computed once for all starts.
    """

    def __init__(self, config: EncoderConfig, dropout: float) -> None:
        super().__init__()
        size = config.hidden_size
        self.start = nn.Linear(size, 1)
        self.end_transform = nn.Linear(2 * size, size)
        self.end_norm = nn.LayerNorm(size, eps=config.layer_norm_epsilon)
        self.end = nn.Linear(size, 1)
        self.answer_transform = nn.Linear(2 * size, size)
        self.answer_dropout = nn.Dropout(dropout)
        self.answer = nn.Linear(size, 1, bias=False)

    def forward(
        self,
        features: Features,
        *,
        starts_B: Tensor | None = None,
        allowed_T: Tensor | None = None,
        num_starts: int = 5,
    ) -> Spans:
        """In training the true starts are given; otherwise the ends of the `num_starts` best are scored.

        `allowed_T` is true where an answer may lie: the first token and the paragraph.
        """
        batch, hidden_TD = features.batch, cast(Tensor, features.hidden_TD)
        hidden_BLD = batch.pad(hidden_TD)
        allowed_T = torch.ones_like(batch.token_ids_T, dtype=torch.bool) if allowed_T is None else allowed_T
        forbidden_BL = ~batch.pad(allowed_T)
        start_logits_BL = batch.pad(self.start(hidden_TD).squeeze(-1)).masked_fill(forbidden_BL, FORBIDDEN)
        if starts_B is None:
            starts_BS = start_logits_BL.topk(min(num_starts, max(batch.lengths)), dim=1).indices
        else:
            starts_BS = starts_B[:, None]
        tokens_BLD = batch.pad(F.linear(hidden_TD, self.end_transform.weight[:, : hidden_BLD.shape[-1]]))
        end_logits_BSL = self.score_ends(hidden_BLD, tokens_BLD, starts_BS)
        return Spans(
            start_logits_BL,
            starts_BS,
            end_logits_BSL.masked_fill(forbidden_BL[:, None], FORBIDDEN),
            self.score_absence(hidden_BLD, start_logits_BL),
        )

    def score_ends(self, hidden_BLD: Tensor, tokens_BLD: Tensor, starts_BS: Tensor) -> Tensor:
        """`tokens_BLD` is the tokens' half of the first product."""
        start_hidden_BSD = hidden_BLD.take_along_dim(starts_BS[..., None], dim=1)
        start_weight_DD = self.end_transform.weight[:, hidden_BLD.shape[-1] :]
        starts_BSD = F.linear(start_hidden_BSD, start_weight_DD, self.end_transform.bias)
        transformed_BSLD = torch.tanh(tokens_BLD[:, None] + starts_BSD[:, :, None])
        return self.end(self.end_norm(transformed_BSLD)).squeeze(-1)

    def score_absence(self, hidden_BLD: Tensor, start_logits_BL: Tensor) -> Tensor:
        expected_BD = torch.einsum("bl,bld->bd", start_logits_BL.softmax(dim=1), hidden_BLD)
        both_BX = torch.cat([expected_BD, hidden_BLD[:, 0]], dim=1)
        return self.answer(self.answer_dropout(torch.tanh(self.answer_transform(both_BX)))).squeeze(-1)


def make_head(config: EncoderConfig, head: HeadConfig) -> nn.Module:
    """A head with initialised weights."""
    made: nn.Module
    if head.kind == "masked_token":
        made = MaskedTokenHead(config)
    elif head.kind == "answerable_span":
        made = AnswerableSpanHead(config, head.dropout)
    else:
        num_outputs = {"choice": 1, "span": 2}.get(head.kind, head.num_classes)
        dropout = 0.0 if head.kind in ("pair", "span") else head.dropout
        made = LinearHead(config.hidden_size, num_outputs, dropout, pooled=head.kind in POOLED_KINDS)
    return made.apply(partial(initialize, std=config.initializer_range))


def make_pooler(config: EncoderConfig) -> nn.Linear:
    pooler = nn.Linear(config.hidden_size, config.hidden_size)
    initialize(pooler, config.initializer_range)
    return pooler
