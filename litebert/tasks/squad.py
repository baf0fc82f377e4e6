"""SQuAD: questions about a paragraph, whose answers are a part of it (Rajpurkar et al. 2016, 2018).

In version 1.1 each question has an answer, in version 2.0 some have none. A sample is a question with a window of its
paragraph. A prediction is a slice of the paragraph as it was written.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from litebert.config import UserError, nearest, require
from litebert.files import exists, write_file
from litebert.tasks.answer_scores import COUNTS, Answers, find_best_thresholds, score_squad1, score_squad2
from litebert.tasks.quotes import quote
from litebert.tasks.records import read_by_id
from litebert.tasks.squad_file import SpanExample, read_examples
from litebert.tasks.tables import find_split
from litebert.tasks.task import (
    SPLITS,
    Beam,
    Candidate,
    Encoded,
    Limits,
    Prediction,
    Predictions,
    Question,
    Sample,
    Task,
    check_ids,
    check_predicted,
    softmax,
)
from litebert.tasks.windows import ABSENT, Paragraph, WindowSample, cut_windows, encode_paragraph
from litebert.text.formats import DECOMPRESSORS
from litebert.text.vocabulary import Vocabulary

NUM_STARTS = 20
"""How many starts of an answer are weighed in each window, each with as many ends."""
NUM_CANDIDATES = 20
"""How many answers of a question are kept."""


@dataclass(frozen=True, slots=True)
class SpanTask:
    """SQuAD in one of its versions, or a benchmark of its layout."""

    name: str
    files: Mapping[str, str]
    """The name of each split's file, without its suffix."""
    measure: Callable[[Answers, Mapping[str, str]], dict[str, float]]
    metric: str = "f1"
    has_unanswerable: bool = False

    @property
    def splits(self) -> Mapping[str, tuple[str, ...]]:
        return SPLITS

    def read(self, data: str | Path, split: str) -> list[SpanExample]:
        require(split in self.files, f"{self.name} has no split {split!r}{nearest(split, self.files)}")
        path = find_split(data, self.files[split], suffixes=(".json",))
        examples = list(read_examples(path))
        require(examples, f"{path} has no questions; name another file")
        check_ids(examples)
        odd = next((example for example in examples if example.is_impossible), None)
        if odd is not None and not self.has_unanswerable:
            raise UserError(f"{odd.place}: a question without an answer, which {self.name} does not have; use squad2")
        return examples

    def is_labelled(self, examples: Sequence[SpanExample]) -> bool:
        """Some question must have an answer, or be known to have none."""
        return any(example.answers or example.is_impossible for example in examples)

    def known_question(self) -> dict[str, Any]:
        return {"kind": "answerable_span" if self.has_unanswerable else "span"}

    def ask(self, examples: Sequence[SpanExample]) -> Question:
        return Question(**self.known_question())

    def with_labels(self, labels: tuple[str, ...]) -> "SpanTask":
        return self

    def encode(
        self, examples: Sequence[SpanExample], vocabulary: Vocabulary, question: Question, limits: Limits
    ) -> Encoded:
        """Where an answer is known but not in its paragraph the samples have no span: nothing can be learned of them,
        but they can be asked."""
        questions = list(vocabulary.encode_each([example.question for example in examples]))
        paragraphs: dict[str, Paragraph] = {}
        samples: list[Sample] = []
        tally: Counter[str] = Counter(cut=sum(len(ids) > limits.question_length for ids in questions))
        for number, (example, ids) in enumerate(zip(examples, questions, strict=True)):
            if example.context not in paragraphs:
                paragraphs[example.context] = encode_paragraph(vocabulary, example.context)
            paragraph = paragraphs[example.context]
            answer = self.find_answer(example, paragraph, tally)
            samples += cut_windows(vocabulary, ids.tolist(), paragraph, answer, limits, number)
        if tally["without"] == len(examples):
            del tally["without"]  # they are to be answered, not to be learned from
        return Encoded(samples, describe_tally(tally, len(examples), limits))

    def find_answer(self, example: SpanExample, paragraph: Paragraph, tally: Counter[str]) -> tuple[int, int] | None:
        """A question without answers: unanswerable in SQuAD 2.0, merely unlabelled elsewhere."""
        if example.answers:
            return find_tokens(example, paragraph, tally)
        if example.is_impossible or self.has_unanswerable:
            return ABSENT
        tally["without"] += 1
        return None

    def decode(
        self, examples: Sequence[SpanExample], samples: Sequence[Sample], outputs: Sequence[Any], question: Question,
        limits: Limits,
    ) -> Predictions:  # fmt: skip
        beams: dict[int, list[tuple[WindowSample, Beam]]] = {}
        for sample, output in zip(samples, outputs, strict=True):
            if not isinstance(sample, WindowSample):
                raise TypeError("a sample that was not made by `encode` does not know its window")
            beam = make_beam(sample, np.asarray(output)) if question.kind == "span" else output
            beams.setdefault(sample.example, []).append((sample, beam))
        return {
            examples[number].id: self.predict(examples[number].context, windows, question, limits)
            for number, windows in beams.items()
        }

    def predict(
        self, context: str, windows: Sequence[tuple[WindowSample, Beam]], question: Question, limits: Limits
    ) -> Prediction:
        """The best of all windows. A span head says that there is no answer by how far its first token is better."""
        found = [candidate for window in windows for candidate in list_candidates(context, *window, limits)]
        candidates = pick_best(found)
        no_answer = min(beam.unanswerable for _, beam in windows)
        if question.kind == "span":
            best = total(candidates[0]) if candidates else 0.0
            no_answer = no_answer - best if self.has_unanswerable else 0.0
        return Prediction(candidates[0].text if candidates else "", (), candidates, no_answer)

    def choose_threshold(self, examples: Sequence[SpanExample], predictions: Predictions) -> float | None:
        if not self.has_unanswerable:
            return None
        texts = {key: best_text(prediction) for key, prediction in predictions.items()}
        no_answer = {key: prediction.no_answer for key, prediction in predictions.items()}
        return find_best_thresholds(list_answers(examples), texts, no_answer)["best_f1_thresh"]

    def decide(self, predictions: Predictions, threshold: float | None) -> Predictions:
        if threshold is None:
            return predictions
        return {
            key: prediction._replace(answer="" if prediction.no_answer > threshold else best_text(prediction))
            for key, prediction in predictions.items()
        }

    def score(self, examples: Sequence[SpanExample], predictions: Predictions) -> dict[str, float]:
        known = self.is_labelled(examples)
        require(known, f"none of these {len(examples)} questions has its answer with it; score a split that has them")
        check_predicted(examples, predictions, at_least=1)
        texts = {key: prediction.answer for key, prediction in predictions.items()}
        measured = self.measure(list_answers(examples), texts)
        return {name: value for name, value in measured.items() if name not in COUNTS}

    def write_predictions(
        self, folder: Path, split: str, examples: Sequence[SpanExample], predictions: Predictions
    ) -> list[Path]:
        made = {example.id: predictions[example.id] for example in examples if example.id in predictions}
        contents: dict[str, dict[str, Any]] = {
            "predictions": {key: prediction.answer for key, prediction in made.items()},
            "nbest_predictions": {
                key: list_best(prediction.candidates, "log_prob" if self.has_unanswerable else "logit")
                for key, prediction in made.items()
            },
        }
        if self.has_unanswerable:
            contents["null_odds"] = {key: prediction.no_answer for key, prediction in made.items()}
        paths = {folder / f"{split}_{name}.json": content for name, content in contents.items()}
        for path, content in paths.items():
            write_file(path, json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n")
        return list(paths)

    def read_predictions(self, path: Path) -> Predictions:
        """Texts by the questions' ids; and if they lie beside it under our names, the n-best and the null odds."""
        texts = read_texts(path)
        best, odds = read_beside(path, "nbest_predictions"), read_beside(path, "null_odds")
        return {
            key: Prediction(
                text,
                candidates=parse_candidates(f"the n-best of {quote(key)} beside {path}", best.get(key, [])),
                no_answer=parse_odds(f"the null odds of {quote(key)} beside {path}", odds.get(key, 0.0)),
            )
            for key, text in texts.items()
        }


def list_answers(examples: Iterable[SpanExample]) -> dict[str, list[str]]:
    return {example.id: [text for text, _ in example.answers] for example in examples}


def find_tokens(example: SpanExample, paragraph: Paragraph, tally: Counter[str]) -> tuple[int, int] | None:
    """The tokens of the first answer, and in `tally` how they were found."""
    text, start = example.answers[0]
    wanted = text.strip()
    start += len(text) - len(text.lstrip()) if start >= 0 else 0
    begin = find_nearest(example.context, wanted, start)
    tokens = paragraph.find_tokens(begin, begin + len(wanted)) if begin >= 0 else None
    if tokens is None:
        tally["not found"] += 1
        return None
    tally["moved"] += begin != start
    is_exact = paragraph.find_characters(*tokens) == (begin, begin + len(wanted))
    tally["exact" if is_exact else "widened"] += 1
    return tokens


def find_nearest(context: str, text: str, start: int) -> int:
    """Where a text begins that should begin at `start`: the nearest place; -1 if there is none."""
    if not text or (start >= 0 and context.startswith(text, start)):
        return start if text else -1
    before = context.rfind(text, 0, max(0, start) + len(text))
    after = context.find(text, max(0, start))
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - start), default=-1)


