"""Which rule moves the weights."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from litebert.config import check_fields, require
from litebert.models.encoder import EncoderConfig
from litebert.models.model import Model
from litebert.models.sharing import sharing_map
from litebert.training.lamb import Lamb
from litebert.training.uncompiled import AdamW

Rule = Literal["lamb", "adamw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """The optimizer; its defaults are those of the paper and its released code."""

    optimizer: Rule = "lamb"
    """LAMB is the paper's, for batches of thousands; AdamW suits small ones."""
    beta1: float = 0.9
    """How much of the running mean of gradients stays at each step."""
    beta2: float = 0.999
    """How much of the running mean of squared gradients stays at each step."""
    epsilon: float = 1e-6
    """Added to the root of that mean before it divides."""
    weight_decay: float = 0.01
    """Weight decay of matrices and tables; biases and layer normalisations have none."""
    bias_correction: bool = False
    """Correct the running means for beginning at zero. For LAMB only: AdamW always does."""
    clip_norm: float = 1.0
    """The longest gradient of all weights together; longer ones are scaled down to it."""
    pooler_rate: float = 1.0
    """The learning rate of the pooler and of a pair head, as a multiple of the others'. In small batches what pairs
    teach is mostly noise at first, and at the full rate Adam drives the pooler into saturation, where it stays."""
    layer_decay: float = 1.0
    """The learning rate of each layer, as a multiple of that of the layer above it; the topmost layer's, of the
    heads'."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("beta1", "beta2"):
            require(0 <= getattr(self, name) < 1, f"{name} is {getattr(self, name)}; it must be in [0, 1)")
        for name in ("epsilon", "pooler_rate"):
            value = getattr(self, name)
            require(0 < value < math.inf, f"{name} is {value}; it must be positive and finite")
        decay = self.weight_decay
        require(0 <= decay < math.inf, f"weight_decay is {decay}; it must be at least 0 and finite")
        require(self.clip_norm > 0, f"clip_norm is {self.clip_norm}; it must be positive")
        require(0 < self.layer_decay <= 1, f"layer_decay is {self.layer_decay}; it must be above 0 and at most 1")


def make_optimizer(model: Model, config: OptimizerConfig, learning_rate: float = 0.0) -> torch.optim.Optimizer:
    """The learning rate is that of weights whose share of it is whole; `set_rate` changes it, as do torch's schedulers,
    which multiply what it begins with."""
    groups = group_parameters(model, config)
    settings: dict[str, Any] = {"lr": learning_rate, "betas": (config.beta1, config.beta2), "eps": config.epsilon}
    optimizer: torch.optim.Optimizer
    if config.optimizer == "lamb":
        optimizer = Lamb(groups, bias_correction=config.bias_correction, **settings)
    else:
        for group in groups:
            del group["adapt"], group["parts"]
        optimizer = AdamW(groups, fused=True, **settings)
    set_rate(optimizer, learning_rate)
    return optimizer


def set_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Gives every group of weights its share of the learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["rate_scale"]


def group_parameters(model: Model, config: OptimizerConfig) -> list[dict[str, Any]]:
    """Matrices and tables, which decay and adapt; and what has one dimension, biases and layer normalisations.

    Of either a group for each share of the learning rate. LAMB takes queries, keys and values, which are one tensor
    here, for the three matrices that they are.
    """
    grouped: dict[tuple[float, bool, int], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            scale = config.layer_decay ** (model.config.num_layers + 1 - find_depth(model.config, name))
            if name.startswith(("pooler.", "heads.pair.")):
                scale *= config.pooler_rate
            is_matrix = parameter.ndim > 1
            parts = 3 if is_matrix and "query_key_value" in name and config.optimizer == "lamb" else 1
            grouped.setdefault((scale, is_matrix, parts), []).append(parameter)
    return [
        {
            "params": parameters,
            "weight_decay": config.weight_decay if is_matrix else 0.0,
            "adapt": is_matrix,
            "parts": parts,
            "rate_scale": scale,
        }
        for (scale, is_matrix, parts), parameters in sorted(grouped.items(), key=lambda item: item[0], reverse=True)
    ]


def find_depth(config: EncoderConfig, name: str) -> int:
    """How high a weight stands: the embedding at 0, a layer at its number, what reads the last one above it.

    A weight of several layers counts as the highest of them.
    """
    if not name.startswith("encoder."):
        return config.num_layers + 1
    part, number, *_ = name.removeprefix("encoder.").split(".")
    if part == "embedding":
        return 0
    pairs = sharing_map(config.sharing, config.num_layers)
    used = {
        "attentions": [attention for attention, _ in pairs],
        "feed_forwards": [feed_forward for _, feed_forward in pairs],
        "norms": [list(dict.fromkeys(pairs)).index(pair) for pair in pairs],
    }[part]
    return config.num_layers - used[::-1].index(int(number))
