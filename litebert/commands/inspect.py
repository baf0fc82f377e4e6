"""Show what a model is made of: the shape, parameters and bytes of each part, and how often one pass uses it.

Example:
    litebert inspect my-albert
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from litebert.models.model import Model


@dataclass(frozen=True, kw_only=True)
class Options:
    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A model folder or a TensorFlow checkpoint."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    from litebert.display import print_json, print_table
    from litebert.models.folder import read_model

    model = read_model(options.model)
    rows = list_parts(model)
    if options.json:
        print_json({"config": asdict(model.config), "parts": rows})
        return
    sums = {key: sum(row[key] for row in rows) for key in ("parameters", "total", "bytes")}
    print_table(rows, total={key: sums.get(key, "") for key in rows[0]} | {"part": "all"})
    config = model.config
    print(
        f"{config.num_layers} layers of {config.num_heads} heads, sharing {config.sharing}, {config.activation}; "
        f"heads: {', '.join(model.head_configs) or 'none'}"
    )


def list_parts(model: "Model") -> list[dict[str, Any]]:
    """Each parameter; `used` counts the depths, or the heads, that read it in one pass."""
    rows = []
    for name, parameter in model.named_parameters():
        used = count_uses(model, name)
        size = parameter.numel()
        rows.append(
            {
                "part": name,
                "shape": " x ".join(map(str, parameter.shape)),
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
