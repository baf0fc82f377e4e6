"""The commands behind docs/results.md run, one after the other as they stand there: here for a step or two of each."""

import gzip
import json
import shlex
import shutil
from pathlib import Path

import pytest

from litebert.__main__ import main
from litebert.text.vocabulary import open_vocabulary
from tests.made import ENGLISH, write_rows
from tests.test_readme import shown_anywhere

COMMANDS = [shown for shown in shown_anywhere("docs/results.md") if shown.startswith("litebert") and " --" in shown]
SHORT = {
    "vocab": "--size 300",
    "pretrain": "--steps 3 --warmup-steps 1 --evaluation-sequences 32",
    "finetune": "--steps 2 --evaluate-every 0",
    "study": "--steps 1 --seeds 1 --evaluation-sequences 32",
    "study time": "--budget 8s --seeds 1 --evaluation-sequences 32",
}
"""What makes little work of each, behind what it was given."""


@pytest.fixture(scope="module")
def measured(visited: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the page's commands are given, by the names that they have there."""
    folder = tmp_path_factory.mktemp("measured") / "work"
    shutil.copytree(visited, folder)
    for corpus in ("wiki", "novels", "zhwiki"):
        shutil.copytree(folder / "demo/corpus", folder / corpus)
    for model in ("albert_reactions", "bert_reactions"):
        shutil.copytree(folder / "my-model", folder / model)
    for text in ("wiki_en", "novels_en"):
        (folder / f"{text}.txt.gz").write_bytes(gzip.compress("\n\n".join(ENGLISH[:1000]).encode()))
    (folder / "wiki.txt").write_text("\n".join(ENGLISH[:50]), encoding="utf-8")
    pieces = open_vocabulary(folder / "my-model").pieces
    (folder / "reactions.txt").write_text(" ".join(pieces[20:40]), encoding="utf-8")
    write_tasks(folder)
    return folder


def write_tasks(folder: Path) -> None:
    """Those of the page that no other page has."""
    labels = ("not_entailment", "entailment")
    pairs = [(str(number), text, text, labels[number % 2]) for number, text in enumerate(ENGLISH[:24])]
    passages = [
        {"article": text, "questions": ["A new _ ?"], "options": [["a", "b", "c", "d"]], "answers": ["B"],
         "level": "middle", "file": f"{number}.txt", "id": f"middle{number}.txt"}
        for number, text in enumerate(ENGLISH[:8])
    ]  # fmt: skip
    (folder / "race").mkdir()
    for split in ("train", "dev"):
        write_rows(folder / "glue/RTE" / f"{split}.tsv", "\t", ("index", "sentence1", "sentence2", "label"), pairs)
        shutil.copy(folder / "squad/dev-v2.0.json", folder / f"squad/{split}-v1.1.json")
        (folder / "race" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, passages)), encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_command_on_the_page_runs(
    command: str, measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(measured)
    monkeypatch.setattr("litebert.studies.plan.TIMED_ROUNDS", 1)
    _, name, *arguments = shlex.split(command)
    if name == "pretrain":  # the page tells of several by one name
        shutil.rmtree(arguments[arguments.index("--run") + 1], ignore_errors=True)
    for argument in map(Path, arguments):  # of runs that it tells of in words
        if argument.name == "model" and not argument.exists():
            shutil.copytree("my-model", argument)
        if argument.name == "seed-0" and not argument.exists():
            main(["finetune", "--task", "sst2", "--data", "glue/SST-2", "--init", "my-model", "--seeds", "3",
                  "--run", str(argument.parent), *SHORT["finetune"].split()])  # fmt: skip
    short = SHORT.get(f"{name} {arguments[0]}") or SHORT.get(name, "")
    main([name, *arguments, *short.split()])
    assert capsys.readouterr().out
