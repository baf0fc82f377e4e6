"""What a command says of itself in a terminal: its docstring, and its options from its dataclass."""

import itertools
import shutil
import textwrap
from collections.abc import Iterator, Sequence

from litebert.options import Option

WIDEST = 100
"""Columns, beyond which lines are hard to read."""
INDENT = 26
"""Columns for an option and what it takes; one that needs more has a line of its own."""


def describe(name: str, docstring: str, options: Sequence[Option]) -> str:
    """The whole, as wide as the terminal."""
    needed = [show_kind(option) for option in options if option.default is None]
    given = [option.name for option in options if option.is_positional and option.default is not None]
    parts = [" ".join(["usage: litebert", name, *needed, *(f"[{name}]" for name in given), "[options]"])]
    parts += itertools.chain.from_iterable(map(describe_paragraph, docstring.strip().split("\n\n")))
    for group in dict.fromkeys(["", *(option.group for option in options)]):
        parts += ["", *(wrap(group, 0) if group else [])]
        parts += [line for option in options if option.group == group for line in describe_option(option)]
    return "\n".join(parts)


def describe_paragraph(text: str) -> list[str]:
    """Examples stay as they are: a command is to be copied whole."""
    return ["", *(text.splitlines() if text.startswith("Example") else wrap(" ".join(text.split()), 0))]


def describe_option(option: Option) -> Iterator[str]:
    told = {None: " Required.", "": ""}.get(option.default, f" Default: {option.default}")
    typed = f"  {show_kind(option)}"
    lines = wrap(option.help + told, INDENT)
    if len(typed) < INDENT - 1:
        lines[0] = typed + lines[0][len(typed) :]
    else:
        yield typed
    yield from lines


def show_kind(option: Option) -> str:
    """An option and what it takes, as it is typed."""
    if option.is_positional:
        return option.name
    return f"{option.name} {option.kind.replace(' | ', '|')}".rstrip()


def wrap(text: str, indent: int) -> list[str]:
    width = max(min(shutil.get_terminal_size().columns, WIDEST), 2 * INDENT)
    space = " " * indent
    return textwrap.wrap(text, width, initial_indent=space, subsequent_indent=space, break_on_hyphens=False)
