"""What a pre-training run is asked to do, and what follows from it."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from litebert.config import check_count, check_fields, check_seed, plain_path, require
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig
from litebert.models.encoder import Checkpointing, EncoderConfig
from litebert.models.heads import HeadConfig
from litebert.models.sharing import sharing_map
from litebert.training.loop import LoopConfig
from litebert.training.optimizer import OptimizerConfig
from litebert.training.run_folder import go_on_with
from litebert.training.schedule import Ramp, ScheduleConfig, check_schedule, scale_from_paper

FREE = ("loop", "checkpointing", "evaluation_sequences")
"""What may change when a run is gone on with; of the loop, all but its own `fixed`."""
MOST_SEQUENCES = 1 << 20
MOST_MINUTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PretrainConfig:
    """The pre-training run. What is left out follows from the paper by rule, or from the minutes that it may take."""

    preset: str = "albert-base"
    """The model, by its name in litebert models. Its vocabulary is that of the corpus."""
    encoder: tuple[str, ...] = ()
    """Changes to the preset, such as num_layers=6 sharing=none hidden_dropout=0.1."""
    init: str | None = None
    """A model folder to continue from, instead of a new model."""
    corpus: str | None = None
    """The corpus, built by litebert corpus."""
    mix: tuple[str, ...] = ()
    """Several corpora with their weights instead: --mix wiki=0.7 books=0.3."""
    num_sequences: int = 4096
    """Sequences in a step, on all devices together."""
    steps: int | None = None
    """How many steps to train for. By default as many as show the paper's number of sequences, or as fit the
    minutes."""
    minutes: float | None = None
    """Train for about this long on this machine: a few steps are timed, to see how many fit. Where steps are given too,
    those count."""
    learning_rate: float | None = None
    """The highest learning rate, at the end of the warm-up; by default the paper's, scaled by the square root of the
    batch."""
    warmup_steps: int | None = None
    """Steps in which the learning rate rises; by default the paper's 3125, or 2.5 % of a shorter run."""
    power: float = 1.0
    """The power by which the learning rate falls to 0; 1 is a straight line."""
    depths: tuple[str, ...] = ()
    """Start with fewer layers, where all share their weights: 3 6@0.25 12@0.5 has 6 from a quarter of the steps on."""
    lengths: tuple[str, ...] = ()
    """Start with shorter sequences, and as many more of them: 64 128@0.6."""
    batches: tuple[str, ...] = ()
    """Start with fewer sequences in a step: 12 48@0.5."""
    checkpointing: Checkpointing = "nothing"
    """What to compute twice instead of keeping it, to save memory."""
    evaluation_sequences: int = 1024
    """Held-out sequences to evaluate on; 0 skips evaluations."""
    seed: int = 0
    """Seed of the weights, the order of the text, its masks, and dropout."""
    pairs: PairConfig = field(default_factory=PairConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        check_count("num_sequences", self.num_sequences, MOST_SEQUENCES)
        require(self.steps is None or self.steps > 0, f"steps is {self.steps}; it must be at least 1")
        require(
            self.minutes is None or 0 < self.minutes <= MOST_MINUTES,
            f"minutes is {self.minutes}; it must be above 0, up to {MOST_MINUTES:,}",
        )
        require(
            0 <= self.evaluation_sequences <= MOST_SEQUENCES,
            f"evaluation_sequences is {self.evaluation_sequences}; it must be from 0 to {MOST_SEQUENCES:,}",
        )
        check_schedule(self.learning_rate, self.warmup_steps, self.steps, self.power)
        check_seed(self.seed)
        require(not (self.corpus and self.mix), f"corpus is {self.corpus!r}, and there is a mix; give one of the two")

    @property
    def corpora(self) -> list[str]:
        """The corpora with their weights, as `open_mixture` reads them."""
        require(self.corpus or self.mix, "there is no corpus; name one that litebert corpus made")
        return list(self.mix) or [f"{self.corpus}=1"]

    @property
    def fixed(self) -> dict[str, Any]:
        """What must be the same when a run is gone on with."""
        content = {name: value for name, value in dataclasses.asdict(self).items() if name not in FREE}
        content["init"], content["corpus"] = plain_path(self.init), plain_path(self.corpus)
        parted = (part.rpartition("=") for part in self.mix)
        content["mix"] = tuple(f"{plain_path(path)}={weight}" for path, _, weight in parted)
        return content | self.loop.fixed


class Stage(NamedTuple):
    """A part of a run in which sequences have one length and the model one depth."""

    first_step: int
    end_step: int
    """The first step that is no longer of it."""
    first_sequence: int
    """How many sequences were seen before it."""
    length: int
    num_sequences: int
    """Of a step."""
    num_layers: int

    @property
    def num_steps(self) -> int:
        return self.end_step - self.first_step

    @property
    def shape(self) -> tuple[int, int, int]:
        """What all of its steps are like, wherever it begins and ends."""
        return self.length, self.num_sequences, self.num_layers


def describe_stages(rows: Iterable[tuple[float, int, int, int]]) -> str:
    """The first step, length, sequences of a step and layers of each stage, in words."""
    return "; ".join(
        f"{num_layers} layers, {num_sequences:,} sequences of length {length} from step {round(first_step):,}"
        for first_step, length, num_sequences, num_layers in rows
    )


def plan_stages(config: PretrainConfig, num_layers: int, steps: int) -> list[Stage]:
    """The stages of a run. Shorter sequences come as many more to a step, so that its tokens stay about the same."""
    depths = Ramp("depths", config.depths, num_layers)
    lengths = Ramp("lengths", config.lengths, config.pairs.length)
    batches = Ramp("batches", config.batches, config.num_sequences)
    starts = sorted({*depths.starts(steps), *lengths.starts(steps), *batches.starts(steps)})
    stages: list[Stage] = []
    for first, end in itertools.pairwise([*starts, steps]):
        length = lengths.at(first, steps)
        number = batches.at(first, steps) * config.pairs.length // length
        stages.append(Stage(first, end, count_sequences(stages), length, number, depths.at(first, steps)))
    return stages


def count_sequences(stages: Sequence[Stage]) -> int:
    """How many sequences are seen in all of them."""
    return sum(stage.num_steps * stage.num_sequences for stage in stages)


def count_work(stages: Sequence[Stage], steps: int) -> float:
    """How much work the first so many steps are: tokens times layers, the head taken for one more."""
    return sum(
        max(0, min(stage.end_step, steps) - stage.first_step)
        * stage.num_sequences
        * stage.length
        * (stage.num_layers + 1)
        for stage in stages
    )


def check_stages(stages: Sequence[Stage], pairs: PairConfig, num_devices: int) -> None:
    """Refuses stages that could not be run, before the first of them is."""
    for stage in stages:
        replace(pairs, length=stage.length)
        require(
            stage.num_sequences % num_devices == 0 and stage.num_sequences > 0,
            f"a step has {stage.num_sequences} sequences of length {stage.length} and there are {num_devices} devices; "
            f"make num_sequences a multiple of {num_devices}",
        )


def list_heads(pairs: PairConfig) -> list[HeadConfig]:
    """The heads that an objective needs."""
    heads = [HeadConfig(kind="masked_token")]
    if pairs.has_pairs:
        heads.append(HeadConfig(kind="pair", num_classes=pairs.num_pair_classes))
    return heads


def check_encoder(config: PretrainConfig, encoder: EncoderConfig) -> None:
    """Refuses sequences that are too long for a model, and a growth that is not possible.

    A model can grow only where its first layers already hold all weights.
    """
    require(
        encoder.num_segments > 1 or not config.pairs.has_pairs,
        f"num_segments is 1; {config.pairs.objective} has two: use --objective none, or a model with 2",
    )
    require(
        config.pairs.length <= encoder.num_positions,
        f"length is {config.pairs.length}; the model has {encoder.num_positions} positions",
    )
    shallowest = min(Ramp("depths", config.depths, encoder.num_layers).values)
    pairs = sharing_map(encoder.sharing, encoder.num_layers)
    require(
        set(pairs[:shallowest]) == set(pairs),
        f"depths is {' '.join(config.depths)!r}, and {shallowest} layers do not use all weights of a model with "
        f"sharing={encoder.sharing}; only one whose layers share their weights can grow",
    )


def make_schedule(config: PretrainConfig) -> ScheduleConfig:
    """The given numbers, and for what is not given those that follow from the paper by rule."""
    scaled = scale_from_paper(config.num_sequences, config.steps)
    warmup = scaled.warmup_steps if config.warmup_steps is None else config.warmup_steps
    return ScheduleConfig(
        steps=scaled.steps,
        learning_rate=scaled.learning_rate if config.learning_rate is None else config.learning_rate,
        warmup_steps=warmup,
        power=config.power,
        schedule=config.pairs.fidelity,
    )


def settle(config: PretrainConfig, schedule: ScheduleConfig) -> PretrainConfig:
    """The config with nothing left to be derived."""
    return replace(
        config,
        steps=schedule.steps,
        learning_rate=schedule.learning_rate,
        warmup_steps=schedule.warmup_steps,
    )


def unsettle(config: PretrainConfig) -> PretrainConfig:
    """The config with all left open again that is as the rules have it: it follows when other numbers are given."""
    rule = scale_from_paper(config.num_sequences, config.steps)
    return replace(
        config,
        steps=None if config.steps == scale_from_paper(config.num_sequences).steps else config.steps,
        learning_rate=None if config.learning_rate == rule.learning_rate else config.learning_rate,
        warmup_steps=None if config.warmup_steps == rule.warmup_steps else config.warmup_steps,
    )


def agree_with(given: PretrainConfig, stored: PretrainConfig, where: str) -> PretrainConfig:
    """The config to go on with; refuses another than the stored one, but for what the one given leaves open."""
    return go_on_with(stored, given, where, FREE, ("steps", "learning_rate", "warmup_steps", "minutes"))
