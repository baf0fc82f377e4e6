"""What each layer does to its input: how far it moves it, and by what angle (ALBERT's Figure 1)."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from litebert.batch import Batch
from litebert.config import require
from litebert.models.model import Model, require_finite
from litebert.training.evaluation import evaluating


@dataclass(frozen=True, kw_only=True)
class Layers:
    """Means over tokens, a number for each layer."""

    distances: list[float]
    """The length of the difference between a layer's output and its input."""
    angles: list[float]
    """The angle between the two, in degrees."""
    num_tokens: int


def measure_layers(model: Model, batches: Iterable[Batch]) -> Layers:
    distances, angles = (torch.zeros(model.config.num_layers, dtype=torch.float64) for _ in range(2))
    num_tokens = 0
    with evaluating(model), torch.inference_mode():
        for batch in batches:
            depths = model.encoder(batch, keep_depths=True).depths
            assert depths is not None
            require_finite(depths[-1])
            for layer, (before_TD, after_TD) in enumerate(itertools.pairwise(depths)):
                distances[layer] += (after_TD - before_TD).norm(dim=-1).sum()
                cosines_T = F.cosine_similarity(before_TD.double(), after_TD.double(), dim=-1).clamp(-1, 1)
                angles[layer] += cosines_T.acos().sum() * (180 / math.pi)
            num_tokens += batch.num_tokens
    require(num_tokens, "there is no text to measure layers on; give some")
    return Layers(
        distances=(distances / num_tokens).tolist(), angles=(angles / num_tokens).tolist(), num_tokens=num_tokens
    )


def tabulate_layers(measured: Mapping[str, Layers]) -> list[dict[str, Any]]:
    """A row for each layer of the deepest model, with two columns for each model."""
    rows = []
    for depth in range(max(len(layers.distances) for layers in measured.values())):
        row: dict[str, Any] = {"layer": depth + 1}
        for name, layers in measured.items():
            has_layer = depth < len(layers.distances)
            row[f"{name}: distance"] = f"{layers.distances[depth]:.2f}" if has_layer else ""
            row[f"{name}: angle"] = f"{layers.angles[depth]:.1f}" if has_layer else ""
        rows.append(row)
    return rows
