from pathlib import Path
from typing import Any, cast

import pytest

from litebert.config import UserError
from litebert.finetuning.heads import check_question
from litebert.finetuning.task_model import TaskModel
from litebert.tasks.registry import TASKS
from litebert.tasks.task import Question
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
    check_question(number, Question("classes"), "it")
    check_question(TASKS["squad2"], Question("span"), "it")
    with pytest.raises(UserError, match=r"the head of it has labels \('no', 'yes'\); text needs \(\)"):
        check_question(number, classes, "it")
    with pytest.raises(UserError, match="the head of it has kind 'answerable_span'; squad1 needs 'span'"):
        check_question(TASKS["squad1"], Question("answerable_span"), "it")
