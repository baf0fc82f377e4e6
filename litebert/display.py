"""Tables for people and JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

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
    Console(width=Measurement.get(wide, wide.options, table).maximum).print(table)


def show(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
