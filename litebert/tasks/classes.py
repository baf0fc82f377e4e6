"""One or two texts, and what is to be said of them: one label, a number, or several labels.

GLUE, ChnSentiCorp and a user's own tables differ in how they are read and scored, and in nothing else: `ClassTask` is
given functions for both, and does the rest.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from litebert.config import UserError, require
from litebert.tasks.quotes import quote, quote_some
from litebert.tasks.records import parse_number, read_records, split_labels, write_records
from litebert.tasks.task import (
    LENGTH_ADVICE,
    SPLITS,
    AlwaysAnswered,
    Encoded,
    Limits,
    Prediction,
    Predictions,
    Question,
    Sample,
    check_ids,
    check_predicted,
    cut_pair,
    join_segments,
    softmax,
)
from litebert.text.vocabulary import Vocabulary

Label = str | float | tuple[str, ...] | None
Score = Callable[[Sequence[Any], Sequence[Any], tuple[str, ...]], dict[str, float]]
"""From what is right and what was predicted, in the same order, and the task's labels; none where it has none, or does
not know them."""

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


class TextExample(NamedTuple):
    """One or two texts with their label, their number, their several labels, or nothing where that is kept secret."""

    id: str
    place: str
    first: str
    second: str | None = None
    label: Label = None

    @property
    def gold(self) -> Label:
        return self.label

    def without_gold(self) -> Self:
        return self._replace(label=None)


class Examples(list[TextExample]):
    """Examples, and what a user should know of how they were read."""

    def __init__(self, examples: Iterable[TextExample] = (), notes: Iterable[str] = ()) -> None:
        super().__init__(examples)
        self.notes = tuple(notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTask(AlwaysAnswered):
    """A task of texts and labels; `read_split` and `compare` say how this one is read and scored."""

    name: str
    metric: str
    read_split: Callable[[str | Path, str], Sequence[TextExample]]
    compare: Score
    kind: Literal["classes", "labels", "number"] = "classes"
    has_second: bool = False
    """Whether its examples have two texts."""
    separator: str = "|"
    """Between several labels in a cell of a table."""
    labels: tuple[str, ...] | None = None
    """None if they are those that the examples have."""
    splits: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=lambda: SPLITS)
    publish: Callable[[Path, str, Sequence[TextExample], Predictions], list[Path]] | None = None
    """Writes the files that a leaderboard takes."""

    def read(self, data: str | Path, split: str) -> Sequence[TextExample]:
        examples = self.read_split(data, split)
        require(examples, f"{data} has no examples of {split}; name other data")
        check_ids(examples)
        return examples

    def is_labelled(self, examples: Sequence[TextExample]) -> bool:
        return all(example.label is not None for example in examples)

    def known_question(self) -> dict[str, Any]:
        return {"kind": self.kind} | ({} if self.labels is None else {"labels": self.labels})

    def ask(self, examples: Sequence[TextExample]) -> Question:
        if self.kind == "number":
            return Question("number")
        labels = sort_labels(examples) if self.labels is None else self.labels
        least = 1 if self.kind == "labels" else 2
        given = quote_some(labels) or "none"
        require(len(labels) >= least, f"the examples' labels are {given}; give at least {least} to tell apart")
        return Question(self.kind, labels)

    def with_labels(self, labels: tuple[str, ...]) -> "ClassTask":
        """Written predictions can name them then."""
        return dataclasses.replace(self, labels=labels) if labels else self

    def encode(
        self, examples: Sequence[TextExample], vocabulary: Vocabulary, question: Question, limits: Limits
    ) -> Encoded:
        check_labelled(examples)
        firsts = vocabulary.encode_each([example.first for example in examples])
        seconds = vocabulary.encode_each([example.second for example in examples if example.second is not None])
        samples, num_cut = [], 0
        for number, (example, ids) in enumerate(zip(examples, firsts, strict=True)):
            first, second = ids.tolist(), None if example.second is None else next(seconds).tolist()
            kept = cut(first, second, limits.length)
            num_cut += kept != (first, second)
            token_ids, begin = join_segments(vocabulary, *kept)
            samples.append(Sample(token_ids, begin, number, find_label(example, question)))
        return Encoded(samples, [*getattr(examples, "notes", ()), *describe_cuts(num_cut, len(examples), limits)])

    def decode(
        self, examples: Sequence[TextExample], samples: Sequence[Sample], outputs: Sequence[Any], question: Question,
        limits: Limits,
    ) -> Predictions:  # fmt: skip
        ids = [examples[sample.example].id for sample in samples]
        return {id_: predict(np.asarray(output, float), question) for id_, output in zip(ids, outputs, strict=True)}

    def score(self, examples: Sequence[TextExample], predictions: Predictions) -> dict[str, float]:
        """As the protocol says; but a missing number is refused, since no number is simply wrong."""
        check_predicted(examples, predictions, at_least=len(examples) if self.kind == "number" else 1)
        for example in examples:
            require(
                example.label is not None, f"{example.place}: there is no label to score by; score labelled examples"
            )
        never = Prediction(None)
        answers = [predictions.get(example.id, never).answer for example in examples]
        return self.compare([example.label for example in examples], answers, self.labels or ())

    def write_predictions(
        self, folder: Path, split: str, examples: Sequence[TextExample], predictions: Predictions
    ) -> list[Path]:
        """Ours, with the probabilities, and then what the leaderboard takes."""
        ours = write_records(folder, self.name, split, examples, predictions, self.labels)
        return [ours, *(self.publish(folder, split, examples, predictions) if self.publish else [])]

    def read_predictions(self, path: Path) -> Predictions:
        """From JSON lines as we write them, a table with the columns index and prediction, or a JSON object by id."""
        predictions: Predictions = {}
        for place, id_, answer, probabilities in read_records(path):
            predictions[id_] = Prediction(self.parse_answer(place, answer), self.order(place, probabilities))
        return predictions

    def parse_answer(self, place: str, answer: Any) -> Any:
        if self.kind == "number":
            return parse_number(place, answer)
        if self.kind == "labels":
            answer = split_labels(answer, self.separator)
        answers = [parse_label(place, label) for label in (answer if self.kind == "labels" else [answer])]
        for label in answers:
            if self.labels and label not in self.labels:
                raise UserError(f"{place}: {unknown_label(label, self.labels)}")
        return tuple(answers) if self.kind == "labels" else answers[0]

    def order(self, place: str, probabilities: Any) -> tuple[float, ...]:
        """Probabilities in the order of the labels."""
        if isinstance(probabilities, dict):
            labels = self.labels or tuple(probabilities)
            same = sorted(labels) == sorted(probabilities)
            given, known = quote_some(probabilities), quote_some(labels)
            require(same, f"{place}: the probabilities are of {given}, not of {known}")
            probabilities = [probabilities[label] for label in labels]
        require(isinstance(probabilities, list), f"{place}: the probabilities must be a number for each label")
        return tuple(parse_number(place, number) for number in probabilities)


def check_labelled(examples: Sequence[TextExample]) -> None:
    """All examples have a label or none has: half of a split is a mistake."""
    without = [example for example in examples if example.label is None]
    if 0 < len(without) < len(examples):
        raise UserError(f"{without[0].place}: there is no label, though others have one; give it one")


def sort_labels(examples: Sequence[TextExample]) -> tuple[str, ...]:
    """The labels that examples have, in the order of numbers if they are numbers."""
    found: set[str] = set()
    for example in examples:
        if example.label is not None:
            found.update(example.label if isinstance(example.label, tuple) else [str(example.label)])
    return sort_names(found)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    ordered = sorted(names)
    return tuple(sorted(ordered, key=float) if all(map(NUMBER.fullmatch, ordered)) else ordered)


def cut(first: Sequence[int], second: Sequence[int] | None, length: int) -> tuple[Sequence[int], Sequence[int] | None]:
    """As much of a text, or of two, as has room beside the marks."""
    return (first[: length - 2], None) if second is None else cut_pair(first, second, length - 3)


def describe_cuts(num_cut: int, num_texts: int, limits: Limits) -> list[str]:
    share = f"{num_cut:,} of {num_texts:,} examples"
    return [f"{share} were cut to {limits.length} tokens; {LENGTH_ADVICE}"] if num_cut else []


def find_label(example: TextExample, question: Question) -> int | float | tuple[float, ...] | None:
    """An example's label as a model learns it."""
    label = example.label
    if label is None or isinstance(label, float):
        return label
    for name in label if isinstance(label, tuple) else (label,):
        if name not in question.labels:
            raise UserError(f"{example.place}: {unknown_label(name, question.labels)}")
    if isinstance(label, tuple):
        return tuple(float(name in label) for name in question.labels)
    return question.labels.index(label)


def unknown_label(label: str, known: Sequence[str]) -> str:
    return f"the label {quote(label)} is not one of those known ({quote_some(known)}); correct it"


def predict(output: NDArray[np.float64], question: Question) -> Prediction:
    """What logits or a number say of one example."""
    if question.kind == "number":
        return Prediction(output.item())
    if question.kind == "labels":
        chosen = tuple(label for label, logit in zip(question.labels, output, strict=True) if logit > 0)
        return Prediction(chosen, tuple((0.5 + 0.5 * np.tanh(0.5 * output)).tolist()))
    return Prediction(question.labels[output.argmax()], tuple(softmax(output).tolist()))


def parse_label(place: str, value: Any) -> str:
    """A label as a string; JSON may have it as a number or as true and false."""
    is_plain = isinstance(value, str | int | float) or value is None
    require(
        is_plain, f"{place}: the label is {quote(value)}; write a string, or name the column as one of several labels"
    )
    label = "" if value is None else value.strip() if isinstance(value, str) else json.dumps(value)
    require(label, f"{place}: the label is empty; fill it or leave the row out")
    return label
