import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import litebert
from litebert.__main__ import command_files, name_options
from litebert.display import print_table
from litebert.models.encoder import EncoderConfig
from litebert.models.folder import read_model, write_model
from litebert.models.heads import HeadConfig
from litebert.models.model import Model
from litebert.presets import PRESETS
from tests.commands.calls import refuse, run

PAGES_OF_WORK = 600 * 2**20 // 4096
"""What a process holds that makes a large model, and none that only imports torch."""
GOOGLE = Path(__file__).parents[1] / "models" / "data" / "tensorflow_albert"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "capital", "of", "france", "paris", "is", "."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with a vocabulary that has learned one sentence by heart."""
    torch.manual_seed(0)
    config = EncoderConfig(
        vocab_size=12, embedding_size=8, hidden_size=16, num_layers=2, num_heads=2, feed_forward_size=32,
        num_positions=16, initializer_range=0.2,
    )  # fmt: skip
    model = Model(config, [HeadConfig(kind="masked_token")])
    ids = torch.tensor([[2, 9, 10, 5, 6, 7, 8, 11, 3]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(120):
        hidden = ids.clone()
        hidden[0, 1 + step % 7] = 4
        loss = torch.nn.functional.cross_entropy(model(hidden).logits["masked_token"][0], ids[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    path = tmp_path / "model"
    write_model(model, path)
    (path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return path


def test_help_lists_every_command_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    listed = run(capsys, "--help")
    assert run(capsys) == listed
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
    assert sorted(names) == sorted(command_files())
    assert litebert.__version__ in run(capsys, "--version")


@pytest.mark.parametrize("name", command_files())
def test_each_commands_help_shows_an_example(capsys: pytest.CaptureFixture[str], name: str) -> None:
    shown = run(capsys, name, "--help")
    assert "Example" in shown and f"litebert {name} " in shown


def test_help_does_not_wait_for_torch() -> None:
    program = "import sys; from litebert.__main__ import main; main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_warnings_of_libraries_are_not_said_as_ours() -> None:
    """A library with a handler of its own would have said them twice."""
    program = (
        "import logging, sys; from litebert.__main__ import main; sys.argv = ['litebert', '--version']; main(); "
        "logging.getLogger('litebert.text').warning('ours'); logging.getLogger('other').warning('theirs')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines() == ["litebert: ours", "theirs"]


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
ENVIRONMENTS = pytest.mark.parametrize("environment", [BUFFERED, BUFFERED | {"PYTHONUNBUFFERED": "1"}])
"""Output that is written at the end of a program, as from a shell, and at once."""


@ENVIRONMENTS
@pytest.mark.parametrize("arguments", [["models"], ["models", "--help"]])
def test_a_reader_that_has_seen_enough_is_no_failure(environment: dict[str, str], arguments: list[str]) -> None:
    listing = subprocess.Popen(
        [sys.executable, "-m", "litebert", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert listing.stdout is not None and listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == b"" and listing.wait() == 0


@ENVIRONMENTS
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file is always full here")
def test_output_that_finds_no_room_is_told(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "litebert", "models"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert (done.returncode, done.stderr) == (
        2,
        "litebert: the output cannot be written: no space is left; make room, or choose another path\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("modls",), "there is no command 'modls' (did you mean 'models'?)"),
        (
            ("models", "--lenght", "5"),
            "models has no option --lenght (did you mean --length?); see litebert models --help",
        ),
        (("models", "--length", "five"), "'five'"),
        (("models", "--length", "0"), "--length is 0; it must be at least 1"),
        (("inspect",), "see litebert inspect --help"),
        (("inspect", "nowhere"), "nowhere does not exist; give a model folder"),
        (("convert", "albert-nan", "x"), "did you mean 'albert-nano'"),
        (("convert", "no/where", "x"), "no/where is no folder, no checkpoint and no preset"),
        (("fill-mask", "nowhere", "a [MASK]"), "nowhere does not exist"),
        (("fill-mask", "nowhere", "a [MASK]", "--top", "0"), "--top is 0"),
    ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert said in refuse(capsys, *arguments)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("steps is -5; it must be at least 1", "--steps is -5; it must be at least 1"),
        ("the part is 3/2; it must be one of 1/2 to 2/2", "the part is 3/2; it must be one of 1/2 to 2/2"),
        ("freeze is 'x'; it must be nothing", "freeze is 'x'; it must be nothing"),
        ("power is inf; it must be finite", "--power is inf; it must be finite"),
        ("make num_sequences a multiple of 2", "make --num-sequences a multiple of 2"),
        ("num_layers is 0; it must be at least 1", "num_layers is 0; it must be at least 1"),
        ("corpus is no corpus: it has no index.json", "corpus is no corpus: it has no index.json"),
        ("length is too long a word for a rate of steps", "length is too long a word for a rate of steps"),
        ("runs/num_sequences/save_every.json does not exist", "runs/num_sequences/save_every.json does not exist"),
        ("'log_every' is a column", "'log_every' is a column"),
        (
            "run/config.json cannot be used (num_sequences is 0; it must be at least 1); restore it",
            "run/config.json cannot be used (num_sequences is 0; it must be at least 1); restore it",
        ),
    ],
)
def test_only_a_field_is_told_as_an_option(said: str, told: str) -> None:
    assert name_options(said, "pretrain") == told
    assert name_options(said, "no-command") == said


def test_a_path_that_is_missing_is_told_with_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    """`corpus does not exist` would read as if there were no such command."""
    said = refuse(capsys, "pretrain", "--preset", "albert-nano", "--corpus", "nowhere", "--run", "run")
    assert said.startswith("litebert: --corpus nowhere does not exist; ")


def test_models_prints_every_preset(capsys: pytest.CaptureFixture[str]) -> None:
    table = run(capsys, "models")
    rows = json.loads(run(capsys, "models", "--json", "--length", "512"))
    assert [row["preset"] for row in rows] == list(PRESETS)
    for row in rows:
        assert row["preset"] in table and f"{row['parameters']:,}" in table


def test_inspect_counts_how_often_each_part_is_used(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    content = json.loads(run(capsys, "inspect", folder, "--json"))
    rows = {row["part"]: row for row in content["parts"]}
    assert rows["encoder.attentions.0.query_key_value.weight"]["used"] == 2
    assert rows["encoder.embedding.words.weight"]["used"] == 2
    assert rows["pooler.weight"]["used"] == 1
    model = read_model(folder)
    assert sum(row["parameters"] for row in rows.values()) == sum(p.numel() for p in model.parameters())
    assert f"{sum(p.numel() for p in model.parameters()):,}" in run(capsys, "inspect", folder)


def test_fill_mask_finds_what_was_learned(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    found = json.loads(run(capsys, "fill-mask", folder, "Paris is the [MASK] of France.", "--json", "--top", "3"))
    assert [len(candidates) for candidates in found["masks"]] == [3]
    assert found["masks"][0][0]["piece"] == "capital"
    assert found["filled"] == "paris is the capital of france."
    shown = run(capsys, "fill-mask", folder, "Paris is the [MASK] of France.")
    assert "capital" in shown and "[MASK] 1 of 1" in shown
    pieces = json.loads(run(capsys, "fill-mask", folder, "paris is the [MASK] of france .", "--pieces", "--json"))
    assert pieces["masks"][0][0]["piece"] == "capital"


def test_fill_mask_refuses_a_model_without_its_head_and_a_text_too_long(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    assert "the text 'no blank' has no [MASK]" in refuse(capsys, "fill-mask", folder, "no blank")
    assert "has 19 tokens; the model has 16 positions" in refuse(capsys, "fill-mask", folder, "[MASK] " + "the " * 16)
    write_model(Model(read_model(folder).config, [HeadConfig(kind="classes")]), tmp_path / "classes")
    shutil.copy(folder / "vocab.txt", tmp_path / "classes")
    assert "has no masked-token head (its heads: classes)" in refuse(
        capsys, "fill-mask", tmp_path / "classes", "[MASK]"
    )


def test_a_vocabulary_of_another_size_than_the_models_is_refused(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "vocab.txt").write_text("\n".join(PIECES[:-1]) + "\n")
    run(capsys, "fill-mask", folder, "[MASK]")  # one row more, which makes a model round
    (folder / "vocab.txt").write_text("\n".join([*PIECES, "extra"]) + "\n")
    assert "a vocabulary of 13 pieces and a model of 12" in refuse(capsys, "fill-mask", folder, "[MASK]")
    write_model(Model(replace(read_model(folder).config, vocab_size=200), [HeadConfig(kind="masked_token")]), folder)
    assert "a vocabulary of 13 pieces and a model of 200" in refuse(capsys, "fill-mask", folder, "[MASK]")


def test_convert_turns_googles_checkpoint_into_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = run(capsys, "convert", GOOGLE, tmp_path / "albert")
    assert "heads: masked_token, pair" in said and "vocabulary: none found" in said
    ours, theirs = read_model(tmp_path / "albert"), read_model(GOOGLE)
    assert ours.config == theirs.config
    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name])


def test_convert_copies_the_vocabulary_and_overrides_the_config(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    said = run(capsys, "convert", folder, tmp_path / "copy", "--activation", "gelu_erf", "--num-heads", "4")
    assert "vocabulary: tokenizer.json, tokenizer_config.json, vocab.txt" in said
    model, vocabulary = litebert.open_model(tmp_path / "copy")
    assert (model.config.activation, model.config.num_heads, vocabulary.size) == ("gelu_erf", 4, 12)


def test_convert_makes_a_preset_and_overwrites_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(capsys, "convert", "albert-nano", tmp_path / "nano", "--seed", "3")
    before = (tmp_path / "nano" / "model.safetensors").read_bytes()
    assert "is the folder of a model" in refuse(capsys, "convert", "albert-nano", tmp_path / "nano")
    assert (tmp_path / "nano" / "model.safetensors").read_bytes() == before
    run(capsys, "convert", "albert-nano", tmp_path / "same", "--seed", "3")
    assert (tmp_path / "same" / "model.safetensors").read_bytes() == before


def test_what_the_system_refuses_is_said_with_the_files_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert str(tmp_path / "file") in refuse(capsys, "convert", "albert-nano", tmp_path / "file" / "model")


def test_pieces_with_brackets_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"piece": "[unused5]", "probability": 0.5}, {"piece": "[/b]", "probability": 0.25}])
    shown = capsys.readouterr().out
    assert "[unused5]" in shown and "[/b]" in shown


def test_interrupting_says_so_in_one_sentence(tmp_path: Path) -> None:
    import signal

    command = [sys.executable, "-m", "litebert", "convert", "bert-large", str(tmp_path / "large")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    sizes, deadline = Path(f"/proc/{process.pid}/statm"), time.monotonic() + 60
    while time.monotonic() < deadline and sizes.exists() and int(sizes.read_text().split()[1]) < PAGES_OF_WORK:
        time.sleep(0.02)  # it is still importing torch, which may take an interrupt for an error of its own
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "litebert: interrupted\n"
    assert not (tmp_path / "large" / "config.json").exists()


INTERRUPTED = """
import atexit, os, signal, sys
import litebert.__main__

