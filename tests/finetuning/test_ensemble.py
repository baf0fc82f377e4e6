import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.config import UserError
from litebert.finetuning.ensemble import combine_runs
from litebert.training.loop import LoopConfig
from tests.finetuning.made import SIZES, Finished, make_config, read_file, run_to_end, write_data

Make = Callable[[str], Finished]


@pytest.fixture(scope="module")
def members(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Path]]:
    """Data, and three runs that have learned a little of it."""
    folder = tmp_path_factory.mktemp("members")
    data = write_data("label", folder / "data")
    config = make_config("label", data, start, steps=5, loop=LoopConfig(evaluate_every=0))
    for seed in range(3):
        run_to_end(replace(config, seed=seed), folder / f"run-{seed}")
    return str(data), [folder / f"run-{seed}" for seed in range(3)]


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def average(folders: list[Path], split: str) -> np.ndarray:
    """The members' mean probabilities of no and yes, from the files that they wrote."""
    rows = [read_rows(folder / "predictions" / f"{split}-predictions.jsonl") for folder in folders]
    return np.mean([[list(row["probabilities"].values()) for row in member] for member in rows], axis=0)


def accuracy(probabilities: np.ndarray, data: str) -> float:
    gold = [row["label"] for row in read_rows(Path(data, "dev.jsonl"))]
    return 100 * np.mean(np.array(["no", "yes"])[probabilities.argmax(axis=1)] == gold)


def test_probabilities_are_averaged_and_the_answer_is_the_likeliest(
    members: tuple[str, list[Path]], tmp_path: Path
) -> None:
    data, folders = members
    result = combine_runs(folders, data, tmp_path / "out", choose=False)
    assert result.members == ("run-0", "run-1", "run-2") and (result.split, result.metric) == ("dev", "accuracy")
    for split in ("dev", "test"):
        expected = average(folders, split)
        rows = read_rows(tmp_path / "out" / f"{split}-predictions.jsonl")
        assert len(rows) == SIZES[split]
        np.testing.assert_allclose([list(row["probabilities"].values()) for row in rows], expected)
        assert [row["prediction"] for row in rows] == [("no", "yes")[n] for n in expected.argmax(axis=1)]
    assert result.scores == (pytest.approx(accuracy(average(folders, "dev"), data)),)
    assert result.gain == pytest.approx(result.scores[0] - max(result.singles.values()))
    assert result.singles == {folder.name: read_file(folder, "scores.json")["dev"]["accuracy"] for folder in folders}
    written = read_file(tmp_path / "out", "scores.json")
    assert written["files"] == ["dev-predictions.jsonl", "test-predictions.jsonl"] and written["gain"] == result.gain
    assert written["reached"]["dev"]["accuracy"] == result.scores[0] and set(written["reached"]) == {"dev", "test"}
    combine_runs(folders, data, tmp_path / "out", choose=False)  # an ensemble may be made again


def test_members_are_chosen_that_make_dev_better(members: tuple[str, list[Path]], tmp_path: Path) -> None:
    data, folders = members
    result = combine_runs(folders, data, tmp_path / "out")
    by_name = {folder.name: folder for folder in folders}
    assert result.scores[0] == max(result.singles.values())
    assert list(result.scores) == sorted(set(result.scores)) and len(result.members) == len(result.scores)
    for number, score in enumerate(result.scores, 1):
        chosen = [by_name[name] for name in result.members[:number]]
        assert score == pytest.approx(accuracy(average(chosen, "dev"), data))


@pytest.mark.parametrize("kind", ["squad2", "tags", "choice", "number"])
def test_every_kind_of_answer_can_be_combined(finished: Make, tmp_path: Path, kind: str) -> None:
    """A run with its own double says what it says alone."""
    config, run, scores = finished(kind)
    double = shutil.copytree(run, tmp_path / "double")
    result = combine_runs([run, double], config.data, tmp_path / "out", choose=False)
    assert result.scores[0] == pytest.approx(scores["dev"][scores["metric"]])
    assert result.gain == pytest.approx(0)
    assert result.reached["dev"] == pytest.approx(scores["dev"])
    assert (result.threshold is not None) == (kind == "squad2")


def test_what_cannot_be_combined_is_refused(finished: Make, members: tuple[str, list[Path]], tmp_path: Path) -> None:
    data, folders = members
    with pytest.raises(UserError, match="runs to combine: 1; name at least two"):
        combine_runs(folders[:1], data, tmp_path / "out")
    with pytest.raises(UserError, match="is given twice; name each run once"):
        combine_runs(folders[:1] * 2, data, tmp_path / "out")
    with pytest.raises(UserError, match="the runs are of the tasks squad1, text; combine runs of one"):
        combine_runs([folders[0], finished("squad1").run], data, tmp_path / "out")
    with pytest.raises(UserError, match="has no scores.json; name a run of litebert finetune that is done"):
        combine_runs([folders[0], tmp_path], data, tmp_path / "out")
    (tmp_path / "scores.json").write_text('{"seeds": 3}')
    with pytest.raises(UserError, match="is no single run of litebert finetune; name one, or one of its seeds"):
        combine_runs([folders[0], tmp_path], data, tmp_path / "out")
    with pytest.raises(UserError, match="has a scores.json of no ensemble; choose another --out"):
        combine_runs(folders, data, tmp_path)
    with pytest.raises(UserError, match=r"is the folder of a run \(checkpoints is there\); choose another --out"):
        combine_runs(folders, data, folders[0])
    with pytest.raises(UserError, match=r"is the folder of a model \(model.safetensors is there\)"):
        combine_runs(folders, data, folders[0] / "model")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "index.json").touch()
    with pytest.raises(UserError, match=r"is the folder of a corpus \(index.json is there\)"):
        combine_runs(folders, data, tmp_path / "corpus")
    assert read_file(tmp_path, "scores.json") == {"seeds": 3}
    assert not (tmp_path / "out").exists()


def test_other_examples_are_told_apart_though_their_ids_are_the_same(
    members: tuple[str, list[Path]], tmp_path: Path, start: Path
) -> None:
    data, folders = members
    other = write_data("label", tmp_path / "other", seed=7)
    with pytest.raises(UserError, match="dev of .*other is not what the runs were evaluated on"):
        combine_runs(folders, str(other), tmp_path / "out")
    stranger = tmp_path / "stranger"
    run_to_end(make_config("label", other, start, steps=2), stranger)
    with pytest.raises(UserError, match="was evaluated on other examples of dev than"):
        combine_runs([folders[0], stranger], data, tmp_path / "out")
