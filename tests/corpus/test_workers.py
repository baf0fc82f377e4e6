import os
import signal
import subprocess
import sys
import threading

import pytest

from litebert.corpus.workers import count_cores, uninterrupted, worker_context


def test_interrupt_is_held_back_and_not_lost() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("went on")
    assert steps == ["went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt_that_another_thread_hears_is_held_back_too() -> None:
    """With a thread beside, the system gives the signal to that, and Python would raise in the main thread."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    steps = []
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            steps.extend(range(1000))
    finally:
        done.set()
        other.join()
    assert len(steps) == 1000


def test_process_that_starts_meanwhile_hears_no_interrupt() -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('alive')"
    with uninterrupted():
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "alive\n"


def test_workers_do_not_start_as_forks_of_this_process() -> None:
    assert worker_context().get_start_method() in ("forkserver", "spawn")


def test_cores_are_those_that_may_be_used() -> None:
    assert 1 <= count_cores() <= (os.cpu_count() or 1)
