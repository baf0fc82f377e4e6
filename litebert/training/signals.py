"""How a run is told to stop."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from litebert.training.parallel import Ranks

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Of both, the first is heeded."""
STDERR = 2
STOPPING = b"stopping, and saving all whole steps; Ctrl-C again stops at once, and leaves the last checkpoint\n"


@contextmanager
def catch_signals(*, is_told: bool = False) -> Iterator[list[int]]:
    """SIGTERM and Ctrl-C are noted, and acted upon when it is safe; a second Ctrl-C interrupts at once."""
    caught: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if caught and number == signal.SIGINT:
            raise KeyboardInterrupt
        caught.append(number)
        if is_told:
            os.write(STDERR, STOPPING)  # no print: it may be what was interrupted

    try:
        before = {number: signal.signal(number, note) for number in SIGNALS}
    except ValueError:  # not in the main thread: signals are the host's
        yield caught
        return
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def note_signals(caught: Sequence[int]) -> list[float]:
    """Whether each signal was caught, as numbers that ranks can add up."""
    return [float(number in caught) for number in SIGNALS]


def name_signal(noted: Sequence[float]) -> int | None:
    """The one that is to end the run, if any rank caught it."""
    return next((number for number, count in zip(SIGNALS, noted, strict=True) if count), None)


def end_stopped(number: int, where: str, ranks: Ranks) -> None:
    """How a command ends that a signal stopped: SIGTERM is a request that was met, Ctrl-C an end before the end."""
    ranks.tell(f"stopped by {signal.Signals(number).name}{where}; run the same command to go on")
    if number == signal.SIGINT:
        sys.exit(130)
