"""The card of a fine-tuned model: a README.md that the Hugging Face hub shows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from litebert.files import write_file
from litebert.finetuning.config import FinetuneConfig
from litebert.finetuning.results import scores_by_split
from litebert.models.model import Model

PIPELINES = {
    "classes": "text-classification",
    "choice": "multiple-choice",
    "token_classes": "token-classification",
    "span": "question-answering",
    "answerable_span": "question-answering",
}


def write_card(
    folder: Path, config: FinetuneConfig, model: Model, scores: Mapping[str, Any], num_questions: int
) -> None:
    """What the model is, what it was trained on and how, and how good it is."""
    kind = next(iter(model.head_configs))
    chosen = list_chosen(config, kind)
    start = "random weights" if config.scratch else f"`{'/'.join(Path(config.init).parts[-2:])}`"
    lines = [
        "---",
        "library_name: litebert",
        f"pipeline_tag: {PIPELINES[kind]}",
        "---",
        "",
        f"# {config.task}, fine-tuned from {start}",
        "",
        *describe_training(config, model, scores, num_questions, was_chosen="the step" in chosen),
        "",
        *list_scores(scores),
        "",
        "The scores are of this model alone."
        + (f" Those on dev are a little too high, since dev chose {' and '.join(chosen)}." if chosen else ""),
        "",
    ]
    write_file(folder / "README.md", "\n".join(lines).encode())


def list_chosen(config: FinetuneConfig, kind: str) -> list[str]:
    """What dev chose. What is evaluated at its end alone was chosen by nothing."""
    step = ["the step"] if config.loop.evaluate_every != 0 else []
    return step + (["the no-answer threshold"] if kind == "answerable_span" else [])


def describe_training(
    config: FinetuneConfig, model: Model, scores: Mapping[str, Any], num_questions: int, *, was_chosen: bool
) -> list[str]:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return [
        f"{parameters:,} parameters; {model.config.num_layers} layers, {model.config.hidden_size} wide, sharing "
        f"{model.config.sharing}.",
        f"Learned from {num_questions:,} samples, {scores['steps']:,} steps of {config.num_examples}, learning rate "
        f"{scores['learning_rate']:.3g}, length {config.limits.length}, seed {config.seed}"
        + (f"; the model of step {scores['step']:,} was best on dev, which chose it." if was_chosen else "."),
    ]


def list_scores(scores: Mapping[str, Any]) -> list[str]:
    rows = [
        f"| {split} | {name} | {value:.2f} |"
        for split, values in scores_by_split(scores).items()
        for name, value in values.items()
    ]
    return ["| split | score | value |", "|---|---|---|", *rows]