def work(name, arguments):
    {work}

litebert.__main__.run_command = work
sys.argv = ["litebert", "vocab"]
litebert.__main__.main()
"""
MISTAKEN = """try:
        signal.raise_signal({})
    except KeyboardInterrupt:
        raise {}("numpy")
"""
TOLD = "litebert: interrupted; the same command begins anew\n"
AFTERWARDS = "atexit.register(lambda: signal.raise_signal({}))"


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        (MISTAKEN.format("signal.SIGINT", "ImportError"), 130, TOLD),
        (MISTAKEN.format("signal.SIGINT", "BrokenPipeError"), 130, TOLD),
        (
            MISTAKEN.format("signal.SIGTERM", "ImportError"),
            143,
            "litebert: stopped by SIGTERM; the same command begins anew\n",
        ),
        (MISTAKEN.format("signal.SIGINT", "litebert.__main__.UserError"), 2, "litebert: numpy\n"),
        (AFTERWARDS.format("signal.SIGINT"), 0, ""),
        (AFTERWARDS.format("signal.SIGTERM"), 0, ""),
        (f"{AFTERWARDS.format('signal.SIGINT')}; sys.exit(2)", 2, ""),
    ],
)
def test_a_signal_is_told_wherever_it_falls(work: str, code: int, said: str) -> None:
    """Into an import, which makes another error of it; and into Python's own end, when all is done."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.format(work=work)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_torch_is_imported_to_the_end(tmp_path: Path, number: str, code: int) -> None:
    """An exception in the middle of it may end in an abort, with a page of C++."""
    (tmp_path / "torch.py").write_text(
        f"import signal, time\nsignal.raise_signal(signal.{number})\ntime.sleep(0.2)\nprint('imported', flush=True)\n"
    )
    work = f"sys.path.insert(0, {str(tmp_path)!r}); import torch, time; time.sleep(20); print('too late')"
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.format(work=work)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "imported\n")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_that_ends_the_reader_too_is_told() -> None:
    """As of `litebert vocab | tee log`, where Ctrl-C ends both."""
    work = "print('some'); os.close(1); signal.raise_signal(signal.SIGINT)"
    program = [sys.executable, "-c", INTERRUPTED.format(work=work)]
    done = subprocess.run(program, capture_output=True, text=True, env=BUFFERED)
    assert (done.returncode, done.stderr) == (130, TOLD)


