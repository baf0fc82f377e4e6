from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from litebert.config import UserError
from litebert.finetuning.heads import check_question, head_of, question_of
from litebert.finetuning.task_file import TaskFile
from litebert.finetuning.task_model import TaskModel
from litebert.tasks.registry import TASKS
from litebert.tasks.task import Limits, Question
from litebert.tasks.text import TextColumns, make_task


def test_a_file_is_one_of_a_tasks_splits(tmp_path: Path) -> None:
    nothing = cast(Any, None)
    task_model = TaskModel(nothing, nothing, TASKS["mnli"], nothing, nothing)
    file = tmp_path / "test_matched.tsv"
    file.touch()
    assert task_model.choose_splits(str(tmp_path), None, "test") == ("test_matched", "test_mismatched")
    assert task_model.choose_splits("hub:", None, "test") == ("test_matched", "test_mismatched")
    assert task_model.choose_splits(str(file), "test_matched", "test") == ("test_matched",)
    with pytest.raises(UserError, match="is one file, and mnli has test_matched and test_mismatched; say with --split"):
        task_model.choose_splits(str(file), None, "test")
    alone = task_model._replace(task=TASKS["ax"])
    assert alone.choose_splits(str(file), None, "dev", "test") == TASKS["ax"].splits["test"]


def test_a_head_that_answers_something_else_is_refused() -> None:
    number, label = (make_task(TextColumns(**{kind: kind}), "") for kind in ("score", "label"))
    classes = Question("classes", ("no", "yes"))
    check_question(label, classes, "it")
    check_question(number, Question("number"), "it")
    check_question(label, Question("number"), "it")
    with pytest.raises(
        UserError, match=r"the head of it has labels \(\); rte needs \('entailment', 'not_entailment'\)"
    ):
        check_question(TASKS["rte"], Question("number"), "it")
    check_question(TASKS["squad2"], Question("span"), "it")
    with pytest.raises(UserError, match="the head of it has kind 'classes'; text needs 'number'"):
        check_question(number, classes, "it")
    with pytest.raises(UserError, match="the head of it has kind 'answerable_span'; squad1 needs 'span'"):
        check_question(TASKS["squad1"], Question("answerable_span"), "it")


@pytest.mark.parametrize(
    "question",
    [
        Question("classes", ("no", "yes")),
        Question("labels", ("only",)),
        Question("number"),
        Question("choice", num_choices=4),
        Question("token_classes", ("I", "O")),
        Question("span"),
        Question("answerable_span"),
    ],
)
def test_a_head_knows_its_question_again_with_a_task_file_or_without(question: Question, tmp_path: Path) -> None:
    stored = TaskFile(
        task="text",
        columns=TextColumns(),
        limits=Limits(),
        labels=question.labels,
        several=question.kind == "labels",
    )
    head = head_of(question, 0.0)
    assert question_of(head, stored, tmp_path) == question_of(head, replace(stored, labels=()), tmp_path) == question
    unnamed = question_of(replace(head, labels=()), replace(stored, labels=()), tmp_path)
    assert unnamed.kind == question.kind and len(unnamed.labels) == len(question.labels)
