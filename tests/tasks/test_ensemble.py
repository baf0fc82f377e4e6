import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from litebert.config import UserError
from litebert.tasks.ensemble import choose_members, combine, normalize_scores
from litebert.tasks.race import TASKS, ChoiceExample
from litebert.tasks.task import Candidate, Prediction, Predictions, Question, Task

RACE = TASKS["race"]
LABELS = ("no", "maybe", "yes")
QUESTIONS = {
    "label": Question("classes", LABELS),
    "several": Question("labels", LABELS),
    "number": Question("number"),
    "choice": Question("choice", num_choices=4),
    "token_classes": Question("token_classes", LABELS),
    "span": Question("span"),
    "answerable_span": Question("answerable_span"),
}
PARAGRAPH = "the fox sits in the old tree"

shares = st.floats(0.001, 1)
scores = st.floats(-20, 0)
places = st.integers(0, len(PARAGRAPH) - 1)


def make_label(numbers: Sequence[float], names: Sequence[str]) -> Prediction:
    probabilities = tuple(number / sum(numbers) for number in numbers)
    return Prediction(names[int(np.argmax(probabilities))], probabilities)


def make_several(numbers: Sequence[float]) -> Prediction:
    return Prediction(tuple(name for name, n in zip(LABELS, numbers, strict=True) if n > 0.5), tuple(numbers))


def make_span(start: int, length: int, start_score: float, end_score: float) -> Candidate:
    return Candidate(PARAGRAPH[start : start + length], start, start + length, start_score, end_score)


def make_spans(spans: Sequence[Candidate], no_answer: float) -> Prediction:
    best_first = sorted(spans, key=lambda span: (-(span.start_score + span.end_score), span.start, span.end))
    return Prediction(best_first[0].text, (), tuple(best_first), no_answer)


def in_one_place(span: Candidate) -> tuple[int, int]:
    return span.start, span.end


spans = st.lists(
    st.builds(make_span, places, st.integers(1, 5), scores, scores), min_size=1, max_size=6, unique_by=in_one_place
)
PREDICTION: dict[str, st.SearchStrategy[Prediction]] = {
    "label": st.builds(make_label, st.lists(shares, min_size=3, max_size=3), st.just(LABELS)),
    "several": st.builds(make_several, st.lists(shares, min_size=3, max_size=3)),
    "number": st.floats(0, 5).map(Prediction),
    "choice": st.builds(make_label, st.lists(shares, min_size=4, max_size=4), st.just("ABCD")),
    "token_classes": st.tuples(*[st.sampled_from(LABELS)] * 6).map(Prediction),
    "span": st.builds(make_spans, spans, st.just(0.0)),
    "answerable_span": st.builds(make_spans, spans, scores),
}


def draw_members(data: st.DataObject, kind: str, least: int = 1) -> list[Predictions]:
    ids = [f"q{number}" for number in range(data.draw(st.integers(1, 3)))]
    member = st.fixed_dictionaries(dict.fromkeys(ids, PREDICTION[kind]))
    return data.draw(st.lists(member, min_size=least, max_size=4))


def check_same(first: Predictions, second: Predictions) -> None:
    """Equal but for the last bit of numbers."""
    assert list(first) == list(second)
    for one, two in zip(first.values(), second.values(), strict=True):
        assert one.answer == (pytest.approx(two.answer) if isinstance(two.answer, float) else two.answer)
        assert one.probabilities == pytest.approx(two.probabilities)
        assert [span[:3] for span in one.candidates] == [span[:3] for span in two.candidates]
        for spans in zip(one.candidates, two.candidates, strict=True):
            assert spans[0][3:] == pytest.approx(spans[1][3:])
        assert one.no_answer == pytest.approx(two.no_answer)


kinds = pytest.mark.parametrize("kind", QUESTIONS)
# Busy machines are slow at drawing, too.
few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@kinds
@few
@given(data=st.data())
def test_an_ensemble_of_one_is_itself(kind: str, data: st.DataObject) -> None:
    member = draw_members(data, kind)[0]
    combined = combine(QUESTIONS[kind], [member])
    if kind == "span":  # their scores come as log-probabilities, whose rounding may order spans that were as good
        assume(is_clear(combined))
        check_same(combined, {id_: normalize_scores(prediction) for id_, prediction in member.items()})
    else:
        assert combined == member


@kinds
@few
@given(data=st.data(), number=st.integers(2, 5))
def test_an_ensemble_of_equal_members_is_that_member(kind: str, data: st.DataObject, number: int) -> None:
    member = draw_members(data, kind)[0]
    alone = combine(QUESTIONS[kind], [member])
    together = combine(QUESTIONS[kind], [member] * number)
    assume(is_clear(alone))
    check_same(together, alone)