def test_a_mistake_of_ours_is_told_with_its_place() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(work="raise ImportError")], capture_output=True, text=True
    )
    assert done.returncode == 1 and "Traceback" in done.stderr


def test_what_is_something_else_is_left_alone(
    visited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shutil.copytree(visited, tmp_path / "work"))
    model = "demo/albert/model"
    Path("demo/albert/config.json").write_text('{"preset": "albert-nano"}')
    Path("demo/albert/checkpoints").mkdir()
    for command, said in (
        (f"corpus books --vocab demo/vocab --out {model}", "is the folder of a model (model.safetensors is there)"),
        (f"vocab books --size 100 --overwrite --out {model}", f"{model} is the folder of a model"),
        ("vocab books --size 100 --overwrite --out demo/corpus", "demo/corpus is the folder of a corpus"),
        ("vocab books --size 100 --overwrite --out demo/albert", "demo/albert is the folder of a run"),
        ("pretrain --corpus demo/corpus --run demo/corpus --steps 1", "demo/corpus is the folder of a corpus"),
        ("pretrain --corpus demo/corpus --run demo/vocab --steps 1", "demo/vocab is the folder of a vocabulary"),
        (f"pretrain --corpus demo/corpus --run {model} --steps 1", f"{model} is the folder of a model"),
        ("study sharing --corpus demo/corpus --out demo/albert", "demo/albert is the folder of a run"),
        ("report demo/albert --out demo/albert/metrics.jsonl", "metrics.jsonl does not end in .html; give a name"),
        ("corpus demo/corpus --html demo/corpus/index.json", "index.json does not end in .html; give a name"),
        (f"finetune --data reviews --first review --label stars --init {model} --run demo/albert --steps 1",
         "demo/albert is a run of another kind; start a new --run"),
        ("inspect demo/albert", "this is a run's folder: name demo/albert/model"),
    ):  # fmt: skip
        assert said in refuse(capsys, *shlex.split(command)), command
