"""The `litebert` command: finds the command's file, reads its options, runs it.

A command is a file in `litebert/commands/`: its docstring is its help, `Options` its options, `run` its work. Some have
defaults that depend on an option (`find_default`), or options with other names than the fields that they set
(`RENAMED`). Only the command that was asked for is imported.
"""

import ast
import contextlib
import dataclasses
import difflib
import importlib
import io
import itertools
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from litebert import __version__, interrupts
from litebert.config import UserError, nearest
from litebert.files import describe_refusal
from litebert.interrupts import TerminatedError

if TYPE_CHECKING:
    from litebert.options import Option

FOLDER = Path(__file__).parent / "commands"
STAGES = {
    "from text to batches": ("vocab", "corpus"),
    "from batches to a model": ("plan", "pretrain", "plot", "fill-mask"),
    "from a model to a task": ("finetune", "evaluate", "predict", "score", "ensemble"),
    "the paper's questions": ("study", "report", "layers"),
    "folders, presets, this machine": ("models", "inspect", "convert", "doctor", "completion"),
}
"""All commands, in the order in which one comes to need them."""
AFTER_INTERRUPTION = {
    "corpus": "; run the same command to go on",
    "vocab": "; the same command begins anew",
    "study": "; run the same command to go on",
}
OUT_OF_MEMORY = ("allocate memory", "out of memory", "Storage size calculation overflowed")
"""How torch says so, on a processor, on a GPU, and of more than there can be."""
REWORDED = {
    r"Error parsing (--\S+): .*invalid literal for int\(\) with base 10: (.*)": r"\1 is \2; give a whole number",
    r"Error parsing (--\S+): .*could not convert string to float: (.*)": r"\1 is \2; give a number",
    r"Missing from [\w -]+: (--\S+).*": r"\1 is missing",
    r"invalid choice (\S+) for argument '(\S+)'. Expected one of \((.*)\).": r"\2 is \1; it must be one of \3",
}
"""What tyro says, and what we say, of options that are missing or cannot be read."""
FIELD = re.compile(
    r"^(?:the )?([a-z]\w*)(?= is (?:'|-?\d|-?inf|nan))"  # the first word, where a value follows
    r"|(?<![\w'\"/.=(-])([a-z]+(?:_[a-z]+)+)(?![\w/.=-])"  # words with an underscore, but in paths and in brackets
)
"""Where a message names a field, and no word of our language."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Exits with 0 when done, 2 when the user can correct what was wrong, 130 when interrupted, 143 when terminated."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    is_ours = arguments is None  # this process, from its beginning to its end
    heard = interrupts.heed() if is_ours else []
    for stream in (sys.stdout, sys.stderr) if is_ours else ():
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # of a terminal that does not know all letters
    # Of `torchrun -m litebert -- pretrain`: torchrun stops reading options there, and hands it on.
    if given[:1] == ["--"]:
        del given[0]
    name, *rest = given or ["--help"]
    if is_ours:
        say_what_is_logged()
    try:
        if name in ("--help", "-h", "help"):
            print(list_commands())
        elif name == "--version":
            print(f"litebert {__version__}")
        else:
            run_command(name, rest)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        end_interrupted(name, isinstance(interrupt, TerminatedError), is_ours=is_ours)
    except Exception as error:
        if heard and not isinstance(error, UserError):  # what was interrupted, such as an import, made this of it
            end_interrupted(name, heard[-1] == signal.SIGTERM, is_ours=is_ours)
        if isinstance(error, BrokenPipeError):  # the reader of our output, such as `head`, has seen enough
            return
        mistake = explain(error, name, rest)
        if mistake is None:
            raise
        print(f"litebert: {mistake}", file=sys.stderr)
        sys.exit(2)
    finally:
        if is_ours:  # all is said and done; Python alone is still at its end
            interrupts.ignore()
            empty_output()


def say_what_is_logged() -> None:
    """By ourselves; libraries say theirs in their own way, and would say them twice where all are heard."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("litebert: %(message)s"))
    ours = logging.getLogger("litebert")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False


def empty_output() -> None:
    """Leaves nothing for Python's own end to write, which it would only complain of where nobody reads on."""
    try:
        sys.stdout.flush()
    except OSError:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def explain(error: Exception, name: str, arguments: Sequence[str]) -> str | None:
    """A sentence on what the user of a command can correct; nothing for a mistake of our own."""
    if isinstance(error, UserError):
        return on_one_line(name_options(str(error), name, arguments))
    if isinstance(error, OSError):
        is_file = error.filename is not None
        return describe_refusal(error, *((error.filename, "used") if is_file else ("the output", "written")))
    is_full = isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY)
    if isinstance(error, MemoryError) or is_full:
        reason = on_one_line(str(error)).rpartition("] ")[2] or "none is left"
        return f"out of memory ({reason}); take a smaller model or batch: see litebert plan"
    return None


def name_options(message: str, command: str, arguments: Sequence[str] = ()) -> str:
    """A config says that `num_sequences is 0`: who typed --num-sequences 0 is told of that; and who typed --corpus
    corpus, that --corpus corpus does not exist, and no command of that name."""
    if command not in command_files():
        return message
    for option, value in find_values(command, arguments):
        if option != command and message.startswith(f"{value} does not exist"):
            return f"{option} {message}"
    from litebert.options import list_options

    module = import_command(command)
    typed = [option.name for option in list_options(module.Options) if not option.is_positional]
    renamed = getattr(module, "RENAMED", {})
    options = {option.removeprefix("--").replace("-", "_"): option for option in typed} | renamed
    for field, option in renamed.items():  # where it is spelled as an option already
        message = re.sub(rf"--{field.replace('_', '-')}\b(?!-)", option, message)
    return FIELD.sub(lambda found: options.get(found[1] or found[2], found[0]), message)


