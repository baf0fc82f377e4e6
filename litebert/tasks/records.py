"""Predictions of any system as a file: a record for each, with its id, its answer, and maybe probabilities."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from litebert.config import UserError, require
from litebert.files import write_file
from litebert.tasks.quotes import quote
from litebert.tasks.tables import read_json, read_table
from litebert.tasks.task import Example, Prediction, Predictions, check_predicted
from litebert.text.formats import split_suffix

OWN = ("text", "tags")
"""The tasks that are a user's own data; their names would tell nobody what was predicted."""


def read_records(path: Path) -> Iterator[tuple[str, str, Any, Any]]:
    """The place, the id, the answer and the probabilities of each prediction of a file; there is one for each id."""
    if split_suffix(str(path))[0] == ".json":
        for id_, answer in read_by_id(path).items():
            yield f"{path}, {quote(id_)}", id_, answer, []
        return
    known: set[str] = set()
    for row in read_table(path):
        id_ = str(row.pick("index" if "index" in row.cells else "id"))
        require(id_ not in known, f"{row.place}: the id {quote(id_)} is there twice; leave one prediction of each")
        known.add(id_)
        yield row.place, id_, row.pick("prediction"), row.cells.get("probabilities", [])


def read_by_id(path: Path) -> dict[str, Any]:
    """A JSON object with an entry for each id."""
    content = read_json(path)
    require(isinstance(content, dict), f"{path}: a JSON {type(content).__name__}, not an object of answers by id")
    return content


def write_records(
    folder: Path,
    task: str,
    split: str,
    examples: Sequence[Example],
    predictions: Predictions,
    labels: Sequence[str] | None = None,
) -> Path:
    """A prediction of each example as JSON lines, which `read_records` reads; probabilities by their labels, if any."""
    check_predicted(examples, predictions, at_least=len(examples))
    path = folder / (f"{split}-predictions.jsonl" if task in OWN else f"{task}-{split}.jsonl")
    records = (make_record(example.id, predictions[example.id], labels) for example in examples)
    write_file(path, "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records).encode())
    return path


def make_record(id_: str, prediction: Prediction, labels: Sequence[str] | None) -> dict[str, Any]:
    record: dict[str, Any] = {"id": id_, "prediction": prediction.answer}
    if numbers := prediction.probabilities:
        record["probabilities"] = dict(zip(labels, numbers, strict=True)) if labels else numbers
    return record


def parse_number(place: str, value: Any) -> float:
    """A number from a cell of a table; one that is none, or has no end, is refused."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{place}: {quote(value)} is no number; correct it")
    return number


def split_labels(value: Any, separator: str) -> list[Any]:
    """Several labels from a cell of a table, where they are a JSON list or stand between separators, or from JSON."""
    if isinstance(value, str):
        found = parse_list(value)
        return (value.split(separator) if value.strip() else []) if found is None else found
    return value if isinstance(value, list) else [] if value is None else [value]


def parse_list(text: str) -> list[Any] | None:
    """A list that is written as JSON; a plain text may begin with a bracket too, and is none."""
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None
