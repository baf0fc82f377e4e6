import gzip
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.config import UserError
from litebert.tasks.chinese import TASKS as CHINESE
from litebert.tasks.squad import TASKS, find_nearest
from litebert.tasks.squad_file import SpanExample
from litebert.tasks.task import Beam, Candidate, Limits, Prediction, Question, Sample, Task, pack
from litebert.tasks.windows import WindowSample
from litebert.text.vocabulary import Vocabulary, open_vocabulary

SQUAD1, SQUAD2 = TASKS["squad1"], TASKS["squad2"]
SPAN, ANSWERABLE = Question("span"), Question("answerable_span")
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the fox dog sees 19 ##90 ##90s a bird in tree and who what where is . ? é ##s"
CONTEXT = "The fox  sees a bird in 1990s. The dog sees the fox and the bird."


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(WORDS.split()) + "\n", encoding="utf-8")
    return open_vocabulary(file)


def make_example(text: str | None = "a bird", start: int = 14, **changes: Any) -> SpanExample:
    answers = () if text is None else ((text, start),)
    return SpanExample("q", "a.json", CONTEXT, "who sees the fox?", answers)._replace(**changes)


def make_file(path: Path, *questions: dict[str, Any], **changes: Any) -> Path:
    content = {"version": "x", "data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}]}
    text = json.dumps(content | changes).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def ask(key: str = "q1", *answers: tuple[str, int], **changes: Any) -> dict[str, Any]:
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": key, "question": "who?", "answers": listed} | changes


def say_spans(samples: Sequence[Sample], kind: str = "span") -> list[Any]:
    """What a model says that knows all spans."""
    outputs: list[Any] = []
    for sample in samples:
        start, end = sample.span or (0, 0)
        logits = np.zeros((len(sample.token_ids), 2), np.float32)
        logits[start, 0] = logits[end, 1] = 5
        known = Beam(np.array([start]), np.ones(1, np.float32), np.array([[end]]), np.ones((1, 1), np.float32), -start)
        outputs.append(logits if kind == "span" else known)
    return outputs


def test_a_folder_has_one_file_for_each_split_compressed_or_not(tmp_path: Path) -> None:
    make_file(tmp_path / "train-v1.1.json", ask("q1", ("a bird", 14), ("bird", 16)))
    make_file(tmp_path / "dev-v2.0.json.gz", ask("q2", ("fox", 4)), ask("q3", is_impossible=True))
    (example,) = SQUAD1.read(tmp_path, "train")
    assert example == SpanExample("q1", example.place, CONTEXT, "who?", (("a bird", 14), ("bird", 16)))
    assert example.place.endswith("train-v1.1.json, article 1, paragraph 1, question 1")
    assert [(e.id, e.is_impossible) for e in SQUAD2.read(tmp_path, "dev")] == [("q2", False), ("q3", True)]
    assert SQUAD2.read(tmp_path / "train-v1.1.json", "dev") == [example]
    with pytest.raises(UserError, match=r"has no test-v1.1 \(.json, also with .gz"):
        SQUAD1.read(tmp_path, "test")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "a.json: not JSON .*; mend it"),
        ("{}", 'a.json has no list under "data"; it must have the layout of SQuAD'),
        ('{"data": []}', "a.json has no questions"),
        ('{"data": [3]}', "article 1: a JSON int, not an object"),
        (
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            r"article 1, paragraph 1: no 'context' among its fields \('qas'\)",
        ),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', "no 'qas' among its fields"),
        ('{"data": [{"context": "a", "qas": [{"question": "b"}]}]}', "question 1: no 'id' among its fields"),
        ('{"data": [{"context": 1, "qas": []}]}', "'context' is 1, a int"),
        ('{"data": [{"context": "a", "qas": [{"question": "b", "id": "c", "answers": [3]}]}]}', "an answer is 3; it"),
    ],
)
def test_what_is_not_squads_layout_is_refused_in_a_sentence(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match=said):
        SQUAD1.read(tmp_path / "a.json", "dev")


def test_two_questions_of_one_id_are_refused(tmp_path: Path) -> None:
    path = make_file(tmp_path / "a.json", ask("q1"), ask("q2"), ask("q1"))
    with pytest.raises(UserError, match="question 3: its id 'q1' is also that of .*question 1; change one"):
        SQUAD1.read(path, "dev")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = make_file(tmp_path / "a.json.gz", ask())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="a.json.gz: .*; mend or fetch it again"):
        SQUAD1.read(path, "dev")


