"""A user's own data: tables whose columns are named, or sentences with a tag for each word.

`make_task` turns the names of the columns into a task. What a split is made of lies in a folder, as train, dev and test
with any known suffix, or is one file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from litebert.config import check_fields, require
from litebert.tasks.classes import ClassTask, Examples, Label, Score, TextExample, parse_label, sort_names
from litebert.tasks.quotes import quote
from litebert.tasks.records import parse_number, split_labels
from litebert.tasks.scores import (
    accuracy,
    f1,
    macro_f1,
    marks_spans,
    pearson,
    root_mean_squared_error,
    score_label_sets,
    spearman,
)
from litebert.tasks.tables import FORMATS, Row, find_split, read_table
from litebert.tasks.tags import TagExample, TagTask, read_conll, split_words
from litebert.text.formats import split_suffix

Kind = Literal["label", "score", "labels", "tags"]
KINDS: tuple[Kind, ...] = ("label", "score", "labels", "tags")
FILES = {"train": ("train",), "dev": ("dev", "validation", "valid"), "test": ("test",)}
CONLL = (".conll", ".bio", ".txt")
LEAST_CHECKED = 20
"""Of fewer examples, most may rightly have a label of their own."""
MOST_DISTINCT = 0.9
"""Labels for each example: few-shot data may have many."""
TAGGED = tuple(dict.fromkeys((*FORMATS, *CONLL)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumns:
    """The columns of your own data: one or two texts, and what is to be predicted: a label, score, labels or tags."""

    first: str = "text"
    """The column of the text, or of the first of two."""
    second: str | None = None
    """The column of the second text, where a question is about two."""
    label: str | None = None
    """The column of a class. If none of the four is given, it is the column named label."""
    score: str | None = None
    """The column of a number."""
    labels: str | None = None
    """The column of any number of classes, as a list or with separators; a cell may be empty."""
    tags: str | None = None
    """The column of a tag for each word; the words are in `first`, and both are lists or separated by spaces."""
    separator: str = "|"
    """What stands between several labels in one cell."""

    def __post_init__(self) -> None:
        check_fields(self)
        given = [kind for kind in KINDS if getattr(self, kind)]
        require(len(given) < 2, f"the columns {' and '.join(given)} are both given; give only one of them")
        require(self.first and self.separator, "the column of the text and the separator must not be empty; name them")
        require(
            not (self.tags and self.second),
            f"second is {self.second!r}; tags are for the words of one text: leave it out",
        )

    @property
    def kind(self) -> Kind:
        return next((kind for kind in KINDS if getattr(self, kind)), "label")

    @property
    def target(self) -> str:
        return getattr(self, self.kind) or "label"


def make_task(columns: TextColumns, data: str | Path) -> ClassTask | TagTask:
    """The task that columns describe; the data, if there are any, say by which score models that tag words are best
    compared."""
    if columns.kind == "tags":
        metric = "f1" if data and marks_spans(find_tags(columns, data)) else "accuracy"
        return TagTask(name="tags", metric=metric, read_split=partial(read_tagged, columns))
    metric, compare, kind = SCORES[columns.kind]
    return ClassTask(
        name="text",
        metric=metric,
        read_split=partial(read_texts, columns),
        compare=compare,
        kind=kind,
        has_second=bool(columns.second),
        separator=columns.separator,
    )


def find_tags(columns: TextColumns, data: str | Path) -> Iterator[str]:
    """The tags of the first split that is there, if it has some."""
    names = [name for names in FILES.values() for name in names]
    path = find_split(data, *names, suffixes=TAGGED)
    yield from (tag for example in read_tagged(columns, path, "test") for tag in example.tags or ())


def read_texts(columns: TextColumns, data: str | Path, split: str) -> Examples:
    path = find_split(data, *find_names(split))
    examples = Examples(make_example(columns, row, number, split) for number, row in enumerate(read_table(path)))
    if split == "train" and columns.kind == "label":
        check_repeated(path, columns.target, [example.label for example in examples])
    return examples


def check_repeated(path: str, column: str, labels: Sequence[Label]) -> None:
    """Refuses a column of texts or numbers that was named as that of the label: labels come again and again."""
    num_labels = len(set(labels))
    require(
        len(labels) < LEAST_CHECKED or num_labels <= MOST_DISTINCT * len(labels),
        f"{path}: the column {column} has {num_labels:,} different labels in {len(labels):,} examples; name the column "
        "of the label, or the column as score if it holds numbers",
    )


def find_names(split: str) -> tuple[str, ...]:
    require(split in FILES, f"there is no split {split!r}; name one of {', '.join(FILES)}")
    return FILES[split]


def make_example(columns: TextColumns, row: Row, number: int, split: str) -> TextExample:
    first = parse_text(row, columns.first)
    second = parse_text(row, columns.second) if columns.second else None
    hidden = split == "test" and is_blank(columns, row)
    return TextExample(str(number), row.place, first, second, None if hidden else parse_target(columns, row))


def is_blank(columns: TextColumns, row: Row) -> bool:
    """Whether the target is missing. An empty cell is missing too, except for `labels`, where it means none."""
    value = row.cells.get(columns.target)
    return columns.target not in row.cells or (columns.kind != "labels" and (value is None or value == ""))


def parse_text(row: Row, column: str) -> str:
    text = row.pick(column)
    require(isinstance(text, str), f"{row.place}: {column!r} is {quote(text)}, not a string; correct it")
    require(text.strip(), f"{row.place}: {column!r} is empty; fill it or leave the row out")
    return text


def parse_target(columns: TextColumns, row: Row) -> Label:
    value = row.pick(columns.target)
    if columns.kind == "score":
        return parse_number(row.place, value)
    if columns.kind == "labels":
        return tuple(dict.fromkeys(parse_label(row.place, name) for name in split_labels(value, columns.separator)))
    return parse_label(row.place, value)


def read_tagged(columns: TextColumns, data: str | Path, split: str) -> list[TagExample]:
    path = find_split(data, *find_names(split), suffixes=TAGGED)
    if split_suffix(path)[0] in CONLL:
        return read_conll(path)
    return [make_sentence(columns, row, number, split) for number, row in enumerate(read_table(path))]


def make_sentence(columns: TextColumns, row: Row, number: int, split: str) -> TagExample:
    words = split_words(row.place, row.pick(columns.first))
    if split == "test" and is_blank(columns, row):
        return TagExample(str(number), row.place, words)
    tags = split_words(row.place, row.pick(columns.target))
    same = len(words) == len(tags)
    require(same, f"{row.place}: there are {len(words)} words but {len(tags)} tags; give one to each")
    return TagExample(str(number), row.place, words, tags)


def score_labels(gold: Sequence[str], predicted: Sequence[str | None], labels: tuple[str, ...]) -> dict[str, float]:
    """Of two classes, the one that is sought is the second: 1 of 0 and 1, yes of no and yes.

    Where the task does not know its labels, they are those that occur: these examples alone may lack some.
    """
    scores = {"accuracy": accuracy(gold, predicted), "macro_f1": macro_f1(gold, predicted)}
    labels = labels or sort_names({*gold, *filter(None, predicted)})
    return scores | ({"f1": f1(gold, predicted, labels[1])} if len(labels) == 2 else {})


def score_sets(
    gold: Sequence[tuple[str, ...]], predicted: Sequence[tuple[str, ...] | None], labels: tuple[str, ...]
) -> dict[str, float]:
    return score_label_sets(gold, predicted)


def score_numbers(gold: Sequence[float], predicted: Sequence[float], labels: tuple[str, ...]) -> dict[str, float]:
    return {
        "pearson": pearson(gold, predicted),
        "spearman": spearman(gold, predicted),
        "rmse": root_mean_squared_error(gold, predicted),
    }


# The score that models are chosen by, all scores, and what is predicted, by the kind of column.
SCORES: dict[Kind, tuple[str, Score, Literal["classes", "labels", "number"]]] = {
    "label": ("accuracy", score_labels, "classes"),
    "score": ("pearson", score_numbers, "number"),
    "labels": ("micro_f1", score_sets, "labels"),
}
