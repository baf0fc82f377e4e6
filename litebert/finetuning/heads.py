"""The head that answers a task's question, and the question that a folder's head answers."""

from pathlib import Path
from typing import cast, get_args

from litebert.config import require
from litebert.finetuning.task_file import FILE, TaskFile
from litebert.models.heads import HeadConfig
from litebert.models.model import Model
from litebert.tasks.race import LETTERS
from litebert.tasks.task import Head, Kind, Question, Task

NUM_CHOICES = len(LETTERS)
"""Of RACE's questions; a model folder does not say it."""
STAND_INS: tuple[tuple[Kind, Kind], ...] = (("answerable_span", "span"), ("classes", "number"))
"""What a task asks, and what a head may answer instead: the first token of a span head says where there is no answer,
and a head made elsewhere may give texts numbers."""
LABELLED: tuple[Head, ...] = ("classes", "token_classes")


def head_of(question: Question, dropout: float) -> HeadConfig:
    """The head that answers a question."""
    num_classes = question.num_classes if question.head in LABELLED else 2
    labels, several = question.labels, question.kind == "labels"
    return HeadConfig(kind=question.head, num_classes=num_classes, dropout=dropout, labels=labels, several=several)


def find_head(model: Model, path: object) -> HeadConfig:
    """The one head of a model that is for a task."""
    heads = [head for kind, head in model.head_configs.items() if kind in get_args(Head)]
    require(
        len(heads) == 1,
        f"{path} has no head for a task (its heads: {', '.join(model.head_configs) or 'none'}); "
        "give a folder that litebert finetune made",
    )
    return heads[0]


def question_of(head: HeadConfig, stored: TaskFile, folder: Path) -> Question:
    """What a head answers, with the labels that its folder's task.json has."""
    labels, several = head.labels, head.several
    if stored.labels:
        num_labels = len({*stored.labels})
        require(
            head.kind not in LABELLED or num_labels == len(stored.labels) == head.num_classes,
            f"{folder / FILE} names {num_labels} different labels, and the head of {folder} has {head.num_classes}; "
            "restore it",
        )
        labels, several = stored.labels, stored.several
    elif head.kind in LABELLED and (several or head.num_classes > 1) and not labels:
        labels = tuple(map(str, range(head.num_classes)))
    kind = cast(Kind, head.kind)
    if kind == "classes":
        kind = "labels" if several else "classes" if labels else "number"
    return Question(kind, labels, NUM_CHOICES if kind == "choice" else 1)


def check_question(task: Task, question: Question, path: object) -> None:
    """Refuses a model whose head is for another kind of task; a benchmark knows its labels beforehand."""
    for name, needed in task.known_question().items():
        found = getattr(question, name)
        if (needed, found) not in STAND_INS:
            require(found == needed, f"the head of {path} has {name} {found!r}; {task.name} needs {needed!r}")
