"""On what a run was made, to tell why two runs differ."""

import contextlib
import os
import platform
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from litebert import __version__
from litebert.training.parallel import Ranks


def describe_environment(ranks: Ranks) -> dict[str, Any]:
    return {
        "command": name_command(sys.argv),
        "litebert": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": name_processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "ranks": ranks.num_ranks,
        "device": torch.cuda.get_device_name() if ranks.device.type == "cuda" else "cpu",
    }


def name_command(arguments: Sequence[str]) -> str:
    """As one types it again, wherever the program lies."""
    program = Path(arguments[0]).name
    return shlex.join(["litebert" if program == "__main__.py" else program, *arguments[1:]])


def name_processor() -> str:
    """As its maker calls it, where the system tells."""
    processors = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", processors.read_text()) if processors.exists() else None
    return named[1] if named else platform.processor() or platform.machine()


def machine_memory() -> int:
    """Bytes of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def read_peak(process: int | str = "self") -> int:
    """The most bytes that a process has held, 0 where it has ended.

    What `getrusage` and `wait4` say begins with the size of the program that started it; it is asked where the system
    has nothing better.
    """
    if not Path("/proc/self/status").exists():
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
    return 0
