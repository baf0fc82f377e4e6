from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from litebert.batch import Batch
from litebert.config import UserError
from litebert.finetuning.asking import BATCH_TOKENS, BEAM_SIZE, ask, group_by_length
from litebert.finetuning.heads import head_of
from litebert.models.heads import AnswerableSpanHead
from litebert.models.model import Model
from litebert.tasks.task import Beam, Question, Sample
from tests.finetuning.made import CONFIG

QUESTIONS = [
    Question("classes", ("a", "b", "c")),
    Question("choice", num_choices=4),
    Question("token_classes", ("O", "B-X")),
    Question("span"),
    Question("answerable_span"),
]
KINDS = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.head)


def make_samples(number: int = 24) -> list[Sample]:
    """Questions and paragraphs of several lengths, some of them with fewer tokens than starts are considered."""
    random = np.random.default_rng(0)
    samples = []
    for place in range(number):
        first, second = int(random.integers(1, 4)), int(random.integers(1 if place % 4 else 0, 12))
        words = random.integers(5, CONFIG.vocab_size, first + second).tolist()
        token_ids = np.array([2, *words[:first], 3, *words[first:], 3], np.int32)
        samples.append(Sample(token_ids, first + 2, place, paragraph=(first + 2, first + 2 + second)))
    return samples


def make_model(question: Question) -> Model:
    """With dropout, which must not be seen."""
    torch.manual_seed(0)
    return Model(replace(CONFIG, hidden_dropout=0.3, attention_dropout=0.3), [head_of(question, 0.5)])


def assert_same(one: Any, other: Any) -> None:
    if not isinstance(one, Beam):
        np.testing.assert_allclose(one, other, atol=1e-5)
        return
    assert one.unanswerable == pytest.approx(other.unanswerable, abs=1e-5)
    found, expected = list_spans(one), list_spans(other)
    assert found.keys() == expected.keys()
    for span, scores in found.items():
        assert scores == pytest.approx(expected[span], abs=1e-5)


def list_spans(beam: Beam) -> dict[tuple[int, int], tuple[float, float]]:
    """What a beam says of spans that may be; where a paragraph is short, it is filled up with some that may not."""
    return {
        (int(start), int(end)): (float(start_score), float(end_score))
        for start, start_score, ends, end_scores in zip(*beam[:4], strict=True)
        for end, end_score in zip(ends, end_scores, strict=True)
        if start_score > -1e20 and end_score > -1e20
    }


@KINDS
def test_what_a_model_says_of_a_sample_does_not_depend_on_the_others(question: Question) -> None:
    model, samples = make_model(question), make_samples()
    together = ask(model, samples, question.head)
    assert len({len(sample.token_ids) for sample in samples}) > 5
    for sample, output in zip(samples, together, strict=True):
        (alone,) = ask(model, [sample], question.head)
        assert_same(output, alone)


def ask_padded(model: Model, sample: Sample) -> Any:
    """The model's own word for one sample, padded, as transformers' users call it."""
    length = len(sample.token_ids)
    ids, mask, segments = torch.zeros(3, 1, length + 5, dtype=torch.long)
    ids[0, :length] = torch.from_numpy(sample.token_ids.astype(np.int64))
    mask[0, :length] = 1
    segments[0, sample.second : length] = 1
    return next(iter(model(ids, mask, segments).logits.values()))[0]


@pytest.mark.parametrize(
    ("question", "shape"),
    [
        (QUESTIONS[0], lambda length: (3,)),
        (Question("number"), lambda length: (1,)),
        (QUESTIONS[1], lambda length: ()),
        (QUESTIONS[2], lambda length: (length, 2)),
        (QUESTIONS[3], lambda length: (length, 2)),
    ],
    ids=["classes", "number", "choice", "token_classes", "span"],
)
def test_outputs_are_those_of_the_model_and_in_the_order_of_the_samples(
    question: Question, shape: Callable[[int], tuple[int, ...]]
) -> None:
    model, samples = make_model(question), make_samples()
    outputs = ask(model, samples, question.head)
    model.eval()
    for sample, output in zip(samples, outputs, strict=True):
        length = len(sample.token_ids)
        assert np.shape(output) == shape(length)
        expected = ask_padded(model, sample).detach().numpy()
        expected = expected[:length] if np.ndim(output) == 2 else expected.reshape(np.shape(output))
        np.testing.assert_allclose(output, expected, atol=1e-5)


