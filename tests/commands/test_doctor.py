import importlib.metadata
import json

import pytest
import torch

from litebert.commands import doctor
from tests.commands.calls import run

Printed = pytest.CaptureFixture[str]


def test_it_says_what_is_here_and_changes_no_setting(capsys: Printed) -> None:
    threads = torch.get_num_threads()
    content = json.loads(run(capsys, "doctor", "--json"))
    assert torch.get_num_threads() == threads
    machine = content["machine"]
    assert machine["versions"]["torch"] == importlib.metadata.version("torch")
    assert machine["flops_by_threads"]["1"] > 1e8 and 0 < machine["cores"]["here"] <= machine["cores"]["of"]
    assert {row["package"] for row in content["extras"]} == set(doctor.EXTRAS)


def test_it_says_how_to_get_what_is_missing(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "jieba":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name) if name != "datasets" else "4.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    said = run(capsys, "doctor")
    assert "missing; pip install jieba" in said and "4.0" in said
    assert "GFLOP/s on 1 thread" in said and "for this process" in said


def test_threads_that_are_not_faster_than_one_are_told_with_what_to_do() -> None:
    said = doctor.advise({"1": 234e9, "2": 154e9})
    assert said is not None and "busy" in said and "OMP_NUM_THREADS=1" in said
    assert doctor.advise({"1": 234e9, "2": 400e9}) is None and doctor.advise({"1": 234e9}) is None
    assert "16 threads are not" in str(doctor.advise({"1": 234e9, "16": 154e9, "8": 900e9}))


def test_a_slow_second_thread_is_told_below_the_table(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = json.loads(run(capsys, "doctor", "--json"))["machine"]
    for speed, is_told in ((1e9, True), (4e9, False)):
        measured = machine | {"flops_by_threads": {"1": 2e9, "2": speed}}
        monkeypatch.setattr(doctor, "measure_machine", lambda measured=measured: measured)
        assert ("note  2 threads are not faster than 1" in run(capsys, "doctor")) is is_told
