"""Say what LiteBERT runs on here: versions, processor, memory, measured speed, and which extras are missing for what.

Example:
    litebert doctor
    litebert doctor --json
"""

from dataclasses import dataclass

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

    machine, extras = describe_machine(), describe_extras()
    if options.json:
        print_json({"machine": machine, "extras": extras})
        return
    print_fields(machine)
    print_table(extras)


def describe_machine() -> dict[str, str]:
    import shutil

    import torch

    from litebert.models.linear import prefers_onednn
    from litebert.training.environment import describe_environment, machine_memory
    from litebert.training.parallel import Ranks
    from litebert.training.timing import measure_peak

    environment = describe_environment(Ranks())
    threads, speeds = torch.get_num_threads(), {}
    for number in sorted({1, threads}):
        torch.set_num_threads(number)
        speeds[number] = measure_peak(1.0)
    has_gpu = torch.cuda.is_available()
    return {
        "litebert": f"{environment['litebert']} on Python {environment['python']}, torch {environment['torch']}",
        "system": environment["system"],
        "processor": f"{environment['processor']}, {environment['capability']}",
        "memory": f"{machine_memory() / 2**30:.1f} GiB",
        "disk": f"{shutil.disk_usage('.').free / 2**30:.1f} GiB free here",
        "products": ", ".join(
            f"{speed / 1e9:,.0f} GFLOP/s on {number} thread{'s' if number > 1 else ''}"
            for number, speed in speeds.items()
        )
        + f" in fp32, large ones by {'oneDNN' if prefers_onednn() else 'what torch takes'}",
        "accelerator": torch.cuda.get_device_name() if has_gpu else "none that torch sees",
    }


def describe_extras() -> list[dict[str, str]]:
    import importlib.metadata

    rows = []
    for package, (extra, purpose) in EXTRAS.items():
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found = f"missing; pip install {package}"
        rows.append({"extra": extra, "package": package, "version": found, "for": purpose})
    return rows
