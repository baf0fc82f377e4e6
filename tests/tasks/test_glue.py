import sys
import types
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from litebert.config import UserError
from litebert.tasks.classes import TextExample
from litebert.tasks.glue import SUBMISSION, TASKS, find_missing, zip_submission
from litebert.tasks.task import Limits, Prediction, Sample, Task, describe_balance, pack
from litebert.text.vocabulary import open_vocabulary

MNLI_HEADER = "index | promptID | pairID | genre | binary1 | binary2 | parse1 | parse2 | sentence1 | sentence2"

# Of the folder, each split's number of examples as the benchmark states it, and the columns of the texts and the label
# by their numbers in the training and dev files and in those of the test, as the released code has them.
OFFICIAL: dict[str, tuple[str, dict[str, int], tuple[int, ...], tuple[int, ...]]] = {
    "cola": ("CoLA", {"train": 8551, "dev": 1043, "test": 1063}, (3, 1), (1,)),
    "sst2": ("SST-2", {"train": 67349, "dev": 872, "test": 1821}, (0, 1), (1,)),
    "mrpc": ("MRPC", {"train": 3668, "dev": 408, "test": 1725}, (3, 4, 0), (3, 4)),
    "stsb": ("STS-B", {"train": 5749, "dev": 1500, "test": 1379}, (7, 8, -1), (7, 8)),
    "qnli": ("QNLI", {"dev": 5463, "test": 5463}, (1, 2, -1), (1, 2)),
    "rte": ("RTE", {"train": 2490, "dev": 277, "test": 3000}, (1, 2, -1), (1, 2)),
    "wnli": ("WNLI", {"train": 635, "dev": 71, "test": 146}, (1, 2, -1), (1, 2)),
    "ax": ("diagnostic", {"test": 1104}, (), (1, 2)),
}


def write(path: Path, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(row.replace(" | ", "\t") for row in rows) + "\n")
    return path


def texts(example: TextExample) -> tuple[str, ...]:
    return (example.first,) if example.second is None else (example.first, example.second)


def test_each_is_a_task_with_the_order_of_labels_that_released_models_have() -> None:
    tasks: dict[str, Task] = {**TASKS}
    assert list(tasks) == ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax"]
    labels = {name: task.ask([]).labels for name, task in tasks.items()}
    assert labels["mnli"] == labels["ax"] == ("contradiction", "entailment", "neutral")
    assert labels["qnli"] == labels["rte"] == ("entailment", "not_entailment")
    assert labels["stsb"] == () and tasks["stsb"].ask([]).num_classes == 1
    assert {labels[name] for name in ("cola", "sst2", "mrpc", "qqp", "wnli")} == {("0", "1")}
    best = {name: task.metric for name, task in tasks.items() if task.metric != "accuracy"}
    assert best == {"cola": "matthews", "stsb": "pearson", "ax": "matthews"}


@pytest.mark.parametrize(
    ("name", "split"), [(name, split) for name, (_, sizes, *_) in OFFICIAL.items() for split in sizes]
)
def test_a_real_split_has_the_rows_and_columns_of_the_official_files(data: Path, name: str, split: str) -> None:
    folder, sizes, *columns = OFFICIAL[name]
    task, is_test = TASKS[name], split == "test"
    examples = task.read(data / "glue", split)
    assert examples == task.read(data / "glue" / folder, split)
    file = data / "glue" / folder / ("diagnostic.tsv" if name == "ax" else f"{split}.tsv")
    lines = file.read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    rows = [line.split("\t") for line in (lines if name == "cola" and not is_test else lines[1:])]
    assert len(examples) == len(rows) == sizes[split]
    for example, row in zip(examples, rows, strict=True):
        picked = [row[column] for column in columns[is_test]]
        label = () if is_test else (float(picked[-1]) if name == "stsb" else picked[-1],)
        assert (*texts(example), *(() if example.label is None else (example.label,))) == (
            *(picked if is_test else picked[:-1]),
            *label,
        )
    assert [example.id for example in examples] == [str(number) for number in range(len(rows))]


def test_known_rows_are_where_they_should_be(data: Path) -> None:
    mrpc = TASKS["mrpc"].read(data / "glue", "dev")[1]
    assert mrpc.place.endswith("MRPC/dev.tsv, line 3") and mrpc.label == "0" and '" 100 percent' in str(mrpc.second)
    assert TASKS["sst2"].read(data / "glue", "dev")[1][2:] == ("unflinchingly bleak and desperate ", None, "0")
    assert TASKS["stsb"].read(data / "glue", "train")[1].label == 3.8
    rte = TASKS["rte"]
    examples = rte.read(data / "glue", "dev")
    assert describe_balance(examples, rte.ask(examples)) == {"entailment": 146, "not_entailment": 131}


