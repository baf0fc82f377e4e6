"""The import arrows of docs/design.md, kept true."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import litebert

PACKAGE = Path(litebert.__file__).parent

# What each part of the package may import of the others. `commands` and the front door may import anything.
ARROWS: dict[str, set[str]] = {
    "config": set(),
    "options": set(),
    "help": {"options"},
    "display": set(),
    "interrupts": set(),
    "batch": {"config"},
    "files": {"config"},
    "folders": {"config"},
    "protobuf": set(),
    "text": {"config", "files", "folders", "protobuf"},
    "corpus": {"config", "batch", "files", "folders", "text"},
    "models": {"config", "batch", "files", "folders", "protobuf"},
    "presets": {"config", "models"},
    "blanks": {"batch", "models", "text"},
    "tasks": {"config", "batch", "files", "text"},
    "training": {"__version__", "config", "batch", "files", "folders", "models"},
    "pretraining": {"config", "batch", "files", "text", "corpus", "models", "presets", "training"},
    "finetuning": {"config", "batch", "files", "folders", "text", "tasks", "models", "presets", "training"},
    "recipes": {"config", "corpus", "folders", "presets", "pretraining", "finetuning", "tasks", "training"},
    "beginnings": {"config", "pretraining", "finetuning", "recipes"},
    # All of the above but the text itself, and command lines.
    "studies": {"config", "batch", "files", "corpus", "models", "presets", "tasks"}
    | {"training", "pretraining", "finetuning", "recipes"},
}
FREE = {"commands", "__main__", "__init__"}
ORACLES = {"transformers", "tensorflow", "google", "pytest", "hypothesis"}


def parts() -> Iterator[tuple[str, Path]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).parts[0].removesuffix(".py"), file


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    ("part", "file"), [pytest.param(*pair, id=str(pair[1].relative_to(PACKAGE))) for pair in parts()]
)
def test_a_file_imports_only_what_the_design_lets_it(part: str, file: Path) -> None:
    names = [name.split(".") for name in imports(file)]
    assert not {name[0] for name in names} & ORACLES, "oracles stay out of the package"
    inside = {name[1] for name in names if name[0] == "litebert" and len(name) > 1}
    assert "commands" not in inside, "nothing imports a command"
    if part not in FREE:
        assert part in ARROWS, f"say in docs/design.md and here what {part} may import"
        assert inside - {part} <= ARROWS[part]


def test_every_part_of_the_package_has_its_arrows_written_down() -> None:
    assert {part for part, _ in parts()} == set(ARROWS) | FREE


def test_no_import_in_the_package_is_relative() -> None:
    for _, file in parts():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), file
