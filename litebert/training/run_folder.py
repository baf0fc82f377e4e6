"""A run's folder: whether a run has begun there, under which config and with which data it goes on, and its model.

config.json is written last when a run begins: where it is, the run has begun.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from litebert.config import Config, read_config, read_json, require
from litebert.files import write_json_file
from litebert.folders import require_place
from litebert.models.folder import write_model
from litebert.models.heads import Model
from litebert.training.environment import describe_environment
from litebert.training.parallel import Ranks


def read_begun(run: Path, kind: type[Config], mark: str, ranks: Ranks) -> Config | None:
    """The config of the run that has begun there, of a kind that is known by a mark; nothing where none has."""
    stored = run / "config.json"
    has_begun = stored.exists()
    ranks.agree_whether(has_begun, stored)  # none writes before all have looked
    require_place(run, "--run", "run")
    found = [name for name in ("checkpoints", "model", "scores.json") if (run / name).exists()]
    require(
        has_begun or not found,
        f"{run} has {' and '.join(found)} but no config.json, so it is no run; restore it, or start a new --run",
    )
    if not has_begun:
        return None
    require(mark in read_json(stored), f"{run} is a run of another kind; start a new --run")
    return read_config(kind, stored)


def check_data(run: Path, data: Mapping[str, Any], what: str) -> None:
    """Refuses to go on with other data than a run began with."""
    require(
        not (run / "config.json").exists() or read_json(run / "data.json") == data,
        f"the {what} of {run} have changed since it began; restore them, or start a new --run",
    )


def write_description(run: Path, config: Any, data: Mapping[str, Any], ranks: Ranks) -> None:
    """Writes what a run is, and on what it was made."""
    contents = {"data": data, "environment": describe_environment(ranks), "config": dataclasses.asdict(config)}
    for name, content in contents.items():
        write_json_file(run / f"{name}.json", content)


def write_weights(trained: Model, weights: Mapping[str, Tensor], folder: Path) -> None:
    """A model folder of the weights that all ranks have together; of a run that stopped while it grew, with the depth
    that it has reached."""
    reached = replace(trained.config, num_layers=trained.encoder.num_layers)
    model = Model(reached, trained.head_configs.values(), pooler=trained.pooler is not None)
    model.load_state_dict(weights)
    write_model(model, folder)
