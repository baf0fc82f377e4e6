import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from litebert.config import UserError
from litebert.training import lock
from litebert.training.lock import hold
from litebert.training.parallel import Ranks

HOLDER = """
import sys, time
from pathlib import Path
from litebert.training.lock import hold
from litebert.training.parallel import Ranks
with hold(Path(sys.argv[1]), Ranks()):
    print("held", flush=True)
    time.sleep(60)
"""


def refuse(folder: Path) -> str:
    with pytest.raises(UserError) as caught, hold(folder, Ranks()):
        pass
    return str(caught.value)


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with hold(tmp_path / "run", Ranks()):
        said = refuse(tmp_path / "run")
        assert f"run is being trained by another program, process {os.getpid()} on " in said and "wait" in said
    with hold(tmp_path / "run", Ranks()):
        pass


def test_nothing_is_left_where_nothing_was_done(tmp_path: Path) -> None:
    with hold(tmp_path / "run", Ranks()):
        pass
    assert not (tmp_path / "run").exists()
    with hold(tmp_path / "run", Ranks()):
        (tmp_path / "run" / "config.json").touch()
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["config.json"]


def test_who_is_killed_lets_go(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    assert f"process {holder.pid} on" in refuse(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with hold(tmp_path, Ranks()):
        pass


def test_several_can_wait_and_have_it_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.01)
    said: list[str] = []
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        with hold(tmp_path / "run", Ranks(), wait=said.append):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.05)
            inside.remove(number)

    with hold(tmp_path / "run", Ranks()):
        workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        deadline = time.monotonic() + 30
        while len(said) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(said) == 4 and not most
        assert all("run is being trained by another program; waiting for it" in message for message in said)
    for worker in workers:
        worker.join(timeout=30)
    assert most == [1, 1, 1, 1]


def test_where_there_are_no_locks_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with hold(tmp_path, Ranks()):
        assert "this file system has no locks" in caplog.text
