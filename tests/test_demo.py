"""What the demo does when a run of it is told to end; all else of it is run by `make demo`."""

import importlib
from pathlib import Path

import pytest


def test_it_ends_where_a_run_was_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples"))
    demo = importlib.import_module("first_model")
    monkeypatch.setattr(demo, "call", lambda *_: None)
    (tmp_path / "model").mkdir()  # is written by a run that is stopped too
    (tmp_path / "metrics.jsonl").write_text('{"kind": "evaluation", "step": 3}\n')
    with pytest.raises(SystemExit, match="stopped; the same command goes on"):
        demo.pretrain("albert-nano", tmp_path, demo.Options(steps=5))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "evaluation", "step": 5}\n')
    demo.pretrain("albert-nano", tmp_path, demo.Options(steps=5))
    with pytest.raises(SystemExit, match="stopped; the same command goes on"):
        demo.finetune(tmp_path, demo.Options())
    (tmp_path / "scores.json").write_text("{}")
    demo.finetune(tmp_path, demo.Options())
