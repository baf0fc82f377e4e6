"""Print every preset: layers, widths, heads, sharing, parameters, size and cost.

Parameters are those of the encoder with its pooler, as the paper counts them; the size on disk is theirs in 32 bits.
FLOPs are of the matrix products of one forward pass, per token of a sequence of --length tokens.

Example:
    litebert models --length 512
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Options:
    length: int = 128
    """The sequence length, in tokens, for which FLOPs are counted."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    import torch

    from litebert.config import require
    from litebert.display import print_json, print_table
    from litebert.models.model import Model
    from litebert.presets import PRESETS

    require(options.length > 0, f"--length is {options.length}; it must be at least 1")
    rows = []
    for name, preset in PRESETS.items():
        config = preset()
        with torch.device("meta"):
            parameters = sum(parameter.numel() for parameter in Model(config).parameters())
        rows.append(
            {
                "preset": name,
                "layers": config.num_layers,
                "hidden": config.hidden_size,
                "embedding": config.embedding_size,
                "heads": config.num_heads,
                "sharing": config.sharing,
                "vocabulary": config.vocab_size,
                "dropout": config.hidden_dropout,
                "parameters": parameters,
                "megabytes": 4 * parameters / 1e6,
                "MFLOPs/token": config.flops_per_token(options.length) / 1e6,
            }
        )
    if options.json:
        print_json(rows)
        return
    print_table(rows)
    print("a name without its version, such as albert-base, means version 2")
