"""Show what LiteBERT runs on here: versions, processor, memory, measured speed, and optional packages that are missing.

Example:
    litebert doctor
    litebert doctor --json
"""

from dataclasses import dataclass
from typing import Any

PACKAGES = ("torch", "numpy", "sentencepiece", "tokenizers", "safetensors")
"""What ids, sums and files depend on."""
EXTRAS = {
    "jieba": ("chinese", "whole-word masking of Chinese: litebert corpus --words jieba"),
    "pyarrow": ("parquet", "reading .parquet"),
    "datasets": ("hub", "datasets of the Hugging Face hub: hub:NAME"),
}
"""The packages of each extra, its name, and what it is for."""


@dataclass(frozen=True, kw_only=True)
class Options:
    json: bool = False
    """Print JSON instead of tables."""


def run(options: Options) -> None:
    from litebert.display import print_fields, print_json, print_table

    machine, extras = measure_machine(), find_extras()
    if options.json:
        print_json({"machine": machine, "extras": extras})
        return
    print_fields(describe_machine(machine))
    if advice := advise(machine["flops_by_threads"]):
        print(f"note  {advice}")
    print_table([row | {"version": row["version"] or f"missing; pip install {row['package']}"} for row in extras])


def measure_machine() -> dict[str, Any]:
    import os
    import shutil

    import torch

    from litebert.corpus.workers import count_cores
    from litebert.models.linear import prefers_onednn
    from litebert.training.environment import describe_environment, machine_memory
    from litebert.training.parallel import Ranks
    from litebert.training.timing import measure_peak

    environment = describe_environment(Ranks())
    speeds = {}
    for number in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(number)
        speeds[str(number)] = measure_peak(1.0)
    return {
        "versions": {"litebert": environment["litebert"], "python": environment["python"]}
        | {package: find_version(package) for package in PACKAGES},
        "system": environment["system"],
        "processor": environment["processor"],
        "instructions": environment["capability"],
        "cores": {"here": count_cores(), "of": os.cpu_count()},
        "memory_bytes": machine_memory(),
        "free_disk_bytes": shutil.disk_usage(".").free,
        "flops_by_threads": speeds,
        "large_products": "oneDNN" if prefers_onednn() else "what torch takes",
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def describe_machine(machine: dict[str, Any]) -> dict[str, str]:
    """What was found, as people read it."""
    speeds = ", ".join(
        f"{speed / 1e9:,.0f} GFLOP/s on {number} thread{'' if number == '1' else 's'}"
        for number, speed in machine["flops_by_threads"].items()
    )
    return {
        "versions": ", ".join(f"{name} {version}" for name, version in machine["versions"].items()),
        "system": machine["system"],
        "processor": f"{machine['processor']}, {machine['instructions']}",
        "cores": f"{machine['cores']['here']} of {machine['cores']['of']} for this process",
        "memory": f"{machine['memory_bytes'] / 2**30:.1f} GiB",
        "disk": f"{machine['free_disk_bytes'] / 2**30:.1f} GiB free here",
        "products": f"{speeds} in fp32, large ones by {machine['large_products']}",
        "accelerator": machine["accelerator"] or "none that torch sees",
    }


def advise(speeds: dict[str, float]) -> str | None:
    """What to do where more threads, by their number, are not faster than one."""
    most = max(speeds, key=int)
    if most == "1" or speeds[most] > speeds["1"]:
        return None
    return (
        f"{most} threads are not faster than 1, so this machine is busy with other programs: stop those, or start "
        "litebert with OMP_NUM_THREADS=1"
    )


def find_extras() -> list[dict[str, Any]]:
    return [
        {"extra": extra, "package": package, "version": find_version(package), "for": purpose}
        for package, (extra, purpose) in EXTRAS.items()
    ]


def find_version(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
