"""On what a run was made, to tell why two runs differ."""

import platform
from typing import Any

import torch

from litebert import __version__
from litebert.training.parallel import Ranks


def describe_environment(ranks: Ranks) -> dict[str, Any]:
    return {
        "litebert": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "ranks": ranks.num_ranks,
        "device": torch.cuda.get_device_name() if ranks.device.type == "cuda" else "cpu",
    }
