"""How long a step takes here, and what this machine can do at best, found in a few seconds."""

import copy
import functools
import statistics
import time
from collections.abc import Callable

import torch

from litebert.models.linear import multiply_by_onednn, prefers_onednn
from litebert.training.loop import Loop, Training
from litebert.training.parallel import Ranks

WARM_STEPS = 3
SECONDS = 3.0
FEWEST, MOST = 3, 200
RARE = 0.02
"""The share of steps that something else may have delayed."""
PROBE_SIZE = 1024
"""Rows and columns of the matrices that tell the peak: as fast as twice as large ones, in a quarter of their memory."""


def time_step(training: Training, ranks: Ranks, first_step: int = 0) -> float:
    """Seconds of a training step from `first_step` on, data included, as a copy of the model takes them.

    All ranks must call it, for they take the steps together.
    """
    unwatched = Training(
        model=copy.deepcopy(training.model),
        objective=training.objective,
        optimizer=training.optimizer,
        schedule=training.schedule,
        loop=training.loop,
        batches=training.batches,
        begin_step=training.begin_step,
    )
    loop = Loop(unwatched, None, ranks)
    loop.model.train()
    batches = training.batches(first_step)

    def take(number: int) -> float:
        """The mean of so many steps, on all ranks."""
        seconds = []
        for _ in range(number):
            start = time.perf_counter()
            loop.step = first_step  # the rate, the depth and the length of that step
            loop.take_step(batches, [])
            seconds.append(time.perf_counter() - start)
        return ranks.add_up([average(seconds)])[0] / ranks.num_ranks

    number = min(MOST, max(FEWEST, round(SECONDS / take(WARM_STEPS))))
    return take(number)


def average(seconds: list[float]) -> float:
    """The mean without the slowest, which something else may have delayed; what many steps wait for is theirs."""
    return statistics.mean(sorted(seconds)[: len(seconds) - max(1, round(RARE * len(seconds)))])


def time_evaluation(training: Training, ranks: Ranks) -> float:
    """Seconds of an evaluation: the faster one of two, for the first prepares what others use, and either may have
    been delayed by something else."""
    if training.evaluate is None:
        return 0.0
    model, seconds = training.model.to(ranks.device), []
    for _ in range(2):
        start = time.perf_counter()
        training.evaluate(model, 0)
        seconds.append(time.perf_counter() - start)
    return ranks.add_up([min(seconds)])[0] / ranks.num_ranks


@functools.cache
def find_peak() -> float:
    """Measured once: runs that follow each other may be shorter than measuring."""
    return measure_peak()


def peak_of(ranks: Ranks, precision: str) -> float | None:
    """What all ranks can do at best, where that can be measured: in fp32 on processors."""
    return find_peak() * ranks.num_ranks if ranks.device.type == "cpu" and precision == "fp32" else None


def measure_peak(seconds: float = 0.3) -> float:
    """The machine's fp32 matrix-product speed right now, in FLOP/s: the best of many products of `PROBE_SIZE`, by
    whichever library is the faster one."""
    matrix = torch.randn(PROBE_SIZE, PROBE_SIZE)
    products: list[Callable[[], object]] = [lambda: matrix @ matrix]
    if prefers_onednn():
        products.append(lambda: multiply_by_onednn(matrix, matrix))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for product in products:
            start = time.perf_counter()
            product()
            best = min(best, time.perf_counter() - start)
    return 2 * PROBE_SIZE**3 / best
