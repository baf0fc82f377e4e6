"""GLUE: nine tasks and the diagnostic set, from the official folders or from the hub.

The columns, the order of the labels and the scores are those of ALBERT's released code. Predictions for the tests are
written as the leaderboard takes them: one table for each test, all in one archive.
"""

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from litebert.config import UserError, require
from litebert.files import write_file
from litebert.tasks.classes import ClassTask, Examples, Label, Score, TextExample, unknown_label
from litebert.tasks.records import parse_number
from litebert.tasks.scores import accuracy, f1, matthews, pearson, spearman
from litebert.tasks.tables import Row, find_split, read_table
from litebert.tasks.task import SPLITS, Predictions
from litebert.text.formats import HUB, import_datasets

HUB_NAME = "nyu-mll/glue"
HUB_SPLITS = {"dev": "validation", "dev_matched": "validation_matched", "dev_mismatched": "validation_mismatched"}
TWO_TESTS = {"train": ("train",), "dev": ("dev_matched", "dev_mismatched"), "test": ("test_matched", "test_mismatched")}
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("contradiction", "entailment", "neutral")
BINARY = ("0", "1")
ARCHIVE = "glue-submission.zip"


class Layout(NamedTuple):
    """Where a task's texts and labels are, by the names of their columns."""

    folder: str
    texts: tuple[str, ...]
    label: str
    hub_texts: tuple[str, ...]
    labels: tuple[str, ...] | None = BINARY
    """None for a number."""
    header: tuple[str, ...] | None = None
    """The columns of the training and dev files, where no line of these names them."""
    splits: Mapping[str, tuple[str, ...]] = SPLITS
    files: Mapping[str, str] = {}
    """What a split's file is called, if not by the split."""
    other_names: Mapping[str, str] = {}
    """Those of a file that calls these columns otherwise."""
    short_rows: bool = False
    """Whether rows with too few cells are left out, and not refused."""


LAYOUTS = {
    "cola": Layout("CoLA", ("sentence",), "label", ("sentence",), header=("source", "label", "mark", "sentence")),
    "sst2": Layout("SST-2", ("sentence",), "label", ("sentence",)),
    "mrpc": Layout("MRPC", ("#1 String", "#2 String"), "Quality", ("sentence1", "sentence2")),
    "stsb": Layout("STS-B", ("sentence1", "sentence2"), "score", ("sentence1", "sentence2"), labels=None),
    "qqp": Layout("QQP", ("question1", "question2"), "is_duplicate", ("question1", "question2"), short_rows=True),
    "mnli": Layout(
        "MNLI", ("sentence1", "sentence2"), "gold_label", ("premise", "hypothesis"), INFERENCE, splits=TWO_TESTS
    ),
    "qnli": Layout("QNLI", ("question", "sentence"), "label", ("question", "sentence"), ENTAILMENT),
    "rte": Layout("RTE", ("sentence1", "sentence2"), "label", ("sentence1", "sentence2"), ENTAILMENT),
    "wnli": Layout("WNLI", ("sentence1", "sentence2"), "label", ("sentence1", "sentence2")),
    "ax": Layout(
        "diagnostic",
        ("sentence1", "sentence2"),
        "label",
        ("premise", "hypothesis"),
        INFERENCE,
        splits={"train": (), "dev": (), "test": ("test",)},
        files={"test": "diagnostic"},
        # diagnostic-full.tsv, the only one with labels
        other_names={"Premise": "sentence1", "Hypothesis": "sentence2", "Label": "label"},
    ),
}

SUBMISSION = {
    ("cola", "test"): "CoLA.tsv",
    ("sst2", "test"): "SST-2.tsv",
    ("mrpc", "test"): "MRPC.tsv",
    ("stsb", "test"): "STS-B.tsv",
    ("qqp", "test"): "QQP.tsv",
    ("mnli", "test_matched"): "MNLI-m.tsv",
    ("mnli", "test_mismatched"): "MNLI-mm.tsv",
    ("qnli", "test"): "QNLI.tsv",
    ("rte", "test"): "RTE.tsv",
    ("wnli", "test"): "WNLI.tsv",
    ("ax", "test"): "AX.tsv",
}
"""The file of each test that the leaderboard takes; it takes no fewer than all of them."""


def read_split(name: str, data: str | Path, split: str) -> Examples:
    """The examples of a split, from a task's own folder, the one that holds those of all, a file, or the hub."""
    layout = LAYOUTS[name]
    known = [part for parts in layout.splits.values() for part in parts]
    require(split in known, f"{name} has no split {split!r}; name one of {', '.join(known)}")
    if str(data).startswith(HUB):
        return Examples(read_hub(name, str(data), split))
    file = layout.files.get(split, split)
    return read_file(layout, find_split(data, f"{layout.folder}/{file}", file, suffixes=(".tsv",)), split)


def read_file(layout: Layout, path: str, split: str) -> Examples:
    is_test = split.startswith("test")
    examples, num_short = Examples(), 0
    for number, row in enumerate(read_table(path, None if is_test else layout.header, allow_short=layout.short_rows)):
        if None in row.cells.values():
            num_short += 1
        else:
            examples.append(make_example(layout, row, number, is_test))
    if num_short:
        examples.notes = (f"{path}: {num_short:,} rows have too few cells and were left out",)
    return examples


