"""What a benchmark is to the rest of the house.

A task reads examples from files, makes samples of them that a model can read, makes predictions of what the model said,
and scores those. It never sees a model: it says what is to be asked, and is given numbers.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from litebert.batch import Batch
from litebert.config import UserError, check_fields, require
from litebert.tasks.quotes import quote
from litebert.text.vocabulary import Vocabulary

Head = Literal["classes", "choice", "token_classes", "span", "answerable_span"]
Kind = Head | Literal["labels", "number"]
"""One of some classes, any number of labels, a number, one of some choices, a class for each token, or a span."""
SPAN_KINDS: frozenset[Kind] = frozenset({"span", "answerable_span"})
Ids = NDArray[np.int32]
SPLITS: Mapping[str, tuple[str, ...]] = {"train": ("train",), "dev": ("dev",), "test": ("test",)}
"""Of a task that has one of each."""
LENGTH_ADVICE = "a greater length, if the model has the positions, keeps them whole"


class Question(NamedTuple):
    """What is to be asked of a model about each sample."""

    kind: Kind
    labels: tuple[str, ...] = ()
    """Of classes or labels; none for a number, a choice or a span."""
    num_choices: int = 1
    """How many samples after one another are the options of one question."""

    @property
    def head(self) -> Head:
        """The kind of head that answers it."""
        return "classes" if self.kind == "labels" or self.kind == "number" else self.kind

    @property
    def num_classes(self) -> int:
        return len(self.labels) or 1


class Sample(NamedTuple):
    """One sequence: `[CLS] first [SEP] second [SEP]`, and what is to be found in it."""

    token_ids: Ids
    second: int
    """Where the second segment begins; the sequence's length if there is none."""
    example: int
    """The number of its example among those it was made of."""
    label: int | float | tuple[float, ...] | None = None
    """A class, a score, a 0 or 1 for each of several labels, or whether this is the right choice."""
    token_labels: Ids | None = None
    """A class for each token, or `litebert.batch.NO_LABEL`."""
    span: tuple[int, int] | None = None
    """The first and last token of the answer; 0 and 0 where it is not in this sample."""
    paragraph: tuple[int, int] | None = None
    """Where an answer may lie: from the first number up to but without the second."""
    word_starts: Ids | None = None
    """The first token of each word, where words are asked about."""


class Encoded(NamedTuple):
    """Examples as a model reads them; the samples of one example are neighbours."""

    samples: list[Sample]
    notes: list[str]
    """What a user should know: how many texts were cut, which answers were not found."""


class Beam(NamedTuple):
    """What an `answerable_span` question is answered with, for one sample: S starts, and for each as many ends."""

    starts_S: NDArray[np.int64]
    start_log_probs_S: NDArray[np.float32]
    ends_SS: NDArray[np.int64]
    end_log_probs_SS: NDArray[np.float32]
    unanswerable: float
    """The logit of there being no answer."""


class Candidate(NamedTuple):
    """A span that may be the answer."""

    text: str
    start: int
    """Its place in the paragraph, in characters."""
    end: int
    start_score: float
    """A logit, or a log-probability from a `Beam`."""
    end_score: float


class Prediction(NamedTuple):
    """What was made of one example."""

    answer: Any
    """A label, a number, a tuple of labels or of tags, the letter of an option, a text."""
    probabilities: tuple[float, ...] = ()
    """Of each label or option, in their order."""
    candidates: tuple[Candidate, ...] = ()
    """The best spans, best first."""
    no_answer: float = 0.0
    """How much speaks against there being an answer."""


