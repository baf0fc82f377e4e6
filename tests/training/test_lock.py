import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from litebert.config import UserError
from litebert.training.lock import hold, wait_for
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


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    said = f"run is being trained by another program, process {os.getpid()}; wait"
    with hold(tmp_path / "run" / "checkpoints", Ranks()), pytest.raises(UserError, match=said):
        hold(tmp_path / "run" / "checkpoints", Ranks()).__enter__()
    with hold(tmp_path / "run" / "checkpoints", Ranks()):
        pass


def test_who_is_killed_lets_go(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"process {holder.pid}"):
        hold(tmp_path, Ranks()).__enter__()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with hold(tmp_path, Ranks()):
        pass


def test_one_can_wait_for_the_other(tmp_path: Path) -> None:
    said: list[str] = []
    wait_for(tmp_path, said.append)  # nobody has ever been here
    with hold(tmp_path, Ranks()):
        waiting = threading.Thread(target=wait_for, args=(tmp_path, said.append))
        waiting.start()
        while not said:
            time.sleep(0.01)
        assert waiting.is_alive() and "is being trained by another program; waiting for it" in said[0]
    waiting.join(timeout=20)
    assert not waiting.is_alive()
    wait_for(tmp_path, said.append)
    assert len(said) == 1
