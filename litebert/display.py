"""Tables and progress for people, JSON for programs."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

Rows = Sequence[Mapping[str, Any]]


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def print_table(rows: Rows, *, title: str | None = None, total: Mapping[str, Any] | None = None) -> None:
    """A column for each key of the rows; numbers to the right, whole ones with thousands apart. Nothing is cut off."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(title) if title else None, title_justify="left")
    for key, value in rows[0].items():
        table.add_column(key, justify="right" if isinstance(value, int | float) else "left", no_wrap=True)
    for row in [*rows, *([total] if total else [])]:
        if row is total:
            table.add_section()
        table.add_row(*(Text(show(value)) for value in row.values()))
    wide = Console(width=10_000)
    print_rich(Console(width=Measurement.get(wide, wide.options, table).maximum), table)


def print_rich(console: "Console", *parts: Any) -> None:
    """What rich makes of some parts, by Python's own print: where the reader, such as `head`, has seen enough, rich
    would exit with 1."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    print(captured.get(), end="")


def show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@contextmanager
def show_progress(title: str, total_bytes: int) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal, and nothing elsewhere, for reading files: yields what is to be told of the progress.

    That is how many bytes of the files have been read, of which the time left is computed, and how many bytes of text
    came of them, of which the speed is.
    """
    if not sys.stderr.isatty():
        yield lambda source_bytes, text_bytes: None
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    speed = TextColumn("{task.fields[megabytes]:,.0f} MB  {task.fields[speed]:.1f} MB/s")
    columns = (TextColumn(title), BarColumn(), speed, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=total_bytes or None, megabytes=0.0, speed=0.0)

        def report(source_bytes: int, text_bytes: int) -> None:
            seconds = progress.tasks[bar].elapsed or 1e-9
            progress.update(bar, completed=source_bytes, megabytes=text_bytes / 1e6, speed=text_bytes / 1e6 / seconds)

        yield report


def show_bars(counts: Mapping[str, int], width: int = 40) -> list[dict[str, Any]]:
    """Rows of a table with a bar for each count."""
    most, total = max(counts.values(), default=0), sum(counts.values())
    return [
        {
            "": name,
            "number": count,
            "share": f"{count / max(total, 1):.1%}",
            " ": "█" * round(width * count / max(most, 1)),
        }
        for name, count in counts.items()
    ]


def print_fields(fields: Mapping[str, str]) -> None:
    """A line for each field, its name in front."""
    width = max(map(len, fields))
    for name, text in fields.items():
        print(f"{name:>{width}}  {text}")
