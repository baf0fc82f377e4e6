"""Sentences in words, and a tag for each: names, parts of speech.

A word's first piece carries its tag and is asked for it. A sentence that is too long is read in parts that end with a
word, so that every word gets a tag.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from litebert.batch import NO_LABEL
from litebert.config import UserError, require
from litebert.tasks.classes import sort_names, unknown_label
from litebert.tasks.quotes import quote, quote_some
from litebert.tasks.records import parse_list, read_records, write_records
from litebert.tasks.scores import score_tags
from litebert.tasks.tables import read_lines
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
    join_segments,
)
from litebert.text.vocabulary import Vocabulary

DOCUMENT = "-DOCSTART-"


class TagExample(NamedTuple):
    """A sentence, and its tags unless they are kept secret."""

    id: str
    place: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None

    @property
    def gold(self) -> tuple[str, ...] | None:
        return self.tags

    def without_gold(self) -> Self:
        return self._replace(tags=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagTask(AlwaysAnswered):
    """A task of words and tags."""

    name: str
    metric: str
    read_split: Callable[[str | Path, str], Sequence[TagExample]]

    @property
    def splits(self) -> Mapping[str, tuple[str, ...]]:
        return SPLITS

    def read(self, data: str | Path, split: str) -> Sequence[TagExample]:
        examples = self.read_split(data, split)
        require(examples, f"{data} has no sentences of {split}; name other data")
        check_ids(examples)
        return examples

    def is_labelled(self, examples: Sequence[TagExample]) -> bool:
        return all(example.tags is not None for example in examples)

    def known_question(self) -> dict[str, Any]:
        return {"kind": "token_classes"}

    def ask(self, examples: Sequence[TagExample]) -> Question:
        labels = sort_names({tag for example in examples for tag in example.tags or ()})
        given = quote_some(labels) or "none"
        require(len(labels) >= 2, f"the examples' tags are {given}; give at least 2 to tell apart")
        return Question("token_classes", labels)

    def with_labels(self, labels: tuple[str, ...]) -> "TagTask":
        return self

    def encode(
        self, examples: Sequence[TagExample], vocabulary: Vocabulary, question: Question, limits: Limits
    ) -> Encoded:
        rows = vocabulary.encode_each([word for example in examples for word in example.words])
        classes = {label: number for number, label in enumerate(question.labels)}
        samples, num_parted = [], 0
        for number, example in enumerate(examples):
            words = [(next(rows).tolist() or [vocabulary.special.unknown])[: limits.length - 2] for _ in example.words]
            tags = find_classes(example, classes)
            parts = list(part_words(words, limits.length - 2))
            num_parted += len(parts) > 1
            samples += [make_sample(vocabulary, number, words[part], tags and tags[part]) for part in parts]
        share = f"{num_parted:,} of {len(examples):,} sentences"
        note = f"{share} have more than {limits.length} tokens and are read in parts; {LENGTH_ADVICE}"
        return Encoded(samples, [note] if num_parted else [])

    def decode(
        self, examples: Sequence[TagExample], samples: Sequence[Sample], outputs: Sequence[Any], question: Question,
        limits: Limits,
    ) -> Predictions:  # fmt: skip
        tags: dict[int, list[str]] = {}
        for sample, logits_LC in zip(samples, outputs, strict=True):
            assert sample.word_starts is not None
            best = np.asarray(logits_LC)[sample.word_starts].argmax(1)
            tags.setdefault(sample.example, []).extend(question.labels[number] for number in best)
        return {examples[number].id: Prediction(tuple(found)) for number, found in tags.items()}

    def score(self, examples: Sequence[TagExample], predictions: Predictions) -> dict[str, float]:
        check_predicted(examples, predictions, at_least=1)
        gold = []
        for example in examples:
            if example.tags is None:
                raise UserError(f"{example.place}: there are no tags to score by; score tagged sentences")
            gold.append(example.tags)
        check_numbers(examples, predictions)
        never = Prediction(None)
        scores = score_tags(gold, [predictions.get(example.id, never).answer for example in examples])
        # Where neither side marks a span there is no score of spans, but models are compared by one.
        return {self.metric: 0.0} | scores

    def write_predictions(
        self, folder: Path, split: str, examples: Sequence[TagExample], predictions: Predictions
    ) -> list[Path]:
        return [write_records(folder, self.name, split, examples, predictions)]

    def read_predictions(self, path: Path) -> Predictions:
        """From JSON lines as we write them, a table with the columns index and prediction, or a JSON object by id; tags
        are lists, or separated by spaces."""
        predictions: Predictions = {}
        for place, id_, answer, _ in read_records(path):
            predictions[id_] = Prediction(split_words(place, answer))
        return predictions


def find_classes(example: TagExample, classes: Mapping[str, int]) -> list[int] | None:
    """The class of each word; None where tags are secret."""
    if example.tags is None:
        return None
    for tag in example.tags:
        if tag not in classes:
            raise UserError(f"{example.place}: {unknown_label(tag, list(classes))}")
    return [classes[tag] for tag in example.tags]


def part_words(words: Sequence[Sequence[int]], room: int) -> Iterator[slice]:
    """Runs of words that fit into one sample, as long as may be; none overlap."""
    start = size = 0
    for number, word in enumerate(words):
        if size + len(word) > room:
            yield slice(start, number)
            start, size = number, 0
        size += len(word)
    yield slice(start, len(words))


def make_sample(
    vocabulary: Vocabulary, number: int, words: Sequence[Sequence[int]], tags: Sequence[int] | None
) -> Sample:
    pieces = [piece for word in words for piece in word]
    token_ids, second = join_segments(vocabulary, pieces, None)
    sizes = np.fromiter(map(len, words), np.int32, len(words))
    word_starts = 1 + np.cumsum(sizes, dtype=np.int32) - sizes
    labels = None
    if tags is not None:
        labels = np.full(len(token_ids), NO_LABEL, np.int32)
        labels[word_starts] = tags
    return Sample(token_ids, second, number, token_labels=labels, word_starts=word_starts)


def check_numbers(examples: Sequence[TagExample], predictions: Predictions) -> None:
    for example in examples:
        found = predictions.get(example.id)
        if found is not None and len(found.answer) != len(example.words):
            sizes = f"{len(found.answer)} tags were predicted for {len(example.words)} words"
            raise UserError(f"{example.place}: {sizes}; predict this very split")


def split_words(place: str, value: Any) -> tuple[str, ...]:
    """The words or tags of a sentence: a list, one written as JSON, or what spaces separate."""
    if isinstance(value, str):
        found = parse_list(value)
        value = found if are_strings(found) else value.split()
    require(are_strings(value), f"{place}: {quote(value)} is no list of strings; write one, or a string with spaces")
    require(value and all(word.strip() for word in value), f"{place}: there is an empty word or tag, or none at all")
    return tuple(value)


def are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def read_conll(path: str | Path) -> list[TagExample]:
    """Sentences with a word on each line and a blank line between them: the first column is the word, the last its tag.
    Columns are set apart by tabs or spaces; where there is only one, the tags are secret."""
    lines = ((number, split_columns(line)) for number, line in read_lines(path))
    lines = ((number, [] if cells[:1] == [DOCUMENT] else cells) for number, cells in lines)
    sentences = [list(group) for filled, group in groupby(lines, lambda line: bool(line[1])) if filled]
    require(sentences, f"{path} has no sentences; fill it or name another")
    width = len(sentences[0][0][1])
    return [make_sentence(path, number, sentence, width) for number, sentence in enumerate(sentences)]


def split_columns(line: str) -> list[str]:
    if not line.strip(" \t"):
        return []
    return line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]


def make_sentence(path: str | Path, number: int, lines: Iterable[tuple[int, list[str]]], width: int) -> TagExample:
    lines = list(lines)
    for line, cells in lines:
        fits = len(cells) == width and cells[0] and cells[-1]
        require(fits, f"{path}, line {line}: {len(cells)} columns where others have {width}, or an empty one; mend it")
    words = tuple(cells[0] for _, cells in lines)
    tags = tuple(cells[-1] for _, cells in lines) if width > 1 else None
    return TagExample(str(number), f"{path}, line {lines[0][0]}", words, tags)
