"""Which of a run's models is kept: the one that was best on dev."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from litebert.config import read_json
from litebert.files import write_json_file
from litebert.finetuning.stuck import advise, describe_stuck
from litebert.finetuning.task_model import Evaluated, Split, TaskModel
from litebert.models.model import Model
from litebert.training.parallel import Ranks, gather_weights

logger = logging.getLogger(__name__)

FILE = "best.json"
STUCK_FILE = "stuck.json"
GRACE = 1 / 3
"""The share of a run during which neither patience nor the stuck check may end it."""


@dataclass
class Selection:
    """Evaluates a model on dev, and keeps the best so far with the step it was made at.

    Nothing is remembered but what lies in the run's folder: a run that goes on from a checkpoint evaluates again, and
    comes to the same choice.
    """

    task_model: TaskModel
    dev: Sequence[Split]
    """The first of them decides."""
    folder: Path
    keep: Callable[[Mapping[str, Tensor], Evaluated], None]
    """Writes a model that is better than all before it."""
    steps: int
    warmup_steps: int
    evaluate_every: int
    """Steps between evaluations."""
    patience: int
    """Evaluations without a better score, after which a run is stopped; 0 never stops one."""
    retries: bool
    """Whether a run that is stuck is begun anew, with a lower rate."""
    stops_if_stuck: bool
    """Whether this attempt ends when it is seen to be stuck; the last one does not."""
    ranks: Ranks = field(default_factory=Ranks)

    def evaluate(self, model: Model, step: int) -> dict[str, float]:
        task_model = self.task_model._replace(model=model)
        results = [task_model.evaluate(split, fits_threshold=True) for split in self.dev]
        weights = gather_weights(model)  # by all ranks, who may hold a part each
        said = describe_stuck(self.task_model.question, self.dev[0].examples, results[0].predictions)
        self.ranks.do_first(lambda: self.keep_if_best(weights, step, results[0], said))
        if step >= self.grace_steps:
            self.ranks.do_first(lambda: self.note_stuck(step, said))
        return {
            f"{split.name}_{name}": value
            for split, result in zip(self.dev, results, strict=True)
            for name, value in result.scores.items()
        }

    @property
    def grace_steps(self) -> float:
        return max(self.warmup_steps, GRACE * self.steps)

    def read_best(self) -> dict[str, Any] | None:
        return read_best(self.folder)

    def keep_if_best(self, weights: Mapping[str, Tensor], step: int, result: Evaluated, stuck: str | None) -> None:
        """The note comes last: where it is, the model is."""
        score, best = result.scores[self.task_model.task.metric], self.read_best()
        if best is None or score > best["score"] or (best["step"] == step and score == best["score"]):
            self.keep(weights, result)
            write_json_file(self.folder / FILE, {"step": step, "score": score, "stuck": stuck})

    def note_stuck(self, step: int, said: str | None) -> None:
        """A run's first note is told; it stays when something is learned after all, and nothing is told twice."""
        file = self.folder / STUCK_FILE
        if file.exists():
            write_json_file(file, {"step": step, "said": said})
        elif said is not None:
            advice = advise(self.task_model.model.config.hidden_size, retries=self.retries)
            logger.warning("%s: the model has learned nothing else. %s", said, advice)
            write_json_file(file, {"step": step, "said": said})

    def find_stuck(self, step: int) -> str | None:
        """What shows that nothing was learned in so many steps, if so."""
        file = self.folder / STUCK_FILE
        noted = read_json(file) if file.exists() else None
        return noted["said"] if noted is not None and noted["step"] <= step else None

    def is_finished(self, step: int) -> bool:
        """As the first rank finds it: others may see its files late, or no more."""
        if not (self.stops_if_stuck or self.patience):
            return False
        return bool(self.ranks.find_highest(int(self.ranks.is_first and self.should_stop(step))))

    def should_stop(self, step: int) -> bool:
        if self.stops_if_stuck and self.find_stuck(step) is not None:
            return True
        return self.is_out_of_patience(step)

    def is_out_of_patience(self, step: int) -> bool:
        """Answers only at steps that were evaluated."""
        if not self.patience or step < self.grace_steps or step % self.evaluate_every:
            return False
        best = self.read_best()
        return best is not None and step - best["step"] >= self.patience * self.evaluate_every

    def must_retry(self, step: int) -> bool:
        """Whether a run that has ended learned nothing, and is to be begun anew."""
        is_stuck = self.stops_if_stuck and self.ranks.is_first and self.find_stuck(step) is not None
        return bool(self.ranks.find_highest(int(is_stuck)))


def read_best(folder: Path) -> dict[str, Any] | None:
    """The step of a run's best model so far, its score, and what shows that it has learned nothing, if so."""
    file = folder / FILE
    return read_json(file) if file.exists() else None
