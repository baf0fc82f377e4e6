"""Which rule moves the weights."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from litebert.config import check_fields, require
from litebert.training.lamb import Lamb


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """The rule and its numbers; the defaults are the paper's and its released code's."""

    optimizer: Literal["lamb", "adamw"] = "lamb"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    """Of matrices and tables; biases and layer normalisations have none."""
    bias_correction: bool = False
    """LAMB only. AdamW, which is torch's, always corrects."""
    clip_norm: float = 1.0
    """The longest gradient of all weights together; longer ones are shortened."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("beta1", "beta2"):
            require(0 <= getattr(self, name) < 1, f"{name} is {getattr(self, name)}; it must be in [0, 1)")
        require(self.epsilon > 0, f"epsilon is {self.epsilon}; it must be positive")
        require(self.weight_decay >= 0, f"weight_decay is {self.weight_decay}; it must be at least 0")
        require(self.clip_norm > 0, f"clip_norm is {self.clip_norm}; it must be positive")


def make_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The learning rate is 0 until a schedule sets it."""
    groups = group_parameters(model, config.weight_decay)
    settings: dict[str, Any] = {"lr": 0.0, "betas": (config.beta1, config.beta2), "eps": config.epsilon}
    if config.optimizer == "lamb":
        return Lamb(groups, bias_correction=config.bias_correction, **settings)
    for group in groups:
        del group["adapt"]
    return torch.optim.AdamW(groups, fused=True, **settings)


def group_parameters(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and tables, which decay and adapt; and what has one dimension, biases and layer normalisations."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices, vectors = ([p for p in trained if (p.ndim > 1) == many] for many in (True, False))
    groups = [
        {"params": matrices, "weight_decay": weight_decay, "adapt": True},
        {"params": vectors, "weight_decay": 0.0, "adapt": False},
    ]
    return [group for group in groups if group["params"]]
