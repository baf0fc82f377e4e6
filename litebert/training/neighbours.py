"""What other programs take of a machine while a run computes.

OpenMP's threads wait for each other spinning: beside a program that keeps one of two cores busy, training on both is
several times slower than on the one that is free. Whoever starts a run is told.
"""

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from litebert.training.loop import Watcher

COUNTERS = Path("/proc/stat")
NUM_KINDS = 8
"""Of the numbers there, those that count: user, nice, system, idle, iowait, irq, softirq and steal."""
IDLE = (3, 4)
LEAST_SECONDS = 5.0
"""For how long others are watched, once."""
LEAST_TAKEN = 0.5
"""Cores that are worth a word."""


class Usage(NamedTuple):
    """Seconds that cores were busy, up to a moment of the clock."""

    clock: float
    everybody: float
    own: float


def read_usage() -> Usage | None:
    """Nothing where the system does not say, or where this program may use only some of the cores."""
    if not COUNTERS.exists() or len(os.sched_getaffinity(0)) != os.cpu_count():
        return None
    ticks = [int(number) for number in COUNTERS.read_text().split("\n", 1)[0].split()[1 : 1 + NUM_KINDS]]
    busy = sum(number for place, number in enumerate(ticks) if place not in IDLE)
    return Usage(time.perf_counter(), busy / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4]))


def advise(before: Usage, after: Usage, threads: int, cores: int) -> str | None:
    """What to do where others keep cores busy that this program has threads for."""
    taken = (after.everybody - before.everybody - (after.own - before.own)) / (after.clock - before.clock)
    free = cores - taken
    if taken < LEAST_TAKEN or threads < free + LEAST_TAKEN:
        return None
    return (
        f"other programs keep {taken:.1f} of {cores} cores busy, and {threads} threads that wait for each other are "
        f"then several times slower: stop those programs, or start this one with OMP_NUM_THREADS={max(1, int(free))}"
    )


class Neighbourhood:
    """Says once, to another watcher, that others keep the machine busy."""

    def __init__(self, shown: Watcher) -> None:
        self.shown = shown
        # Each of several ranks would take the others for strangers; and on a GPU, threads here have little to do.
        is_concerned = not torch.distributed.is_initialized() and not torch.cuda.is_available()
        self.before = read_usage() if is_concerned else None

    def write(self, kind: str, step: int, **values: Any) -> None:
        if self.before is None or time.perf_counter() - self.before.clock < LEAST_SECONDS:
            return
        before, self.before, after = self.before, None, read_usage()
        advice = after and advise(before, after, torch.get_num_threads(), os.cpu_count() or 1)
        if advice:
            self.shown.write("event", step, message=advice)
