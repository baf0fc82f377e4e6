"""What the comparisons have in common: two sides, each in a process of its own, that take turns; and what came out."""

import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from litebert.display import print_table


@contextmanager
def start_worker(file: str, *arguments: str) -> Iterator[Callable[..., dict[str, float]]]:
    """Starts `file --worker arguments`, which answers each line it reads with a line of JSON; yields how to ask it."""
    command = [sys.executable, file, "--worker", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(line: str = "") -> dict[str, float]:
            print(line, file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


def begin(main: Callable[[], None], work: Callable[..., None]) -> None:
    """What a program with workers does, as itself or as one of them."""
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:])
    else:
        main()


def compare_speeds(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Of speeds that were measured by turns: the median of each side, and of the rounds' ratios."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {
        "litebert": statistics.median(ours),
        "transformers": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


def compare_memory(ours: float, theirs: float) -> dict[str, float]:
    """Of the most bytes that each side ever had."""
    return {"litebert_peak_gib": ours / 2**30, "transformers_peak_gib": theirs / 2**30, "memory_ratio": ours / theirs}


def show_speeds(figures: Mapping[str, float], unit: str, digits: int = 0) -> dict[str, str]:
    return {
        "transformers": f"{figures['transformers']:,.{digits}f} {unit}",
        "LiteBERT": f"{figures['litebert']:,.{digits}f} {unit}",
        "ratio (lowest to highest)": f"{figures['ratio']:.2f} ({figures['lowest']:.2f} to {figures['highest']:.2f})",
    }


def show_memory(figures: Mapping[str, float]) -> dict[str, str]:
    return {
        "memory, theirs": f"{figures['transformers_peak_gib']:.2f} GiB",
        "memory, ours": f"{figures['litebert_peak_gib']:.2f} GiB",
        "ratio": f"{figures['memory_ratio']:.2f}",
    }


def tell(rows: Sequence[Mapping[str, Any]], results: Mapping[str, Any], file: Path | None) -> None:
    """Prints a table, and writes the figures behind it where they are wanted."""
    print_table(rows)
    if file:
        file.write_text(json.dumps(results, indent=2) + "\n")


def find_children(number: int) -> list[int]:
    """The processes that a process has started."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return [int(child) for child in Path(f"/proc/{number}/task/{number}/children").read_text().split()]
    return []
