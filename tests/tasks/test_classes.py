import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

from litebert.config import UserError
from litebert.tasks.classes import ClassTask, Examples, Label, TextExample, sort_names
from litebert.tasks.scores import accuracy, pearson, score_label_sets
from litebert.tasks.task import Limits, Prediction, Question, Sample, Task, describe_balance, pack
from litebert.text.vocabulary import Vocabulary, open_vocabulary

WORDS = ["the", "fox", "dog", "sees", "likes", "big", "old", "a", "##s", "."]
LIMITS = Limits()


@pytest.fixture
def vocabulary(tmp_path: Path) -> Vocabulary:
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    return open_vocabulary(tmp_path)


def make_task(**changes: Any) -> ClassTask:
    task = ClassTask(
        name="made",
        metric="accuracy",
        read_split=lambda data, split: [],
        compare=lambda gold, predicted, labels: {"accuracy": accuracy(gold, predicted)},
    )
    return dataclasses.replace(task, **changes)


SEVERAL = make_task(kind="labels", compare=lambda gold, predicted, labels: score_label_sets(gold, predicted))
NUMBER = make_task(
    kind="number", metric="pearson", compare=lambda gold, predicted, labels: {"pearson": pearson(gold, predicted)}
)


def make_examples(*labels: Label, first: str = "the fox", second: str | None = None) -> Sequence[TextExample]:
    return [TextExample(str(n), f"a.tsv, line {n + 2}", first, second, label) for n, label in enumerate(labels)]


def test_it_is_a_task() -> None:
    task: Task = make_task()
    assert task.metric == "accuracy" and task.splits["dev"] == ("dev",)


def test_labels_are_sorted_by_number_if_they_are_numbers() -> None:
    assert make_task().ask(make_examples("10", "9", "-1", "9")).labels == ("-1", "9", "10")
    assert make_task().ask(make_examples("10", "9", "x")).labels == ("10", "9", "x")
    assert make_task(labels=("b", "a")).ask(make_examples("a")).labels == ("b", "a")
    assert SEVERAL.ask(make_examples(("b", "a"), (), ("c",))) == Question("labels", ("a", "b", "c"))
    assert NUMBER.ask(make_examples(1.0)) == Question("number")


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(), unique=True))
def test_names_that_are_numbers_have_the_order_of_numbers(numbers: list[int]) -> None:
    assert sort_names(map(str, numbers)) == tuple(map(str, sorted(numbers)))


def test_there_must_be_something_to_tell_apart() -> None:
    with pytest.raises(UserError, match="the examples' labels are 'a'; give at least 2"):
        make_task().ask(make_examples("a", "a"))
    with pytest.raises(UserError, match="the examples' labels are none; give at least 1"):
        SEVERAL.ask(make_examples((), ()))


def test_samples_are_what_the_texts_are_one_by_one(vocabulary: Vocabulary) -> None:
    question = Question("classes", ("no", "yes"))
    examples = [
        TextExample("a", "", "The fox sees.", None, "yes"),
        TextExample("b", "", "the fox", "The dogs like\na zebra", "no"),
        TextExample("c", "", "", "big", "no"),
    ]
    samples, notes = make_task().encode(examples, vocabulary, question, LIMITS)
    assert notes == [] and [sample.label for sample in samples] == [1, 0, 0]
    for number, (sample, example) in enumerate(zip(samples, examples, strict=True)):
        first = vocabulary.encode(example.first)
        second = None if example.second is None else vocabulary.encode(example.second)
        assert sample.token_ids.tolist() == vocabulary.add_special(first, second)
        assert sample.second == len(first) + 2 and sample.example == number
    batch = pack(samples)
    assert batch.labels_BX is not None and batch.labels_BX.tolist() == [1, 0, 0]


def pop_longer(first: list[int], second: list[int], room: int) -> None:
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 20), st.integers(0, 20), st.integers(8, 24))
def test_long_pairs_lose_the_end_of_the_longer_text(
    tmp_path_factory: pytest.TempPathFactory, num_first: int, num_second: int, length: int
) -> None:
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    vocabulary = open_vocabulary(folder)
    pair = ["the"] * num_first, ["dog"] * num_second
    examples = [TextExample("a", "", " ".join(pair[0]), " ".join(pair[1]))]
    (sample,), notes = make_task().encode(examples, vocabulary, Question("classes", ("a", "b")), Limits(length=length))
    first, second = (vocabulary.encode(" ".join(words)) for words in pair)
    pop_longer(first, second, length - 3)
    assert sample.token_ids.tolist() == vocabulary.add_special(first, second)
    assert bool(notes) == (num_first + num_second > length - 3)


