"""What a run is and on what it was made, to tell why two runs differ."""

import dataclasses
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from litebert import __version__
from litebert.files import write_json_file
from litebert.training.parallel import Ranks


def write_description(run: Path, config: Any, data: Mapping[str, Any], ranks: Ranks) -> None:
    """What a run is. The config comes last: where it is, the run has begun."""
    contents = {"data": data, "environment": describe_environment(ranks), "config": dataclasses.asdict(config)}
    for name, content in contents.items():
        write_json_file(run / f"{name}.json", content)


def describe_environment(ranks: Ranks) -> dict[str, Any]:
    return {
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


def name_processor() -> str:
    """As its maker calls it, where the system tells."""
    processors = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", processors.read_text()) if processors.exists() else None
    return named[1] if named else platform.processor() or platform.machine()


def machine_memory() -> int:
    """Bytes of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