def is_clear(predictions: Predictions) -> bool:
    """Whether no two spans or labels are so near to each other that rounding may turn them."""
    for prediction in predictions.values():
        totals = sorted(span.start_score + span.end_score for span in prediction.candidates)
        if any(after - before < 1e-9 for before, after in itertools.pairwise(totals)):
            return False
        ordered = sorted(prediction.probabilities)
        if any(abs(number - 0.5) < 1e-9 for number in ordered):
            return False
        if any(after - before < 1e-9 for before, after in itertools.pairwise(ordered)):
            return False
    return True


@kinds
@few
@given(data=st.data())
def test_the_order_of_members_does_not_matter_to_the_last_bit(kind: str, data: st.DataObject) -> None:
    members = draw_members(data, kind, least=2)
    others = data.draw(st.permutations(members))
    assert combine(QUESTIONS[kind], others) == combine(QUESTIONS[kind], members)


@pytest.mark.parametrize("kind", ["label", "several", "choice"])
@few
@given(data=st.data())
def test_probabilities_are_averaged_as_numpy_does(kind: str, data: st.DataObject) -> None:
    members = draw_members(data, kind)
    names = QUESTIONS[kind].labels or tuple("ABCD")
    for id_, prediction in combine(QUESTIONS[kind], members).items():
        mean = np.mean([member[id_].probabilities for member in members], axis=0)
        np.testing.assert_allclose(prediction.probabilities, mean, rtol=1e-12)
        average = np.array(prediction.probabilities)
        expected = tuple(np.array(names)[average > 0.5]) if kind == "several" else names[int(average.argmax())]
        assert prediction.answer == expected


def test_an_average_can_choose_what_no_member_did() -> None:
    members = [{"q": Prediction("no", (0.5, 0.4, 0.1))}, {"q": Prediction("yes", (0.1, 0.4, 0.5))}]
    assert combine(QUESTIONS["label"], members)["q"].answer == "maybe"


def test_numbers_are_averaged() -> None:
    members = [{"a": Prediction(number), "b": Prediction(-number)} for number in (1.0, 2.0, 4.5)]
    assert combine(QUESTIONS["number"], members) == {"a": Prediction(2.5), "b": Prediction(-2.5)}


def test_a_word_has_the_tag_of_most_members_and_the_first_label_of_equally_many() -> None:
    tags = [("yes", "no", "yes"), ("yes", "yes", "maybe"), ("no", "yes", "yes"), ("no", "yes", "maybe")]
    members = [{"q": Prediction(some)} for some in tags]
    assert combine(QUESTIONS["token_classes"], members)["q"].answer == ("no", "yes", "maybe")


def test_spans_are_averaged_over_those_who_proposed_them() -> None:
    fox, tree, sits = (PARAGRAPH.index(word) for word in ("fox", "tree", "sits"))
    first = make_spans([make_span(fox, 3, -1.0, -1.0), make_span(tree, 4, -1.0, -2.0)], no_answer=1.0)
    second = make_spans([make_span(fox, 3, -3.0, -2.0), make_span(sits, 4, -3.0, -3.0)], no_answer=-4.0)
    third = make_spans([make_span(tree, 4, -0.5, -2.5)], no_answer=0.0)
    combined = combine(QUESTIONS["answerable_span"], [{"q": first}, {"q": second}, {"q": third}])["q"]
    # By hand: tree (-1 -0.5)/2 + (-2 -2.5)/2 = -3; fox (-1 -3)/2 + (-1 -2)/2 = -3.5; sits, of one alone, -6.
    assert combined.candidates == (
        make_span(tree, 4, -0.75, -2.25),
        make_span(fox, 3, -2.0, -1.5),
        make_span(sits, 4, -3.0, -3.0),
    )
    assert combined.answer == "tree"
    assert combined.no_answer == -1.0


def test_a_member_without_spans_still_speaks_against_an_answer() -> None:
    members = [{"q": make_spans([make_span(4, 3, -1.0, -1.0)], no_answer=2.0)}, {"q": Prediction("", no_answer=6.0)}]
    combined = combine(QUESTIONS["answerable_span"], members)["q"]
    assert (combined.answer, combined.no_answer) == ("fox", 4.0)
    assert combine(QUESTIONS["span"], [members[1]])["q"] == members[1]["q"]


