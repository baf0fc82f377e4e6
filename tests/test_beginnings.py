"""What the options of a command begin with."""

import dataclasses
import json
from pathlib import Path

from litebert.beginnings import begin_finetuning, begin_pretraining
from litebert.pretraining.config import make_schedule, settle
from litebert.recipes import find_recipe


def test_epochs_and_steps_of_ones_own_take_the_place_of_the_recipes() -> None:
    by_epochs = begin_finetuning(["--task", "sst2", "--recipe", "paper-v2", "--epochs", "3"])
    assert (by_epochs.steps, by_epochs.warmup_steps) == (None, None)
    by_steps = begin_finetuning(["--task", "sst2", "--recipe", "paper-v2", "--steps", "500"])
    assert by_steps.warmup_steps is None


def test_they_also_take_the_place_of_what_a_config_says(tmp_path: Path) -> None:
    stored = tmp_path / "config.json"
    stored.write_text(json.dumps(dataclasses.asdict(begin_finetuning(["--task", "sst2", "--recipe", "paper-v2"]))))
    by_epochs = begin_finetuning(["--config", str(stored), "--epochs", "3"])
    assert (by_epochs.steps, by_epochs.warmup_steps) == (None, None)
    assert begin_finetuning(["--config", str(stored), "--steps", "500"]).warmup_steps is None


def test_of_a_config_what_followed_by_rule_follows_again(tmp_path: Path) -> None:
    stored = tmp_path / "config.json"
    settled = settle(paper := find_recipe("albert-base"), make_schedule(paper))
    stored.write_text(json.dumps(dataclasses.asdict(settled)))
    found = begin_pretraining(["--config", str(stored), "--num-sequences", "64"])
    assert (found.steps, found.learning_rate, found.warmup_steps) == (None, None, None)
    given = dataclasses.replace(settled, steps=4000, learning_rate=1e-4)
    stored.write_text(json.dumps(dataclasses.asdict(given)))
    assert begin_pretraining(["--config", str(stored)]) == given
    timed = begin_pretraining(["--config", str(stored), "--minutes", "3"])
    assert (timed.steps, timed.learning_rate, timed.warmup_steps) == (None, 1e-4, None)


def test_what_a_run_has_been_and_a_config_come_back(tmp_path: Path) -> None:
    config = dataclasses.replace(begin_finetuning(["--task", "cola", "--recipe", "paper-v1"]), seed=7)
    (tmp_path / "config.json").write_text(json.dumps(dataclasses.asdict(config)))
    assert begin_finetuning(["--run", str(tmp_path)]) == config
    assert begin_finetuning(["--run", "elsewhere", "--config", str(tmp_path / "config.json")]) == config
    assert begin_finetuning(["--run", str(tmp_path), "--task", "cola", "--recipe", "paper-v1"]).seed == 0
