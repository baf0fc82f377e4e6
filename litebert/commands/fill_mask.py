"""Fill in the blanks of a text with a model folder's masked-token head and vocabulary.

Example:
    litebert fill-mask my-albert "Paris is the [MASK] of France."
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class Options:
    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A model folder with a masked-token head and a vocabulary."""
    text: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT")]
    """The text, with [MASK] for each blank."""
    top: int = 5
    """How many candidates to show for each blank."""
    pieces: bool = False
    """TEXT is already cut into pieces of the vocabulary, separated by spaces; for vocabularies that are not of
    words."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    import litebert
    from litebert.blanks import fill_blanks
    from litebert.config import require
    from litebert.display import print_json, print_table

    require(options.top > 0, f"--top is {options.top}; it must be at least 1")
    model, vocabulary = litebert.open_model(options.model)
    require(
        "masked_token" in model.head_configs,
        f"{options.model} has no masked-token head (its heads: {', '.join(model.head_configs) or 'none'})",
    )
    encode = vocabulary.look_up if options.pieces else vocabulary.encode
    token_ids = encode(options.text)
    require(
        vocabulary.special.mask in token_ids,
        f"the text {options.text!r} has no [MASK]; put one where a word is missing",
    )
    filled = fill_blanks(model, vocabulary, token_ids, options.top)
    found = [[candidate._asdict() for candidate in candidates] for candidates in filled.candidates]
    if options.json:
        print_json({"masks": found, "filled": filled.text})
        return
    for number, candidates in enumerate(found, start=1):
        print_table(candidates, title=f"[MASK] {number} of {len(found)}")
    print(filled.text)
