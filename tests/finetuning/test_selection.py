import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from litebert.finetuning.preparation import prepare
from litebert.finetuning.selection import Selection
from litebert.finetuning.stuck import advise, describe_stuck, lower_rate
from litebert.finetuning.task_model import Evaluated
from litebert.models.model import Model
from litebert.tasks.classes import TextExample
from litebert.tasks.race import ChoiceExample
from litebert.tasks.squad_file import SpanExample
from litebert.tasks.tags import TagExample
from litebert.tasks.task import Prediction, Question
from litebert.tasks.text import TextColumns, make_task
from litebert.training.parallel import Ranks
from tests.finetuning.made import make_config, read_file, write_data

LABELS = Question("classes", ("no", "yes"))


class Chooser:
    """A selection whose models always say the same label, and the steps of those that it kept."""

    def __init__(self, folder: Path, start: Path, **settings: Any) -> None:
        data = write_data("label", folder / "data")
        # 23 of these 24 examples are no.
        dev = (data / "dev.jsonl").read_text().splitlines()
        (data / "dev.jsonl").write_text("\n".join([*dev[:2], *dev[:1] * 22]) + "\n")
        prepared = prepare(make_config("label", data, start), folder / "run", Ranks())
        self.model, self.kept = prepared.task_model.model, []
        (folder / "run").mkdir()
        defaults = {"steps": 90, "warmup_steps": 9, "evaluate_every": 5, "patience": 0}
        defaults |= {"retries": False, "stops_if_stuck": False}
        self.selection = Selection(
            task_model=prepared.task_model,
            dev=prepared.dev,
            folder=folder / "run",
            keep=self.keep,
            **defaults | settings,
        )

    def keep(self, model: Model, result: Evaluated) -> None:
        self.kept.append(result.scores["accuracy"])

    def evaluate(self, step: int, label: str) -> dict[str, float]:
        output = self.model.heads["classes"].output
        with torch.no_grad():
            output.weight.zero_()
            output.bias.copy_(torch.tensor([1.0, 0.0] if label == "no" else [0.0, 1.0]))
        return self.selection.evaluate(self.model, step)


def test_the_best_model_is_kept_and_the_first_of_equals(tmp_path: Path, start: Path) -> None:
    chooser = Chooser(tmp_path, start)
    values = [chooser.evaluate(step, label) for step, label in ((1, "yes"), (2, "no"), (3, "no"), (4, "yes"))]
    assert [value["dev_accuracy"] for value in values] == pytest.approx([100 / 24, 2300 / 24, 2300 / 24, 100 / 24])
    assert chooser.kept == pytest.approx([100 / 24, 2300 / 24])
    assert read_file(tmp_path / "run", "best.json") == {
        "step": 2,
        "score": chooser.kept[-1],
        "stuck": "all 24 dev examples are given the label 'no'",
    }
    chooser.evaluate(2, "no")
    assert len(chooser.kept) == 3, "a step that is taken again writes its model again, which may be cut short"


def test_a_run_ends_when_patience_does(tmp_path: Path, start: Path) -> None:
    chooser = Chooser(tmp_path, start, patience=2)
    selection = chooser.selection
    assert not selection.is_finished(50), "nothing was evaluated yet"
    chooser.evaluate(20, "no")
    chooser.evaluate(25, "yes")
    assert not selection.is_finished(29) and selection.is_finished(30)
    assert not selection.is_finished(31), "only an evaluation can end it: it also tells whether the model is stuck"
    assert not replace(selection, patience=0).is_finished(1000)
    assert not selection.is_finished(15), "a step before the best, from which a run goes on again"


