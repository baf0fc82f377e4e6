"""Building a corpus beside bare SentencePiece: megabytes of text per second, and peak memory.

    python benchmarks/build_corpus.py wiki.txt.gz novels.txt.gz --vocab my-vocab

The peer is SentencePiece's own `encode` of the same lines on as many threads as there are cores: no sentences, nothing
written. Like is held against like. Once both are calls in this process, which has long started: `encode` of lines that
lie decoded in memory, and `build_corpus`, which reads and decompresses the files, splits them into sentences, encodes,
hashes and writes. And once both are programs: one that starts, reads the files and encodes, and `litebert corpus`. All
take turns; medians over rounds are reported. Memory is the largest resident size of any process of the command.
"""

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import sentencepiece
import tyro
from sides import find_children

from litebert.corpus.build import BuildConfig, build_corpus
from litebert.corpus.workers import start_early
from litebert.display import print_table
from litebert.text.documents import Reader, find_sources

LINES_PER_CALL = 10_000
PROGRAM = """
import gzip, itertools, sys
import sentencepiece

vocab, num_threads, lines_per_call, *files = sys.argv[1:]
processor = sentencepiece.SentencePieceProcessor(model_file=vocab)
for name in files:
    with (gzip.open if name.endswith(".gz") else open)(name, "rt", encoding="utf-8") as file:
        while lines := [line.rstrip() for line in itertools.islice(file, int(lines_per_call))]:
            processor.encode(lines, num_threads=int(num_threads))
"""
"""The least that a program can do with files of text and SentencePiece."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Builds a corpus and encodes its text with bare SentencePiece, in turns."""

    text: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Text files."""
    vocab: Path
    """A folder with a spiece.model."""
    rounds: int = 5


def read_lines(patterns: tuple[str, ...]) -> list[str]:
    reader = Reader()
    return [line for source in find_sources(patterns) for text in reader.read(source) for line in text.split("\n")]


def time_encode(processor: sentencepiece.SentencePieceProcessor, lines: list[str], num_threads: int) -> float:
    start = time.perf_counter()
    for place in range(0, len(lines), LINES_PER_CALL):
        processor.encode(lines[place : place + LINES_PER_CALL], num_threads=num_threads)
    return time.perf_counter() - start


def time_build(options: Options) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        build_corpus(find_sources(options.text), options.vocab, Path(folder, "corpus"), BuildConfig())
        return time.perf_counter() - start


def time_program(options: Options, files: list[str], num_threads: int) -> float:
    arguments = [options.vocab / "spiece.model", num_threads, LINES_PER_CALL, *files]
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], check=True)
    return time.perf_counter() - start


def time_command(options: Options) -> tuple[float, float]:
    """The seconds of the whole command, and the MiB of its largest process."""
    from litebert.training.environment import read_peak  # here, since workers import this file, and need no torch

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "litebert", "corpus", *options.text, "--vocab", str(options.vocab)]
        start = time.perf_counter()
        process = subprocess.Popen([*command, "--out", f"{folder}/corpus", "--json"], stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, *map(read_peak, find_processes(process.pid)))
            time.sleep(0.02)
        assert process.returncode == 0, "the command failed"
        return time.perf_counter() - start, peak / 2**20


def find_processes(number: int) -> list[int]:
    """A process and all that it and those started."""
    return [number, *itertools.chain.from_iterable(map(find_processes, find_children(number)))]


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    start_early()  # as the command does
    num_cores = len(os.sched_getaffinity(0))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(options.vocab / "spiece.model"))
    lines = read_lines(options.text)
    files = [source.path for source in find_sources(options.text)]
    megabytes = sum(len(line.encode()) + 1 for line in lines) / 1e6
    rounds = [
        (
            time_encode(processor, lines, num_cores),
            time_build(options),
            time_program(options, files, num_cores),
            *time_command(options),
        )
        for _ in range(options.rounds)
    ]
    encode, build, program, command, memory = zip(*rounds, strict=True)
    rows = [
        {
            "": name,
            "SentencePiece, MB/s": megabytes / statistics.median(theirs),
            "LiteBERT, MB/s": megabytes / statistics.median(ours),
            **describe_ratios([peer / mine for peer, mine in zip(theirs, ours, strict=True)]),
        }
        for name, theirs, ours in (("calls", encode, build), ("programs", program, command))
    ]
    print_table(rows, title=f"{megabytes:,.0f} MB of text, {num_cores} cores, {options.rounds} rounds")
    print(f"{statistics.median(memory):.0f} MiB in the largest process of litebert corpus")


def describe_ratios(ratios: list[float]) -> dict[str, str]:
    return {"ratio (lowest to highest)": f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"}


if __name__ == "__main__":
    main()
