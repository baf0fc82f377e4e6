"""What a fine-tuned model folder says of its task: its task.json."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from litebert.config import UserError, read_config
from litebert.files import write_json_file
from litebert.tasks.task import Limits
from litebert.tasks.text import TextColumns

FILE = "task.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """What stands there, beside what Hugging Face's files say."""

    task: str
    columns: TextColumns
    limits: Limits
    labels: tuple[str, ...] = ()
    """As the data have them; Hugging Face's files have no place for some names, such as LABEL_0."""
    several: bool = False
    threshold: float | None = None
    """Above which score a question has no answer, as it was best on dev."""


def read_task_file(folder: Path) -> TaskFile | None:
    """Nothing where another program fine-tuned the folder, or none did."""
    return read_config(TaskFile, folder / FILE) if (folder / FILE).is_file() else None


def write_task_file(folder: Path, content: TaskFile) -> None:
    write_json_file(folder / FILE, dataclasses.asdict(content))


def choose_task(folder: Path, task: str | None, num_positions: int) -> TaskFile:
    """What a folder says, unless another task is given, for which it says nothing but the limits."""
    stored = read_task_file(folder)
    if stored is not None and task in (None, stored.task):
        return stored
    if task is None:
        raise UserError(f"{folder} does not say what it was fine-tuned for; name its --task")
    limits = Limits(length=min(512, num_positions)) if stored is None else stored.limits
    return TaskFile(task=task, columns=TextColumns(), limits=limits)