def describe_tally(tally: Counter[str], num_questions: int, limits: Limits) -> list[str]:
    notes = []
    if total_answers := tally["exact"] + tally["widened"] + tally["not found"]:
        notes.append(
            f"{total_answers:,} answers: {tally['exact']:,} match whole tokens, {tally['widened']:,} were widened to "
            f"whole tokens, {tally['not found']:,} were not found in their paragraph and are not trained on"
        )
    if tally["moved"]:
        notes.append(
            f"{tally['moved']:,} answers were found away from their answer_start, or have none; the nearest match is "
            "used"
        )
    if tally["without"]:
        notes.append(
            f"{tally['without']:,} of {num_questions:,} questions have no answer with them and are not trained on"
        )
    if tally["cut"]:
        notes.append(f"{tally['cut']:,} of {num_questions:,} questions are cut to {limits.question_length} tokens")
    return notes


def make_beam(sample: WindowSample, logits_LX: NDArray[np.floating[Any]]) -> Beam:
    """The best starts and ends that a span head sees in a sample's paragraph, each start with all ends."""
    first, end = sample.paragraph or (0, 0)
    starts_L, ends_L = logits_LX[:, 0].astype(np.float32), logits_LX[:, 1].astype(np.float32)
    allowed = first + np.flatnonzero(sample.window.is_best)
    starts_S = allowed[np.argsort(-starts_L[allowed], kind="stable")[:NUM_STARTS]]
    ends_S = first + np.argsort(-ends_L[first:end], kind="stable")[:NUM_STARTS]
    shape = len(starts_S), len(ends_S)
    return Beam(
        starts_S,
        starts_L[starts_S],
        np.broadcast_to(ends_S, shape),
        np.broadcast_to(ends_L[ends_S], shape),
        float(logits_LX[0, 0]) + float(logits_LX[0, 1]),
    )


