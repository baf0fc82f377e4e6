"""Show what a model is made of: each part's shape, parameters, how often a pass uses it, and bytes.

Example:
    litebert inspect my-albert
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

if TYPE_CHECKING:
    from litebert.models.heads import Model


@dataclass(frozen=True, kw_only=True)
class Options:
    model: tyro.conf.Positional[Path]
    """A model folder or a TensorFlow checkpoint."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    from rich.console import Console
    from rich.table import Table

    from litebert.models.folder import read_model

    model = read_model(options.model)
    rows = list_parts(model)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("part", "shape")
    for column in ("parameters", "used", "parameters x uses", "bytes"):
        table.add_column(column, justify="right")
    for row in rows:
        shape = " x ".join(map(str, row["shape"]))
        table.add_row(row["part"], shape, *(f"{row[key]:,}" for key in ("parameters", "used", "total", "bytes")))
    table.add_section()
    sums = (sum(row[key] for row in rows) for key in ("parameters", "total", "bytes"))
    parameters, total, size = (f"{value:,}" for value in sums)
    table.add_row("all", "", parameters, "", total, size)
    Console().print(table)
    config = model.config
    print(f"{config.num_layers} layers, sharing {config.sharing}; {config.activation}; {config.num_heads} heads")


def list_parts(model: "Model") -> list[dict[str, Any]]:
    """Each parameter; `used` counts the depths, or the heads, that read it in one pass."""
    rows = []
    for name, parameter in model.named_parameters():
        used = count_uses(model, name)
        size = parameter.numel()
        rows.append(
            {
                "part": name,
                "shape": list(parameter.shape),
                "parameters": size,
                "used": used,
                "total": size * used,
                "bytes": size * parameter.element_size(),
            }
        )
    return rows


def count_uses(model: "Model", name: str) -> int:
    owner, *rest = name.removeprefix("encoder.").split(".")
    if owner in ("attentions", "feed_forwards", "norms"):
        place = ("attentions", "feed_forwards", "norms").index(owner)
        return sum(depth[place] == int(rest[0]) for depth in model.encoder.depths)
    tied = name == "encoder.embedding.words.weight" and "masked_token" in model.heads
    return 2 if tied else 1