def test_how_many_texts_were_cut_is_told_after_what_reading_had_to_tell(vocabulary: Vocabulary) -> None:
    examples = Examples(make_examples("a", "b", first="fox " * 7), ["two rows were left out"])
    examples.append(TextExample("c", "", "fox", None, "a"))
    samples, notes = make_task().encode(examples, vocabulary, Question("classes", ("a", "b")), Limits(length=8))
    assert [len(sample.token_ids) for sample in samples] == [8, 8, 3]
    assert notes[0] == "two rows were left out"
    assert notes[1].startswith("2 of 3 examples were cut to 8 tokens")


def test_several_labels_are_a_row_of_zeros_and_ones(vocabulary: Vocabulary) -> None:
    examples = make_examples(("b",), (), ("c", "a"))
    samples, _ = SEVERAL.encode(examples, vocabulary, SEVERAL.ask(examples), LIMITS)
    labels = pack(samples).labels_BX
    assert labels is not None and labels.dtype == torch.float
    assert labels.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 1]]


def test_numbers_stay_numbers_and_secrets_secret(vocabulary: Vocabulary) -> None:
    labels = pack(NUMBER.encode(make_examples(2.5, 0.0), vocabulary, Question("number"), LIMITS).samples).labels_BX
    assert labels is not None and labels.tolist() == [2.5, 0.0]
    secret = NUMBER.encode(make_examples(None, None), vocabulary, Question("number"), LIMITS).samples
    assert pack(secret).labels_BX is None


def test_a_label_that_is_not_known_is_refused_with_its_place(vocabulary: Vocabulary) -> None:
    question = Question("classes", ("a", "b"))
    with pytest.raises(UserError, match="^a.tsv, line 3: the label 'c' is not one of those known .'a', 'b'.; correct"):
        make_task().encode(make_examples("a", "c"), vocabulary, question, LIMITS)
    with pytest.raises(UserError, match="line 2: the label 'c' is not one"):
        SEVERAL.encode(make_examples(("a", "c")), vocabulary, question, LIMITS)
    with pytest.raises(UserError, match="line 3: there is no label, though others have one"):
        make_task().encode(make_examples("a", None), vocabulary, question, LIMITS)


def decode(task: ClassTask, question: Question, *outputs: Any) -> list[Prediction]:
    examples = make_examples(*[None] * len(outputs))
    samples = [blank_sample(number) for number in range(len(outputs))]
    return list(task.decode(examples, samples, outputs, question, LIMITS).values())


def blank_sample(number: int) -> Sample:
    return Sample(np.zeros(2, np.int32), 2, number)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1000, 1000, width=32), min_size=3, max_size=3))
def test_probabilities_are_the_softmax_or_each_ones_sigmoid(logits: list[float]) -> None:
    output = np.array(logits, np.float32)
    (one,) = decode(make_task(), Question("classes", ("a", "b", "c")), output)
    np.testing.assert_allclose(one.probabilities, softmax(output.astype(float)), atol=1e-12)
    assert one.answer == "abc"[output.argmax()]
    (several,) = decode(SEVERAL, Question("labels", ("a", "b", "c")), output)
    np.testing.assert_allclose(several.probabilities, expit(output.astype(float)), atol=1e-12)
    assert several.answer == tuple(label for label, logit in zip("abc", logits, strict=True) if logit > 0)


def test_a_number_is_predicted_as_it_is() -> None:
    found = decode(NUMBER, Question("number"), np.float32(1.5), np.array([-7.0]), 3)
    assert [prediction.answer for prediction in found] == [1.5, -7.0, 3.0]


def test_an_example_without_a_prediction_is_wrong_but_not_one_without_a_number() -> None:
    task = make_task()
    assert task.score(make_examples("a", "b"), {"0": Prediction("a")}) == {"accuracy": 50.0}
    scores = SEVERAL.score(make_examples(("a",), ()), {"0": Prediction(("a",))})
    assert scores["exact"] == 50.0 and scores["micro_f1"] == 100.0
    with pytest.raises(UserError, match="1 of 2 examples have no prediction .the first is '1', a.tsv, line 3."):
        NUMBER.score(make_examples(1.0, 2.0), {"0": Prediction(1.0)})
    with pytest.raises(UserError, match="2 of 2 examples have no prediction"):
        task.score(make_examples("a", "b"), {"7": Prediction("a")})
    with pytest.raises(UserError, match="a.tsv, line 2: there is no label to score by"):
        task.score(make_examples(None), {"0": Prediction("a")})


def test_nothing_is_decided_by_a_threshold() -> None:
    predictions = {"0": Prediction("a")}
    assert make_task().choose_threshold(make_examples("a"), predictions) is None
    assert make_task().decide(predictions, None) == predictions


