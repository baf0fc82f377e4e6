"""The `litebert` command: finds the command's file, reads its options, runs it.

A command is a file in `litebert/commands/`: its docstring is its help, `Options` its options, `run` its work. Only the
one that was asked for is imported.
"""

import ast
import contextlib
import importlib
import io
import itertools
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from litebert import __version__
from litebert.config import UserError, nearest

FOLDER = Path(__file__).parent / "commands"


def main(arguments: Sequence[str] | None = None) -> None:
    """Exits with 0 when done, 2 when the user can correct what was wrong, 130 when interrupted."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    # Of `torchrun -m litebert -- pretrain`: torchrun stops reading options there, and hands it on.
    if given[:1] == ["--"]:
        del given[0]
    name, *rest = given or ["--help"]
    logging.basicConfig(format="litebert: %(message)s")
    try:
        if name in ("--help", "-h", "help"):
            print(list_commands())
        elif name == "--version":
            print(f"litebert {__version__}")
        else:
            run_command(name, rest)
    except UserError as error:
        print(f"litebert: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("litebert: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
    except OSError as error:
        print(f"litebert: {error.filename or 'the system'}: {error.strerror or error}", file=sys.stderr)
        sys.exit(2)


def command_files() -> dict[str, Path]:
    """Each command's name and file."""
    files = sorted(FOLDER.glob("[!_]*.py"))
    return {file.stem.replace("_", "-"): file for file in files}


def list_commands() -> str:
    """One line for each command, from its file's docstring, without importing it."""
    lines = ["litebert: ALBERT, complete and fast.", "", "usage: litebert COMMAND [options]", ""]
    for name, file in command_files().items():
        docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        lines.append(f"  {name:<12}{docstring.splitlines()[0]}")
    return "\n".join([*lines, "", "litebert COMMAND --help shows a command's options and an example."])


def run_command(name: str, arguments: list[str]) -> None:
    files = command_files()
    if name not in files:
        raise UserError(f"there is no command {name!r}{nearest(name, files)}")
    command = importlib.import_module(f"litebert.commands.{files[name].stem}")
    # A command whose defaults depend on an option, such as a preset, looks for it first.
    default = command.find_default(arguments) if hasattr(command, "find_default") else None
    command.run(read_options(command.Options, name, command.__doc__ or "", arguments, default))


def read_options(options: type[Any], name: str, help_text: str, arguments: list[str], default: Any = None) -> Any:
    """Options from the command line. What tyro explains in a box, we say in a sentence."""
    import tyro

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                options,
                args=arguments,
                default=default,
                prog=f"litebert {name}",
                description=help_text,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as error:
        if error.code == 0:
            raise
        raise UserError(f"{summarize(said.getvalue())}; see litebert {name} --help") from None


def summarize(box: str) -> str:
    """The message in tyro's box, and its suggestion where it has one, on one line."""
    rows = [line.strip("│ ") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    groups = itertools.groupby(rows, key=lambda row: bool(row) and not row.strip("─-"))
    sections = [[row for row in group if row] for is_rule, group in groups if not is_rule]
    if "│" not in box:  # where the terminal cannot draw boxes, the title is a section too
        del sections[0]
    message = " ".join(sections[0])
    suggestion = next((rows[1] for rows in sections if rows[0] == "Perhaps you meant:"), None)
    return f"{message} (perhaps you meant {suggestion}?)" if suggestion else message


if __name__ == "__main__":
    main()