def test_version_1_refuses_questions_without_an_answer(tmp_path: Path) -> None:
    path = make_file(tmp_path / "a.json", ask(is_impossible=True))
    with pytest.raises(UserError, match="question 1: a question without an answer, which squad1 does not have"):
        SQUAD1.read(path, "dev")


@pytest.mark.parametrize(
    ("example", "expected", "note", "moved"),
    [
        (make_example("a bird", 14), "a bird", "1 match whole tokens", False),
        (make_example("1990", 24), "1990s", "1 were widened", False),
        (make_example("the bird", 3), "the bird", "1 match whole tokens", True),
        (make_example(" fox ", 3), "fox", "1 match whole tokens", False),
        (make_example("fox", 40), "fox", "1 match whole tokens", True),
        (make_example("fox", -1), "fox", "1 match whole tokens", True),
        (make_example("a cat", 14), None, "1 were not found in their paragraph", False),
    ],
)
def test_an_answer_is_found_among_the_tokens(
    vocabulary: Vocabulary, example: SpanExample, expected: str | None, note: str, moved: bool
) -> None:
    (sample,), (first, *others) = SQUAD1.encode([example], vocabulary, SPAN, Limits())
    away = "1 answers were found away from their answer_start, or have none; the nearest match is used"
    assert note in first and others == [away] * moved
    if expected is None or sample.span is None:
        assert expected is sample.span is None
    else:
        (prediction,) = SQUAD1.decode([example], [sample], say_spans([sample]), SPAN, Limits()).values()
        assert prediction.answer == expected


@given(st.text("ab", max_size=12), st.text("ab", max_size=2), st.integers(-1, 14))
def test_a_text_is_taken_where_it_is_nearest(context: str, text: str, start: int) -> None:
    places = [p for p in range(len(context)) if text and context.startswith(text, p)]
    found = find_nearest(context, text, start)
    assert (found in places) if places else found == -1
    assert abs(found - start) == min((abs(place - start) for place in places), default=abs(-1 - start))


def test_only_what_is_known_is_to_be_learned(vocabulary: Vocabulary) -> None:
    kinds = [make_example(None, is_impossible=True), make_example(None), make_example("no such text")]
    samples, _ = SQUAD2.encode(kinds, vocabulary, ANSWERABLE, Limits())
    assert [sample.span for sample in samples] == [(0, 0), (0, 0), None]
    assert pack(samples).spans_BX is None and pack(samples[:1]).spans_BX is not None
    samples, notes = SQUAD1.encode([kinds[1], make_example()], vocabulary, SPAN, Limits())
    assert samples[0].span is None and samples[1].span is not None
    assert notes[-1] == "1 of 2 questions have no answer with them and are not trained on"
    assert not SQUAD1.encode(kinds[1:2], vocabulary, SPAN, Limits()).notes  # nothing is to be learned from these


def test_a_paragraph_is_encoded_once_for_all_its_questions(vocabulary: Vocabulary) -> None:
    samples, _ = SQUAD1.encode([make_example(), make_example(id="r")], vocabulary, SPAN, Limits())
    assert len({id(sample.source) for sample in samples}) == 1 and len(samples) == 2


def test_long_questions_are_counted(vocabulary: Vocabulary) -> None:
    examples = [make_example(), make_example(question="who?", id="r")]
    _, notes = SQUAD1.encode(examples, vocabulary, SPAN, Limits(question_length=3))
    assert notes[1] == "1 of 2 questions are cut to 3 tokens"


def list_naively(samples: Sequence[WindowSample], scores: Any, limits: Limits) -> dict[tuple[int, int], float]:
    """The best score of each span that may be an answer, over all windows."""
    best: dict[tuple[int, int], float] = {}
    for number, sample in enumerate(samples):
        first, stop = sample.paragraph
        for start in range(first, stop):
            for end in range(start, min(stop, start + limits.answer_length)):
                if sample.window.is_best[start - first]:
                    source, shift = sample.source, sample.window.begin - first
                    key = int(source.begins[start + shift]), int(source.ends[end + shift])
                    best[key] = max(best.get(key, -math.inf), scores(number, start, end))
    return best


