import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.finetuning.config import FinetuneConfig
from litebert.finetuning.preparation import prepare
from litebert.finetuning.run import carry_out
from litebert.finetuning.seeds import describe, finetune_seeds, summarize
from litebert.training.loop import LoopConfig
from litebert.training.parallel import Ranks
from tests.finetuning.made import make_config, read_file, weights_of, write_data


@pytest.fixture(scope="module")
def config(start: Path, tmp_path_factory: pytest.TempPathFactory) -> FinetuneConfig:
    data = write_data("number", tmp_path_factory.mktemp("seeds"), splits=("train", "dev"))
    return make_config("number", data, start, steps=6, seed=3, loop=LoopConfig(evaluate_every=0))


@pytest.fixture(scope="module")
def seeded(config: FinetuneConfig, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Three runs, and their scores."""
    run = tmp_path_factory.mktemp("seeded")
    outcome, scores = finetune_seeds(config, 3, run, Ranks(), lambda prepared: None)
    assert outcome.step == 6
    return run, scores


def test_each_seed_has_a_run_of_its_own_and_all_have_a_summary(seeded: tuple[Path, list[dict[str, Any]]]) -> None:
    run, scores = seeded
    folders = sorted(path.name for path in run.iterdir() if path.is_dir())
    assert folders == ["seed-3", "seed-4", "seed-5"] and [score["seed"] for score in scores] == [3, 4, 5]
    assert [read_file(run / folder, "scores.json") for folder in folders] == scores
    assert len({weights_of(run / folder) for folder in folders}) == 3
    summary = read_file(run, "scores.json")
    assert summary.keys() == {"seeds", "dev"} and summary["seeds"] == 3
    for name in ("pearson", "spearman", "rmse"):
        values = [score["dev"][name] for score in scores]
        assert len(set(values)) > 1
        assert summary["dev"][name] == pytest.approx(measure(values))


def measure(values: list[float]) -> dict[str, float]:
    return {
        "median": np.median(values),
        "mean": np.mean(values),
        "deviation": np.std(values, ddof=1) if len(values) > 1 else 0.0,
        "lowest": np.min(values),
        "highest": np.max(values),
    }


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9))
def test_the_median_the_mean_and_the_spread_are_numpys(values: list[float]) -> None:
    assert describe(values) == pytest.approx(measure(values), abs=1e-6)


def test_seeds_that_are_done_are_not_done_again(
    config: FinetuneConfig, seeded: tuple[Path, list[dict[str, Any]]]
) -> None:
    run, scores = seeded
    files = [path for name in ("metrics.jsonl", "model.safetensors") for path in run.rglob(name)]
    before = {path: path.read_bytes() for path in files}
    _, again = finetune_seeds(config, 3, run, Ranks(), lambda prepared: None)
    assert again == scores and {path: path.read_bytes() for path in files} == before


def test_a_seed_is_the_run_that_it_would_be_alone(
    config: FinetuneConfig, seeded: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    alone = replace(config, seed=4)
    carry_out(prepare(alone, tmp_path / "run", Ranks()), tmp_path / "run", Ranks())
    assert weights_of(tmp_path / "run") == weights_of(seeded[0] / "seed-4")


def test_a_signal_stops_the_seeds_after_it(config: FinetuneConfig, tmp_path: Path) -> None:
    class Signalling(Ranks):
        """Says on the way that the run is to end."""

        def add_up(self, values: Any) -> list[float]:
            if (tmp_path / "run" / "seed-4" / "metrics.jsonl").exists():
                signal.raise_signal(signal.SIGTERM)
            return list(values)

    outcome, scores = finetune_seeds(config, 3, tmp_path / "run", Signalling(), lambda prepared: None)
    assert outcome.stopped_by == signal.SIGTERM and len(scores) == 1
    assert not (tmp_path / "run" / "seed-5").exists() and not (tmp_path / "run" / "scores.json").exists()


def test_a_score_that_only_some_seeds_have_is_left_out() -> None:
    runs = [
        {"metric": "accuracy", "files": {"dev": "a"}, "dev": {"accuracy": 50.0, "f1": 40.0}},
        {"metric": "accuracy", "files": {"dev": "a"}, "dev": {"accuracy": 70.0}},
    ]
    assert summarize(runs) == {"dev": {"accuracy": describe([50.0, 70.0])}}
