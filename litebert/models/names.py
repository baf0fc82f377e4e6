"""Hugging Face's names for our weights, one table for reading and for writing."""

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor

from litebert.models.encoder import EncoderConfig
from litebert.models.sharing import sharing_map

Family = Literal["albert", "bert", "litebert"]
"""Whose class opens a folder. `litebert` is ours alone, for models that transformers cannot express."""

# Our module -> theirs; three of theirs make one of ours, stacked.
MODULES: dict[Family, dict[str, tuple[str, ...]]] = {
    "albert": {
        "encoder.embedding.words": ("albert.embeddings.word_embeddings",),
        "encoder.embedding.positions": ("albert.embeddings.position_embeddings",),
        "encoder.embedding.segments": ("albert.embeddings.token_type_embeddings",),
        "encoder.embedding.norm": ("albert.embeddings.LayerNorm",),
        "encoder.embedding.projection": ("albert.encoder.embedding_hidden_mapping_in",),
        "pooler": ("albert.pooler",),
        "heads.masked_token": ("predictions",),
        "heads.masked_token.transform": ("predictions.dense",),
        "heads.masked_token.norm": ("predictions.LayerNorm",),
        "heads.pair.output": ("sop_classifier.classifier",),
    },
    "bert": {
        "encoder.embedding.words": ("bert.embeddings.word_embeddings",),
        "encoder.embedding.positions": ("bert.embeddings.position_embeddings",),
        "encoder.embedding.segments": ("bert.embeddings.token_type_embeddings",),
        "encoder.embedding.norm": ("bert.embeddings.LayerNorm",),
        "pooler": ("bert.pooler.dense",),
        "heads.masked_token": ("cls.predictions",),
        "heads.masked_token.transform": ("cls.predictions.transform.dense",),
        "heads.masked_token.norm": ("cls.predictions.transform.LayerNorm",),
        "heads.pair.output": ("cls.seq_relationship",),
    },
}
FINE_TUNING_MODULES: dict[str, tuple[str, ...]] = {
    "heads.classes.output": ("classifier",),
    "heads.choice.output": ("classifier",),
    "heads.token_classes.output": ("classifier",),
    "heads.span.output": ("qa_outputs",),
    "heads.answerable_span.start": ("start_logits.dense",),
    "heads.answerable_span.end_transform": ("end_logits.dense_0",),
    "heads.answerable_span.end_norm": ("end_logits.LayerNorm",),
    "heads.answerable_span.end": ("end_logits.dense_1",),
    "heads.answerable_span.answer_transform": ("answer_class.dense_0",),
    "heads.answerable_span.answer": ("answer_class.dense_1",),
}
BLOCK_MODULES: dict[Family, dict[str, tuple[str, ...]]] = {
    "albert": {
        "encoder.attentions.{}.query_key_value": ("attention.query", "attention.key", "attention.value"),
        "encoder.attentions.{}.output": ("attention.dense",),
        "encoder.norms.{}.attention": ("attention.LayerNorm",),
        "encoder.feed_forwards.{}.up": ("ffn",),
        "encoder.feed_forwards.{}.down": ("ffn_output",),
        "encoder.norms.{}.feed_forward": ("full_layer_layer_norm",),
    },
    "bert": {
        "encoder.attentions.{}.query_key_value": (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
        ),
        "encoder.attentions.{}.output": ("attention.output.dense",),
        "encoder.norms.{}.attention": ("attention.output.LayerNorm",),
        "encoder.feed_forwards.{}.up": ("intermediate.dense",),
        "encoder.feed_forwards.{}.down": ("output.dense",),
        "encoder.norms.{}.feed_forward": ("output.LayerNorm",),
    },
}
# Copies of other tensors that transformers keeps under a second name.
TIED = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# What transformers has kept in files that are no weights.
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")


def name_tensors(
    family: Family, config: EncoderConfig, ours: Iterable[str], inner_group_num: int
) -> dict[str, tuple[str, ...]]:
    """Each of our tensors' names -> the names of the tensors it is made of in a folder."""
    if family == "litebert":
        return {name: (name,) for name in ours}
    modules = MODULES[family] | FINE_TUNING_MODULES
    for block in range(len(set(sharing_map(config.sharing, config.num_layers)))):
        group, inner = divmod(block, inner_group_num)
        prefix = {
            "albert": f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}",
            "bert": f"bert.encoder.layer.{block}",
        }[family]
        for module, theirs in BLOCK_MODULES[family].items():
            modules[module.format(block)] = tuple(f"{prefix}.{name}" for name in theirs)
    names = {}
    for name in ours:
        module, _, leaf = name.rpartition(".")
        names[name] = tuple(f"{their}.{leaf}" for their in modules[module])
    return names


def to_folder(tensors: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]]) -> dict[str, Tensor]:
    """Our tensors under a folder's names."""
    return {
        their: part.contiguous()
        for name, tensor in tensors.items()
        for their, part in zip(names[name], tensor.chunk(len(names[name])), strict=True)
    }


def from_folder(tensors: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]]) -> dict[str, Tensor]:
    """A folder's tensors under our names."""
    return {
        name: tensors[theirs[0]] if len(theirs) == 1 else torch.cat([tensors[their] for their in theirs])
        for name, theirs in names.items()
    }
