"""The settings that a command's options begin with, which some of the options decide: read before any is checked."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from litebert.config import read_config, read_json, require
from litebert.finetuning.config import FinetuneConfig
from litebert.pretraining.config import PretrainConfig, unsettle
from litebert.recipes import find_finetuning, find_recipe


def read_given(arguments: Sequence[str]) -> dict[str, str]:
    """The options of a command line with their values, before anything is checked."""
    given = {}
    for option, value in itertools.pairwise([*arguments, ""]):
        name, equals, text = option.partition("=")
        given[name] = text if equals else value
    return given


def holds(file: Path, key: str) -> bool:
    """Whether a run's config is of the kind that has this key; one of another kind is refused when it is opened."""
    return file.exists() and key in read_json(file)


def begin_pretraining(arguments: Sequence[str]) -> PretrainConfig:
    """What the arguments of a command begin with: a --config, the recipe of a --preset, or what the --run has been."""
    given = read_given(arguments)
    stored = Path(given.get("--run", ""), "config.json")
    if "--config" not in given and ("--preset" in given or "--run" not in given or not holds(stored, "preset")):
        return find_recipe(given.get("--preset", "albert-base"))
    settings = read_config(PretrainConfig, Path(given.get("--config", stored)))
    if "--config" in given:
        settings = unsettle(settings)
        if "--minutes" in given:  # its steps are those that fitted its own minutes
            settings = replace(settings, steps=None, warmup_steps=None)
    return settings


def begin_finetuning(arguments: Sequence[str]) -> FinetuneConfig:
    """What the arguments of litebert finetune begin with: what the --run has been, a --config, or the recipe that is
    named, or suits the width of the model."""
    given = read_given(arguments)
    stored = Path(given.get("--run", ""), "config.json")
    if "--config" not in given and "--task" not in given and "--run" in given and holds(stored, "task"):
        return read_config(FinetuneConfig, stored)
    if "--config" in given:
        require("--recipe" not in given, "--recipe and --config each say all settings; give one of them")
        settings = read_config(FinetuneConfig, Path(given["--config"]))
    else:
        named = given.get("--recipe") or None
        settings = find_finetuning(given.get("--task", "text"), given.get("--init", ""), named)
    if "--epochs" in given and "--steps" not in given:
        settings = replace(settings, steps=None, warmup_steps=None)
    elif "--steps" in given:  # the warm-up was for other steps
        settings = replace(settings, warmup_steps=None)
    return settings
