"""All tasks by name."""

from pathlib import Path

from litebert.config import nearest, require
from litebert.tasks import chinese, glue, race, squad
from litebert.tasks.task import Task
from litebert.tasks.text import TextColumns, make_task

OWN = "text"
"""The task of a user's own data."""

TASKS: dict[str, Task] = {
    **glue.TASKS,
    **squad.TASKS,
    **race.TASKS,
    **chinese.TASKS,
}


def find_task(name: str, columns: TextColumns, data: str | Path) -> Task:
    """A benchmark, or what the columns of a user's own data describe."""
    if name == OWN:
        return make_task(columns, data)
    require(name in TASKS, f"there is no task {name!r}{nearest(name, [*TASKS, OWN])}")
    require(columns == TextColumns(), f"{name} has its own columns; name none, or use --task {OWN}")
    return TASKS[name]