@pytest.mark.parametrize(
    ("task", "predictions"),
    [
        (make_task(labels=("b", "a")), [Prediction("a", (0.25, 0.75)), Prediction("b", (0.9, 0.1))]),
        (make_task(), [Prediction("ä", (0.25, 0.75)), Prediction("b", (0.9, 0.1))]),
        (SEVERAL, [Prediction(("a", "b"), (0.6, 0.7)), Prediction((), (0.1, 0.2))]),
        (NUMBER, [Prediction(1.25), Prediction(-3.0)]),
    ],
)
def test_written_predictions_are_read_again(tmp_path: Path, task: ClassTask, predictions: list[Prediction]) -> None:
    by_id = dict(zip(["0", "1"], predictions, strict=True))
    (path,) = task.write_predictions(tmp_path / "new", "dev", make_examples(None, None), by_id)
    assert path.name == "made-dev.jsonl"
    assert task.read_predictions(path) == by_id


def test_our_file_names_the_probabilities_if_the_labels_are_known(tmp_path: Path) -> None:
    predictions = {"0": Prediction("a", (0.25, 0.75))}
    task = make_task().with_labels(("b", "a"))
    (path,) = task.write_predictions(tmp_path, "test", make_examples(None), predictions)
    expected = {"id": "0", "prediction": "a", "probabilities": {"b": 0.25, "a": 0.75}}
    assert json.loads(path.read_text()) == expected
    assert task.with_labels(("a", "b")).read_predictions(path)["0"].probabilities == (0.75, 0.25)


def test_others_predictions_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("index\tprediction\n0\t1\n7\t0\n")
    (tmp_path / "b.json").write_text('{"0": 1, "7": "0"}')
    for name in ("a.tsv", "b.json"):
        found = make_task(labels=("0", "1")).read_predictions(tmp_path / name)
        assert found == {"0": Prediction("1"), "7": Prediction("0")}
    assert NUMBER.read_predictions(tmp_path / "a.tsv") == {"0": Prediction(1.0), "7": Prediction(0.0)}
    (tmp_path / "c.csv").write_text('id,prediction\n0,good|loud\n1,\n2,"[""good""]"\n')
    found = SEVERAL.read_predictions(tmp_path / "c.csv")
    assert [found[key].answer for key in "012"] == [("good", "loud"), (), ("good",)]


@pytest.mark.parametrize(
    ("task", "name", "content", "said"),
    [
        (make_task(labels=("0", "1")), "a.tsv", "index\tprediction\n0\tx\n", "line 2: the label 'x' is not one"),
        (make_task(), "a.tsv", "index\tprediction\n0\tx\n0\ty\n", "line 3: the id '0' is there twice"),
        (make_task(), "a.tsv", "index\tanswer\n0\tx\n", "line 2: there is no column 'prediction'"),
        (NUMBER, "a.tsv", "index\tprediction\n0\tx\n", "line 2: 'x' is no number; correct it"),
        (NUMBER, "a.json", '{"7": NaN}', "'7': nan is no number"),
        (NUMBER, "a.json", f'{{"7": {"9" * 400}}}', r"'7': 9+\.\.\.9 is no number"),
        (
            make_task(labels=("0", "1")),
            "a.jsonl",
            '{"id": 0, "prediction": 1, "probabilities": {"a": 1}}',
            "are of 'a', not",
        ),
        (make_task(), "a.jsonl", '{"id": 0, "prediction": 1, "probabilities": 3}', "must be a number for each label"),
    ],
)
def test_predictions_that_make_no_sense_are_refused_with_their_place(
    tmp_path: Path, task: ClassTask, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=f"^{tmp_path}/{name}, .*{said}"):
        task.read_predictions(tmp_path / name)


def test_not_every_example_is_predicted_is_refused_when_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1 of 2 examples have no prediction"):
        make_task().write_predictions(tmp_path, "test", make_examples(None, None), {"0": Prediction("a")})
    assert list(tmp_path.iterdir()) == []


def test_two_examples_of_one_id_are_refused() -> None:
    task = make_task(read_split=lambda data, split: [TextExample("7", "here", "a"), TextExample("7", "there", "b")])
    again = make_task(read_split=lambda data, split: [TextExample("7", "here", "a")] * 2)
    with pytest.raises(UserError, match="^here: its id '7' is also that of here"):
        again.read("", "dev")
    with pytest.raises(UserError, match="^there: its id '7' is also that of here"):
        task.read("", "train")


def test_the_balance_counts_every_label_that_may_be_said() -> None:
    examples = make_examples("b", "a", "b", None)
    assert describe_balance(examples, Question("classes", ("a", "b", "c"))) == {"a": 1, "b": 2, "c": 0}
    several = make_examples(("a", "b"), (), ("b",))
    assert describe_balance(several, SEVERAL.ask(several)) == {"a": 1, "b": 2}
    assert describe_balance(make_examples(1.0), Question("number")) == {}