def test_a_split_that_is_missing_is_named_with_where_it_was_looked_for(data: Path) -> None:
    with pytest.raises(UserError, match=r"glue has no QNLI/train or train \(.tsv, also with .gz .xz .zst\)"):
        TASKS["qnli"].read(data / "glue", "train")
    with pytest.raises(UserError, match="mnli has no split 'dev'; name one of train, dev_matched, dev_mismatched"):
        TASKS["mnli"].read(data / "glue", "dev")


def test_real_pairs_are_encoded_as_one_by_one(data: Path) -> None:
    vocabulary = open_vocabulary(data / "vocab" / "albert-en-30k-clean.model")
    task = TASKS["rte"]
    examples = task.read(data / "glue", "dev")
    samples, notes = task.encode(examples, vocabulary, task.ask(examples), Limits(length=128))
    num_cut = 0
    for sample, example in zip(samples, examples, strict=True):
        whole = vocabulary.add_special(vocabulary.encode(example.first), vocabulary.encode(str(example.second)))
        num_cut += len(whole) > 128
        assert len(sample.token_ids) == min(128, len(whole))
        assert len(whole) > 128 or sample.token_ids.tolist() == whole
    said = "were cut to 128 tokens; a greater length, if the model has the positions, keeps them whole"
    assert notes == [f"{num_cut} of 277 examples {said}"]
    batch = pack(samples)
    assert batch.labels_BX is not None and Counter(batch.labels_BX.tolist()) == {0: 146, 1: 131}


def write_mnli(folder: Path) -> None:
    parts = " | ".join(["0", "p", "q", "fiction", "(", "(", "(", "("])
    header = MNLI_HEADER
    train = [f"{header} | label1 | gold_label", f'{parts} | A "fox | Yes. | neutral | neutral']
    dev_header = f"{header} | label1 | label2 | label3 | label4 | label5 | gold_label"
    write(folder / "train.tsv", *train)
    for name, label in (("dev_matched", "entailment"), ("dev_mismatched", "contradiction")):
        others = " | ".join(["neutral"] * 5)
        write(folder / f"{name}.tsv", dev_header, f"{parts} | {name} | b | {others} | {label}")
    for number, name in enumerate(("test_matched", "test_mismatched")):
        rows = (f"{row}{parts[1:]} | {name} | b" for row in (9847 * number, 9847 * number + 1))
        write(folder / f"{name}.tsv", header, *rows)


def test_mnli_has_two_dev_and_two_test_splits(tmp_path: Path) -> None:
    write_mnli(tmp_path / "MNLI")
    task = TASKS["mnli"]
    assert task.read(tmp_path, "train")[0][2:] == ('A "fox', "Yes.", "neutral")
    dev = [task.read(tmp_path, split)[0] for split in task.splits["dev"]]
    assert [example[2:] for example in dev] == [
        ("dev_matched", "b", "entailment"),
        ("dev_mismatched", "b", "contradiction"),
    ]
    test = task.read(tmp_path / "MNLI", "test_mismatched")
    assert [example.id for example in test] == ["9847", "9848"] and test[0].label is None


def test_short_rows_of_qqp_are_left_out_and_counted(tmp_path: Path) -> None:
    header = "id | qid1 | qid2 | question1 | question2 | is_duplicate"
    write(
        tmp_path / "QQP" / "train.tsv",
        header,
        "133 | 1 | 2 | a",
        "7 | 3 | 4 | b | c | 1",
        "e | 0",
        "7 | 5 | 6 | f | g | 0",
    )
    write(tmp_path / "QQP" / "test.tsv", "id | question1 | question2", "5 | a | b")
    task = TASKS["qqp"]
    examples = task.read(tmp_path, "train")
    assert [example[2:] for example in examples] == [("b", "c", "1"), ("f", "g", "0")]
    assert [example.id for example in examples] == ["1", "3"]
    vocabulary_file = write(tmp_path / "vocab.txt", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
    encoded = task.encode(examples, open_vocabulary(vocabulary_file), task.ask(examples), Limits())
    assert encoded.notes == [f"{tmp_path}/QQP/train.tsv: 2 rows have too few cells and were left out"]
    assert task.read(tmp_path, "test")[0][0::2] == ("5", "a", None)


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        ("sst2", ["sentence | label", "a | 2"], "line 2: the label '2' is not one of those known .'0', '1'."),
        ("stsb", ["sentence1 | sentence2 | score", "a | b | high"], "line 2: 'high' is no number"),
        ("rte", ["sentence1 | sentence2 | label", "a | b"], "line 2: 2 cells where there are 3 columns"),
        ("rte", ["first | sentence2 | label", "a | b | entailment"], "line 2: there is no column 'sentence1'"),
        ("cola", ["s | 1 | a"], "line 1: 3 cells where there are 4 columns"),
        ("qqp", ["question1 | question2", "a | b"], "line 2: there is no column 'is_duplicate'"),
        ("mrpc", ["Quality | #1 String | #2 String"], " has no rows"),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, name: str, rows: list[str], said: str) -> None:
    write(tmp_path / "train.tsv", *rows)
    with pytest.raises(UserError, match=f"^{tmp_path}/train.tsv,? ?{said}"):
        TASKS[name].read(tmp_path, "train")


