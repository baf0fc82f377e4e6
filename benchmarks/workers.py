"""Two sides of a comparison, each in a process of its own, that take turns."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def start_worker(file: str, *arguments: str) -> Iterator[Callable[..., dict[str, float]]]:
    """Starts `file --worker arguments`, which answers each line it reads with a line of JSON; yields how to ask it."""
    command = [sys.executable, file, "--worker", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(line: str = "") -> dict[str, float]:
            print(line, file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()
