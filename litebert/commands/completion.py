"""Print a script with which a shell completes commands, options and their values.

Example:
    mkdir -p ~/.local/share/bash-completion/completions ~/.config/fish/completions
    litebert completion bash > ~/.local/share/bash-completion/completions/litebert
    litebert completion zsh >> ~/.zshrc
    litebert completion fish > ~/.config/fish/completions/litebert.fish
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from litebert.options import Option


@dataclass(frozen=True, kw_only=True)
class Options:
    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional, tyro.conf.arg(metavar="SHELL")]
    """The shell to complete in."""


def run(options: Options) -> None:
    from litebert.__main__ import command_options

    commands = command_options()
    print(complete_fish(commands) if options.shell == "fish" else complete_bash(commands, options.shell))


def list_values(command: str, option: "Option") -> Sequence[str]:
    """What may be given for an option, where that is a list of names."""
    from litebert.presets import PRESETS
    from litebert.studies.catalogue import STUDIES
    from litebert.tasks.registry import OWN, TASKS
    from litebert.training.devices import KINDS

    named = {
        "--preset": sorted(PRESETS),
        "--task": [*sorted(TASKS), OWN],
        "--kind": ["this", *sorted(KINDS)],
        "study NAME": sorted(STUDIES),
        "convert SRC": sorted(PRESETS),
    }
    return option.choices or named.get(f"{command} {option.name}" if option.is_positional else option.name, ())


def complete_bash(commands: Mapping[str, Sequence["Option"]], shell: str) -> str:
    """A function of the word before the cursor and of the command; zsh reads it too. Where it is silent, files are."""
    values, names = [], []
    for command, options in commands.items():
        switches = [option.name for option in options if not option.is_positional]
        names.append(f"    {command}) words={shlex.quote(' '.join([*switches, '--help']))};;")
        for option in options:
            known = list_values(command, option)
            # What has no name of its own is completed after the command itself.
            before = command if option.is_positional else option.name
            if known:
                values.append(f"    {command}:{before}) words={shlex.quote(' '.join(known))};;")
    lines = [
        *(["autoload -Uz compinit bashcompinit && compinit && bashcompinit"] if shell == "zsh" else []),
        "_litebert() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        '  [[ "$word" == -* ]] || case "${COMP_WORDS[1]}:$before" in',
        *values,
        "  esac",
        f'  if [ "$COMP_CWORD" -eq 1 ]; then words={shlex.quote(" ".join([*commands, "--help", "--version"]))}',
        '  elif [ -z "$words" ] && [[ "$word" == -* ]]; then case "${COMP_WORDS[1]}" in',
        *names,
        "  esac; fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "}",
        "complete -o default -F _litebert litebert",
    ]
    return "\n".join(lines)


def complete_fish(commands: Mapping[str, Sequence["Option"]]) -> str:
    return "\n".join(fish_lines(commands))


def fish_lines(commands: Mapping[str, Sequence["Option"]]) -> Iterator[str]:
    from litebert.__main__ import describe_command

    for command, options in commands.items():
        yield f"complete -c litebert -n __fish_use_subcommand -f -a {command} -d {quote(describe_command(command))}"
        seen = f"complete -c litebert -n '__fish_seen_subcommand_from {command}'"
        for option in options:
            known = f" -x -a {quote(' '.join(names))}" if (names := list_values(command, option)) else ""
            takes = known or (" -r" if option.kind else "")
            if not option.is_positional:
                yield f"{seen} -l {option.name.removeprefix('--')}{takes} -d {quote(option.help)}"
            elif known:
                yield seen + known


def quote(text: str) -> str:
    """For fish, whose quoted text knows two escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
