"""How the learning rate, and what grows with a run, change from step to step; and what suits another batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from litebert.config import UserError, check_count, check_fields, require

# ALBERT 4.1 and its released code.
PAPER_BATCH = 4096
PAPER_RATE = 0.00176
PAPER_STEPS = 125_000
PAPER_WARMUP = 3125
MOST_STEPS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """A straight rise to the peak, then a polynomial fall to 0."""

    steps: int
    learning_rate: float
    """The peak."""
    warmup_steps: int
    power: float = 1.0
    """Of the fall; 1 is a straight line."""
    schedule: Literal["paper", "google"] = "paper"
    """`google` counts the fall from step 0, also during the rise, so that the rate drops a little where the rise ends;
    and its first step has a rate of 0."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_count("steps", self.steps, MOST_STEPS)
        check_schedule(self.learning_rate, self.warmup_steps, self.steps, self.power)

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if self.schedule == "google":
            if step < self.warmup_steps:
                return self.learning_rate * step / self.warmup_steps
            return self.learning_rate * (1 - step / self.steps) ** self.power
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        return self.learning_rate * (1 - (step - self.warmup_steps) / (self.steps - self.warmup_steps)) ** self.power


def check_schedule(
    learning_rate: float | None, warmup_steps: int | None, steps: int | None = None, power: float = 1.0
) -> None:
    """Refuses an impossible schedule, also one of which some numbers are still to be found: those are None."""
    rate, warmup = learning_rate, warmup_steps
    require(rate is None or 0 < rate < math.inf, f"learning_rate is {rate}; it must be positive and finite")
    require(warmup is None or warmup >= 0, f"warmup_steps is {warmup}; it must be at least 0")
    require(
        warmup is None or steps is None or warmup <= steps,
        f"warmup_steps is {warmup}; it must be from 0 to the number of steps, {steps}",
    )
    require(0 < power < math.inf, f"power is {power}; it must be positive and finite")


class Scaled(NamedTuple):
    """What suits a batch."""

    learning_rate: float
    warmup_steps: int
    steps: int


def scale_from_paper(num_sequences: int, steps: int | None = None) -> Scaled:
    """From the paper's 4096 sequences to another batch: the same sequences in all, the rate by the root of the batch.

    A run that is shorter than that warms up for the same share of its steps as the paper's.
    """
    require(num_sequences > 0, f"the batch has {num_sequences} sequences; it must have at least 1")
    full = max(1, round(PAPER_STEPS * PAPER_BATCH / num_sequences))
    steps = full if steps is None else steps
    warmup = min(PAPER_WARMUP, max(1, round(steps * PAPER_WARMUP / PAPER_STEPS)))
    return Scaled(PAPER_RATE * math.sqrt(num_sequences / PAPER_BATCH), min(warmup, steps), steps)


class Ramp:
    """A whole number that grows in stages over a run, written as `2 4@0.35 12@0.7`: 4 from 35 % of the steps on."""

    def __init__(self, name: str, stages: Sequence[str], final: int) -> None:
        """Without stages it is `final` throughout; the last stage must lead there."""
        self.values, self.shares = [final], [0.0]
        if not stages:
            return
        try:
            parsed = [(int(value), float(share or 0)) for value, _, share in (stage.partition("@") for stage in stages)]
        except ValueError:
            raise UserError(f"{name} is {' '.join(stages)!r}; write it as 2 4@0.35, 4 from 35 % of the steps") from None
        self.values, self.shares = map(list, zip(*parsed, strict=True))
        ordered = self.shares == sorted(set(self.shares)) and self.shares[0] == 0 and self.shares[-1] < 1
        require(
            ordered,
            f"{name} is {' '.join(stages)!r}; its first stage begins at once, the others at rising shares below 1",
        )
        require(min(self.values) > 0, f"{name} is {' '.join(stages)!r}; every stage must be at least 1")
        require(
            self.values[-1] == final and max(self.values) <= final,
            f"{name} is {' '.join(stages)!r}; it must end at {final}, and never be above it",
        )

    def starts(self, steps: int) -> list[int]:
        """The first step of each stage; the last has at least one step."""
        return [min(math.ceil(share * steps), max(steps - 1, 0)) for share in self.shares]

    def at(self, step: int, steps: int) -> int:
        return max(
            (start, value) for start, value in zip(self.starts(steps), self.values, strict=True) if start <= step
        )[1]
