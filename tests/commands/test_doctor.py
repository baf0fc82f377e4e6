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
