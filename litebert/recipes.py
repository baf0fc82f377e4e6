"""Named runs: what suits a preset where the paper's numbers, made for 4096 sequences on a TPU pod, do not."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from litebert.config import from_dict, nearest, read_json, require
from litebert.corpus.pairs import PairConfig
from litebert.presets import PRESETS
from litebert.pretraining.config import PretrainConfig
from litebert.training.optimizer import OptimizerConfig


def paper(preset: str) -> PretrainConfig:
    """ALBERT 4.1: LAMB, 4096 sequences of 512 tokens, 125,000 steps; other batches by rule."""
    return PretrainConfig(preset=preset)


def laptop(preset: str) -> PretrainConfig:
    """A few processor cores: small steps taken often, short sequences, AdamW.

    Windows stay within paragraphs, where sentence order is soonest learned. The learning rate is for this batch.
    """
    return PretrainConfig(
        preset=preset,
        num_sequences=12,
        minutes=45,
        learning_rate=1e-3,
        pairs=PairConfig(length=128, windows="paragraph"),
        optimizer=OptimizerConfig(optimizer="adamw", beta2=0.98, pooler_rate=0.1),
    )


LADDER = ("nano", "micro", "mini", "small")


def find_recipe(preset: str) -> PretrainConfig:
    """The run that suits a preset."""
    require(preset in PRESETS or f"{preset}-v2" in PRESETS, f"there is no preset {preset!r}{nearest(preset, PRESETS)}")
    recipe: Callable[[str], PretrainConfig] = laptop if preset.split("-", 1)[-1] in LADDER else paper
    return recipe(preset)


def find_settings(arguments: Sequence[str]) -> PretrainConfig:
    """What the arguments of a command begin with: a --config, the recipe of a --preset, or what the --run has been."""
    given = {}
    for option, value in itertools.pairwise([*arguments, ""]):
        name, equals, text = option.partition("=")
        given[name] = text if equals else value
    stored = Path(given.get("--run", ""), "config.json")
    if "--config" not in given and ("--preset" in given or "--run" not in given or not stored.exists()):
        return find_recipe(given.get("--preset", "albert-base"))
    settings = from_dict(PretrainConfig, read_json(Path(given.get("--config", stored))))
    if "--config" in given and "--minutes" in given:  # its steps are those that fitted its own minutes
        settings = replace(settings, steps=None, warmup_steps=None)
    return settings
