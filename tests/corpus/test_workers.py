import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

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
    heard, wakeup = socket.socketpair()
    heard.settimeout(60)
    wakeup.setblocking(False)
    before = signal.set_wakeup_fd(wakeup.fileno())
    steps = []
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            assert heard.recv(1), "the other thread may be slow to hear it"
            steps.extend(range(1000))
    finally:
        signal.set_wakeup_fd(before)
        heard.close()
        wakeup.close()
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


def test_a_program_without_a_main_guard_builds_a_corpus_and_is_run_once(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("One fox. Two foxes.\n\nA dog.\n" * 3)
    (tmp_path / "vocab.txt").write_text("[PAD] [UNK] [CLS] [SEP] [MASK] one two fox foxes a dog .".replace(" ", "\n"))
    (tmp_path / "program.py").write_text(
        "from litebert.corpus.build import BuildConfig, build_corpus\n"
        "from litebert.text.documents import find_sources\n"
        "sources = find_sources(['text.txt'])\n"
        "print(build_corpus(sources, 'vocab.txt', 'out', BuildConfig(), num_workers=2).statistics.num_tokens)\n"
    )
    said = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "27\n"


def test_cores_are_those_that_may_be_used() -> None:
    assert 1 <= count_cores() <= (os.cpu_count() or 1)
