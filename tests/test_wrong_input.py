"""Every command, given what is missing, empty, binary, cut short or of another kind, says so in one sentence."""

import shlex
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from litebert.__main__ import command_options, main
from tests.commands.calls import refuse

FINETUNE = "finetune --init demo/albert/model --run out --steps 1 --evaluate-every 0"
COMMANDS = [
    "convert BAD out",
    "corpus BAD --vocab demo/vocab --out out",
    "corpus books --vocab BAD --out out",
    "corpus BAD --show 1",
    "ensemble --data reviews --members BAD BAD --out out",
    "evaluate --data glue/SST-2 --model BAD --task sst2",
    "fill-mask BAD 'a [MASK]'",
    f"{FINETUNE} --task sst2 --data BAD",
    f"{FINETUNE} --first review --label stars --data BAD",
    f"{FINETUNE} --task squad1 --data BAD",
    f"{FINETUNE} --task race --data BAD",
    "finetune --task sst2 --data glue/SST-2 --init BAD --run out --steps 1",
    "inspect BAD",
    "layers BAD --text books",
    "layers demo/albert/model --text BAD",
    "plan --corpus BAD",
    "plan --config BAD",
    "plot BAD",
    "predict --model BAD --text x",
    "pretrain --corpus BAD --run out --steps 1",
    "pretrain --corpus demo/corpus --init BAD --run out --steps 1",
    "report BAD --out out.html",
    "score --task sst2 --gold BAD --predictions predictions.json",
    "score --task squad2 --gold squad/dev-v2.0.json --predictions BAD",
    "study dropout --corpus BAD --steps 1 --out out",
    "vocab BAD --size 100 --out out",
]
BAD = ["nowhere", "hollow", "empty.txt", "binary.txt", "binary.tsv", "binary.json", "cut.json", "list.json", "cut.gz",
       "cut-model", "/dev/null"]  # fmt: skip

FINE = {("corpus books --vocab BAD --out out", "cut-model")}
"""Its vocabulary is whole, and no more is asked of it."""
VOCABULARY = {"spiece.model", "tokenizer.json", "tokenizer_config.json"}


@pytest.fixture(scope="module")
def place(visited: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(visited, tmp_path_factory.mktemp("wrong") / "work")
    (folder / "hollow").mkdir()
    (folder / "empty.txt").touch()
    noise = np.random.default_rng(0).bytes(5000)
    for name in ("binary.txt", "binary.tsv", "binary.json"):
        (folder / name).write_bytes(noise)
    (folder / "cut.json").write_text('{"a": 1')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "cut.gz").write_bytes((folder / "wiki.jsonl.gz").read_bytes()[:200])
    weights = shutil.copytree(folder / "my-model", folder / "cut-model") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:9000])
    return folder


@pytest.mark.parametrize(("command", "bad"), [pair for pair in product(COMMANDS, BAD) if pair not in FINE])
def test_wrong_input_is_one_sentence(
    command: str, bad: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    shutil.rmtree("out", ignore_errors=True)
    with pytest.raises(SystemExit) as caught:
        main([bad if word == "BAD" else word for word in shlex.split(command)])
    said = capsys.readouterr()
    assert caught.value.code == 2, said.err
    sentence = said.err.splitlines()[-1]
    assert said.err.count("\n") == 1 and sentence.startswith("litebert: ") and sentence.isprintable()
    assert Path(bad).name in sentence
    # A corpus is read as it is built: what is beside it by then is the vocabulary, and the build can go on.
    assert {file.name for file in Path("out").glob("*")} <= VOCABULARY


NUMBERS = {
    "convert": "convert albert-nano out",
    "corpus": "corpus books --vocab demo/vocab --out out",
    "finetune": f"{FINETUNE} --task sst2 --data glue/SST-2 --dry-run",
    "plan": "plan --kind t4",
    "pretrain": "pretrain --corpus demo/corpus --run out --dry-run",
    "study": "study sharing --corpus demo/corpus --out out",
    "vocab": "vocab books --out out",
}
"""Commands whose options set the fields of configs."""
UNUSED = {("corpus", "--show"), ("corpus", "--length")}
"""Options that are for what was built before."""


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_no_option_takes_is_told_with_the_option_as_it_is_typed(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    for option in command_options()[name]:
        if option.kind in ("int", "float") and (name, option.name) not in UNUSED:
            shutil.rmtree("out", ignore_errors=True)
            said = refuse(capsys, *shlex.split(NUMBERS[name]), option.name, "-7")
            assert said.startswith(f"litebert: {option.name} is -7"), said


MANY = "9" * 25


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("vocab books --size 3000000000 --out out", "--size is 3000000000; no vocabulary has 2^31 pieces"),
        (f"convert albert-nano out --seed {MANY}", f"--seed is {MANY}; it must be at least 0 and below 2^62"),
        (f"{FINETUNE} --task sst2 --data glue/SST-2 --seed {MANY}", f"--seed is {MANY}; it must be at least 0"),
        (f"layers demo/albert/model --text books --sequences {MANY}", f"--sequences is {MANY}; it must be from 1"),
        (f"corpus demo/corpus --show 3 --length {MANY}", f"--length is {MANY}; the longest sequence has 65,535"),
        ("vocab books --size abc --out out", "--size is 'abc'; give a whole number; see litebert vocab --help"),
        ("vocab books", "--out is missing; see litebert vocab --help"),
        ("pretrain --corpus demo/corpus --run out --rate 2", "--rate is 2.0; it must be between 0 and 1"),
        ("pretrain --corpus demo/corpus --run out --steps x", "--steps is 'x'; give a whole number"),
        ("pretrain --corpus demo/corpus --run out --learning-rate x", "--learning-rate is 'x'; give a number"),
        (
            "pretrain --corpus demo/corpus --run out --minutes 1e308",
            "--minutes is 1e+308; it must be above 0, up to 10,000,000",
        ),
        (
            f"{FINETUNE} --task sst2 --data glue/SST-2 --epochs 1e308",
            "--epochs is 1e+308; it must be above 0, up to 1,000,000",
        ),
        (
            "pretrain --corpus demo/corpus --run out --encoder initializer_range=Infinity",
            "initializer_range is inf; it",
        ),
        (f"corpus books --vocab demo/vocab --out out --part 1/{MANY}", f"--part is 1/{MANY}; a corpus has at least"),
        (f"corpus books --vocab demo/vocab --out out --workers {MANY}", f"--workers is {MANY}; it must be"),
        ("completion tcsh", "shell is 'tcsh'; it must be one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_values_that_no_option_takes_are_one_sentence(
    command: str, said: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    shutil.rmtree("out", ignore_errors=True)
    assert refuse(capsys, *shlex.split(command)).startswith(f"litebert: {said}")
    assert not Path("out").exists()
