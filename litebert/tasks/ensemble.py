"""Several models' predictions made one, and which of them are worth it (as in ALBERT's results on leaderboards).

Only predictions are needed, so members may differ in everything: size, vocabulary, training, maker. Probabilities are
averaged, numbers too. A span's scores are averaged over the members that proposed it. Tags, which have no probabilities
here, are chosen by majority for each word on its own, so that tags which may not follow each other can come together.
"""

import math
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from litebert.config import require
from litebert.tasks.task import Candidate, Kind, Prediction, Predictions, Question, Task

Members = Sequence[Prediction]
"""What each member made of one example."""


class Chosen(NamedTuple):
    """The members of an ensemble, in the order in which they were taken, and what that gave."""

    members: tuple[str, ...]
    scores: tuple[float, ...]
    """The task's metric with the first member alone, with the first two, and so on; or with all at once."""
    predictions: Predictions
    """Those of all chosen together, decided by the threshold."""
    threshold: float | None


def choose_members(
    task: Task, examples: Sequence[Any], members: Mapping[str, Predictions], question: Question | None = None
) -> Chosen:
    """Begins with the best member and adds whichever raises the score most, each once, until none does.

    `question` is needed where labels are not the task's own and these examples may not have them all.
    """
    check_members(members)
    question = question or task.ask(examples)

    def attempt(names: tuple[str, ...]) -> Chosen:
        return try_members(task, examples, {name: members[name] for name in names}, question)

    best = find_best(attempt((name,)) for name in members)
    while others := [name for name in members if name not in best.members]:
        trial = find_best(attempt((*best.members, name)) for name in others)
        if not trial.scores[-1] > best.scores[-1]:
            break
        best = trial._replace(scores=best.scores + trial.scores)
    return best


def try_members(task: Task, examples: Sequence[Any], members: Mapping[str, Predictions], question: Question) -> Chosen:
    """All of these members at once."""
    combined = combine(question, list(members.values()))
    threshold = task.choose_threshold(examples, combined)
    decided = task.decide(combined, threshold)
    return Chosen(tuple(members), (task.score(examples, decided)[task.metric],), decided, threshold)


def find_best(trials: Iterable[Chosen]) -> Chosen:
    """The first of the best; a score that is no number is the worst."""
    return max(trials, key=lambda trial: -math.inf if math.isnan(trial.scores[-1]) else trial.scores[-1])


def combine(question: Question, members: Sequence[Predictions]) -> Predictions:
    """One prediction for each example. The members' order does not matter.

    Where there may be no answer, the best span is the answer until the task decides by a threshold.
    """
    named = {f"member {number}": predictions for number, predictions in enumerate(members, 1)}
    check_members(named)
    combine_one = COMBINERS[question.kind]
    return {id_: combine_one(question, id_, [predictions[id_] for predictions in members]) for id_ in members[0]}


def check_members(members: Mapping[str, Predictions]) -> None:
    """Refuses members that did not predict the same examples."""
    require(members, "there are no members to make an ensemble of; name at least one")
    all_ids = set().union(*members.values())
    lacking = {name: len(all_ids) - len(predictions) for name, predictions in members.items()}
    said = ", ".join(f"{name} lacks {count}" for name, count in lacking.items() if count)
    require(not said, f"{said} of the {len(all_ids)} examples that others predicted; predict the same with all members")


def average(numbers: Sequence[float]) -> float:
    """The exact sum, rounded once: it is the same in any order."""
    return math.fsum(numbers) / len(numbers)


def average_probabilities(id_: str, members: Members, names: Sequence[str]) -> tuple[float, ...]:
    counts = {len(member.probabilities) for member in members} - {len(names)}
    said = f"{id_}: a member has {min(counts, default=0)} probabilities for {len(names)} answers"
    require(not counts, f"{said} ({', '.join(names)}); an ensemble needs all of every member")
    return tuple(average(numbers) for numbers in zip(*(member.probabilities for member in members), strict=True))


def combine_labels(question: Question, id_: str, members: Members) -> Prediction:
    return pick_likeliest(question.labels, average_probabilities(id_, members, question.labels))


def combine_choices(question: Question, id_: str, members: Members) -> Prediction:
    letters = string.ascii_uppercase[: question.num_choices]
    return pick_likeliest(letters, average_probabilities(id_, members, letters))