def check_candidates(found: Sequence[Candidate], expected: dict[tuple[int, int], float]) -> None:
    ranked = sorted(expected.items(), key=lambda item: -item[1])
    assert [(c.start, c.end) for c in found] == [span for span, _ in ranked[: len(found)]]
    assert [c.start_score + c.end_score for c in found] == pytest.approx([s for _, s in ranked[: len(found)]])
    assert [c.text for c in found] == [CONTEXT[c.start : c.end] for c in found]


@pytest.mark.parametrize("length", [14, 18, 64])
def test_a_span_head_is_read_as_by_trying_all_spans(vocabulary: Vocabulary, length: int) -> None:
    limits = Limits(length=length, stride=4, answer_length=3)
    example, generator = make_example(), np.random.default_rng(length)
    samples, _ = SQUAD1.encode([example], vocabulary, SPAN, limits)
    outputs = [generator.normal(size=(len(sample.token_ids), 2)).astype(np.float32) for sample in samples]
    (prediction,) = SQUAD1.decode([example], samples, outputs, SPAN, limits).values()
    expected = list_naively(samples, lambda n, start, end: outputs[n][start, 0] + outputs[n][end, 1], limits)
    assert len(prediction.candidates) == min(20, len(expected)) and (length == 64) == (len(samples) == 1)
    check_candidates(prediction.candidates, expected)
    assert prediction.answer == prediction.candidates[0].text and prediction.no_answer == 0
    (other,) = SQUAD2.decode([example], samples, outputs, SPAN, limits).values()
    assert other.no_answer == pytest.approx(min(o[0].sum() for o in outputs) - max(expected.values()), rel=1e-5)


def test_a_beam_is_read_with_the_same_restrictions(vocabulary: Vocabulary) -> None:
    limits = Limits(length=16, stride=4, answer_length=3)
    example, generator = make_example(), np.random.default_rng(0)
    samples, _ = SQUAD2.encode([example], vocabulary, ANSWERABLE, limits)
    beams, scores = [], []
    for sample in samples:
        size = len(sample.token_ids) + 3  # a head that pads its batch may also name what is behind a sample
        starts = generator.permutation(size)[:5]
        ends = np.stack([generator.permutation(size)[:5] for _ in starts])
        firsts, seconds = generator.normal(size=5).astype("f"), generator.normal(size=(5, 5)).astype("f")
        beams.append(Beam(starts, firsts, ends, seconds, float(generator.normal())))
        pairs = {
            (int(s), int(e)): firsts[i] + seconds[i, j] for i, s in enumerate(starts) for j, e in enumerate(ends[i])
        }
        scores.append(pairs)
    (prediction,) = SQUAD2.decode([example], samples, beams, ANSWERABLE, limits).values()
    expected = list_naively(samples, lambda n, start, end: scores[n].get((start, end), -math.inf), limits)
    expected = {span: score for span, score in expected.items() if score > -math.inf}
    assert 1 < len(prediction.candidates) == min(20, len(expected))
    check_candidates(prediction.candidates, expected)
    assert prediction.no_answer == min(beam.unanswerable for beam in beams)


def test_a_question_about_an_empty_paragraph_has_the_empty_answer(vocabulary: Vocabulary) -> None:
    example = make_example(None, context=" ")
    samples, _ = SQUAD1.encode([example], vocabulary, SPAN, Limits())
    assert SQUAD1.decode([example], samples, say_spans(samples), SPAN, Limits())["q"].answer == ""


def test_the_threshold_is_the_best_and_decides_the_answers() -> None:
    draw = random.Random(0)
    examples, predictions = [], {}
    for number in range(60):
        impossible = draw.random() < 0.5
        answers = () if impossible else (("fox", 4),)
        examples.append(make_example(id=str(number), answers=answers, is_impossible=impossible))
        text = draw.choice(["fox", "the dog", "a fox and a dog"])
        spans = (Candidate(text, 0, 1, 0.0, 0.0),)
        predictions[str(number)] = Prediction(text, (), spans, draw.gauss(1.0 if impossible else -1.0, 1.5))

    def measure(threshold: float) -> float:
        return SQUAD2.score(examples, SQUAD2.decide(predictions, threshold))["f1"]

    threshold = SQUAD2.choose_threshold(examples, predictions)
    assert threshold is not None
    best = max(map(measure, [-math.inf, *(prediction.no_answer for prediction in predictions.values())]))
    assert measure(threshold) == pytest.approx(best) and best > max(measure(-math.inf), measure(math.inf))
    decided = SQUAD2.decide(predictions, threshold)
    assert all((p.answer == "") == (p.no_answer > threshold) for p in decided.values())
    assert SQUAD2.decide(decided, math.inf) == predictions
    assert SQUAD1.choose_threshold(examples, predictions) is None and SQUAD1.decide(predictions, None) == predictions