def test_a_run_is_stuck_only_after_a_third_of_it_and_its_warm_up(
    tmp_path: Path, start: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chooser = Chooser(tmp_path, start, stops_if_stuck=True)
    with caplog.at_level(logging.WARNING):
        chooser.evaluate(29, "no")
    assert chooser.selection.find_stuck(29) is None and not chooser.selection.is_finished(29)
    assert "learned nothing" not in caplog.text
    chooser.evaluate(30, "no")
    assert chooser.selection.find_stuck(30) == "all 24 dev examples are given the label 'no'"
    assert chooser.selection.is_finished(30)
    assert not replace(chooser.selection, stops_if_stuck=False).is_finished(30)
    assert "the model has learned nothing else" in caplog.text
    # A run that goes on from an earlier checkpoint, or in another process, sees what is written.
    assert chooser.selection.find_stuck(29) is None
    late = replace(chooser.selection, warmup_steps=60)
    late.note_stuck(30, None)
    late.evaluate(chooser.model, 45)
    assert late.find_stuck(45) is None


def test_a_run_that_says_now_one_label_and_now_another_is_warned_of_once(
    tmp_path: Path, start: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chooser = Chooser(tmp_path, start)
    with caplog.at_level(logging.WARNING):
        for step, label in ((30, "no"), (35, "yes"), (40, "no")):
            chooser.evaluate(step, label)
        chooser.selection.note_stuck(45, None)
        assert chooser.selection.find_stuck(45) is None
        chooser.evaluate(50, "no")
    assert [message.split(":")[0] for message in caplog.messages] == ["all 24 dev examples are given the label 'no'"]
    assert chooser.selection.find_stuck(50) is not None


def test_small_models_are_advised_unlike_large_ones_and_those_that_try_again_unlike_others() -> None:
    small, large = advise(312, retries=False), advise(768, retries=False)
    assert small == "Try more steps, a better pre-trained model, or more examples to learn from."
    assert "lower learning rate" in large and large.endswith("--retry-if-stuck.")
    assert advise(1024, retries=True).endswith("more warm-up steps, or more steps.")


def make_examples(*labels: Any) -> list[TextExample]:
    return [TextExample(str(number), "", "text", label=label) for number, label in enumerate(labels)]


def predict(*answers: Any) -> dict[str, Prediction]:
    return {str(number): Prediction(answer) for number, answer in enumerate(answers)}


def test_one_label_for_all_is_stuck_unless_no_other_was_wanted() -> None:
    examples = make_examples("no", "yes", "no")
    assert describe_stuck(LABELS, examples, predict("no", "no", "no")) == "all 3 dev examples are given the label 'no'"
    assert describe_stuck(LABELS, examples, predict("no", "no", "yes")) is None
    assert describe_stuck(LABELS, make_examples("no", "no"), predict("no", "no")) is None


def test_the_same_labels_tag_or_answer_for_all_is_stuck() -> None:
    several = Question("labels", ("no", "yes"))
    said = "all 2 dev examples are given the labels none"
    assert describe_stuck(several, make_examples(("no",), ()), predict((), ())) == said
    assert describe_stuck(several, make_examples((), ()), predict((), ())) is None
    assert describe_stuck(several, make_examples(("no",), ()), predict(("yes",), ())) is None
    tags = Question("token_classes", ("O", "X"))
    sentences = [TagExample("0", "", ("a", "dog"), ("O", "X")), TagExample("1", "", ("it",), ("O",))]
    assert describe_stuck(tags, sentences, predict(("O", "O"), ("O",))) == "all 3 words of dev are given the tag 'O'"
    assert describe_stuck(tags, sentences, predict(("O", "X"), ("O",))) is None
    assert describe_stuck(tags, sentences[1:], predict(("O",))) is None
    answerable = Question("answerable_span")
    questions = [
        SpanExample("0", "", "who?", "a dog", (("a dog", 0),)),
        SpanExample("1", "", "where?", "a dog", ()),
    ]
    assert describe_stuck(answerable, questions, predict("", "")) == "all 2 questions of dev are given no answer"
    assert describe_stuck(answerable, questions, predict("dog", "")) is None


def test_patience_does_not_end_a_run_before_it_can_be_seen_to_be_stuck(tmp_path: Path, start: Path) -> None:
    chooser = Chooser(tmp_path, start, patience=2, retries=True, stops_if_stuck=True)
    for step in (10, 20):
        chooser.evaluate(step, "no")
    assert not chooser.selection.is_finished(20)
    chooser.evaluate(30, "no")
    assert chooser.selection.is_finished(30) and chooser.selection.must_retry(30)


@pytest.mark.parametrize("scale", [0.001, 1.0, 1000.0])
def test_one_number_for_all_is_stuck_whatever_the_unit(scale: float) -> None:
    gold, question = np.linspace(0, 5, 11) * scale, Question("number")
    examples = make_examples(*gold.tolist())
    same = predict(*(2.5 * scale + 0.001 * gold).tolist())
    assert describe_stuck(question, examples, same) == "all dev examples are given nearly the same number"
    assert describe_stuck(question, examples, predict(*(2.5 * scale + 0.1 * gold).tolist())) is None
    assert describe_stuck(question, make_examples(*[1.0] * 11), predict(*[1.0] * 11)) is None


@pytest.mark.parametrize(("num_right", "is_stuck"), [(20, True), (25, True), (29, True), (30, False), (60, False)])
def test_choices_that_are_right_no_oftener_than_by_chance_are_stuck(num_right: int, is_stuck: bool) -> None:
    """Of a hundred, chance has 25 right, and 4.33 more or less."""
    examples = [ChoiceExample(str(number), "", "", "", (), "A") for number in range(100)]
    predictions = predict(*["A"] * num_right, *["B"] * (100 - num_right))
    said = describe_stuck(Question("choice", num_choices=4), examples, predictions)
    assert said == (f"{num_right}.0% of dev is right, and chance is 25.0%" if is_stuck else None)


def test_a_tagger_that_finds_nothing_where_nothing_is_has_a_score_to_be_compared_by(tmp_path: Path) -> None:
    task = make_task(TextColumns(tags="tags"), write_data("tags", tmp_path))
    examples = [TagExample("0", "", ("the", "dog"), ("O", "O"))]
    assert task.metric == "f1"
    assert task.score(examples, {"0": Prediction(("O", "O"))})["f1"] == 0.0


def test_each_attempt_has_a_third_of_the_rate_before() -> None:
    assert [lower_rate(2.7, number) for number in range(4)] == pytest.approx([2.7, 0.9, 0.3, 0.1])