Predictions = dict[str, Prediction]
"""By the examples' ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of an example a sequence may hold."""

    length: int = 128
    """The longest sequence, in tokens."""
    stride: int = 128
    """How many tokens apart the windows of a paragraph begin."""
    question_length: int = 64
    """The longest question about a paragraph, in tokens."""
    answer_length: int = 30
    """The longest answer, in tokens."""
    choice_length: int = 128
    """The longest question with one of its options, in tokens."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("length", "stride", "question_length", "answer_length", "choice_length"):
            least = 8 if name == "length" else 1
            require(getattr(self, name) >= least, f"{name} is {getattr(self, name)}; it must be at least {least}")


class Example(Protocol):
    """All that is known of every kind of example."""

    @property
    def id(self) -> str: ...

    @property
    def place(self) -> str:
        """Where it was found, to name it in messages: the file and the line."""
        ...

    @property
    def gold(self) -> Any:
        """What is right; None, or nothing, where that is not known."""
        ...

    def without_gold(self) -> Self:
        """The example as if it were not known what is right."""
        ...


class Task(Protocol):
    """A benchmark, or a kind of data of a user's own."""

    @property
    def name(self) -> str: ...

    @property
    def metric(self) -> str:
        """The score by which one model is better than another; more is better."""
        ...

    @property
    def splits(self) -> Mapping[str, tuple[str, ...]]:
        """What `train`, `dev` and `test` are made of: MNLI has two of the last two."""
        ...

    def read(self, data: str | Path, split: str) -> Sequence[Any]:
        """The examples of one split of a folder, or of a file that is named itself."""
        ...

    def is_labelled(self, examples: Sequence[Any]) -> bool:
        """Whether it is known what is right, so that they can be learned from and scored."""
        ...

    def known_question(self) -> Mapping[str, Any]:
        """What is known of the question before there are examples: some of its fields."""
        ...

    def ask(self, examples: Sequence[Any]) -> Question:
        """What is asked about examples like these, which are those to be trained on."""
        ...

    def with_labels(self, labels: tuple[str, ...]) -> "Task":
        """The task with the labels that a model knows, where it takes them from the data."""
        ...

    def encode(self, examples: Sequence[Any], vocabulary: Vocabulary, question: Question, limits: Limits) -> Encoded:
        """Labels that the question does not know are refused, with the example's place."""
        ...

    def decode(
        self, examples: Sequence[Any], samples: Sequence[Sample], outputs: Sequence[Any], question: Question,
        limits: Limits,
    ) -> Predictions:  # fmt: skip
        """Predictions from one output for each sample: an array of logits by class, a number, an array of logits by
        token and class, one by token and {start, end}, or a `Beam`, by the kind of question."""
        ...

    @property
    def has_unanswerable(self) -> bool:
        """Whether some examples have no answer, which a threshold decides."""
        ...

    def choose_threshold(self, examples: Sequence[Any], predictions: Predictions) -> float | None:
        """Above which `no_answer` there is none, as it is best for these examples; None where that is no question."""
        ...

    def decide(self, predictions: Predictions, threshold: float | None) -> Predictions:
        """Predictions whose `answer` heeds the threshold."""
        ...

    def score(self, examples: Sequence[Any], predictions: Predictions) -> dict[str, float]:
        """The official scores, from 0 to 100 where they are shares; examples without a prediction count as wrong."""
        ...

    def write_predictions(
        self, folder: Path, split: str, examples: Sequence[Any], predictions: Predictions
    ) -> list[Path]:
        """Writes files as the official tools do, and returns them; `read_predictions` reads the first of them."""
        ...

    def read_predictions(self, path: Path) -> Predictions:
        """Any system's predictions, from a file as the official tools have it, or from one of ours."""
        ...


class AlwaysAnswered:
    """What is the same for all tasks whose examples all have an answer."""

    __slots__ = ()

    @property
    def has_unanswerable(self) -> bool:
        return False

    def choose_threshold(self, examples: Sequence[Any], predictions: Predictions) -> float | None:
        return None

    def decide(self, predictions: Predictions, threshold: float | None) -> Predictions:
        return predictions


def check_ids(examples: Iterable[Example]) -> None:
    """Refuses two examples with one id: predictions could not be told apart."""
    places: dict[str, str] = {}
    for example in examples:
        before = places.get(example.id)
        require(before is None, f"{example.place}: its id {quote(example.id)} is also that of {before}; change one")
        places[example.id] = example.place


