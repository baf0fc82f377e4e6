"""What a study is: a question, the runs that answer it, and what the paper found."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from litebert.config import require
from litebert.presets import find_preset, read_changes
from litebert.pretraining.config import PretrainConfig

Equal = Literal["steps", "minutes"]

MEASURES = {
    "masked_token_loss": "masked-token loss",
    "masked_token_accuracy": "masked tokens",
    "sop_accuracy": "sentence order",
    "sop_document_accuracy": "sentence order, ordinary windows",
    "sop_paragraph_accuracy": "sentence order within paragraphs",
    "nsp_accuracy": "next sentence",
    "downstream": "downstream",
}
"""What runs are compared by, as people call it. All are shares but the loss."""


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
    """The variant whose model it begins with."""


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
        found = self.vary(base)
        require(len(found) > 1, f"{self.name} has nothing to compare for {base.preset}")
        return found


def change(base: PretrainConfig, encoder: Mapping[str, Any] | None = None, **changes: Any) -> PretrainConfig:
    """Settings with changes, also to the encoder, of which those that the preset has anyway are left out.

    So one model has one config, however a study came to it, and studies share their runs.
    """
    preset = find_preset(changes.get("preset", base.preset))
    wanted = read_changes(base.encoder) | dict(encoder or {})
    real = {name: value for name, value in wanted.items() if getattr(preset, name) != value}
    written = tuple(
        f"{name}={json.dumps(value) if not isinstance(value, str) else value}" for name, value in real.items()
    )
    return replace(base, encoder=written, **changes)


def identify(settings: PretrainConfig) -> str:
    """A name for all that decides what a run learns."""
    content = {name: value for name, value in settings.fixed.items() if name != "minutes"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
