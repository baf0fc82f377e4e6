"""`config.json` as Hugging Face's ALBERT and BERT have it: read into our configs, written from them."""

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from litebert.config import check_count, fits, from_dict, require
from litebert.models.encoder import MOST_LAYERS, EncoderConfig
from litebert.models.heads import HeadConfig, HeadKind
from litebert.models.model import Model
from litebert.models.names import Family
from litebert.models.sharing import find_groups, name_sharing, sharing_map

logger = logging.getLogger("litebert")

# Our field -> theirs.
FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "feed_forward_size": "intermediate_size",
    "num_positions": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
    "initializer_range": "initializer_range",
}
REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
ACTIVATION_NAMES = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "tanh": "tanh", "linear": "linear"}
# What their configs may ask for that is another computation, and the value that asks for nothing.
UNSUPPORTED: dict[str, Any] = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "net_structure_type": 0,
    "pruned_heads": {},
}
TYPES = {"litebert": dict, "id2label": dict, "hidden_act": str, "architectures": list}
NAMES: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}
OWN_TYPES = {"encoder": dict, "heads": list, "sharing": str}
SEVERAL = "multi_label_classification"
CLASS_SUFFIXES: dict[str, HeadKind] = {
    "ForSequenceClassification": "classes",
    "ForMultipleChoice": "choice",
    "ForTokenClassification": "token_classes",
    "ForQuestionAnswering": "span",
}
# The tensor by which each head is known; `classifier` serves three kinds, told apart by the architecture.
HEAD_MARKS: dict[str, HeadKind] = {
    "predictions.bias": "masked_token",
    "cls.predictions.bias": "masked_token",
    "sop_classifier.classifier.weight": "pair",
    "cls.seq_relationship.weight": "pair",
    "classifier.weight": "classes",
    "qa_outputs.weight": "span",
    "start_logits.dense.weight": "answerable_span",
}