def check_predicted(examples: Sequence[Example], predictions: Predictions, *, at_least: int) -> None:
    """Refuses predictions that are of too few of these examples, as those of another split are."""
    missing = [example for example in examples if example.id not in predictions]
    if len(examples) - len(missing) < at_least:
        first = f"the first is {quote(missing[0].id)}, {missing[0].place}" if missing else "there are no examples"
        raise UserError(f"{len(missing)} of {len(examples)} examples have no prediction ({first}); predict this split")


def describe_balance(examples: Sequence[Example], question: Question) -> dict[str, int]:
    """How many examples have each label, or words each tag; nothing where there are none to tell apart."""
    counts: Counter[str] = Counter()
    for example in examples if question.labels else ():
        counts.update((example.gold,) if isinstance(example.gold, str) else example.gold or ())
    return {label: counts[label] for label in question.labels}


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logits as shares of one, along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def pack(samples: Sequence[Sample]) -> Batch:
    """Samples end to end, with what is to be found in them."""
    lengths = tuple(len(sample.token_ids) for sample in samples)
    token_ids = np.concatenate([sample.token_ids for sample in samples])
    segments = [np.arange(length) >= sample.second for sample, length in zip(samples, lengths, strict=True)]
    return Batch(
        lengths=lengths,
        token_ids_T=torch.from_numpy(token_ids.astype(np.int64)),
        segment_ids_T=torch.from_numpy(np.concatenate(segments).astype(np.int64)),
        labels_BX=pack_labels(samples),
        token_labels_T=pack_token_labels(samples),
        spans_BX=torch.tensor([s.span for s in samples]) if all(s.span is not None for s in samples) else None,
        allowed_T=pack_allowed(samples),
    )


def pack_labels(samples: Sequence[Sample]) -> Tensor | None:
    labels = [sample.label for sample in samples]
    if any(label is None for label in labels):
        return None
    return torch.tensor(labels, dtype=torch.long if isinstance(labels[0], int) else torch.float)


def pack_token_labels(samples: Sequence[Sample]) -> Tensor | None:
    labels = [sample.token_labels for sample in samples if sample.token_labels is not None]
    if len(labels) < len(samples):
        return None
    return torch.from_numpy(np.concatenate(labels).astype(np.int64))


def pack_allowed(samples: Sequence[Sample]) -> Tensor | None:
    """An answer lies in the paragraph, or at the first token where there is none."""
    allowed = []
    for sample in samples:
        if sample.paragraph is None:
            return None
        places = np.zeros(len(sample.token_ids), bool)
        places[0] = True
        places[slice(*sample.paragraph)] = True
        allowed.append(places)
    return torch.from_numpy(np.concatenate(allowed))


def join_segments(vocabulary: Vocabulary, first: Sequence[int], second: Sequence[int] | None) -> tuple[Ids, int]:
    """`[CLS] first [SEP]`, and `second [SEP]` after it if there is one, and where the second segment begins."""
    special = vocabulary.special
    parts = [[special.cls], first, [special.sep]]
    begin = len(first) + 2
    if second is not None:
        parts += [second, [special.sep]]
    return np.fromiter(itertools.chain.from_iterable(parts), np.int32), begin


def cut_pair(first: Sequence[int], second: Sequence[int], room: int) -> tuple[Sequence[int], Sequence[int]]:
    """The ends of the longer of two texts are left out until both fit, as in the released code."""
    excess = max(0, len(first) + len(second) - room)
    difference = len(first) - len(second)
    longer = min(excess, abs(difference))  # taken off the longer alone; the rest is taken off both by turns
    rest = excess - longer
    # By turns beginning with the second, as the released code pops from the second where both are equally long.
    off_first, off_second = rest // 2, rest - rest // 2
    if difference > 0:
        off_first += longer
    else:
        off_second += longer
    return first[: len(first) - off_first], second[: len(second) - off_second]