def test_the_diagnostic_set_is_scored_where_its_labels_are_known(tmp_path: Path) -> None:
    header = "Lexical Semantics | Domain | Premise | Hypothesis | Label"
    labels = ["entailment", "neutral", "contradiction", "neutral"]
    path = write(tmp_path / "diagnostic-full.tsv", header, *(f" | News | a | b | {label}" for label in labels))
    task = TASKS["ax"]
    examples = task.read(path, "test")
    assert examples[0][2:] == ("a", "b", "entailment")
    answers = ["entailment", "entailment", "contradiction", "neutral"]
    scores = task.score(examples, {str(n): Prediction(answer) for n, answer in enumerate(answers)})
    expected = 100 * metrics.matthews_corrcoef(labels, answers)
    assert scores == {"matthews": pytest.approx(expected), "accuracy": 75.0}


def test_scores_are_those_of_sklearn_and_scipy() -> None:
    random = np.random.default_rng(0)
    gold, said = (random.integers(0, 2, 50).astype(str).tolist() for _ in range(2))
    examples = [TextExample(str(n), "", "", None, label) for n, label in enumerate(gold)]
    predictions = {str(n): Prediction(answer) for n, answer in enumerate(said)}
    right, f1 = 100 * metrics.accuracy_score(gold, said), 100 * metrics.f1_score(gold, said, pos_label="1")
    for name in ("mrpc", "qqp"):
        assert TASKS[name].score(examples, predictions) == {"accuracy": pytest.approx(right), "f1": pytest.approx(f1)}
    for name in ("sst2", "mnli", "qnli", "rte", "wnli"):
        assert TASKS[name].score(examples, predictions) == {"accuracy": pytest.approx(right)}
    matthews = 100 * metrics.matthews_corrcoef(gold, said)
    assert TASKS["cola"].score(examples, predictions) == {"matthews": pytest.approx(matthews)}
    numbers = random.normal(size=(2, 50))
    pairs = [TextExample(str(n), "", "", None, number) for n, number in enumerate(numbers[0].tolist())]
    found = TASKS["stsb"].score(pairs, {str(n): Prediction(number) for n, number in enumerate(numbers[1].tolist())})
    assert found["pearson"] == pytest.approx(100 * stats.pearsonr(*numbers).statistic)
    assert found["spearman"] == pytest.approx(100 * stats.spearmanr(*numbers).statistic)