def pick_likeliest(names: Sequence[str], probabilities: tuple[float, ...]) -> Prediction:
    return Prediction(names[probabilities.index(max(probabilities))], probabilities)


def combine_several(question: Question, id_: str, members: Members) -> Prediction:
    probabilities = average_probabilities(id_, members, question.labels)
    likely = tuple(name for name, number in zip(question.labels, probabilities, strict=True) if number > 0.5)
    return Prediction(likely, probabilities)


def combine_numbers(question: Question, id_: str, members: Members) -> Prediction:
    return Prediction(average([member.answer for member in members]))


def combine_tags(question: Question, id_: str, members: Members) -> Prediction:
    """The tag that most members gave a word; of several such, the first among the labels."""
    counts = sorted({len(member.answer) for member in members})
    said = (
        f"{id_}: members have tags for {' and for '.join(map(str, counts))} words; predict the same examples with all"
    )
    require(len(counts) == 1, said)
    words = (Counter(tags) for tags in zip(*(member.answer for member in members), strict=True))
    return Prediction(tuple(max(question.labels, key=counts.__getitem__) for counts in words))


def combine_logits(question: Question, id_: str, members: Members) -> Prediction:
    return combine_spans(question, id_, [normalize_scores(member) for member in members])


def combine_spans(question: Question, id_: str, members: Members) -> Prediction:
    """The span with the best mean of start and end, each over those members alone that proposed it.

    A member that did not propose a span says nothing about it: what its scores would have been is not known.
    """
    proposed: dict[tuple[int, int], list[Candidate]] = {}
    for member in members:
        known = (member.candidates or member.answer == "") and all(span.start >= 0 for span in member.candidates)
        said = f"{id_}: a member has an answer without spans, or spans without their places"
        require(known, f"{said}; an ensemble needs both, as our n-best files have them")
        for place, candidate in find_best_spans(member).items():
            proposed.setdefault(place, []).append(candidate)
    candidates = tuple(sorted(map(average_candidates, proposed.values()), key=rank))
    answer = candidates[0].text if candidates else ""
    return Prediction(answer, (), candidates, average([member.no_answer for member in members]))


def find_best_spans(member: Prediction) -> dict[tuple[int, int], Candidate]:
    """A member's spans by their places; of those that several windows have, the best."""
    return {(span.start, span.end): span for span in sorted(member.candidates, key=rank, reverse=True)}


def rank(candidate: Candidate) -> tuple[float, int, int]:
    """The best first, and equally good ones in the order of the paragraph."""
    return -(candidate.start_score + candidate.end_score), candidate.start, candidate.end


def average_candidates(spans: Sequence[Candidate]) -> Candidate:
    start_score = average([span.start_score for span in spans])
    return spans[0]._replace(start_score=start_score, end_score=average([span.end_score for span in spans]))


def normalize_scores(member: Prediction) -> Prediction:
    """Logits made log-probabilities, so that a member whose logits are all greater does not weigh more.

    The probabilities of all starts that the member proposed add up to 1, and so do those of all its ends: the logits of
    places that it did not propose are not known, but they were too low to matter. A place that has several logits,
    since several windows have it, counts with its greatest.
    """
    start_sum = log_sum_exp((span.start, span.start_score) for span in member.candidates)
    end_sum = log_sum_exp((span.end, span.end_score) for span in member.candidates)
    spans = (
        span._replace(start_score=span.start_score - start_sum, end_score=span.end_score - end_sum)
        for span in member.candidates
    )
    return member._replace(candidates=tuple(spans))


def log_sum_exp(logits: Iterable[tuple[int, float]]) -> float:
    """Over places, each with its greatest logit; 0 where there are none."""
    # Of several values for one key, a dict keeps the last.
    best = dict(sorted(logits))
    most = max(best.values(), default=0.0)
    return most + math.log(math.fsum(math.exp(logit - most) for logit in best.values())) if best else 0.0


COMBINERS: dict[Kind, Callable[[Question, str, Members], Prediction]] = {
    "classes": combine_labels,
    "labels": combine_several,
    "number": combine_numbers,
    "choice": combine_choices,
    "token_classes": combine_tags,
    "span": combine_logits,
    "answerable_span": combine_spans,
}