def test_a_beam_has_the_log_probabilities_of_the_likeliest_starts_and_of_their_ends() -> None:
    model, samples = make_model(QUESTIONS[4]), make_samples()
    beams = ask(model, samples, "answerable_span")
    head = model.eval().heads["answerable_span"]
    assert isinstance(head, AnswerableSpanHead)
    for sample, beam in zip(samples, beams, strict=True):
        hidden_LD = encode_alone(model, sample)
        allowed = {0, *range(*(sample.paragraph or ()))}
        start_log_probs = normalize(apply(head.start, hidden_LD)[:, 0], allowed)
        best = sorted(allowed, key=lambda place: -start_log_probs[place])[:BEAM_SIZE]
        found = list_spans(beam)
        assert list(dict.fromkeys(start for start, _ in found)) == best
        for start in best:
            ends = score_ends(head, hidden_LD, start, allowed)
            likeliest = sorted(allowed, key=lambda place: -ends[place])[:BEAM_SIZE]
            assert [end for begin, end in found if begin == start] == likeliest
            for end in likeliest:
                assert found[start, end] == pytest.approx((start_log_probs[start], ends[end]), abs=1e-5)


def encode_alone(model: Model, sample: Sample) -> np.ndarray:
    segments = [int(place >= sample.second) for place in range(len(sample.token_ids))]
    with torch.no_grad():
        return model.encoder(Batch.pack([sample.token_ids.tolist()], [segments])).hidden_TD.double().numpy()


def apply(layer: Any, values: np.ndarray) -> np.ndarray:
    return values @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()


def score_ends(head: AnswerableSpanHead, hidden_LD: np.ndarray, start: int, allowed: set[int]) -> np.ndarray:
    """Each token beside the start's, through the two layers and the normalisation between them."""
    both_LX = np.concatenate([hidden_LD, np.broadcast_to(hidden_LD[start], hidden_LD.shape)], axis=1)
    transformed = np.tanh(apply(head.end_transform, both_LX))
    centred = transformed - transformed.mean(axis=1, keepdims=True)
    norm = head.end_norm
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + norm.eps)
    scaled = scaled * norm.weight.detach().double().numpy() + norm.bias.detach().double().numpy()
    return normalize(apply(head.end, scaled)[:, 0], allowed)


def normalize(logits: np.ndarray, allowed: set[int]) -> np.ndarray:
    inside = np.array([place in allowed for place in range(len(logits))])
    return log_softmax(np.where(inside, logits, -np.inf))


@KINDS
def test_asking_leaves_the_model_as_it_was(question: Question) -> None:
    model = make_model(question).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, second = (ask(model, make_samples(4), question.head) for _ in range(2))
    assert model.training and all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    for one, other in zip(first, second, strict=True):
        assert_same(one, other)


def test_groups_hold_each_sample_once_and_no_more_tokens_than_a_batch_may_have() -> None:
    lengths = [*np.random.default_rng(0).integers(3, 600, 200).tolist(), BATCH_TOKENS + 1]
    samples = [Sample(np.zeros(length, np.int32), length, place) for place, length in enumerate(lengths)]
    groups = list(group_by_length(samples))
    assert sorted(number for group in groups for number in group) == list(range(len(samples)))
    for group in groups:
        assert len(group) == 1 or sum(lengths[number] for number in group) <= BATCH_TOKENS
    assert [lengths[number] for group in groups for number in group] == sorted(lengths, reverse=True)
    assert list(group_by_length([])) == []


@KINDS
def test_outputs_that_are_no_numbers_are_refused(question: Question) -> None:
    """Weights may be finite and yet too large to multiply with."""
    model = make_model(question)
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.fill_(1e38)
    with pytest.raises(UserError, match="the model's outputs are no numbers, or infinite"):
        ask(model, make_samples(), question.head)


def test_so_are_ends_that_are_no_numbers() -> None:
    model = make_model(Question("answerable_span"))
    with torch.no_grad():
        model.heads["answerable_span"].end.weight.fill_(3e38)
    with pytest.raises(UserError, match="the model's outputs are no numbers, or infinite"):
        ask(model, make_samples(), "answerable_span")
