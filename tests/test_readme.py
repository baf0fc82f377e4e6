"""What README.md and docs/ tell people to type works, as it stands there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from litebert.__main__ import main
from litebert.models.folder import write_model
from litebert.models.heads import PRETRAINING, Model
from litebert.presets import albert_nano

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "README.zh-CN.md", "docs/tour.md"]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(page: str) -> list[str]:
    lines = [line.split("  #")[0].strip() for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where `make demo` has been, and where one of Google's archives was unpacked."""
    torch.manual_seed(0)
    write_model(Model(albert_nano(), PRETRAINING), tmp_path / "demo")
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefghijklmnopqrstuvwxyz.",
        "a",
        "new",
        "object",
        "return",
    ]
    (tmp_path / "demo" / "vocab.txt").write_text("\n".join(dict.fromkeys(pieces)) + "\n")
    shutil.copytree(ROOT / "tests" / "models" / "data" / "tensorflow_albert", tmp_path / "albert_base")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_the_page_runs(page: str, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = commands(page)
    assert shown
    for command in shown:
        program, *arguments = shlex.split(command)
        if program == "litebert":
            main(arguments)
            assert capsys.readouterr().out
        elif program == "make":
            assert set(arguments) <= targets, command
        else:
            pytest.fail(f"{page} shows {command!r}, which no test runs")


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_python_runs(page: str, workplace: Path) -> None:
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), {})


@pytest.mark.parametrize(
    "page", [*PAGES, "CONTRIBUTING.md", *(f"docs/{name}.md" for name in ("design", "paper", "results"))]
)
def test_links_and_files_named_on_the_page_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), target
    for file in re.findall(r"`((?:litebert|tests|benchmarks|examples|docs)/[\w/.-]+)`", text):
        assert (ROOT / file).exists(), file
