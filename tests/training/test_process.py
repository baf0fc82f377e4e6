import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from litebert.training.process import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def work():
    for _ in range(20):
        torch.ones(8 << 20).add_(1)
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count_faults(choice: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, choice], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the allocator is set on Linux alone")
def test_freed_buffers_are_used_again_without_new_pages() -> None:
    assert count_faults("keep") < count_faults("default") / 10
