"""A run's folder: whether a run has begun there, under which config and with which data it goes on, and its model.

config.json is written last when a run begins: where it is, the run has begun.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from torch import Tensor

from litebert.config import Config, override, read_config, read_json, refuse_changes, require
from litebert.files import write_json_file
from litebert.folders import require_place
from litebert.models.folder import write_model
from litebert.models.model import Model
from litebert.training.environment import describe_environment
from litebert.training.parallel import Ranks

Asked = TypeVar("Asked", bound="RunConfig")


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


class RunConfig(Protocol):
    """What a run is asked to do."""

    @property
    def fixed(self) -> dict[str, Any]:
        """What must be the same when a run is gone on with."""
        ...


def go_on_with(before: Asked, given: Asked, run: object, free: Iterable[str], left_open: Iterable[str] = ()) -> Asked:
    """The config that a run began with, changed in what is free; other changes are refused.

    What may be `left_open`, None in the config that is given, is then as before.
    """
    asked, fixed = given.fixed, before.fixed
    asked |= {name: fixed[name] for name in left_open if asked[name] is None}
    refuse_changes(asked, fixed, run)
    return override(before, {name: getattr(given, name) for name in free})


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
