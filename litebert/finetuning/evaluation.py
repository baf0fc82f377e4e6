"""A fine-tuned model folder, and what it says of a split of a task's data."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import torch

from litebert.config import UserError, read_config, require
from litebert.files import write_json_file
from litebert.finetuning.asking import ask
from litebert.models.folder import find_folder, read_model
from litebert.models.heads import HeadConfig, Model
from litebert.tasks.classes import Examples
from litebert.tasks.race import LETTERS
from litebert.tasks.registry import find_task
from litebert.tasks.tables import FORMATS, is_folder
from litebert.tasks.task import Encoded, Kind, Limits, Predictions, Question, Task
from litebert.tasks.text import TextColumns
from litebert.text.formats import HUB
from litebert.text.vocabulary import Vocabulary, open_vocabulary
from litebert.training.parallel import find_device

FILE = "task.json"
NUM_CHOICES = len(LETTERS)
"""Of RACE's questions; a model folder does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """What a fine-tuned model folder says of its task, beside what Hugging Face's files say."""

    task: str
    columns: TextColumns
    limits: Limits
    labels: tuple[str, ...] = ()
    """As the data have them; Hugging Face's files have no place for some names, such as LABEL_0."""
    several: bool = False
    threshold: float | None = None
    """Above which score a question has no answer, as it was best on dev."""


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


class Finetuned(NamedTuple):
    """A model with all that is needed to ask it about examples."""

    model: Model
    vocabulary: Vocabulary
    task: Task
    question: Question
    stored: TaskFile

    def with_threshold(self, threshold: float | None) -> "Finetuned":
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

    def read(self, data: str | Path, split: str, most: int | None = None, *, forgets: bool = False) -> Split:
        """A split as the model reads it; where it has more than `most` examples, some of them, always the same.

        `forgets` leaves aside what is said to be right, which may then be wrong, or be said of some alone.
        """
        examples = draw(self.task.read(data, split), most)
        if forgets:
            forgotten = [example.without_gold() for example in examples]
            examples = Examples(forgotten, getattr(examples, "notes", ()))
        return Split(split, examples, self.task.encode(examples, self.vocabulary, self.question, self.stored.limits))

    def evaluate(self, split: Split, *, fits_threshold: bool = False) -> Evaluated:
        """With the folder's threshold; or, on dev alone, with the best for the split itself."""
        limits, threshold = self.stored.limits, self.stored.threshold
        outputs = ask(self.model, split.encoded.samples, self.question.kind)
        predictions = self.task.decode(split.examples, split.encoded.samples, outputs, self.question, limits)
        labelled = self.task.is_labelled(split.examples)
        if fits_threshold and labelled:
            threshold = self.task.choose_threshold(split.examples, predictions)
        require(
            threshold is not None or not self.task.has_unanswerable,
            "there is no threshold of no answer; choose one with --threshold",
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
) -> Finetuned:
    """A folder that was fine-tuned here or elsewhere, for the task it names itself, or for one that is given."""
    folder = find_folder(Path(path))
    vocabulary = open_vocabulary(folder)
    model = read_model(path).to(device or find_device())
    heads = [head for kind, head in model.head_configs.items() if kind in get_args(Kind)]
    require(
        len(heads) == 1,
        f"{path} has no head for a task (its heads: {', '.join(model.head_configs) or 'none'}); "
        "give a folder that litebert finetune made",
    )
    stored = read_task_file(folder)
    if stored is None and task is None:
        raise UserError(f"{path} does not say what it was fine-tuned for; name its --task")
    if stored is None or (task is not None and task != stored.task):
        length = min(512, model.config.num_positions)
        limits = stored.limits if stored is not None else Limits(length=length)
        stored = TaskFile(task=cast(str, task), columns=TextColumns(), limits=limits)
    question = question_of(heads[0])
    if stored.labels:
        require(
            heads[0].kind not in ("classes", "token_classes")
            or len({*stored.labels}) == len(stored.labels) == heads[0].num_classes,
            f"{folder / FILE} names {len({*stored.labels})} different labels, and the head of {path} has "
            f"{heads[0].num_classes}; restore it",
        )
        question = question._replace(labels=stored.labels, several=stored.several)
    found = find_task(stored.task, stored.columns, data)
    check_question(found, question, path)
    finetuned = Finetuned(model, vocabulary, found.with_labels(question.labels), question, stored)
    check_model(finetuned, path)
    return finetuned


def check_model(asked: Finetuned, path: object) -> None:
    """Refuses a vocabulary that the model was not made for, and samples that are longer than it can read."""
    length, most = asked.stored.limits.length, asked.model.config.num_positions
    require(length <= most, f"length is {length}; the model has {most} positions")
    asked.vocabulary.check_rows(asked.model.config.vocab_size, path)


def question_of(head: HeadConfig) -> Question:
    """What a head answers."""
    labels = head.labels
    if head.kind in ("classes", "token_classes") and head.num_classes > 1 and not labels:
        labels = tuple(map(str, range(head.num_classes)))
    return Question(cast(Kind, head.kind), labels, head.several, NUM_CHOICES if head.kind == "choice" else 1)


def head_of(question: Question, dropout: float) -> HeadConfig:
    """The head that answers a question."""
    num_classes = question.num_classes if question.kind in ("classes", "token_classes") else 2
    labels, several = question.labels, question.several
    return HeadConfig(kind=question.kind, num_classes=num_classes, dropout=dropout, labels=labels, several=several)


def check_question(task: Task, question: Question, path: object) -> None:
    """Refuses a model whose head is for another kind of task; a benchmark knows its labels beforehand."""
    for name, needed in task.known_question().items():
        found = getattr(question, name)
        # A span head can be asked where some questions have no answer: its first token says so.
        if (needed, found) != ("answerable_span", "span"):
            require(found == needed, f"the head of {path} has {name} {found!r}; {task.name} needs {needed!r}")


def read_task_file(folder: Path) -> TaskFile | None:
    """Nothing where another program fine-tuned the folder, or none did."""
    return read_config(TaskFile, folder / FILE) if (folder / FILE).is_file() else None


def scores_by_split(written: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Of what a run's scores.json says, the scores of each split."""
    return {name: values for name, values in written.items() if isinstance(values, Mapping) and name != "files"}


def find_score(written: Mapping[str, Any]) -> float:
    """What a run's scores.json says that decided: the task's metric, of the first split of dev."""
    return float(next(iter(scores_by_split(written).values()))[written["metric"]])


def write_task_file(folder: Path, content: TaskFile) -> None:
    write_json_file(folder / FILE, dataclasses.asdict(content))
