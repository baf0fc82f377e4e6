"""How a study is carried out."""

import math
import re
from dataclasses import dataclass

from litebert.config import check_fields, require
from litebert.pretraining.config import MOST_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyConfig:
    """How a study is carried out."""

    budget: str = "20m"
    """The time for all pre-training of the study: 90s, 20m or 3h. Unless steps are given, some are timed first, to see
    how many fit."""
    seeds: int = 1
    """How many times each model is trained. With one, nothing can be told from chance; from two on there are
    intervals."""
    part: str = "1/1"
    """Do only this part of the study on this machine, such as 2/3."""
    tasks: tuple[str, ...] = ()
    """Also fine-tune every model, on top of the budget: rte=glue/RTE sst2=glue/SST-2."""
    finetune_epochs: float = 3.0
    """How many times fine-tuning sees each example."""
    finetune_examples: int | None = None
    """Fine-tune on this many examples of a task, instead of all."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.seeds > 0, f"seeds is {self.seeds}; it must be at least 1")
        for task in self.tasks:
            require(all(task.partition("=")), f"{task!r} is no task with its folder; write it as rte=glue/RTE")
        require(
            len(self.task_folders) == len(self.tasks),
            f"tasks is {' '.join(self.tasks)!r}; name each task once, with one folder",
        )
        require(0 < self.finetune_epochs < math.inf, f"finetune_epochs is {self.finetune_epochs}; it must be positive")
        require(
            self.finetune_examples is None or self.finetune_examples > 0,
            f"finetune_examples is {self.finetune_examples}; it must be at least 1",
        )
        _ = self.seconds, self.place

    @property
    def seconds(self) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", self.budget)
        require(match and float(match[1]) > 0, f"the budget is {self.budget!r}; write it as 90s, 20m or 3h")
        assert match is not None
        seconds = float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]
        require(seconds <= 60 * MOST_MINUTES, f"the budget is {self.budget}; it must be at most {MOST_MINUTES}m")
        return seconds

    @property
    def place(self) -> tuple[int, int]:
        match = re.fullmatch(r"(\d+)/(\d+)", self.part)
        require(match and 1 <= int(match[1]) <= int(match[2]), f"the part is {self.part!r}; write it as 2/3")
        assert match is not None
        return int(match[1]), int(match[2])

    @property
    def task_folders(self) -> dict[str, str]:
        return {name: folder for name, _, folder in (task.partition("=") for task in self.tasks)}
