"""Help, the reference and the shells' completion say what the commands themselves read."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tyro

from litebert.__main__ import command_files, command_options, find_default, import_command, main
from litebert.options import Option

MARKERS = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def commands() -> dict[str, list[Option]]:
    return command_options()


@pytest.mark.parametrize("name", command_files())
def test_the_options_are_those_that_are_read(
    name: str, commands: dict[str, list[Option]], capsys: pytest.CaptureFixture[str]
) -> None:
    command = import_command(name)
    with pytest.raises(SystemExit):
        tyro.cli(command.Options, args=["--help"], default=find_default(command, []), config=MARKERS)
    said = capsys.readouterr().out
    first_words = [word for line in said.splitlines() for word in line.strip("│| ").split()[:1]]
    shown = {word for word in first_words if re.fullmatch(r"--[a-z][a-z0-9-]*", word)}
    assert shown == {option.name for option in commands[name] if not option.is_positional}
    for option in commands[name]:
        assert option.name in said
        if option.default:
            assert option.default.split()[0] in said


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", command_files())
def test_help_tells_each_option_once_within_the_terminal(
    name: str,
    columns: int,
    commands: dict[str, list[Option]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    main([name, "--help"])
    _, _, said = capsys.readouterr().out.partition("Example")
    lines = said.splitlines()
    begun = [line.split()[0] for line in lines if re.match(r"  \S", line)]
    assert begun == [option.name for option in sorted(commands[name], key=lambda option: bool(option.group))]
    told = " ".join(said.split())
    for option in commands[name]:
        assert " ".join(option.help.split()) in told
    wide = [line for line in lines[lines.index("") :] if len(line) > max(columns, 52) and "|" not in line]
    assert not wide


def test_help_says_what_must_be_given_and_follows_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    main(["pretrain", "--preset", "albert-nano", "--help"])
    said = capsys.readouterr().out
    assert said.startswith("usage: litebert pretrain --run path [options]\n")
    assert re.search(r"--num-sequences int +[^-]*Default:\s+12\n", said)
    main(["convert", "-h"])
    assert capsys.readouterr().out.startswith("usage: litebert convert SRC DST [options]\n")


def test_what_must_be_given_has_no_default(commands: dict[str, list[Option]]) -> None:
    required = {option.name for option in commands["score"] if option.default is None}
    assert required == {"--task", "--gold", "--predictions"}
    assert next(option for option in commands["pretrain"] if option.name == "--run").default is None


def test_every_option_says_what_it_is_for(commands: dict[str, list[Option]]) -> None:
    silent = [
        f"{command} {option.name}" for command, options in commands.items() for option in options if not option.help
    ]
    assert not silent


def test_choices_are_found_where_an_option_may_be_left_out_too(commands: dict[str, list[Option]]) -> None:
    choices = {option.name: option.choices for option in commands["convert"]}
    assert "gelu_tanh" in choices["--activation"]
    assert {option.name: option.kind for option in commands["layers"]}["--text"] == "text..."


def test_the_reference_is_current() -> None:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    written = (DOCS / "reference.md").read_text(encoding="utf-8")
    assert written == made.make_reference(), "run python docs/make_reference.py"


COMPLETIONS = [
    ("litebert pretr", {"pretrain"}),
    ("litebert pretrain --optim", {"--optimizer"}),
    ("litebert pretrain --optimizer ", {"lamb", "adamw"}),
    ("litebert pretrain --preset albert-na", {"albert-nano"}),
    ("litebert finetune --task sst", {"sst2"}),
    ("litebert study sha", {"sharing"}),
    ("litebert study --lis", {"--list"}),
    ("litebert evaluate --task te", {"text"}),
    ("litebert plan --kind a100-4", {"a100-40"}),
    ("litebert convert albert-na", {"albert-nano"}),
]


def make_script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    main(["completion", shell])
    script = folder / f"litebert.{shell}"
    script.write_text(capsys.readouterr().out)
    return script


@pytest.mark.parametrize(("typed", "offered"), COMPLETIONS)
def test_bash_completes(typed: str, offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = make_script("bash", tmp_path, capsys)
    words = " ".join(f"'{word}'" for word in typed.split(" "))
    typing = f"COMP_WORDS=({words}); COMP_CWORD={len(typed.split(' ')) - 1}"
    asked = f'source {script}; {typing}; _litebert; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize(("typed", "offered"), COMPLETIONS)
def test_fish_completes(typed: str, offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = make_script("fish", tmp_path, capsys)
    asked = ["fish", "-c", f"source {script}; complete -C '{typed}'"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert offered <= {line.split("\t")[0] for line in done.stdout.splitlines()}


def test_zsh_reads_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    asked = ["zsh", "-fc", f"source {make_script('zsh', tmp_path, capsys)}; print ${{_comps[litebert]}}"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert "_litebert" in done.stdout
