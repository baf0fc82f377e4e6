import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.config import UserError
from litebert.tasks.classes import ClassTask, TextExample
from litebert.tasks.tags import TagTask
from litebert.tasks.task import Prediction
from litebert.tasks.text import TextColumns, make_task

LABEL = TextColumns()
PAIR = TextColumns(first="a", second="b", score="s")
SEVERAL = TextColumns(labels="topics")
TAGS = TextColumns(first="words", tags="tags")


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


def read(columns: TextColumns, data: Path, split: str = "train") -> list[Any]:
    return [example[2:] for example in make_task(columns, data).read(data, split)]


def test_a_column_of_texts_or_numbers_is_refused_as_that_of_the_label(tmp_path: Path) -> None:
    rows = [f"text {number},{number % 19},{number % 18}" for number in range(20)]
    path = write(tmp_path, "train.csv", "\n".join(["text,most,few", *rows]))
    said = f"^{path}: the column most has 19 different labels in 20 examples; name the column of the label, or"
    with pytest.raises(UserError, match=said):
        read(TextColumns(label="most"), path)
    assert len(read(TextColumns(label="few"), path)) == 20, "as many as few-shot data has"
    assert len(read(TextColumns(score="most"), path)) == 20
    assert len(read(TextColumns(label="most"), path, "dev")) == 20, "what is not learned from may be few of many"
    few = write(tmp_path, "few.csv", "\n".join(["text,most,few", *rows[:19]]))
    assert len(read(TextColumns(label="text"), few)) == 19


def test_a_folder_has_its_splits_in_any_format(tmp_path: Path) -> None:
    write(tmp_path, "train.csv", 'label,text\nyes,"a, b"\nno,c\n')
    write(tmp_path, "validation.tsv", 'text\tlabel\n"a\tyes\n')
    write(tmp_path, "test.jsonl.gz", '{"text": "b"}\n')
    assert read(LABEL, tmp_path) == [("a, b", None, "yes"), ("c", None, "no")]
    assert read(LABEL, tmp_path, "dev") == [('"a', None, "yes")]
    assert read(LABEL, tmp_path, "test") == [("b", None, None)]
    assert read(LABEL, tmp_path / "train.csv", "test") == read(LABEL, tmp_path)
    task = make_task(LABEL, tmp_path)
    assert task.ask(task.read(tmp_path, "train")).labels == ("no", "yes")


def test_two_texts_have_a_score(tmp_path: Path) -> None:
    path = write(tmp_path, "train.jsonl", '{"a": "x", "b": "y", "s": 2}\n{"a": "x", "b": "y", "s": "-1.5"}\n')
    assert read(PAIR, path) == [("x", "y", 2.0), ("x", "y", -1.5)]


def test_labels_of_json_may_be_numbers_or_truths(tmp_path: Path) -> None:
    rows = [{"text": "x", "label": label} for label in (1, "1", True, " a ", 0.5)]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert [row[-1] for row in read(LABEL, path)] == ["1", "1", "true", "a", "0.5"]


def test_several_labels_are_a_list_or_have_separators_and_may_be_none(tmp_path: Path) -> None:
    cells: list[Any] = ["a|b", "", None, ["b", "a", "b"], [], '["c"]', "[1, 2]", " a | b ", 3]
    path = write(tmp_path, "a.jsonl", "\n".join(json.dumps({"text": "x", "topics": cell}) for cell in cells))
    expected = [("a", "b"), (), (), ("b", "a"), (), ("c",), ("1", "2"), ("a", "b"), ("3",)]
    assert [row[-1] for row in read(SEVERAL, path)] == expected
    path = write(tmp_path, "b.csv", "text,topics\nx,a;b\n")
    assert read(TextColumns(labels="topics", separator=";"), path) == [("x", None, ("a", "b"))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.csv", "words,tags\nEU says,B-ORG O\n"),
        ("train.jsonl", '{"words": ["EU", "says"], "tags": ["B-ORG", "O"]}\n'),
        ("train.conll", "EU B-ORG\nsays O\n"),
        ("train.txt", "EU\tB-ORG\nsays\tO\n"),
    ],
)
def test_tags_are_in_a_table_or_one_on_each_line(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path, name, content)
    task = make_task(TAGS, tmp_path)
    assert isinstance(task, TagTask) and task.metric == "f1"
    assert read(TAGS, tmp_path) == read(TAGS, path) == [(("EU", "says"), ("B-ORG", "O"))]


def test_tags_that_mark_no_spans_are_compared_by_accuracy(tmp_path: Path) -> None:
    assert make_task(TAGS, write(tmp_path, "a.conll", "EU NNP\nsays VBZ\n")).metric == "accuracy"
    assert make_task(TAGS, write(tmp_path, "test.csv", "words\nEU says\n")).metric == "accuracy"
    assert read(TAGS, tmp_path, "test") == [(("EU", "says"), None)]


