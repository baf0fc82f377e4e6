"""A model with its task, and what it says of a split of the task's data."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from litebert.config import require
from litebert.files import name_in_chain
from litebert.finetuning.asking import ask
from litebert.finetuning.heads import check_question, find_head, question_of
from litebert.finetuning.task_file import TaskFile, choose_task
from litebert.models.folder import find_folder, read_model
from litebert.models.model import Model
from litebert.tasks.classes import Examples
from litebert.tasks.records import OWN
from litebert.tasks.registry import find_task
from litebert.tasks.tables import FORMATS, is_folder
from litebert.tasks.task import Encoded, Predictions, Question, Task
from litebert.tasks.text import TAGGED
from litebert.text.formats import HUB, split_suffix
from litebert.text.vocabulary import Vocabulary, open_vocabulary
from litebert.training.parallel import find_device


class Split(NamedTuple):
    """Examples that a model is asked about."""

    name: str
    examples: Sequence[Any]
    encoded: Encoded


class Evaluated(NamedTuple):
    predictions: Predictions
    scores: dict[str, float]
    """Empty where the examples have no labels."""
    threshold: float | None


class TaskModel(NamedTuple):
    """A model with all that is needed to ask it about examples."""

    model: Model
    vocabulary: Vocabulary
    task: Task
    question: Question
    stored: TaskFile

    def with_threshold(self, threshold: float | None) -> "TaskModel":
        """With another threshold than the folder's, if one is given."""
        if threshold is None:
            return self
        require(
            self.task.has_unanswerable,
            f"--threshold is {threshold:g}, but every example of {self.task.name} has an answer; leave it out",
        )
        return self._replace(stored=replace(self.stored, threshold=threshold))

    def choose_splits(self, data: str, given: str | None, *kinds: str) -> Sequence[str]:
        """The split that is given, or all of the first of these kinds that the task has."""
        names = (given,) if given else next(filter(None, (self.task.splits[kind] for kind in kinds)), ())
        require(
            len(names) < 2 or data.startswith(HUB) or is_folder(data, (*FORMATS, ".json")),
            f"{data} is one file, and {self.task.name} has {' and '.join(names)}; say with --split which it is",
        )
        return names

    def name_predictions(self, data: str, split: str) -> str:
        """What predictions are named after: the split, or the file where one of a user's own data was given."""
        if self.task.name not in OWN or data.startswith(HUB) or is_folder(data, TAGGED):
            return split
        name = Path(name_in_chain(data)).name
        return name[: len(name) - len("".join(split_suffix(data)))]

    def read(self, data: str | Path, split: str, most: int | None = None, *, forgets: bool = False) -> Split:
        """A split as the model reads it; where it has more than `most` examples, some of them, always the same.

        `forgets` leaves aside what is said to be right, which may then be wrong, or be said of some alone.
        """
        examples = draw(self.task.read(data, split), most)
        if forgets:
            forgotten = [example.without_gold() for example in examples]
            examples = Examples(forgotten, getattr(examples, "notes", ()))
        return self.encode(split, examples)

    def encode(self, split: str, examples: Sequence[Any]) -> Split:
        return Split(split, examples, self.task.encode(examples, self.vocabulary, self.question, self.stored.limits))

    def evaluate(self, split: Split, *, fits_threshold: bool = False) -> Evaluated:
        """With the folder's threshold; or, on dev alone, with the best for the split itself."""
        limits, threshold = self.stored.limits, self.stored.threshold
        outputs = ask(self.model, split.encoded.samples, self.question.head)
        predictions = self.task.decode(split.examples, split.encoded.samples, outputs, self.question, limits)
        labelled = self.task.is_labelled(split.examples)
        if fits_threshold and labelled:
            threshold = self.task.choose_threshold(split.examples, predictions)
        require(
            threshold is not None or not self.task.has_unanswerable,
            "there is no no-answer threshold; choose one with --threshold",
        )
        predictions = self.task.decide(predictions, threshold)
        return Evaluated(predictions, self.task.score(split.examples, predictions) if labelled else {}, threshold)


def draw(examples: Sequence[Any], most: int | None) -> Sequence[Any]:
    """So many of the examples, in their order; always the same."""
    if most is None or most >= len(examples):
        return examples
    places = np.sort(np.random.default_rng(len(examples)).permutation(len(examples))[:most])
    chosen = [examples[place] for place in places.tolist()]
    return Examples(chosen, examples.notes) if isinstance(examples, Examples) else chosen


def open_finetuned(
    path: str | Path, data: str | Path, task: str | None = None, device: torch.device | None = None
) -> TaskModel:
    """A folder that was fine-tuned here or elsewhere, for the task it names itself, or for one that is given."""
    folder = find_folder(Path(path))
    vocabulary = open_vocabulary(folder)
    model = read_model(path).to(device or find_device())
    head = find_head(model, path)
    stored = choose_task(folder, task, model.config.num_positions)
    question = question_of(head, stored, folder)
    found = find_task(stored.task, stored.columns, data)
    check_question(found, question, path)
    task_model = TaskModel(model, vocabulary, found.with_labels(question.labels), question, stored)
    check_model(task_model, path)
    return task_model


def check_model(task_model: TaskModel, path: object) -> None:
    """Refuses a vocabulary that the model was not made for, and samples that are longer than it can read."""
    length, most = task_model.stored.limits.length, task_model.model.config.num_positions
    require(length <= most, f"length is {length}; the model has {most} positions")
    task_model.vocabulary.check_rows(task_model.model.config.vocab_size, path)