def test_the_leaderboards_files_of_real_tests_are_read_again(data: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    files: list[Path] = []
    for name in OFFICIAL:
        task = TASKS[name]
        examples, question = task.read(data / "glue", "test"), task.ask([])
        outputs = 3 * random.normal(size=(len(examples), question.num_classes))
        samples = [Sample(np.zeros(2, np.int32), 2, number) for number in range(len(examples))]
        predictions = task.decode(examples, samples, list(outputs), question, Limits())
        ours, official = task.write_predictions(tmp_path, "test", examples, predictions)
        assert task.read_predictions(ours) == predictions
        header, *lines = official.read_text().splitlines()
        assert header == "index\tprediction"
        assert [line.split("\t")[0] for line in lines] == [str(number) for number in range(len(examples))]
        read = [prediction.answer for prediction in task.read_predictions(official).values()]
        answers = [predictions[example.id].answer for example in examples]
        if name == "stsb":
            assert all(len(line.split(".")[1]) == 3 for line in lines)
            np.testing.assert_allclose(read, np.clip(answers, 0, 5), atol=0.0005 + 1e-9)
        else:
            assert read == answers
        files += [ours, official]
    assert find_missing(files) == ["QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"]
    archive = zip_submission(tmp_path, files)
    with zipfile.ZipFile(archive) as content:
        assert sorted(content.namelist()) == sorted(SUBMISSION[name, "test"] for name in OFFICIAL)
        assert content.read("CoLA.tsv") == (tmp_path / "CoLA.tsv").read_bytes()


def test_both_tests_of_mnli_have_a_file_of_their_own_and_dev_has_none(tmp_path: Path) -> None:
    write_mnli(tmp_path / "MNLI")
    task = TASKS["mnli"]
    written = {}
    for split in (*task.splits["dev"], *task.splits["test"]):
        examples = task.read(tmp_path, split)
        predictions = {example.id: Prediction("neutral") for example in examples}
        written[split] = [file.name for file in task.write_predictions(tmp_path, split, examples, predictions)]
    assert written["dev_matched"] == ["mnli-dev_matched.jsonl"]
    assert written["test_matched"] == ["mnli-test_matched.jsonl", "MNLI-m.tsv"]
    assert (tmp_path / "MNLI-mm.tsv").read_text() == "index\tprediction\n9847\tneutral\n9848\tneutral\n"


def test_an_archive_of_nothing_is_refused(tmp_path: Path) -> None:
    assert len(find_missing([])) == 11
    with pytest.raises(UserError, match="there is no file for the leaderboard"):
        zip_submission(tmp_path, [tmp_path / "cola-dev.jsonl"])
    with pytest.raises(UserError, match="CoLA.tsv does not exist"):
        zip_submission(tmp_path, [tmp_path / "CoLA.tsv"])


class HubRows(list[dict[str, Any]]):
    """Rows with the names of their classes, as the package datasets has them."""

    def __init__(self, rows: list[dict[str, Any]], names: list[str] | None) -> None:
        super().__init__(rows)
        label = types.SimpleNamespace() if names is None else types.SimpleNamespace(names=names)
        self.features = {"label": label}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str, str], HubRows]:
    """A hub whose datasets are rows by name, config and split."""
    rows: dict[tuple[str, str, str], HubRows] = {}
    package: Any = types.SimpleNamespace(load_dataset=lambda name, subset, *, split: rows[name, subset, split])
    monkeypatch.setitem(sys.modules, "datasets", package)
    return rows


def test_the_hubs_order_of_classes_is_not_ours(hub: dict[tuple[str, str, str], HubRows]) -> None:
    row = {"premise": "a", "hypothesis": "b", "idx": 9}
    names = ["entailment", "neutral", "contradiction"]
    rows = HubRows([row | {"label": label} for label in (0, 1, 2)], names)
    hub["nyu-mll/glue", "mnli", "validation_matched"] = rows
    examples = TASKS["mnli"].read("hub:", "dev_matched")
    assert [example.label for example in examples] == names
    assert examples[1][:4] == ("1", "hub:nyu-mll/glue:mnli:dev_matched, row 2", "a", "b")
    hub["other/glue", "mnli", "train"] = HubRows(list(rows), ["yes", "no", "maybe"])
    with pytest.raises(UserError, match="hub:other/glue:mnli:train has the classes .*yes.*; name a dataset that has"):
        TASKS["mnli"].read("hub:other/glue", "train")


def test_labels_that_the_hub_keeps_secret_are_none(hub: dict[tuple[str, str, str], HubRows]) -> None:
    hub["nyu-mll/glue", "cola", "test"] = HubRows([{"sentence": "a", "label": -1, "idx": 4}], ["bad", "good"])
    hub["nyu-mll/glue", "cola", "train"] = HubRows([{"sentence": "a", "label": 1, "idx": 4}], ["bad", "good"])
    hub["nyu-mll/glue", "stsb", "train"] = HubRows([{"sentence1": "a", "sentence2": "b", "label": 2.5}], None)
    assert TASKS["cola"].read("hub:", "test")[0][0::2] == ("4", "a", None)
    assert TASKS["cola"].read("hub:nyu-mll/glue", "train")[0].label == "1"
    assert TASKS["stsb"].read("hub:", "train")[0].label == 2.5


def test_what_the_hub_does_not_have_is_named(
    hub: dict[tuple[str, str, str], HubRows], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="hub:a/b:rte:train cannot be read .*; check its name"):
        TASKS["rte"].read("hub:a/b", "train")
    hub["a/b", "sst2", "train"] = HubRows([{"sentence": "a", "label": 5}], ["bad", "good"])
    with pytest.raises(UserError, match="hub:a/b:sst2:train, row 1: the label 5 is not one of 2 classes"):
        TASKS["sst2"].read("hub:a/b", "train")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"needs the package datasets; pip install datasets"):
        TASKS["rte"].read("hub:", "train")