@pytest.mark.parametrize(
    ("columns", "content", "said"),
    [
        (LABEL, "text,class\na,b\n", "there is no column 'label'; name one of those that are there .'text', 'class'."),
        (LABEL, "title,label\na,b\n", "there is no column 'text'; name one of those that are there .'title', 'label'."),
        (PAIR, "a,b,s\nx,y,high\n", "'high' is no number; correct it"),
        (PAIR, "a,b,s\nx,y,\n", "'' is no number"),
        (PAIR, "a,b,s\nx,y,inf\n", "'inf' is no number"),
        (PAIR, "a,b,s\nx, ,1\n", "'b' is empty; fill it or leave the row out"),
        (LABEL, 'text,label\n"",yes\n', "'text' is empty"),
        (LABEL, "text,label\na, \n", "the label is empty; fill it or leave the row out"),
        (SEVERAL, "text,topics\na,b||c\n", "the label is empty"),
        (TAGS, "words,tags\na b,O\n", "there are 2 words but 1 tags; give one to each"),
        (TAGS, "words,tags\na b,\n", "there is an empty word or tag, or none at all"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, columns: TextColumns, content: str, said: str) -> None:
    path = write(tmp_path, "train.csv", content)
    with pytest.raises(UserError, match=f"^{path}, line 2: {said}"):
        make_task(columns, tmp_path).read(tmp_path, "train")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"text": 3, "label": "a"}, "'text' is 3, not a string"),
        ({"text": "x", "label": None}, "the label is empty"),
        ({"text": "x", "label": ["a"]}, "the label is .'a'.; write a string"),
    ],
)
def test_values_of_json_that_are_no_texts_or_labels_are_refused(tmp_path: Path, content: Any, said: str) -> None:
    path = write(tmp_path, "a.jsonl", json.dumps(content))
    with pytest.raises(UserError, match=f"^{path}, line 1: {said}"):
        read(LABEL, path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    write(tmp_path, "train.csv", "text,label\na,b\n")
    with pytest.raises(UserError, match="has no dev or validation or valid .*; put it there, or name a file"):
        read(LABEL, tmp_path, "dev")
    with pytest.raises(UserError, match="there is no split 'final'; name one of train, dev, test"):
        read(LABEL, tmp_path, "final")
    with pytest.raises(UserError, match="nowhere does not exist"):
        make_task(TAGS, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"label": "a", "score": "b"}, "label and score are both given; give only one"),
        ({"tags": "a", "second": "b"}, "second is 'b'; tags are for the words of one text: leave it out"),
        ({"first": ""}, "must not be empty"),
        ({"separator": ""}, "must not be empty"),
        ({"second": 3}, "second is 3; it must be str"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        TextColumns(**columns)


def score(columns: TextColumns, gold: list[Any], said: list[Any], labels: str = "") -> dict[str, float]:
    task = make_task(columns, "nowhere")
    assert isinstance(task, ClassTask)
    task = task.with_labels(tuple(labels))
    examples = [TextExample(str(n), "", "", None, label) for n, label in enumerate(gold)]
    scores = task.score(examples, {str(n): Prediction(answer) for n, answer in enumerate(said) if answer is not None})
    assert task.metric in scores
    return scores


def test_each_kind_of_column_has_its_scores() -> None:
    from sklearn import metrics

    gold, said = list("nyyyn"), list("yynyn")
    assert score(LABEL, gold, said) == {
        "accuracy": 60.0,
        "macro_f1": pytest.approx(100 * metrics.f1_score(gold, said, average="macro")),
        "f1": pytest.approx(100 * metrics.f1_score(gold, said, pos_label="y")),
    }
    assert score(LABEL, list("abc"), list("abb")).keys() == {"accuracy", "macro_f1"}
    assert score(LABEL, list("ab"), ["a", None])["f1"] == 0.0
    numbers = score(PAIR, [1.0, 2.0, 3.0], [1.0, 2.0, 6.0])
    assert numbers["rmse"] == pytest.approx(3**0.5) and numbers["spearman"] == pytest.approx(100.0)
    assert numbers["pearson"] == pytest.approx(100 * np.corrcoef([1, 2, 3], [1, 2, 6])[0, 1])
    several = score(SEVERAL, [("a", "b"), ()], [("a",), ()])
    assert several == {"micro_f1": pytest.approx(200 / 3), "macro_f1": 50.0, "exact": 50.0}


def test_f1_is_a_score_where_the_task_has_two_labels_whichever_a_split_has() -> None:
    assert "f1" not in score(LABEL, list("aba"), list("bba"), labels="abc")
    assert "f1" not in score(LABEL, list("aba"), list("cba")), "the predictions know of a third"
    assert score(LABEL, list("bb"), list("ab"), labels="ab")["f1"] == pytest.approx(200 / 3)
    assert score(LABEL, list("aa"), list("aa"), labels="ab")["f1"] == 0.0