def end_interrupted(name: str, is_terminated: bool, *, is_ours: bool) -> NoReturn:
    """By SIGTERM, or by Ctrl-C."""
    if is_ours:
        interrupts.ignore()
    told = "stopped by SIGTERM" if is_terminated else "interrupted"
    print(f"litebert: {told}{AFTER_INTERRUPTION.get(name, '')}", file=sys.stderr)
    code = 143 if is_terminated else 130
    if is_ours:
        interrupts.leave(code)
    sys.exit(code)


def on_one_line(message: str) -> str:
    """A sentence that quotes a file which is no text does not write that to the terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(message.split()))


def command_files() -> dict[str, Path]:
    """Each command's name and file."""
    files = sorted(FOLDER.glob("[!_]*.py"))
    return {file.stem.replace("_", "-"): file for file in files}


def list_commands() -> str:
    """One line for each command, from its file's docstring, without importing it."""
    lines = ["litebert: ALBERT, complete and fast.", "", "usage: litebert COMMAND [options]"]
    for stage, names in STAGES.items():
        lines += ["", f"{stage}:", *(f"  {name:<12}{describe_command(name)}" for name in names)]
    return "\n".join([*lines, "", "litebert COMMAND --help shows a command's options and an example."])


def describe_command(name: str) -> str:
    """The first line of its help."""
    docstring = ast.get_docstring(ast.parse(command_files()[name].read_text(encoding="utf-8"))) or ""
    return docstring.splitlines()[0]


def import_command(name: str) -> ModuleType:
    files = command_files()
    if name not in files:
        raise UserError(f"there is no command {name!r}{nearest(name, files)}")
    return importlib.import_module(f"litebert.commands.{files[name].stem}")


def find_default(command: ModuleType, arguments: list[str]) -> Any:
    """A command whose defaults depend on an option, such as a preset, looks for it first."""
    return command.find_default(arguments) if hasattr(command, "find_default") else None


def run_command(name: str, arguments: list[str]) -> None:
    wants_help = bool({"--help", "-h"} & {*arguments})
    if name == "corpus" and not wants_help:
        start_workers(arguments)
    command = import_command(name)
    if wants_help:
        print(make_help(name, command, arguments))
        return
    values = list(find_values(name, arguments))
    for option, value in values:
        if not value:  # a path would be the current folder, as from a shell's variable that is not set
            raise UserError(f"there is nothing between the quotes behind {option}; give it a value, or leave it out")
    default = find_default(command, arguments)
    options = read_options(command.Options, name, arguments, default)
    paths = {str(path) for path in find_paths(dataclasses.astuple(options))}
    for option, value in values:
        if "://" in value and str(Path(value)) in paths:  # it would be taken for a folder of that name
            raise UserError(f"{value} behind {option} is a URL; give a local path, and copy it from or to there")
    command.run(options)


def start_workers(arguments: list[str]) -> None:
    """Where a corpus is to be built, workers import what they need while this process does, and reads its options."""
    if any(argument.partition("=")[0] == "--out" for argument in arguments):
        from litebert.corpus.workers import start_early

        start_early()


def make_help(name: str, command: ModuleType, arguments: list[str]) -> str:
    """With the defaults that the other arguments lead to."""
    from litebert.help import describe
    from litebert.options import list_options

    return describe(name, command.__doc__ or "", [*list_options(command.Options, find_default(command, arguments))])


def find_values(name: str, arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each value on the command line, behind a space or a =, and the option it is of; the command, if it is of none."""
    option = name
    for argument in arguments:
        if argument.startswith("--"):
            option, equals, value = argument.partition("=")
            if not equals:
                continue
            yield option, value
        else:
            yield option, argument


def find_paths(value: object) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, tuple | list):
        yield from itertools.chain.from_iterable(map(find_paths, value))


def command_options() -> "dict[str, list[Option]]":
    """The options of every command. This imports them all."""
    from litebert.options import list_options

    commands = {name: import_command(name) for name in command_files()}
    return {name: list(list_options(command.Options, find_default(command, []))) for name, command in commands.items()}


def read_options(options: type[Any], name: str, arguments: list[str], default: Any = None) -> Any:
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
                add_help=False,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as end:
        refuse_unknown(options, name, arguments)
        raise find_mistake(end) or UserError(f"{summarize(said.getvalue())}; see litebert {name} --help") from None


def find_mistake(error: BaseException | None) -> UserError | None:
    """What a config said that tyro shows in a box, where lines are broken within numbers and paths."""
    while error is not None and not isinstance(error, UserError):
        error = error.__context__
    return error


def refuse_unknown(options: type[Any], name: str, arguments: list[str]) -> None:
    """An option that is misspelt is told before what is then missing."""
    from litebert.options import list_options

    known = [option.name for option in list_options(options)]
    for option, _, _ in (argument.partition("=") for argument in arguments if argument.startswith("--")):
        if option.replace("_", "-") not in known:
            close = difflib.get_close_matches(option, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise UserError(f"{name} has no option {option}{hint}; see litebert {name} --help")


def summarize(box: str) -> str:
    """The message in tyro's box, on one line."""
    rows = [line.strip("│ ") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    groups = itertools.groupby(rows, key=lambda row: bool(row) and not row.strip("─-"))
    sections = [[row for row in group if row] for is_rule, group in groups if not is_rule]
    if "│" not in box:  # where the terminal cannot draw boxes, the title is a section too
        del sections[0]
    message = " ".join(sections[0])
    for pattern, wording in REWORDED.items():
        message = re.sub(pattern, wording, message)
    return message


if __name__ == "__main__":
    main()
