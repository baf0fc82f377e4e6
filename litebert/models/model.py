"""An encoder with its heads: what is trained, written to a folder, and asked."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.config import require
from litebert.models.encoder import Encoder, EncoderConfig
from litebert.models.heads import POOLED_KINDS, TOKEN_KINDS, Features, HeadConfig, make_head, make_pooler


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a model makes of a batch: per packed token, or per row and column if it was given padded ids."""

    hidden: Tensor
    pooled: Tensor | None
    logits: dict[str, Any]
    """By kind of head."""
    depths: tuple[Tensor, ...] | None = None
    attention_maps: tuple[tuple[Tensor, ...], ...] | None = None

    def pad(self, batch: Batch, width: int) -> "Output":
        """Everything per token, by row and column, with zeros at padding, or where an answer cannot lie."""
        pad = partial(batch.pad, width=width)
        widen: dict[str, Callable[[Any], Any]] = dict.fromkeys(("masked_token", "token_classes", "span"), pad)
        widen["answerable_span"] = lambda spans: spans.widen(width)
        return dataclasses.replace(
            self,
            hidden=pad(self.hidden),
            logits={kind: widen.get(kind, lambda value: value)(value) for kind, value in self.logits.items()},
            depths=self.depths and tuple(map(pad, self.depths)),
        )


def require_finite(outputs: Tensor) -> Tensor:
    """What a model says, where it says anything: weights that are finite may still be too large to compute with."""
    require(
        bool(outputs.isfinite().all()),
        "the model's outputs are no numbers, or infinite, since its weights have grown too large; take an earlier "
        "model, or train one with a third of the learning rate",
    )
    return outputs


class Model(nn.Module):
    """An encoder, the pooler over each sequence's first token, and any number of heads."""

    def __init__(self, config: EncoderConfig, heads: Iterable[HeadConfig] = (), *, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        heads = list(heads)
        self.head_configs = {head.kind: head for head in heads}
        require(len(self.head_configs) == len(heads), "a model has at most one head of each kind; remove the second")
        self.encoder = Encoder(config)
        self.pooler = make_pooler(config) if pooler else None
        self.heads = nn.ModuleDict({kind: make_head(config, head) for kind, head in self.head_configs.items()})
        unfed = [] if pooler else [kind for kind in self.head_configs if kind in POOLED_KINDS]
        require(
            not unfed,
            f"the heads {', '.join(unfed)} read the pooled first token, but the model has no pooler; give it one",
        )

    def encode(self, batch: Batch) -> Features:
        """What every head needs, for those who call heads one by one; the last layer runs for what they read alone."""
        if self.reads_all(batch):
            return self.make_features(batch, self.encoder(batch).hidden_TD)
        positions = [batch.starts_B]
        if "masked_token" in self.heads and batch.predicted_positions_P is not None:
            positions.append(batch.predicted_positions_P)
        hidden_RD = self.encoder.read(batch, torch.cat(positions))
        first_BD, *predicted = torch.split(hidden_RD, list(map(len, positions)))
        predicted_PD = predicted[0] if predicted else None
        return Features(batch, None, predicted_PD, self.pool(first_BD), self.encoder.embedding.words.weight)

    def reads_all(self, batch: Batch) -> bool:
        """Whether the heads read the last hidden states of all tokens, and not of the first and the predicted alone."""
        kinds = self.head_configs.keys()
        everywhere = "masked_token" in kinds and batch.predicted_positions_P is None
        # How many tokens are read is not known to a compiler.
        return not kinds or not kinds.isdisjoint(TOKEN_KINDS) or everywhere or torch.compiler.is_compiling()

    def make_features(self, batch: Batch, hidden_TD: Tensor) -> Features:
        """What every head needs, of hidden states of all tokens."""
        predicted_PD = None
        if "masked_token" in self.heads:
            predicted_P = batch.predicted_positions_P
            predicted_PD = hidden_TD if predicted_P is None else hidden_TD[predicted_P]
        pooled_BD = self.pool(hidden_TD[batch.starts_B])
        return Features(batch, hidden_TD, predicted_PD, pooled_BD, self.encoder.embedding.words.weight)

    def pool(self, first_BD: Tensor) -> Tensor | None:
        return None if self.pooler is None else torch.tanh(self.pooler(first_BD))

    def forward(
        self,
        batch: Batch | Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        input_ids: Tensor | None = None,
        keep_depths: bool = False,
        keep_attention_maps: bool = False,
    ) -> Output:
        """Takes a packed batch, or what transformers' tokenizers make: `input_ids, attention_mask, token_type_ids`."""
        given = input_ids if batch is None else batch
        require(given is not None, "the model is given no tokens; call it with a Batch, or with input_ids")
        require(batch is None or input_ids is None, "the model is given tokens twice; call it with one of the two")
        besides = attention_mask is not None or token_type_ids is not None
        require(
            isinstance(given, Tensor) or not besides,
            "a Batch holds its lengths and segments itself; leave out attention_mask and token_type_ids",
        )
        width = given.shape[1] if isinstance(given, Tensor) else None
        batch = Batch.from_padded(given, attention_mask, token_type_ids) if isinstance(given, Tensor) else given
        assert batch is not None
        encoded = self.encoder(batch, keep_depths=keep_depths, keep_attention_maps=keep_attention_maps)
        features = self.make_features(batch, encoded.hidden_TD)
        output = Output(
            hidden=encoded.hidden_TD,
            pooled=features.pooled_BD,
            logits={kind: head(features) for kind, head in self.heads.items()},
            depths=encoded.depths,
            attention_maps=encoded.attention_maps,
        )
        return output if width is None else output.pad(batch, width)
