"""Keeps one bad batch from ruining a run."""

import math
import statistics
from collections import deque
from collections.abc import Mapping
from typing import Any

from litebert.config import UserError

MEMORY = 100
"""How many gradient norms are remembered, to know what is usual."""
FEWEST = 20
MOST_IN_A_ROW = 20


class Guard:
    """Refuses steps whose gradient is not finite, or longer than usual by a large factor.

    The norm is that of all ranks together, so all come to the same decision.
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.norms: deque[float] = deque(maxlen=MEMORY)
        self.num_in_a_row = 0
        self.num_skipped = 0

    def refuses(self, norm: float) -> str | None:
        """Why a step is not to be taken, or nothing."""
        reason = None
        if not math.isfinite(norm):
            reason = f"the gradient's norm is {norm}"
        elif len(self.norms) >= FEWEST and norm > self.factor * (usual := statistics.median(self.norms)) > 0:
            reason = f"the gradient's norm is {norm:.3g}, {norm / usual:,.0f} times the usual"
        if reason is None:
            self.norms.append(norm)
            self.num_in_a_row = 0
            return None
        self.num_in_a_row += 1
        self.num_skipped += 1
        if self.num_in_a_row >= MOST_IN_A_ROW:
            raise UserError(
                f"{MOST_IN_A_ROW} steps in a row were skipped, the last because {reason}; start a new run with "
                "a third of the learning rate, a longer warm-up, or fp32 instead of bf16"
            )
        return reason

    @property
    def state(self) -> dict[str, Any]:
        return {"norms": list(self.norms), "num_in_a_row": self.num_in_a_row, "num_skipped": self.num_skipped}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.norms.clear()
        self.norms.extend(state["norms"])
        self.num_in_a_row, self.num_skipped = state["num_in_a_row"], state["num_skipped"]
