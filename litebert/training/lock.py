"""One program at a time in the folder of a run."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from litebert.config import UserError
from litebert.training.parallel import Ranks

LOCK = "lock"


@contextlib.contextmanager
def hold(folder: Path, ranks: Ranks) -> Iterator[None]:
    """Keeps others from training here. The system lets go of it when the program ends, however it ends."""
    held: list[int] = []
    ranks.do_first(lambda: held.append(take(folder)))
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def take(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        number = os.pread(descriptor, 20, 0).decode() or "?"
        os.close(descriptor)
        raise UserError(
            f"{folder.parent} is being trained by another program, process {number}; wait for it or name another run"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def wait_for(folder: Path, tell: Callable[[str], None]) -> None:
    """Waits until no other program trains here; one that does is told of."""
    if not (folder / LOCK).exists():
        return
    with (folder / LOCK).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"{folder.parent} is being trained by another program; waiting for it")
            fcntl.flock(file, fcntl.LOCK_SH)
