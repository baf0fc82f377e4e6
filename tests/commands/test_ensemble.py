"""litebert ensemble, called as a user calls it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.calls import refuse, run
from tests.finetuning.made import finish, read_file, run_to_end, write_start

Printed = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on the same data, and one of another task."""
    folder = tmp_path_factory.mktemp("ensemble")
    start = write_start(folder / "start")
    config = finish("sst2", folder, start, steps=4).config
    run_to_end(replace(config, seed=1), folder / "second")
    finish("label", folder / "other", start, steps=1)
    return folder


def test_runs_are_combined_and_compared_with_the_best_alone(capsys: Printed, folder: Path, tmp_path: Path) -> None:
    members = ("--members", folder / "run", folder / "second")
    singles = {name: read_file(folder / name, "scores.json")["dev"]["accuracy"] for name in ("run", "second")}
    for more in ((), ("--all",)):
        out = tmp_path / "out" / "-".join(more)
        said = run(capsys, "ensemble", "--data", folder / "data", *members, "--out", out, *more)
        scores = read_file(out, "scores.json")
        rows = [row.split() for row in said.splitlines()]
        for name, score in singles.items():
            assert [name, f"{score:.4g}", "yes" if name in scores["members"] else "no"] in rows
        gain = scores["scores"][-1] - max(singles.values())
        reached = f"the ensemble of {len(scores['members'])} has accuracy {scores['scores'][-1]:.2f}: {gain:+.2f} over"
        assert reached in said
        assert scores["files"] == ["sst2-dev.jsonl", "sst2-test.jsonl", "SST-2.tsv"]
        assert all((out / name).is_file() for name in scores["files"])
    assert scores["members"] == ["run", "second"]
    said = run(capsys, "ensemble", "--data", folder / "data", *members, "--out", tmp_path / "json", "--json")
    assert json.loads(said)["singles"] == singles


def test_a_users_mistake_is_told_in_a_sentence(capsys: Printed, folder: Path, tmp_path: Path) -> None:
    def combine(*members: Path, data: Path = folder / "data") -> str:
        return refuse(capsys, "ensemble", "--data", data, "--members", *members, "--out", tmp_path / "out")

    first, second, other = folder / "run", folder / "second", folder / "other" / "run"
    assert "the runs are of the tasks sst2, text; combine runs of one" in combine(first, other)
    assert "runs to combine: 1; name at least two" in combine(first)
    assert f"{folder}/start has no scores.json; name a run of litebert finetune that is done" in combine(
        first, folder / "start"
    )
    assert "nowhere does not exist; correct the path" in combine(first, second, data=Path("nowhere"))
    assert not (tmp_path / "out").exists()
