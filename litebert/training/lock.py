"""One program at a time in the folder of a run."""

import contextlib
import errno
import fcntl
import itertools
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from litebert.config import UserError
from litebert.training.parallel import Ranks

logger = logging.getLogger(__name__)

LOCK = "lock"
POLL_SECONDS = 2.0
"""Between looks at whether another program is done."""
UNSUPPORTED = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL}
"""What file systems answer that have no locks."""


@contextlib.contextmanager
def hold(folder: Path, ranks: Ranks, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keeps other programs from the folder of a run, or refuses where one is there; with `wait` it is told, and waits.

    All ranks look together, so that none of them waits in vain. A folder with nothing else in it is taken away again.
    """
    lock = Lock(folder)
    for attempt in itertools.count():
        ranks.do_first(lock.take)
        if not ranks.add_up([float(lock.is_busy)])[0]:
            break
        if wait is None:
            ranks.do_first(lock.refuse)
        elif attempt == 0:
            wait(f"{folder} is being trained by another program; waiting for it")
        time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()


class Lock:
    """A file that the system gives to one program, and takes back when that ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self.descriptor: int | None = None
        self.is_busy = False

    def take(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # who had it has just taken the folder away
            return self.take()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            self.is_busy = isinstance(error, BlockingIOError)
            if not self.is_busy and error.errno not in UNSUPPORTED:
                raise
            if not self.is_busy:
                logger.warning(
                    "this file system has no locks, so nothing keeps a second program out; make sure that only one "
                    "trains %s",
                    self.path.parent,
                )
            return None
        if not self.is_current(descriptor):  # who had it has just taken the file away; there may be another
            os.close(descriptor)
            return self.take()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode(), 0)
        self.descriptor, self.is_busy = descriptor, False
        return None

    def is_current(self, descriptor: int) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        return False

    def refuse(self) -> None:
        owner = ""
        with contextlib.suppress(OSError):
            owner = f", process {self.path.read_text()}"
        raise UserError(
            f"{self.path.parent} is being trained by another program{owner}; wait for it or name another run"
        )

    def release(self) -> None:
        if self.descriptor is None:
            return
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self.descriptor)
        with contextlib.suppress(OSError):
            self.path.parent.rmdir()  # only if nothing else is in it
