"""Building a corpus beside bare SentencePiece: megabytes of text per second, and peak memory.

    python benchmarks/build_corpus.py wiki.txt.gz novels.txt.gz --vocab my-vocab

The peer is SentencePiece's own `encode` of the same lines, decoded and in memory, on as many threads as there are
cores: no reading, no sentences, nothing written. Ours is the whole command: reading and decompressing, splitting into
sentences, encoding, hashing, writing. They take turns; medians over rounds are reported. Memory is the largest resident
size of any process of the command.
"""

import contextlib
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

from litebert.display import print_table
from litebert.text.documents import Reader, find_sources
from litebert.training.environment import read_peak

LINES_PER_CALL = 10_000


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


def time_peer(processor: sentencepiece.SentencePieceProcessor, lines: list[str], num_threads: int) -> float:
    start = time.perf_counter()
    for place in range(0, len(lines), LINES_PER_CALL):
        processor.encode(lines[place : place + LINES_PER_CALL], num_threads=num_threads)
    return time.perf_counter() - start


def time_ours(options: Options) -> tuple[float, float]:
    """The seconds of the whole command, and the MiB of its largest process."""
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
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        children = map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split())
        return [number, *itertools.chain.from_iterable(map(find_processes, children))]
    return [number]


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    num_cores = len(os.sched_getaffinity(0))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(options.vocab / "spiece.model"))
    lines = read_lines(options.text)
    megabytes = sum(len(line.encode()) + 1 for line in lines) / 1e6
    rounds = [(time_peer(processor, lines, num_cores), *time_ours(options)) for _ in range(options.rounds)]
    peer, ours, memory = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratios = [theirs / mine for theirs, mine, _ in rounds]
    rows = [
        {"": "sentencepiece encode", "MB/s": megabytes / peer, "of bare": 1.0, "MiB of the largest process": "-"},
        {"": "litebert corpus", "MB/s": megabytes / ours, "of bare": peer / ours, "MiB of the largest process": memory},
    ]
    print_table(rows, title=f"{megabytes:,.0f} MB of text, {num_cores} cores, {options.rounds} rounds")
    print(f"ratios of the rounds: {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
