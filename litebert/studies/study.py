"""What a study is: a question, the runs that answer it, and what the paper found."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from litebert.config import require
from litebert.presets import find_preset, read_changes
from litebert.pretraining.config import PretrainConfig
from litebert.training.metrics import NAMES

Equal = Literal["steps", "minutes"]
AFTER = "the variant before"
"""Stands for a model folder that is known only when the study is carried out."""

MEASURES = NAMES | {"downstream": "downstream"}
"""What runs are compared by, as people call it."""
EXPLAINED = {
    "masked_token_loss": "masked-token loss: how much the hidden tokens surprise the model, the mean of -ln of the "
    "probability that it gives to each; lower is better.",
    "masked_token_accuracy": "masked tokens: how many of the hidden tokens the model's first guess is right about.",
    "sop_accuracy": "sentence order: of how many pairs of segments the model tells whether they were swapped; chance "
    "is 50 %.",
    "sop_document_accuracy": "sentence order in ordinary windows: the same of segments that may span paragraphs.",
    "sop_paragraph_accuracy": "sentence order within paragraphs: the same of segments of one paragraph.",
    "nsp_accuracy": "next sentence: of how many pairs it tells whether the second segment is of another document; "
    "chance is 50 %. A model that was not trained for it is asked by a linear probe of its frozen output.",
}
"""What is measured, in a sentence each."""


def explain_measures(measures: Iterable[str]) -> list[str]:
    return [EXPLAINED[measure] for measure in measures if measure in EXPLAINED]


def head(measure: str) -> str:
    """A measure with its unit, above a column."""
    return f"{MEASURES.get(measure, measure)} ({'nats' if measure.endswith('loss') else '%'})"


def show_value(measure: str, value: float) -> str:
    """Losses as they are, everything else in per cent."""
    return f"{value:.3f}" if measure.endswith("loss") else f"{100 * value:.1f}"


def is_better(measure: str, first: float, second: float) -> bool:
    return first < second if measure.endswith("loss") else first > second


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One run of a study, but for its seed and its steps."""

    name: str
    settings: PretrainConfig
    paper: Mapping[str, float] = field(default_factory=dict)
    """What the paper has for it, in per cent, by the names of `MEASURES`."""
    after: str | None = None
    """The variant whose model it begins with; its settings have `AFTER` for the folder."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question about pre-training, and how to ask it."""

    name: str
    question: str
    source: str
    """Where the paper asks it."""
    finding: str
    """What the paper says."""
    vary: Callable[[PretrainConfig], list[Variant]]
    """The runs, from the settings that all of them have in common."""
    measures: tuple[str, ...] = ("masked_token_loss", "masked_token_accuracy", "sop_accuracy")
    """What tells the runs apart; the first decides."""
    equal: Equal = "steps"
    """What all runs have alike."""
    has_layers: bool = False
    """Whether it looks at what each layer does to its input."""

    def variants(self, base: PretrainConfig) -> list[Variant]:
        require(
            self.equal == "steps" or base.steps is None,
            f"--steps is {base.steps}; {self.name} gives all runs equal time: leave it out, and say --budget",
        )
        require(base.init is None, f"--init is {base.init}; a study compares models that begin anew: leave it out")
        return self.vary(base)


def change(base: PretrainConfig, encoder: Mapping[str, Any] | None = None, **changes: Any) -> PretrainConfig:
    """Settings with changes, also to the encoder. Of those that make the preset what it is anyway, none is left.

    So one model has one config, however a study came to it, and studies share their runs. A model that begins with the
    weights of a folder begins with the folder's config: there every change counts.
    """
    changed = replace(base, **changes)
    wanted = read_changes(base.encoder) | dict(encoder or {})
    if changed.init is None:
        preset = find_preset(changed.preset)
        wanted = {name: value for name, value in wanted.items() if getattr(preset, name) != value}
    written = (f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in wanted.items())
    return replace(changed, encoder=tuple(written))


def identify(content: Mapping[str, Any]) -> str:
    """A short name for all that is in it."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
