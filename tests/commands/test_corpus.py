import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from litebert.corpus.shards import open_corpus
from tests.commands.calls import refuse, run

WORDS = ["the", "fox", "dog", "rain", "sees", "hears", "a", "big", "old"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    file = tmp_path / "vocabulary" / "vocab.txt"
    file.parent.mkdir()
    file.write_text("\n".join(PIECES) + "\n")
    return file.parent


@pytest.fixture
def text(tmp_path: Path) -> Path:
    documents = (
        "\n".join(f"The {a} sees the {b}. The {b} hears a {c}. A big {a}." for c in WORDS)
        for a in WORDS
        for b in WORDS[1:]
    )
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join(documents))
    return file


@pytest.fixture
def corpus(text: Path, vocabulary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    run(capsys, "corpus", text, "--vocab", vocabulary, "--out", tmp_path / "corpus", "--dev", "20%", "--workers", "0")
    return tmp_path / "corpus"


def test_a_corpus_of_other_options_is_told_by_those(
    text: Path, vocabulary: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refuse(capsys, "corpus", text, "--vocab", vocabulary, "--out", corpus, "--dev", "5%", "--dedup")
    assert "(now --dev 0.05 instead of --dev 0.2; --dedup instead of no --dedup)" in said


def test_a_build_says_what_it_made(
    text: Path, vocabulary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(capsys, "corpus", text, "--vocab", vocabulary, "--out", tmp_path / "out", "--workers", "0")
    assert "72 documents, 1,944 sentences" in said and "bytes per token, 0.000% unknown" in said
    assert "tokens of a sentence" in said and f"next: litebert corpus {tmp_path / 'out'} --show 3" in said


def test_json_has_the_same_numbers(
    text: Path, vocabulary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("corpus", text, "--vocab", vocabulary, "--out", tmp_path / "out", "--dev", "0.2", "--json")
    built = json.loads(run(capsys, *arguments))
    assert built["documents"] == 72 and built["bytes"] == len(text.read_text().encode()) - 2 * 71
    assert sum(split["tokens"] for split in built["splits"].values()) == built["tokens"]
    assert sum(built["sentence_lengths"].values()) == built["sentences"]
    described = json.loads(run(capsys, "corpus", tmp_path / "out", "--json"))
    assert {key: described[key] for key in built} == built
    assert [row["length"] for row in described["epoch"]] == [128, 512]


def test_samples_are_shown_as_a_model_sees_them(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "corpus", corpus, "--show", "4", "--length", "64")
    assert said.count("predicted ──") == 4 and "[CLS]" in said and "[MASK]←" in said
    assert run(capsys, "corpus", corpus, "--show", "4", "--length", "64") == said
    assert run(capsys, "corpus", corpus, "--show", "4", "--length", "64", "--seed", "1") != said
    assert "no label" in run(capsys, "corpus", corpus, "--show", "1", "--objective", "none")


def test_samples_become_a_page(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "samples.html"
    run(capsys, "corpus", corpus, "--html", page, "--split", "dev")
    content = page.read_text()
    assert content.count("<article>") == 20 and "<rt>" in content and 'class="label">swapped' in content


def test_a_mixture_is_shown(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "corpus", "--mix", f"{corpus}=0.7", f"{corpus}=0.3", "--show", "2").count("predicted ──") == 2
    assert "'big' names no corpus and weight; write it as my-corpus=0.7" in refuse(capsys, "corpus", "--mix", "big")
    assert "needs a corpus and a weight above 0" in refuse(capsys, "corpus", "--mix", f"{corpus}=0")
    assert "--mix names the corpora; leave out" in refuse(capsys, "corpus", corpus, "--mix", f"{corpus}=1")
    assert "leave out --out x" in refuse(capsys, "corpus", "--mix", f"{corpus}=1", "--out", "x")
    assert "leave out --mix" in refuse(capsys, "corpus", "--mix", f"{corpus}=1", "--json")
    assert "leave out --html" in refuse(capsys, "corpus", corpus, "--html", "x.html", "--json")


def test_parts_make_one_corpus(
    text: Path, vocabulary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("2/2", "1/2"):
        run(capsys, "corpus", text, "--vocab", vocabulary, "--out", tmp_path / "out", "--part", part, "--workers", "0")
    assert json.loads(run(capsys, "corpus", tmp_path / "out", "--json"))["documents"] == 72


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["TEXT", "--out", "OUT"], "--vocab is missing; name the vocabulary"),
        (["TEXT", "--vocab", "VOCAB", "--out", "OUT", "--part", "three"], "--part is 'three'; give it as 3/64"),
        (
            ["TEXT", "--vocab", "VOCAB", "--out", "OUT", "--part", "3/2"],
            "--part is 3/2; it must be one of 1/2 to 2/2",
        ),
        (["TEXT", "--vocab", "VOCAB", "--out", "OUT", "--dev", "some"], "--dev is 'some'; give a share such as 0.5%"),
        (["TEXT", "--vocab", "VOCAB", "--out", "OUT", "--dev", "100%"], "--dev is 1; it must be"),
        (["TEXT", "--vocab", "VOCAB", "--out", "OUT", "--show", "3"], "--show looks into a finished corpus"),
        (["TEXT", "--vocab", "VOCAB", "--out", "OUT", "--workers", "-1"], "--workers is -1"),
        (["NOWHERE", "--vocab", "VOCAB", "--out", "OUT"], "NOWHERE does not exist"),
        (["TEXT", "--vocab", "NOWHERE", "--out", "OUT"], "NOWHERE does not exist"),
        (["TEXT", "TEXT"], "there are 2 paths and no --out"),
        (["VOCAB"], "VOCAB is no corpus: it has no index.json"),
        (["VOCAB", "--show", "1"], "VOCAB is no corpus"),
        (["VOCAB", "--show", "1000000000"], "--show is 1000000000; give from 1 to 10,000 samples"),
        (["VOCAB", "--show", "1", "--seed", "-1"], "seed is -1; it must be at least 0"),
        ([], "there are 0 paths and no --out"),
    ],
)
def test_a_mistake_gets_one_sentence(
    text: Path,
    vocabulary: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    text.rename("TEXT.txt")
    vocabulary.rename("VOCAB")
    assert message in refuse(capsys, "corpus", *(f"{name}.txt" if name == "TEXT" else name for name in arguments))
    assert not Path("OUT").exists()


def wait_for_group(leader: int, seconds: float = 20) -> None:
    """Waits until no process of a group is left: the workers of a killed build must not stay behind."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(leader, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("worker processes outlive the build")


def test_a_build_that_is_killed_is_gone_on_with(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    text.write_text("\n\n".join([text.read_text()] * 200))
    command = [sys.executable, "-m", "litebert", "corpus", text, "--vocab", vocabulary, "--shard-size", "30000"]
    command += ["--dev", "20%"]
    subprocess.run([*command, "--out", tmp_path / "whole"], check=True, capture_output=True)
    out, kills = tmp_path / "killed", 0
    while True:
        process = subprocess.Popen([*command, "--out", out], stdout=subprocess.DEVNULL, start_new_session=True)
        shards = len(list(out.glob("*.bin"))) if out.exists() else 0
        while process.poll() is None and (not out.exists() or len(list(out.glob("*.bin"))) < shards + 5):
            time.sleep(0.005)
        if process.poll() is not None:
            assert process.returncode == 0
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        wait_for_group(process.pid)
    assert kills > 1
    for split in ("train", "dev"):
        whole, killed = (open_corpus(folder, split) for folder in (tmp_path / "whole", out))
        assert [shard.entry for shard in whole.shards] == [shard.entry for shard in killed.shards]


@pytest.mark.parametrize("seconds", [0.3, 0.6, 1.0, 1.5, 2.5])
def test_an_interrupt_ends_all_processes_with_one_sentence(
    text: Path, vocabulary: Path, tmp_path: Path, seconds: float
) -> None:
    text.write_text("\n\n".join([text.read_text()] * 2000))
    command = [sys.executable, "-m", "litebert", "corpus", text, "--vocab", vocabulary, "--out", tmp_path / "out"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    wait_for_group(process.pid)
    if seconds > 0.5:  # before, Python itself may still be starting
        assert (process.returncode, said) == (130, "litebert: interrupted; run the same command to go on\n")
