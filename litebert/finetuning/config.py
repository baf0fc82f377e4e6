"""What a fine-tuning run is asked to do, and what follows from it."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from litebert.config import check_fields, check_seed, plain_path, require
from litebert.tasks.task import Limits
from litebert.tasks.text import TextColumns
from litebert.training.loop import LoopConfig
from litebert.training.optimizer import OptimizerConfig
from litebert.training.schedule import ScheduleConfig, check_schedule

Recipe = Literal["paper-v1", "paper-v2", "laptop"]
WARMUP_SHARE = 0.1
MOST_EPOCHS = 1_000_000
FREE = ("loop", "data")
"""What may change when a run is gone on with: where the data lie, and of the loop all but its own `fixed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneConfig:
    """The fine-tuning run. Defaults are those of the recipe, for the task and the model."""

    task: str = "text"
    """A benchmark, such as sst2, squad2 or race; or text, for data of your own."""
    data: str = ""
    """The folder with the benchmark's files as they are published, or with train, dev and test of your own."""
    init: str = ""
    """The model folder to start from."""
    recipe: Recipe = "paper-v2"
    """Whose settings to start from: the paper's, for version 1 or 2 of ALBERT, or laptop, for small models."""
    scratch: bool = False
    """Start from random weights instead of the folder's, to see what pre-training is worth."""
    encoder: tuple[str, ...] = ()
    """Changes to the model, such as activation=gelu_tanh."""
    dropout: float | None = None
    """Dropout within the model, hidden and attention alike; by default as in its folder."""
    classifier_dropout: float = 0.1
    """Dropout of what the head reads."""
    num_examples: int = 32
    """Examples in a step, on all devices together; for questions about paragraphs, windows."""
    epochs: float = 3.0
    """How many times each example is seen, unless steps are given."""
    steps: int | None = None
    """Train for this many steps, whatever the epochs."""
    learning_rate: float = 2e-5
    """The highest learning rate, at the end of the warm-up."""
    warmup_steps: int | None = None
    """Steps in which the learning rate rises; by default a tenth of all."""
    freeze: str = "nothing"
    """What is not trained: nothing, embedding, encoder, or a number of layers, with the embedding below them."""
    patience: int = 0
    """Stop after this many evaluations without a better score on dev; 0 never does."""
    retry_if_stuck: bool = False
    """Start again with a third of the learning rate, up to three times, if all that is learned is the most frequent
    class."""
    train_examples: int | None = None
    """Learn from this many examples, drawn at random, instead of all."""
    dev_examples: int | None = None
    """Evaluate on this many examples, drawn at random, instead of all."""
    seed: int = 0
    """Seed of the new head, the order of the examples and dropout; with several seeds, the first of them."""
    columns: TextColumns = field(default_factory=TextColumns)
    limits: Limits = field(default_factory=Limits)
    optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(optimizer="adamw"))
    loop: LoopConfig = field(default_factory=lambda: LoopConfig(keep=1))

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("num_examples", "steps", "train_examples", "dev_examples"):
            value = getattr(self, name)
            require(value is None or value > 0, f"{name} is {value}; it must be at least 1")
        check_schedule(self.learning_rate, self.warmup_steps, self.steps)
        require(self.patience >= 0, f"patience is {self.patience}; it must be at least 0")
        check_seed(self.seed)
        require(0 < self.epochs <= MOST_EPOCHS, f"epochs is {self.epochs}; it must be above 0, up to {MOST_EPOCHS:,}")
        for name in ("dropout", "classifier_dropout"):
            value = getattr(self, name)
            require(value is None or 0 <= value < 1, f"{name} is {value}; it must be in [0, 1)")
        require(
            self.freeze in ("nothing", "embedding", "encoder") or self.freeze.isdecimal(),
            f"freeze is {self.freeze!r}; it must be nothing, embedding, encoder or a number of layers",
        )

    @property
    def fixed(self) -> dict[str, Any]:
        """What must be the same when a run is gone on with."""
        content = {name: value for name, value in dataclasses.asdict(self).items() if name not in FREE}
        content["init"] = plain_path(self.init)
        return content | self.loop.fixed | {"evaluate_every": self.loop.evaluate_every}  # dev chooses a step of those


def make_schedule(config: FinetuneConfig, num_questions: int, learning_rate: float) -> ScheduleConfig:
    """Steps from epochs, where they are not given; a straight rise and a straight fall."""
    steps = config.steps or max(1, round(config.epochs * num_questions / config.num_examples))
    warmup = round(WARMUP_SHARE * steps) if config.warmup_steps is None else config.warmup_steps
    return ScheduleConfig(steps=steps, learning_rate=learning_rate, warmup_steps=warmup)
