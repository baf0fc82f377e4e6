"""What one reaches who has read no text: the label that most examples of a split have, for all of them."""

from collections.abc import Sequence
from typing import Any

from litebert.tasks.task import Prediction, Predictions, Question, describe_balance


def predict_majority(question: Question, examples: Sequence[Any]) -> Predictions:
    """For examples whose labels are known; nothing where one label is no answer to the question.

    The label that is most frequent in training would score less wherever the split is balanced otherwise.
    """
    if question.kind not in ("classes", "token_classes"):
        return {}
    balance = describe_balance(examples, question)
    label = max(balance, key=balance.__getitem__)
    if question.kind == "classes":
        return {example.id: Prediction(label) for example in examples}
    return {example.id: Prediction((label,) * len(example.words)) for example in examples}
