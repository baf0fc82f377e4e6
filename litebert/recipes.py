"""Named runs: what suits a preset in pre-training, and a task and a model in fine-tuning.

The paper's numbers are for 4096 sequences on a TPU pod, and for its largest model; small models want others.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast, get_args

from litebert.config import nearest, read_json, require
from litebert.corpus.pairs import PairConfig
from litebert.finetuning.config import FinetuneConfig, Recipe
from litebert.folders import find_google_config
from litebert.presets import LADDER, find_preset
from litebert.pretraining.config import PretrainConfig
from litebert.tasks.task import Limits
from litebert.training.loop import LoopConfig
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


def is_on_ladder(preset: str) -> bool:
    return preset.split("-", 1)[-1] in LADDER


def find_recipe(preset: str) -> PretrainConfig:
    """The run that suits a preset."""
    find_preset(preset)  # refuses what is none
    recipe: Callable[[str], PretrainConfig] = laptop if is_on_ladder(preset) else paper
    return recipe(preset)


def find_study_settings(preset: str) -> PretrainConfig:
    """What the runs of a study have in common: the preset's recipe, on the ladder with sequences half as long, since a
    study's runs are short; how long is for its budget to say."""
    recipe = find_recipe(preset)
    if is_on_ladder(preset):
        pairs = replace(recipe.pairs, length=recipe.pairs.length // 2)
        recipe = replace(recipe, pairs=pairs, num_sequences=2 * recipe.num_sequences)
    return replace(recipe, minutes=None)


class Setting(NamedTuple):
    """One row of the paper's table of settings."""

    learning_rate: float
    num_examples: int
    dropout: float
    steps: int
    warmup_steps: int
    length: int = 512


# ALBERT, Table 14: for xxlarge, version 1.
PAPER = {
    "cola": Setting(1e-5, 16, 0.0, 5336, 320),
    "stsb": Setting(2e-5, 16, 0.0, 3598, 214),
    "sst2": Setting(1e-5, 32, 0.0, 20935, 1256),
    "mnli": Setting(3e-5, 128, 0.0, 10000, 1000),
    "qnli": Setting(1e-5, 32, 0.0, 33112, 1986),
    "qqp": Setting(5e-5, 128, 0.1, 14000, 1000),
    "rte": Setting(3e-5, 32, 0.1, 800, 200),
    "mrpc": Setting(2e-5, 32, 0.0, 800, 200),
    "wnli": Setting(2e-5, 16, 0.1, 2000, 250),
    "squad1": Setting(5e-5, 48, 0.0, 3649, 365, 384),
    "squad2": Setting(3e-5, 48, 0.0, 8144, 814),
    "race": Setting(2e-5, 32, 0.1, 12000, 1000),
}
# The released code's README: with version 2, what was said for RACE diverges.
PAPER_V2 = PAPER | {"race": Setting(1e-5, 32, 0.0, 12000, 1000)}
PARAGRAPHS = ("squad1", "squad2", "cmrc2018", "drcd")
PASSAGES = ("race", "race-middle", "race-high")
NARROW = 768
"""The width below which a model is small."""


def finetune_as_in_paper(task: str, version: Recipe) -> FinetuneConfig:
    """Table 14, with the numbers that the released code names for version 2; steps are the paper's, not epochs.

    Parts of RACE are like RACE. Tasks that the paper lacks, and data of one's own, take three epochs at 2e-5.
    """
    table = PAPER if version == "paper-v1" else PAPER_V2
    row = table.get("race" if task in PASSAGES else task)
    length = 512 if task in (*PARAGRAPHS, *PASSAGES) else 256
    if row is None:
        return FinetuneConfig(task=task, recipe=version, limits=Limits(length=length), loop=choose_loop(task))
    return FinetuneConfig(
        task=task,
        recipe=version,
        num_examples=row.num_examples,
        learning_rate=row.learning_rate,
        steps=row.steps,
        warmup_steps=row.warmup_steps,
        dropout=row.dropout,
        limits=Limits(length=row.length),
        loop=choose_loop(task),
    )


def finetune_small(task: str) -> FinetuneConfig:
    """For models of a few million parameters: higher rates, and lengths that a few cores can bear."""
    length = 384 if task in PARAGRAPHS else 512 if task in PASSAGES else 128
    return FinetuneConfig(
        task=task,
        recipe="laptop",
        num_examples=16 if task in PASSAGES else 32,
        learning_rate=3e-4,
        epochs=2.0 if task in (*PARAGRAPHS, *PASSAGES) else 5.0,
        limits=Limits(length=length),
        loop=choose_loop(task),
    )


def choose_loop(task: str) -> LoopConfig:
    """The longest tasks are evaluated at the end alone, as an evaluation takes as long as many steps."""
    return LoopConfig(keep=1, evaluate_every=0 if task in (*PARAGRAPHS, *PASSAGES) else None)


def find_finetuning(task: str, init: str = "", recipe: str | None = None) -> FinetuneConfig:
    """The recipe that is named, or suits the model that a run begins with."""
    recipe = recipe or choose_recipe(init)
    require(recipe in get_args(Recipe), f"there is no recipe {recipe!r}{nearest(recipe, get_args(Recipe))}")
    return finetune_small(task) if recipe == "laptop" else finetune_as_in_paper(task, cast(Recipe, recipe))


def choose_recipe(init: str) -> Recipe:
    """The paper's for models of its sizes. What is wrong with an --init is said when it is opened."""
    config = Path(init, "config.json")
    file = config if config.is_file() else find_google_config(Path(init))
    content = read_json(file) if init and file else {}
    own = content.get("litebert")
    encoder = own.get("encoder", content) if isinstance(own, dict) else content
    width = encoder.get("hidden_size") if isinstance(encoder, dict) else None
    return "laptop" if isinstance(width, int) and width < NARROW else "paper-v2"
