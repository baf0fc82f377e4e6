"""What a run reached, as its scores.json has it."""

from collections.abc import Mapping
from typing import Any

MAJORITY = "majority"
"""What one who has read no text has of each split."""
EXAMPLES = "examples"
"""How many each split has."""
BESIDE = ("files", MAJORITY, EXAMPLES)
"""What stands there beside the scores, as they do."""


def scores_by_split(written: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Of what a run's scores.json says, the scores of each split."""
    return {name: values for name, values in written.items() if isinstance(values, Mapping) and name not in BESIDE}


def find_score(written: Mapping[str, Any]) -> float:
    """What a run's scores.json says that decided: the task's metric, of the first split of dev."""
    return float(next(iter(scores_by_split(written).values()))[written["metric"]])
