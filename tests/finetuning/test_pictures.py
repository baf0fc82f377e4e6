from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix

from litebert.finetuning.pictures import (
    MOST_LABELS,
    draw_calibration,
    draw_confusion,
    draw_numbers,
    draw_pictures,
    measure_calibration,
)
from litebert.tasks.classes import TextExample
from litebert.tasks.race import ChoiceExample
from litebert.tasks.task import Prediction, Predictions, Question

LABELS = ("bad", "fair", "good")


def make_labelled(number: int = 60, labels: tuple[str, ...] = LABELS) -> tuple[list[TextExample], Predictions]:
    random = np.random.default_rng(0)
    probabilities = random.dirichlet([1] * len(labels), number)
    examples = [TextExample(str(n), "", "text", label=str(random.choice(labels))) for n in range(number)]
    return examples, {
        str(n): Prediction(labels[row.argmax()], tuple(row.tolist())) for n, row in enumerate(probabilities)
    }


def test_a_confusion_matrix_has_a_row_for_what_is_true() -> None:
    examples, predictions = make_labelled()
    (axes,) = draw_confusion(LABELS, examples, predictions).axes
    answers = [predictions[example.id].answer for example in examples]
    counts = confusion_matrix([example.label for example in examples], answers, labels=LABELS)
    found = {tuple(map(int, text.get_position()[::-1])): int(text.get_text()) for text in axes.texts}
    assert found == dict(np.ndenumerate(counts))
    assert axes.get_title() == f"{np.trace(counts)} of 60 are right"
    assert [label.get_text() for label in axes.get_yticklabels()] == list(LABELS)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=60))
def test_the_calibration_error_is_the_mean_gap_of_the_bins(answers: list[tuple[bool, float]]) -> None:
    right, confident = (list(column) for column in zip(*answers, strict=True))
    expected = 0.0
    for low in range(10):
        inside = [n for n, share in enumerate(confident) if low <= share * 10 < low + 1 or (low == 9 and share == 1)]
        if inside:
            gap = np.mean([right[n] for n in inside]) - np.mean([confident[n] for n in inside])
            expected += abs(gap) * len(inside) / len(right)
    assert measure_calibration(right, confident) == pytest.approx(expected, abs=1e-9)


def test_a_calibration_has_a_point_for_each_bin_and_names_its_error() -> None:
    figure = draw_calibration([True, True, False, True], [0.95, 0.97, 0.55, 0.56])
    (axes,) = figure.axes
    points = [tuple(map(float, np.ravel(line.get_xydata()))) for line in axes.lines[1:]]
    assert sorted(points) == [pytest.approx((0.555, 0.5)), pytest.approx((0.96, 1.0))]
    assert axes.get_title() == f"calibration error {(0.055 * 2 + 0.04 * 2) / 4:.1%}"


def test_numbers_are_drawn_over_what_is_true() -> None:
    examples = [TextExample(str(n), "", "text", label=float(n)) for n in range(5)]
    (axes,) = draw_numbers(examples, {str(n): Prediction(n / 2) for n in range(5)}).axes
    assert axes.lines[1].get_xydata().tolist() == [[n, n / 2] for n in range(5)]


def draw(folder: Path, question: Question, examples: Any, predictions: Predictions) -> list[str]:
    paths = draw_pictures(folder, question, examples, predictions)
    assert sorted(paths) == sorted(folder.iterdir())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    return sorted(path.name for path in paths)


def test_each_question_has_the_pictures_that_suit_it(tmp_path: Path) -> None:
    folders = iter([tmp_path / str(number) for number in range(9)])

    def drawn(question: Question, examples: Any, predictions: Predictions) -> list[str]:
        folder = next(folders)
        folder.mkdir()
        return draw(folder, question, examples, predictions)

    assert drawn(Question("classes", LABELS), *make_labelled()) == ["calibration.png", "confusion.png"]
    many = tuple(f"label {number}" for number in range(MOST_LABELS + 1))
    assert drawn(Question("classes", many), *make_labelled(labels=many)) == ["calibration.png"]
    numbers = [TextExample(str(n), "", "text", label=float(n)) for n in range(3)]
    assert drawn(Question("number"), numbers, {str(n): Prediction(1.0) for n in range(3)}) == ["numbers.png"]
    choices = [ChoiceExample(str(n), "", "", "", (), "A") for n in range(3)]
    chosen = {str(n): Prediction("A", (0.4, 0.3, 0.2, 0.1)) for n in range(3)}
    assert drawn(Question("choice", num_choices=4), choices, chosen) == ["calibration.png"]
    for question in (Question("labels", LABELS), Question("token_classes", LABELS), Question("span")):
        assert drawn(question, [], {}) == []


def test_pictures_are_drawn_without_a_screen() -> None:
    assert isinstance(draw_calibration([True], [1.0]), Figure)