def find_family(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Family:
    """Whose folder this is, by its config or, where an old one does not say, by its tensors' names."""
    model_type = content.get("model_type")
    if model_type is None:
        model_type = "bert" if any("encoder.layer." in name for name in tensors) else "albert"
    require(
        model_type in ("albert", "bert", "litebert"),
        f"config.json says model_type {model_type!r}; LiteBERT opens albert, bert and its own litebert folders",
    )
    return cast(Family, model_type)


def choose_family(model: Model) -> Family:
    """Whose class can express a model: BERT's if nothing is factorised or shared, else ALBERT's, else only ours."""
    config, pair = model.config, model.head_configs.get("pair")
    pairs = sharing_map(config.sharing, config.num_layers)
    unshared = pairs == sharing_map("none", config.num_layers)
    if unshared and not config.projection and (pair is None or pair.num_classes == 2):
        return "bert"
    return "albert" if find_groups(config.sharing, config.num_layers) else "litebert"


def read_encoder_config(content: Mapping[str, Any], family: Family, *, by_google: bool) -> EncoderConfig:
    """The encoder's numbers; `by_google` if the config lay beside a TensorFlow checkpoint."""
    check_types(content, TYPES)
    check_types(content.get("litebert") or {}, OWN_TYPES, "the litebert in config.json")
    if family == "litebert":
        return from_dict(EncoderConfig, (content.get("litebert") or {}).get("encoder", {}))
    check_content(content)
    values = {ours: content[theirs] for ours, theirs in FIELDS.items() if theirs in content}
    activation = content.get("hidden_act", "gelu" if family == "bert" else "gelu_new")
    # Google's ALBERT calls the tanh form "gelu"; the hub's BERT means the erf form by it.
    tanh_called_gelu = by_google and family == "albert" and activation == "gelu"
    values["activation"] = "gelu_tanh" if tanh_called_gelu else ACTIVATIONS[activation]
    if family == "bert":
        values = {"hidden_dropout": 0.1, "attention_dropout": 0.1} | values  # BERT's defaults, where it says nothing
        values |= {"embedding_size": content["hidden_size"], "projection": False, "sharing": "none"}
    else:
        values |= read_albert_values(content, by_google)
    return from_dict(EncoderConfig, values | keep_own_sharing(content, values["sharing"], values["num_layers"]))


def check_types(content: Mapping[str, Any], types: Mapping[str, type], where: str = "config.json") -> None:
    """What says nothing may be missing, or null."""
    for key, kind in types.items():
        value = content.get(key)
        require(value is None or isinstance(value, kind), f"{where} says {key} {value!r:.60}; it must be {NAMES[kind]}")


def check_content(content: Mapping[str, Any]) -> None:
    missing = [key for key in REQUIRED if key not in content]
    require(not missing, f"config.json lacks {', '.join(missing)}; it is not a model's config")
    for key in (*REQUIRED, "embedding_size", "num_hidden_groups", "inner_group_num"):
        require(
            fits(content.get(key, 1), int), f"config.json says {key} {content.get(key)!r}; it must be a whole number"
        )
    check_count("config.json's num_hidden_layers", content["num_hidden_layers"], MOST_LAYERS)
    check_count("config.json's inner_group_num", content.get("inner_group_num", 1), MOST_LAYERS)
    for key, neutral in UNSUPPORTED.items():
        require(
            content.get(key, neutral) in (neutral, None),
            f"config.json asks for {key} = {content.get(key)!r}, which LiteBERT's encoder does not compute",
        )
    known, activation = ", ".join(ACTIVATIONS), content.get("hidden_act", "gelu")
    require(activation in ACTIVATIONS, f"config.json says hidden_act {activation!r}; known are {known}")


def read_albert_values(content: Mapping[str, Any], by_google: bool) -> dict[str, Any]:
    """What ALBERT has beside BERT: the factorised embedding and the groups."""
    num_layers, inner = content["num_hidden_layers"], content.get("inner_group_num", 1)
    embedding_size = content.get("embedding_size", 128)
    # In TensorFlow the projection exists only where the widths differ; transformers always has one.
    projects = not (by_google and embedding_size == content["hidden_size"])
    return {
        "embedding_size": embedding_size,
        "projection": (content.get("litebert") or {}).get("projection", projects),
        "num_layers": num_layers * inner,
        "sharing": name_sharing(num_layers, content.get("num_hidden_groups", 1), inner),
    }


def keep_own_sharing(content: Mapping[str, Any], sharing: str, num_layers: int) -> dict[str, str]:
    """The name under which LiteBERT wrote the sharing, as long as it still means the same."""
    own = (content.get("litebert") or {}).get("sharing", sharing)
    return {"sharing": own} if sharing_map(own, num_layers) == sharing_map(sharing, num_layers) else {}


def read_head_configs(content: Mapping[str, Any], family: Family, tensors: Mapping[str, Tensor]) -> list[HeadConfig]:
    """The heads a folder holds, by its tensors; their class counts by the tensors' shapes."""
    if family == "litebert":
        own = (content.get("litebert") or {}).get("heads") or []
        require(all(isinstance(head, dict) for head in own), f"config.json says heads {own!r:.60}; each is an object")
        return [from_dict(HeadConfig, head) for head in own]
    architecture = str(next(iter(content.get("architectures") or []), ""))
    dropout = content.get("classifier_dropout_prob", content.get("classifier_dropout"))
    if dropout is None:
        dropout = 0.1 if family == "albert" else content.get("hidden_dropout_prob", 0.1)
    heads = []
    for mark, kind in HEAD_MARKS.items():
        if mark not in tensors:
            continue
        if mark == "classifier.weight":
            kind = next((k for suffix, k in CLASS_SUFFIXES.items() if architecture.endswith(suffix)), kind)
        has_classes = kind in ("pair", "classes", "token_classes")
        num_classes = len(tensors[mark]) if has_classes else 2
        labels = read_labels(content, num_classes) if kind in ("classes", "token_classes") else ()
        several = kind == "classes" and content.get("problem_type") == SEVERAL
        values = {"kind": kind, "num_classes": num_classes, "dropout": dropout, "labels": labels, "several": several}
        heads.append(from_dict(HeadConfig, values))
    return heads


def read_labels(content: Mapping[str, Any], num_classes: int) -> tuple[str, ...]:
    """The classes' names, unless they are the placeholders that transformers writes."""
    names = content.get("id2label") or {}
    labels = tuple(str(names.get(str(index), f"LABEL_{index}")) for index in range(num_classes))
    return () if all(label == f"LABEL_{index}" for index, label in enumerate(labels)) else labels


def write_config(model: Model, family: Family) -> dict[str, Any]:
    """The content of `config.json`; under `litebert` stands what transformers has no word for."""
    config, heads = model.config, model.head_configs
    if family == "litebert":
        return {
            "model_type": family,
            "architectures": ["LiteBertModel"],
            "litebert": {
                "encoder": dataclasses.asdict(config),
                "heads": [dataclasses.asdict(head) for head in heads.values()],
                "why": f"transformers has no class for sharing {config.sharing!r} with these heads; open with litebert",
            },
        }
    content: dict[str, Any] = {
        "model_type": family,
        "architectures": [name_architecture(family, heads)],
        **{theirs: getattr(config, ours) for ours, theirs in FIELDS.items()},
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "pad_token_id": 0,
        "dtype": "float32",
        "litebert": {"sharing": config.sharing, "projection": config.projection},
    }
    dropout = next((head.dropout for kind, head in heads.items() if kind not in ("masked_token", "pair")), 0.1)
    content["classifier_dropout_prob" if family == "albert" else "classifier_dropout"] = dropout
    if family == "albert":
        groups, inner = find_groups(config.sharing, config.num_layers) or (1, 1)
        content |= {"num_hidden_layers": config.num_layers // inner, "num_hidden_groups": groups}
        content |= {"inner_group_num": inner, "embedding_size": config.embedding_size}
    return content | write_labels(heads)


def name_architecture(family: Family, heads: Mapping[HeadKind, HeadConfig]) -> str:
    """The class of transformers that opens all of a folder, or as much of it as one can."""
    prefix = {"albert": "Albert", "bert": "Bert"}[family]
    for suffix, kind in CLASS_SUFFIXES.items():
        if kind in heads:
            return prefix + suffix
    if "pair" in heads:
        return prefix + "ForPreTraining"
    return prefix + ("ForMaskedLM" if "masked_token" in heads else "Model")


def write_labels(heads: Mapping[HeadKind, HeadConfig]) -> dict[str, Any]:
    """How many classes a head has and what they are called; transformers counts classes by their names."""
    head = next((heads[kind] for kind in ("classes", "token_classes", "pair") if kind in heads), None)
    if head is None:
        return {}
    labels = head.labels or tuple(f"LABEL_{index}" for index in range(head.num_classes))
    content: dict[str, Any] = {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    if head.kind == "classes" and (head.several or head.num_classes == 1):
        content["problem_type"] = SEVERAL if head.several else "regression"
    return content


def warn_of_traps(path: Path, family: Family, config: EncoderConfig) -> None:
    """Says where a folder's own word is known to mislead. Nothing is changed: overrides are the user's to give."""
    if family != "albert":
        return
    shape = (config.num_layers, config.hidden_size, config.embedding_size, config.vocab_size)
    released = shape in [(12, 768, 128, 30000), (24, 1024, 128, 30000), (24, 2048, 128, 30000), (12, 4096, 128, 30000)]
    if released and config.activation == "gelu_erf":
        logger.warning(
            "%s: config.json says hidden_act 'gelu', the erf form, as the hub's version 1 folders do, but Google "
            "trained with the tanh form; if these are Google's weights, open them with activation='gelu_tanh'",
            path,
        )
    if shape[1:3] == (2048, 128) and config.num_layers == 24:
        logger.warning(
            "%s: ALBERT-xlarge's head count is uncertain: the hub's config.json says 16, the one in Google's archive "
            "32, and no tensor's shape depends on it; using %d, and if scores are low, open it with num_heads=%d",
            path,
            config.num_heads,
            16 if config.num_heads == 32 else 32,
        )


def warn_of_dropout(family: Family, config: EncoderConfig) -> None:
    if family == "albert" and config.hidden_dropout > 0:
        logger.warning(
            "hidden_dropout is %g: transformers' ALBERT never applies it after the feed-forward network; LiteBERT "
            "does, like Google's code: training this folder there differs from training it here, inference does not",
            config.hidden_dropout,
        )


def check_one_classifier(heads: Iterable[HeadKind]) -> None:
    """Three kinds of head are called `classifier` in a folder, so it can hold only one of them."""
    clash = [kind for kind in heads if kind in ("classes", "choice", "token_classes")]
    require(len(clash) <= 1, f"a model folder can hold only one of the heads {', '.join(clash)}; remove the others")
