"""Print every preset: layers, widths, heads, sharing, parameters, size and cost.

Parameters are those of the encoder with its pooler, as the paper counts them; the size on disk is theirs in 32 bits. FLOPs
are of the matrix products of one forward pass, per token of a sequence of --length tokens.

Example:
    litebert models --length 512
"""

import json
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Options:
    length: int = 128
    """The sequence length for which FLOPs are counted."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    import torch
    from rich.console import Console
    from rich.table import Table

    from litebert.config import require
    from litebert.models.heads import Model
    from litebert.presets import PRESETS

    require(options.length > 0, f"--length is {options.length}; it must be at least 1")
    rows = []
    for name, preset in PRESETS.items():
        config = preset()
        with torch.device("meta"):
            parameters = sum(parameter.numel() for parameter in Model(config).parameters())
        rows.append(
            {
                "name": name,
                "layers": config.num_layers,
                "hidden": config.hidden_size,
                "embedding": config.embedding_size,
                "heads": config.num_heads,
                "sharing": config.sharing,
                "vocabulary": config.vocab_size,
                "dropout": config.hidden_dropout,
                "parameters": parameters,
                "bytes": 4 * parameters,
                "flops_per_token": config.flops_per_token(options.length),
            }
        )
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(*("preset", "layers", "hidden", "embedding", "heads", "sharing", "vocabulary", "dropout"))
    for column in ("parameters", "on disk", "MFLOPs/token"):
        table.add_column(column, justify="right")
    for row in rows:
        *plain, parameters, size, flops = row.values()
        table.add_row(*map(str, plain), f"{parameters:,}", f"{size / 1e6:,.1f} MB", f"{flops / 1e6:,.1f}")
    Console().print(table)
