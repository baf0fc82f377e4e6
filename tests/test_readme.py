"""What README.md and docs/ tell people to type works, as it stands there."""

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
import tyro

from litebert.__main__ import find_default, import_command, main, read_options

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "README.zh-CN.md",
    "docs/tour.md",
    "docs/howto/finetuning.md",
    "docs/howto/studies.md",
    "docs/howto/languages.md",
    "docs/howto/domains.md",
    "docs/howto/folders.md",
]
PROSE = [
    "CONTRIBUTING.md",
    "docs/reference.md",
    "docs/design.md",
    "docs/paper.md",
    "docs/results.md",
    "docs/howto/devices.md",
]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(page: str) -> list[str]:
    lines = [line.split("  #")[0].strip() for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_the_page_runs(page: str, workplace: None, capsys: pytest.CaptureFixture[str]) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = commands(page)
    assert shown
    for command in shown:
        program, *arguments = shlex.split(command)
        if program == "litebert":
            if arguments[0] == "pretrain":  # only the first steps of it
                arguments += ["--steps", "3", "--evaluation-sequences", "32"]
            if arguments[0] == "study" and "--list" not in arguments:
                arguments += ["--steps", "1", "--evaluation-sequences", "32"]
            if arguments[0] == "finetune":
                arguments += ["--steps", "2", "--evaluate-every", "0"]
            main(arguments)
            assert capsys.readouterr().out
        elif program == "make":
            assert set(arguments) <= targets, command
        else:
            pytest.fail(f"{page} shows {command!r}, which no test runs")


def shown_anywhere(page: str) -> list[str]:
    """Every command of a page, in blocks and between words, but for those that are cut short."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    found = [*lines, *re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))]
    begins = re.compile(r"(?:\$ )?(?:\w+=\S+ )*(litebert [a-z-]+ [^|]*\S|torchrun .* -m litebert .*|python \S+\.py .*)")
    given = [match[1].split("  #")[0] for line in found if (match := begins.fullmatch(line.strip()))]
    return [command for command in given if " ..." not in command]


@pytest.mark.parametrize("page", [*PAGES, *PROSE])
def test_every_command_shown_is_understood(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it would take hours, or many machines: its options are those of today, and its values possible."""
    monkeypatch.setattr("sys.path", [str(ROOT / "benchmarks"), *sys.path])
    for command in shown_anywhere(page):
        program, *arguments = shlex.split(command.split(" > ")[0].split(" >> ")[0])
        if program == "python":
            module = importlib.import_module(Path(arguments[0]).stem)
            tyro.cli(module.Options, args=arguments[1:])
            continue
        if program == "torchrun":
            arguments = [argument for argument in arguments[arguments.index("litebert") + 1 :] if argument != "--"]
        name, *rest = arguments
        options = import_command(name)
        read_options(options.Options, name, rest, find_default(options, rest))


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_python_runs(page: str, workplace: None) -> None:
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), {})


@pytest.mark.parametrize("page", [*PAGES, *PROSE])
def test_links_and_files_named_on_the_page_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), target
    for file in re.findall(r"`((?:litebert|tests|benchmarks|examples|docs)/[\w/.-]+)`", text):
        assert (ROOT / file).exists(), file