@few
@given(spans, st.floats(-100, 100), st.floats(-100, 100))
def test_a_constant_added_to_all_logits_changes_nothing(some: list[Candidate], start: float, end: float) -> None:
    moved = [span._replace(start_score=span.start_score + start, end_score=span.end_score + end) for span in some]
    for span, other in zip(
        normalize_scores(Prediction("", candidates=tuple(some))).candidates,
        normalize_scores(Prediction("", candidates=tuple(moved))).candidates,
        strict=True,
    ):
        assert span[:3] == other[:3] and span[3:] == pytest.approx(other[3:], abs=1e-6)


def test_logits_of_starts_and_of_ends_become_log_probabilities() -> None:
    # Starts 0 and 4, ends 7 and 12; the start 4 is that of two spans and counts once, with its greater logit.
    logits = [(0, 7, 5.0, 3.0), (4, 7, 6.5, 3.0), (4, 12, 6.0, 1.0)]
    given_spans = [Candidate(PARAGRAPH[start:end], start, end, one, two) for start, end, one, two in logits]
    normal = normalize_scores(make_spans(given_spans, 0.0))
    by_place = {span[1:3]: span[3:] for span in normal.candidates}
    starts, ends = log_softmax([5.0, 6.5]), log_softmax([3.0, 1.0])
    assert by_place[0, 7] == pytest.approx((starts[0], ends[0]))
    assert by_place[4, 7] == pytest.approx((starts[1], ends[0]))
    assert by_place[4, 12] == pytest.approx((starts[1] - 0.5, ends[1]))


def test_a_member_with_greater_logits_has_no_greater_say() -> None:
    fox, tree = (make_span(PARAGRAPH.index(word), len(word), 0.0, 0.0) for word in ("fox", "tree"))
    quiet = [fox._replace(start_score=2.0), tree._replace(start_score=0.0)]
    loud = [fox._replace(start_score=100.0), tree._replace(start_score=101.0)]
    members = [{"q": make_spans(some, 0.0)} for some in (quiet, loud)]
    assert combine(QUESTIONS["span"], members)["q"].answer == "fox"
    total = sum(combine(QUESTIONS["span"], members)["q"].candidates[0][3:])
    expected = (log_softmax([2.0, 0.0])[0] + log_softmax([100.0, 101.0])[0]) / 2 + math.log(0.5)
    assert total == pytest.approx(expected)


def test_members_that_predicted_other_examples_are_named_with_how_many() -> None:
    answer = Prediction("A", (0.7, 0.1, 0.1, 0.1))
    whole, part = {"a": answer, "b": answer, "c": answer}, {"b": answer}
    with pytest.raises(UserError, match="^small lacks 2 of the 3 examples that others predicted"):
        choose_members(RACE, make_examples(1), {"large": whole, "small": part})
    with pytest.raises(UserError, match="^member 1 lacks 2, member 2 lacks 1 of the 3 examples"):
        combine(QUESTIONS["choice"], [part, {"a": answer, "c": answer}])
    with pytest.raises(UserError, match="there are no members"):
        combine(QUESTIONS["choice"], [])


@pytest.mark.parametrize(
    ("kind", "prediction", "said"),
    [
        ("choice", Prediction("A"), "q1: a member has 0 probabilities for 4 answers .A, B, C, D.;"),
        ("label", Prediction("no", (0.5, 0.5)), "q1: a member has 2 probabilities for 3 answers .no, maybe, yes.;"),
        ("span", Prediction("fox"), "q1: a member has an answer without spans"),
        ("span", make_spans([Candidate("fox", -1, -1, 1.0, 1.0)], 0.0), "q1: .* or spans without their places"),
        ("token_classes", Prediction(("no",)), "q1: members have tags for 1 and for 6 words"),
    ],
)
def test_predictions_that_lack_what_an_ensemble_needs_are_refused(kind: str, prediction: Prediction, said: str) -> None:
    good = {
        "choice": Prediction("A", (0.7, 0.1, 0.1, 0.1)),
        "label": Prediction("no", (0.8, 0.1, 0.1)),
        "span": make_spans([make_span(4, 3, 1.0, 1.0)], 0.0),
        "token_classes": Prediction(("no",) * 6),
    }
    with pytest.raises(UserError, match=said):
        combine(QUESTIONS[kind], [{"q1": good[kind]}, {"q1": prediction}])


def make_examples(number: int) -> list[ChoiceExample]:
    options = ("a", "b", "c", "d")
    return [ChoiceExample(f"q{n}", f"line {n}", "passage", "question", options, "ABCD"[n % 4]) for n in range(number)]


