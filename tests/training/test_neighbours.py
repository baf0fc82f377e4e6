import os
from pathlib import Path
from typing import Any

import pytest

from litebert.training import neighbours
from litebert.training.neighbours import Neighbourhood, Usage, advise, read_usage


@pytest.mark.parametrize(
    ("everybody", "own", "threads", "advised"),
    [
        (40.0, 20.0, 2, "OMP_NUM_THREADS=1"),  # one of two cores is taken
        (40.0, 20.0, 1, None),  # and this program needs but the other
        (20.0, 20.0, 2, None),
        (24.0, 20.0, 2, None),  # now and then somebody does a little
        (40.0, 0.0, 2, "OMP_NUM_THREADS=1"),  # both are; there is no fewer than one thread
    ],
)
def test_who_has_more_threads_than_free_cores_is_told(
    everybody: float, own: float, threads: int, advised: str | None
) -> None:
    before, after = Usage(100.0, 1000.0, 50.0), Usage(120.0, 1000.0 + everybody, 50.0 + own)
    said = advise(before, after, threads, 2)
    assert said is None if advised is None else said is not None and said.endswith(advised)


def test_idle_and_waiting_cores_are_not_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    numbers = [tick * seconds for seconds in (1, 2, 4, 1000, 2000, 8, 16, 32, 64, 128)]
    counters = tmp_path / "stat"
    counters.write_text(f"cpu  {' '.join(map(str, numbers))}\ncpu0 1 1 1 1\n")
    monkeypatch.setattr(neighbours, "COUNTERS", counters)
    monkeypatch.setattr(neighbours.os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1), raising=False)
    usage = read_usage()
    assert usage is not None and usage.everybody == 63
    monkeypatch.setattr(neighbours.os, "sched_getaffinity", lambda _: range((os.cpu_count() or 1) + 1))
    assert read_usage() is None
    monkeypatch.setattr(neighbours, "COUNTERS", tmp_path / "missing")
    assert read_usage() is None


class Shown:
    def __init__(self) -> None:
        self.said: list[str] = []

    def write(self, kind: str, step: int, **values: Any) -> None:
        self.said.append(values["message"])


def test_it_is_said_once_and_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, now = Shown(), 0.0
    cores = os.cpu_count() or 1
    monkeypatch.setattr(neighbours, "read_usage", lambda: Usage(now, cores * now, 0.0))
    monkeypatch.setattr(neighbours.time, "perf_counter", lambda: now)
    monkeypatch.setattr(neighbours.torch, "get_num_threads", lambda: cores)
    monkeypatch.setattr(neighbours.torch.cuda, "is_available", lambda: False)
    neighbourhood = Neighbourhood(shown)
    for now in (1.0, 4.0, 6.0, 9.0, 20.0):
        neighbourhood.write("train", int(now))
    (said,) = shown.said
    assert said.startswith(f"other programs keep {cores}.0 of {cores} cores busy")
