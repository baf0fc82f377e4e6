"""Every program that a measured claim rests on runs and reports, here on next to nothing: no number of it is judged."""

import os
import subprocess
import sys

import pytest

from tests.test_readme import ROOT

# What each is given, and how the rows that it prints begin.
PROGRAMS = {
    "build_corpus": ("books --vocab demo/vocab --rounds 1", ["calls", "programs"]),
    "finetune": (
        "--vocab demo/vocab --sst2 glue/SST-2 --preset albert-nano --rounds 1 --steps 1",
        ["sst2   train", "sst2   evaluate"],
    ),
    "make_batches": (
        "demo/corpus --lengths 64 --presets albert-nano --rounds 1",
        ["sop ", "nsp ", "albert-nano"],
    ),
    "plan": ("--corpus demo/corpus --rows nano", ["nano"]),
    "pretrain": ("--corpus demo/corpus --presets albert-nano --rounds 1 --seconds 0.2", ["albert-nano"]),
    "survive": (
        "--parts kills flips sigterm --kills 1 --flips 2 --steps 20",
        ["Runs that are killed", "A flipped byte", "A polite end"],
    ),
    "train_step": ("--rows tiny-128 --rounds 1", ["tiny-128"]),
}


def test_all_programs_are_here() -> None:
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} == {*PROGRAMS, "sides"}  # which they share


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_and_reports(name: str, workplace: None) -> None:
    arguments, rows = PROGRAMS[name]
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *arguments.split()]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for row in rows:
        (line,) = [line for line in done.stdout.splitlines() if line.strip().startswith(row)]
        assert any(character.isdigit() for character in line.removeprefix(f" {row}")), line
