"""How worker processes come to life. This file imports nothing heavy, so that they can before anything else does."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from multiprocessing import resource_tracker
from multiprocessing.context import BaseContext
from types import FrameType

PRELOADED = ["litebert.corpus.encode", "sentencepiece"]
MAIN = threading.Lock()
"""Held by the thread for which the program that starts processes has another name."""


def worker_context() -> BaseContext:
    """Workers are not forked from this process: a fork of one with threads may hang."""
    return multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")


def start_early() -> None:
    """Starts the process that workers are forked from, which then imports what they need while this one goes on.

    Without it every worker is as slow to start as the first. It is for commands: it decides for the whole process.
    """
    if sys.platform == "linux":
        from multiprocessing import forkserver

        forkserver.set_forkserver_preload(PRELOADED)
        with uninterrupted():
            forkserver.ensure_running()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds an interrupt back until the end; a process that starts meanwhile never hears of any."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # when it starts, it lets signals through again
    held: list[tuple[int, FrameType | None]] = []
    handler = signal.signal(signal.SIGINT, lambda *arguments: held.append(arguments))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # other threads may hear it, but not heirs
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if held and callable(handler):
            handler(*held[0])


@contextmanager
def without_main() -> Iterator[None]:
    """A process that starts meanwhile does not import the program that starts it, of which a worker needs nothing.

    It would take as long as whatever that imports, and begin anew what is not below `if __name__ == "__main__":`.
    """
    main = sys.modules["__main__"]
    with MAIN:
        spec, main.__spec__ = main.__spec__, ModuleSpec("litebert.__main__", None)  # of a package: it is left alone
        try:
            yield
        finally:
            main.__spec__ = spec


def count_cores() -> int:
    """Those that this process may use, where the system can say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
