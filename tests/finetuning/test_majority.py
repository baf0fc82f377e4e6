import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, f1_score

from litebert.finetuning.results import MAJORITY, find_score, scores_by_split
from tests.finetuning.made import Finished

Make = Callable[[str], Finished]


def read_column(run: Finished, split: str, column: str) -> list[Any]:
    return [json.loads(line)[column] for line in Path(run.config.data, f"{split}.jsonl").read_text().splitlines()]


def test_the_most_frequent_label_scores_what_sklearns_dummy_does(finished: Make) -> None:
    run = finished("label")
    for split in ("dev", "test"):
        labels = read_column(run, split, "label")
        dummy = DummyClassifier(strategy="most_frequent").fit([[0]] * len(labels), labels)
        guesses, found = dummy.predict([[0]] * len(labels)), run.scores[MAJORITY][split]
        assert found["accuracy"] == pytest.approx(100 * accuracy_score(labels, guesses))
        assert found["macro_f1"] == pytest.approx(100 * f1_score(labels, guesses, average="macro", zero_division=0))


def test_words_are_given_the_most_frequent_tag(finished: Make) -> None:
    run = finished("tags")
    tags = [tag for sentence in read_column(run, "dev", "tags") for tag in sentence]
    assert Counter(tags).most_common(1)[0][0] == "O"
    assert run.scores[MAJORITY]["dev"]["accuracy"] == pytest.approx(100 * tags.count("O") / len(tags))
    assert run.scores[MAJORITY]["dev"]["f1"] == 0


@pytest.mark.parametrize("kind", ["number", "squad1"])
def test_where_a_label_is_no_answer_there_is_nothing_to_compare_with(finished: Make, kind: str) -> None:
    assert finished(kind).scores[MAJORITY] == {}


def test_what_needs_no_text_is_no_score_of_the_run() -> None:
    written = {"metric": "accuracy", MAJORITY: {"dev": {"accuracy": 90.0}}, "files": {}, "dev": {"accuracy": 60.0}}
    assert scores_by_split(written) == {"dev": {"accuracy": 60.0}} and find_score(written) == 60.0