def make_example(layout: Layout, row: Row, number: int, is_test: bool) -> TextExample:
    """Examples go by the number of their row, but those of a test by the number that the leaderboard has for them."""
    if layout.other_names:
        row = Row(row.place, {layout.other_names.get(name, name): cell for name, cell in row.cells.items()})
    index = row.cells.get("index", row.cells.get("id", number)) if is_test else number
    hidden = is_test and layout.label not in row.cells
    label = None if hidden else parse_label(layout.labels, row.place, row.pick(layout.label))
    first, second = (*map(row.pick, layout.texts), None)[:2]
    return TextExample(str(index), row.place, first, second, label)


def parse_label(labels: tuple[str, ...] | None, place: str, value: Any) -> Label:
    if labels is None:
        return parse_number(place, value)
    if value not in labels:
        raise UserError(f"{place}: {unknown_label(value, labels)}")
    return value


def read_hub(name: str, data: str, split: str) -> Iterator[TextExample]:
    """The rows of a dataset of the hub that is laid out as `nyu-mll/glue` is."""
    layout, dataset = LAYOUTS[name], data.removeprefix(HUB) or HUB_NAME
    place = f"{HUB}{dataset}:{name}:{split}"
    load_dataset = import_datasets(place).load_dataset
    try:
        rows = load_dataset(dataset, name, split=HUB_SPLITS.get(split, split))
        features = rows.features["label"]
        records = list(rows)
    except Exception as error:  # datasets, the hub and the network have no error in common
        raise UserError(f"{place} cannot be read ({error}); check its name and your access to it") from None
    classes = name_classes(layout, place, getattr(features, "names", None))
    for number, record in enumerate(records):
        row = Row(f"{place}, row {number + 1}", record)
        first, second = (*map(row.pick, layout.hub_texts), None)[:2]
        index = record.get("idx", number) if split.startswith("test") else number
        yield TextExample(str(index), row.place, first, second, parse_hub_label(classes, row))


def name_classes(layout: Layout, place: str, names: Sequence[str] | None) -> Sequence[str] | None:
    """What each of the hub's numbers stands for: it has classes in another order than the benchmark, and names for
    those that the benchmark numbers."""
    if layout.labels is None or layout.labels == BINARY:
        return layout.labels
    same = names is not None and set(names) == set(layout.labels)
    require(same, f"{place} has the classes {names}, not {list(layout.labels)}; name a dataset that has these")
    return names


def parse_hub_label(classes: Sequence[str] | None, row: Row) -> Label:
    """A label of -1 is one that is kept secret."""
    value = parse_number(row.place, row.pick("label"))
    if value == -1:
        return None
    if classes is None:
        return value
    require(value in range(len(classes)), f"{row.place}: the label {value:g} is not one of {len(classes)} classes")
    return classes[int(value)]


def write_submission(
    name: str, folder: Path, split: str, examples: Sequence[TextExample], predictions: Predictions
) -> list[Path]:
    """The leaderboard's table of a test; nothing for other splits, which it does not ask for."""
    if (name, split) not in SUBMISSION:
        return []
    path = folder / SUBMISSION[name, split]
    lines = [f"{example.id}\t{write_answer(predictions[example.id].answer)}" for example in examples]
    write_file(path, "\n".join(["index\tprediction", *lines, ""]).encode())
    return [path]


def write_answer(answer: str | float) -> str:
    """A label, or a number from 0 to 5, beyond which no pair of STS-B's was judged."""
    return answer if isinstance(answer, str) else f"{min(5.0, max(0.0, answer)):.3f}"


def find_missing(files: Iterable[str | Path]) -> list[str]:
    """Which of the files that the leaderboard wants are not among these; it takes no archive that lacks one."""
    names = {Path(file).name for file in files}
    return [name for name in SUBMISSION.values() if name not in names]


def zip_submission(folder: Path, files: Iterable[str | Path]) -> Path:
    """An archive in `folder` of those files that the leaderboard wants; `find_missing` says which it lacks."""
    wanted = {Path(file).name: Path(file) for file in files if Path(file).name in SUBMISSION.values()}
    require(wanted, f"there is no file for the leaderboard to put in {folder / ARCHIVE}; predict a test first")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(wanted):
            require(wanted[name].is_file(), f"{wanted[name]} does not exist; predict its test again")
            archive.write(wanted[name], name)
    write_file(folder / ARCHIVE, content.getvalue())
    return folder / ARCHIVE


def choose_scores(**scores: Callable[[Sequence[Any], Sequence[Any]], float]) -> Score:
    """A function that computes the named scores."""
    return lambda gold, predicted, labels: {name: score(gold, predicted) for name, score in scores.items()}


ACCURACY = choose_scores(accuracy=accuracy)
PARAPHRASE = choose_scores(accuracy=accuracy, f1=partial(f1, positive="1"))
SCORES: dict[str, Score] = {
    "cola": choose_scores(matthews=matthews),
    "mrpc": PARAPHRASE,
    "stsb": choose_scores(pearson=pearson, spearman=spearman),
    "qqp": PARAPHRASE,
    "ax": choose_scores(matthews=matthews, accuracy=accuracy),
}
METRICS = {"cola": "matthews", "stsb": "pearson", "ax": "matthews"}


def make_task(name: str, layout: Layout) -> ClassTask:
    return ClassTask(
        name=name,
        metric=METRICS.get(name, "accuracy"),
        read_split=partial(read_split, name),
        compare=SCORES.get(name, ACCURACY),
        kind="classes" if layout.labels else "number",
        has_second=len(layout.texts) > 1,
        labels=layout.labels,
        splits=layout.splits,
        publish=partial(write_submission, name),
    )


TASKS: dict[str, ClassTask] = {name: make_task(name, layout) for name, layout in LAYOUTS.items()}