def make_members(examples: Sequence[ChoiceExample], number: int, seed: int) -> dict[str, Predictions]:
    """Members that lean to the right answer, each with errors of its own."""
    random = np.random.default_rng(seed)
    members: dict[str, Predictions] = {}
    for name in range(number):
        logits = random.normal(0, 1, (len(examples), 4))
        logits[np.arange(len(examples)), np.arange(len(examples)) % 4] += random.uniform(0, 1.5)
        rows = np.exp(logits).tolist()
        members[f"run-{name}"] = {e.id: make_label(row, "ABCD") for e, row in zip(examples, rows, strict=True)}
    return members


@few
@given(st.integers(1, 5), st.integers(0, 10_000))
def test_chosen_members_never_score_below_the_best_alone_and_no_other_would_help(number: int, seed: int) -> None:
    examples = make_examples(40)
    members = make_members(examples, number, seed)
    chosen = choose_members(RACE, examples, members)

    def measure(*names: str) -> float:
        combined = combine(QUESTIONS["choice"], [members[name] for name in names])
        return RACE.score(examples, combined)["accuracy"]

    assert chosen.scores[0] == max(RACE.score(examples, member)["accuracy"] for member in members.values())
    assert list(chosen.scores) == [measure(*chosen.members[:end]) for end in range(1, len(chosen.members) + 1)]
    assert all(before < after for before, after in itertools.pairwise(chosen.scores))
    assert chosen.scores[-1] >= chosen.scores[0]
    assert len(set(chosen.members)) == len(chosen.members) == len(chosen.scores)
    assert RACE.score(examples, chosen.predictions)["accuracy"] == chosen.scores[-1]
    for name in members.keys() - set(chosen.members):
        assert measure(*chosen.members, name) <= chosen.scores[-1]


def test_many_weak_members_are_better_together() -> None:
    examples = make_examples(300)
    chosen = choose_members(RACE, examples, make_members(examples, 6, seed=1))
    assert len(chosen.members) > 1 and chosen.scores[-1] > chosen.scores[0] + 5
    assert chosen.threshold is None


class AnswerTask:
    """Questions that have an answer or none, as far as choosing members asks."""

    metric = "exact"

    def ask(self, examples: Sequence[Any]) -> Question:
        return Question("answerable_span")

    def choose_threshold(self, examples: Sequence[Any], predictions: Predictions) -> float | None:
        thresholds = [math.inf, *(prediction.no_answer for prediction in predictions.values())]
        return max(thresholds, key=lambda t: self.score(examples, self.decide(predictions, t))["exact"])

    def decide(self, predictions: Predictions, threshold: float | None) -> Predictions:
        assert threshold is not None
        return {id_: p._replace(answer="") if p.no_answer >= threshold else p for id_, p in predictions.items()}

    def score(self, examples: Sequence[Any], predictions: Predictions) -> dict[str, float]:
        return {"exact": 100 * float(np.mean([predictions[id_].answer == answer for id_, answer in examples]))}


def test_each_set_of_members_has_the_threshold_that_is_best_for_it() -> None:
    task = cast(Task, AnswerTask())
    examples = [("a", "fox"), ("b", "fox"), ("c", ""), ("d", "")]
    fox = make_span(PARAGRAPH.index("fox"), 3, -1.0, -1.0)

    def member(*no_answers: float) -> Predictions:
        return {id_: make_spans([fox], number) for (id_, _), number in zip(examples, no_answers, strict=True)}

    # Each of the first two takes one question for what it is not; together they are right, above their own threshold.
    members = {"one": member(0, 6, 4, 9), "other": member(10, 11, 16, 10.5), "none": member(3, 2, 1, 0)}
    chosen = choose_members(task, examples, members)
    assert chosen.members == ("one", "other")
    assert chosen.scores == (75.0, 100.0)
    # The means are 5, 8.5, 10 and 9.75.
    assert chosen.threshold == 9.75
    assert [prediction.answer for prediction in chosen.predictions.values()] == ["fox", "fox", "", ""]


def test_labels_that_the_examples_lack_come_with_the_question() -> None:
    class LabelTask(AnswerTask):
        def ask(self, examples: Sequence[Any]) -> Question:
            return Question("classes", tuple(sorted({label for _, label in examples})))

        def choose_threshold(self, examples: Sequence[Any], predictions: Predictions) -> float | None:
            return None

        def decide(self, predictions: Predictions, threshold: float | None) -> Predictions:
            return predictions

    examples, task = [("a", "no"), ("b", "yes")], cast(Task, LabelTask())
    members = {"one": {"a": Prediction("no", (0.8, 0.1, 0.1)), "b": Prediction("yes", (0.1, 0.1, 0.8))}}
    with pytest.raises(UserError, match="a member has 3 probabilities for 2 answers .no, yes."):
        choose_members(task, examples, members)
    assert choose_members(task, examples, members, QUESTIONS["label"]).scores == (100.0,)
