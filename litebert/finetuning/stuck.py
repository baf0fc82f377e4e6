"""Runs that learn nothing: how it is seen, and how one is begun anew with a lower rate."""

import logging
import math
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from litebert.tasks.task import Example, Predictions, Question

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 4
ATTEMPT = ("checkpoints", "metrics.jsonl", "tensorboard", "model", "best.json", "stuck.json")
"""What belongs to one attempt at a run."""
BASE_HIDDEN_SIZE = 768
"""The width of ALBERT-base; models that are narrower are small."""


def describe_stuck(question: Question, examples: Sequence[Example], predictions: Predictions) -> str | None:
    """Says so if predictions are what one gives who has seen no example: always the same, or as good as chance."""
    if question.kind == "number":
        spread = float(np.std([prediction.answer for prediction in predictions.values()]))
        expected = float(np.std([example.gold for example in examples]))
        return "all dev examples are given nearly the same number" if spread < 0.01 * expected else None
    if question.kind == "choice":
        right = [predictions[example.id].answer == example.gold for example in examples]
        chance = 1 / question.num_choices
        error = math.sqrt(chance * (1 - chance) / len(right))
        share = sum(right) / len(right)
        return f"{share:.1%} of dev is right, and chance is {chance:.1%}" if share < chance + error else None
    given = list_answers(question, [prediction.answer for prediction in predictions.values()])
    wanted = list_answers(question, [example.gold for example in examples])
    (answer, count), *others = Counter(given).most_common()
    if others or len(set(wanted)) < 2:
        return None
    if question.kind == "classes":
        return f"all {count:,} dev examples are given the label {answer!r}"
    if question.kind == "labels":
        return f"all {count:,} dev examples are given the labels {', '.join(answer) or 'none'}"
    if question.kind == "token_classes":
        return f"all {count:,} words of dev are given the tag {answer!r}"
    return f"all {count:,} questions of dev are given {f'the answer {answer!r}' if answer else 'no answer'}"


def advise(hidden_size: int, *, retries: bool) -> str:
    """What to try next; a rate that is too high is what keeps large models from learning, not small ones."""
    if hidden_size < BASE_HIDDEN_SIZE:
        return "Try more steps, a better pre-trained model, or more examples to learn from."
    rest = "or more steps" if retries else "more steps, or --retry-if-stuck"
    return f"Try a lower learning rate (5e-6 helped large models), more warm-up steps, {rest}."


def list_answers(question: Question, answers: Sequence[Any]) -> Sequence[Any]:
    """What is to be told apart: a word's tag, not a sentence's."""
    return [tag for tags in answers for tag in tags] if question.kind == "token_classes" else answers


def lower_rate(learning_rate: float, num_stuck: int) -> float:
    """The rate of an attempt, after so many that were stuck."""
    return learning_rate / 3**num_stuck


def count_stuck(run: Path) -> int:
    return len(list(run.glob("stuck-*")))


def set_aside(run: Path) -> None:
    """Moves an attempt away that learned nothing; the next begins with a lower rate."""
    folder = run / f"stuck-{count_stuck(run) + 1}"
    unfinished = run / f".{folder.name}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that ended here; the attempt was made again since
    unfinished.mkdir()
    for name in ATTEMPT:
        if (run / name).exists():
            (run / name).rename(unfinished / name)
    unfinished.rename(folder)
    logger.warning("the attempt that learned nothing is in %s; trying again with a third of its learning rate", folder)