def test_questions_without_their_answers_are_not_scored() -> None:
    with pytest.raises(UserError, match="none of these 1 questions has its answer"):
        SQUAD1.score([make_example(None)], {})


def test_predictions_are_read_as_they_were_written(tmp_path: Path) -> None:
    spans = (Candidate("a bird", 14, 20, 1.5, 0.25), Candidate("bird", 16, 20, 0.5, 0.25))
    predictions = {"q": Prediction("a bird", (), spans, -0.75), "r": Prediction("", (), (), 3.0)}
    examples = [make_example(), make_example(id="r", is_impossible=True)]
    paths = SQUAD2.write_predictions(tmp_path, "dev", examples, predictions)
    names = ["dev_predictions.json", "dev_nbest_predictions.json", "dev_null_odds.json"]
    assert [path.name for path in paths] == names
    texts, best, odds = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    assert texts == {"q": "a bird", "r": ""} and odds == {"q": -0.75, "r": 3.0} and best["r"] == []
    assert [item["probability"] for item in best["q"]] == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e)])
    assert SQUAD2.read_predictions(paths[0]) == predictions
    assert [path.name for path in SQUAD1.write_predictions(tmp_path / "b", "test", examples, predictions)] == [
        "test_predictions.json", "test_nbest_predictions.json",
    ]  # fmt: skip
    with pytest.raises(UserError, match="the answer of 'q' is no text"):
        SQUAD2.read_predictions(paths[1])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("nbest_predictions", "[]", "nbest_predictions.json: a JSON list, not an object of answers by id"),
        ("nbest_predictions", '{"q": null}', "the n-best of 'q' beside .*: None is no list of answers; leave the file"),
        ("nbest_predictions", '{"q": [null]}', "the n-best of 'q' beside .*: None is no answer with its text and scor"),
        ("null_odds", "[1]", "null_odds.json: a JSON list, not an object of answers by id"),
        ("null_odds", '{"q": null}', "the null odds of 'q' beside .*: None is no number; leave the file out"),
    ],
)
def test_a_damaged_file_beside_the_predictions_is_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / "predictions.json").write_text('{"q": "a bird"}')
    (tmp_path / f"{name}.json").write_text(content)
    with pytest.raises(UserError, match=said):
        SQUAD2.read_predictions(tmp_path / "predictions.json")


@pytest.mark.parametrize("name", ["albert-en-30k-clean.model", "bert-base-uncased-vocab.txt"])
def test_a_model_that_knows_all_spans_answers_real_questions_rightly(data: Path, name: str) -> None:
    vocabulary, limits = open_vocabulary(data / "vocab" / name), Limits(length=384, answer_length=384)
    examples = SQUAD1.read(data / "squad", "dev")[::5]
    samples, notes = SQUAD1.encode(examples, vocabulary, SPAN, limits)
    predictions = SQUAD1.decode(examples, samples, say_spans(samples), SPAN, limits)
    right = sum(predictions[example.id].answer == example.answers[0][0].strip() for example in examples)
    assert f"{right:,} match whole tokens" in notes[0] and right > 0.99 * len(examples)
    assert SQUAD1.score(examples, predictions)["f1"] > 99.8


@pytest.mark.parametrize(("task", "groups"), [(SQUAD1, 1), (SQUAD2, 3), (CHINESE["cmrc2018"], 1)])
def test_no_count_is_among_the_scores(task: Task, groups: int) -> None:
    examples = [make_example(id="q1"), make_example(None, id="q2", is_impossible=groups > 1)]
    scores = task.score(examples, {"q1": Prediction("a bird"), "q2": Prediction("")})
    assert len([name for name in scores if name.endswith("exact")]) == groups
    assert not [name for name in scores if "total" in name]


def test_published_predictions_for_version_2_have_their_published_score(data: Path) -> None:
    examples = SQUAD2.read(data / "squad", "dev")
    predictions = SQUAD2.read_predictions(data / "squad" / "predictions" / "v2.0-BERT-single-google.json.gz")
    scores = SQUAD2.score(examples, predictions)
    assert (round(scores["exact"], 2), round(scores["f1"], 2)) == (78.74, 81.78)
    assert len(examples) == 11873 and {"HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1"} < set(scores)