def list_candidates(context: str, sample: WindowSample, beam: Beam, limits: Limits) -> Iterator[Candidate]:
    """The best spans of one window that may be an answer."""
    first, end = sample.paragraph or (0, 0)
    lengths_SS = beam.ends_SS - beam.starts_S[:, None] + 1
    is_best_S = np.isin(beam.starts_S, first + np.flatnonzero(sample.window.is_best))
    allowed = is_best_S[:, None] & (beam.ends_SS < end) & (lengths_SS >= 1) & (lengths_SS <= limits.answer_length)
    rows, columns = np.nonzero(allowed)
    start_scores, end_scores = beam.start_log_probs_S[rows].astype(float), beam.end_log_probs_SS[rows, columns]
    shift = sample.window.begin - first
    for index in np.argsort(-(start_scores + end_scores), kind="stable")[:NUM_CANDIDATES]:
        tokens = int(beam.starts_S[rows[index]]) + shift, int(beam.ends_SS[rows[index], columns[index]]) + shift
        begin, stop = sample.source.find_characters(*tokens)
        if text := context[begin:stop].strip():
            begin = context.index(text, begin)
            yield Candidate(text, begin, begin + len(text), float(start_scores[index]), float(end_scores[index]))


def pick_best(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The best first, and each span of characters once."""
    best: dict[tuple[int, int], Candidate] = {}
    for candidate in sorted(candidates, key=total, reverse=True):
        best.setdefault((candidate.start, candidate.end), candidate)
    return tuple(best.values())[:NUM_CANDIDATES]


def total(candidate: Candidate) -> float:
    return candidate.start_score + candidate.end_score


def best_text(prediction: Prediction) -> str:
    """The answer if there is one."""
    return prediction.candidates[0].text if prediction.candidates else prediction.answer


def list_best(candidates: Sequence[Candidate], score: Literal["logit", "log_prob"]) -> list[dict[str, Any]]:
    """Candidates as the official tools write them, for SQuAD 2.0 with scores of another name, and with their places."""
    if not candidates:
        return []
    shares = softmax(np.array([total(candidate) for candidate in candidates]))
    return [
        {
            "text": candidate.text,
            "probability": float(share),
            f"start_{score}": candidate.start_score,
            f"end_{score}": candidate.end_score,
            "start": candidate.start,
            "end": candidate.end,
        }
        for candidate, share in zip(candidates, shares, strict=True)
    ]


def parse_candidates(place: str, items: Any) -> tuple[Candidate, ...]:
    require(isinstance(items, list), f"{place}: {quote(items)} is no list of answers; leave the file out")
    return tuple(parse_candidate(place, item) for item in items)


def parse_candidate(place: str, item: Any) -> Candidate:
    """Others write no places."""
    try:
        scores = [float(item.get(f"{side}_logit", item.get(f"{side}_log_prob", 0.0))) for side in ("start", "end")]
        return Candidate(str(item["text"]), int(item.get("start", -1)), int(item.get("end", -1)), *scores)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise UserError(f"{place}: {quote(item)} is no answer with its text and scores; leave the file out") from None


def parse_odds(place: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    require(is_number, f"{place}: {quote(value)} is no number; leave the file out")
    return float(value)


def read_texts(path: Path) -> dict[str, str]:
    content = read_by_id(path)
    odd = next((key for key, text in content.items() if not isinstance(text, str)), None)
    require(odd is None, f"{path}: the answer of {quote(odd)} is no text; name a file of one answer for each id")
    return content


def read_beside(path: Path, name: str) -> dict[str, Any]:
    """What lies beside a `predictions.json`, with the same beginning of its name."""
    stem, found, _ = path.name.rpartition("predictions.json")
    files = [path.with_name(f"{stem}{name}.json{compression}") for compression in ("", *DECOMPRESSORS)]
    return next((read_by_id(file) for file in files if exists(file)), {}) if found else {}


TASKS: dict[str, Task] = {
    "squad1": SpanTask("squad1", {split: f"{split}-v1.1" for split in SPLITS}, score_squad1),
    "squad2": SpanTask("squad2", {split: f"{split}-v2.0" for split in SPLITS}, score_squad2, has_unanswerable=True),
}
