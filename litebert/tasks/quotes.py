"""Values of a user's files as messages quote them: a label may turn out to be a whole review."""

from collections.abc import Collection
from itertools import islice
from typing import Any

LONGEST = 60
NUM_SHOWN = 8


def quote(value: Any) -> str:
    """As Python writes it, but not all of what is long; its closing quote or bracket stays."""
    written = repr(value)
    return written if len(written) <= LONGEST else f"{written[: LONGEST - 4]}...{written[-1]}"


def quote_some(values: Collection[Any]) -> str:
    """The first of some values, and how many there are where that is not all."""
    shown = ", ".join(map(quote, islice(values, NUM_SHOWN)))
    return shown if len(values) <= NUM_SHOWN else f"{shown}, ... {len(values):,} in all"
