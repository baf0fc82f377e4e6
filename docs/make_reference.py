"""Writes docs/reference.md, the commands and configs, from the code.

    python docs/make_reference.py

A test compares the file with what this makes, so that it cannot fall behind.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from litebert.__main__ import command_options, import_command
from litebert.options import Option

REFERENCE = Path(__file__).with_name("reference.md")
HEAD = """# Reference

Every command with its options, made from the code by `python docs/make_reference.py`. `litebert COMMAND --help` says
the same in a terminal. Without a default an option may be left out, unless it is required.

Defaults of `pretrain`, `plan`, `study` and `finetune` follow the preset, or the task and the model; here are those
without any. A command ends with exit code 0 when done, or when it was told to stop (SIGTERM) and has saved; 2 when you
can correct what was wrong; 130 when interrupted; 143 when it was told to stop and had nothing to save.
"""


def make_reference() -> str:
    commands = command_options()
    # Configs that several commands take, such as the settings of pre-training, are written down once.
    shared: dict[str, list[Option]] = {}
    parts = [HEAD, " · ".join(f"[{name}](#{name})" for name in commands)]
    for name, options in commands.items():
        parts += [f"\n## {name}\n", *describe_help(import_command(name).__doc__ or "")]
        own = [option for option in options if not option.group]
        parts += make_table(own)
        for group, members in itertools.groupby((option for option in options if option.group), lambda o: o.group):
            found = list(members)
            if shared.get(group) == found:
                parts.append(f"\n{group} As [above](#{anchor(group)}).")
            else:
                parts += [f'\n<a id="{anchor(group)}"></a>{group}\n' if group not in shared else f"\n{group}\n"]
                parts += make_table(found)
                shared.setdefault(group, found)
    return "\n".join(parts) + "\n"


def describe_help(docstring: str) -> Iterator[str]:
    said, example = re.split(r"\n *Examples?:\n", docstring, maxsplit=1)
    yield " ".join(said.split())
    yield "\n```sh"
    yield from (line.strip() for line in example.strip().splitlines())
    yield "```\n"


def make_table(options: Iterable[Option]) -> Iterator[str]:
    yield "| option | takes | default | |"
    yield "|---|---|---|---|"
    for option in options:
        default = "**required**" if option.default is None else f"`{option.default}`" if option.default else ""
        cells = (f"`{option.name}`", option.kind, default, option.help)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def anchor(group: str) -> str:
    return "-".join("".join(letter for letter in group.lower() if letter.isalnum() or letter == " ").split()[:6])


if __name__ == "__main__":
    REFERENCE.write_text(make_reference(), encoding="utf-8")
    print(f"{REFERENCE.name}: written")
