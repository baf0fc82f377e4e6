"""How a process that is all ours hears of Ctrl-C and SIGTERM, and ends by them."""

import contextlib
import gc
import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
AWHILE = 0.05
"""Seconds until a signal that cannot be heeded comes again."""


class TerminatedError(KeyboardInterrupt):
    """SIGTERM came where nothing is to be saved first: all that heeds an interrupt heeds it."""


def heed() -> list[int]:
    """From now on either signal interrupts, and is noted in the list that this returns."""
    heard: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if is_importing_torch(frame) and hasattr(signal, "setitimer"):  # interrupted there, it may abort
            signal.signal(signal.SIGALRM, lambda _, later: interrupt(number, later))
            signal.setitimer(signal.ITIMER_REAL, AWHILE)
            return
        heard.append(number)
        raise TerminatedError if number == signal.SIGTERM else KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started us wants it ignored
        signal.signal(signal.SIGINT, interrupt)
    return heard


def is_importing_torch(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__", "").split(".")[0] == "torch":
            return True
        frame = frame.f_back
    return False


def ignore() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def leave(code: int) -> NoReturn:
    """At once: Python's own end would cut off threads that are in the middle of another language's work, and abort, and
    after an interrupt within `exec` it gives a code of its own."""
    if "multiprocessing.synchronize" in sys.modules:
        free_semaphores()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the same Ctrl-C may have ended who reads it
            stream.flush()
    os._exit(code)


def free_semaphores() -> None:
    """Lets go of what the interrupted functions held: the tracker of resources complains of leftover semaphores."""
    error = sys.exception()
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
    gc.collect()
