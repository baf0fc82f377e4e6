"""What README.md and docs/ tell people to type works, as it stands there."""

import re
import shlex
from pathlib import Path

import pytest

from litebert.__main__ import main

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
PROSE = ["CONTRIBUTING.md", "docs/design.md", "docs/paper.md", "docs/results.md", "docs/howto/devices.md"]


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
