"""What one reaches who has read no text: the label that is most frequent in training, for every example."""

from collections.abc import Mapping, Sequence
from typing import Any

from litebert.tasks.task import Prediction, Predictions, Question


def predict_majority(question: Question, balance: Mapping[str, int], examples: Sequence[Any]) -> Predictions:
    """By how many examples to learn from have each label; nothing where one label is no answer to the question."""
    if question.kind not in ("classes", "token_classes"):
        return {}
    label = max(balance, key=balance.__getitem__)
    if question.kind == "classes":
        return {example.id: Prediction(label) for example in examples}
    return {example.id: Prediction((label,) * len(example.words)) for example in examples}
