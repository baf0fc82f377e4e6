"""What fine-tuning minimises, against transformers' own losses and a plain recomputation."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch import Tensor

from litebert.batch import NO_LABEL, Batch
from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.models.folder import write_model
from litebert.models.heads import POOLED_KINDS, HeadConfig
from litebert.models.model import Model
from litebert.models.names import name_tensors, to_folder
from litebert.training.answer_losses import Answering
from litebert.training.loop import LoopConfig
from litebert.training.losses import mean_loss, weigh
from litebert.training.optimizer import OptimizerConfig
from litebert.training.schedule import ScheduleConfig
from tests.training.made import make_training, watch_training, weights_of

CONFIG = EncoderConfig(
    vocab_size=61, embedding_size=8, hidden_size=16, num_layers=2, num_heads=2, feed_forward_size=32, num_positions=20,
    initializer_range=0.2,
)  # fmt: skip
TOKENS = Batch.pack(
    [[2, 9, 8, 3], [2, 9, 10, 11, 12, 13, 3], [2, 20, 21, 22, 23, 3], [2, 5, 6, 7, 8, 9, 30, 31, 3]],
    [[0, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1, 1, 1]],
)
OPTIONS = Batch.pack([[2, *range(10, 10 + length), 3] for length in (3, 7, 5, 2, 9, 4)])
EVEN = Batch.pack([[2, *range(first, first + 6), 3] for first in (10, 20, 30)], [[0, 0, 0, 1, 1, 1, 1, 1]] * 3)
NO = NO_LABEL
# The third sequence has no labelled token at all.
TAGS_T = torch.tensor(
    [
        *(NO, 2, 0, NO),
        *(NO, 1, NO, 3, 3, 0, NO),
        *(NO, NO, NO, NO, NO, NO),
        *(NO, 0, 0, 1, 2, NO, 3, 1, NO),
    ]
)
# The first token and a paragraph; the third sequence holds no answer.
ALLOWED_T = torch.tensor(
    [
        *(1, 0, 1, 1),
        *(1, 0, 0, 1, 1, 1, 1),
        *(1, 0, 1, 1, 1, 0),
        *(1, 0, 0, 1, 1, 1, 1, 1, 0),
    ]
).bool()
SPANS_BX = torch.tensor([[2, 3], [4, 4], [0, 0], [3, 6]])


class Case(NamedTuple):
    """A question, the same in transformers, and sequences of different lengths with what is to be found in them."""

    head: HeadConfig
    batch: Batch
    peer: str = ""
    """The class of transformers."""
    labels: dict[str, Tensor] | None = None
    """As it wants them."""
    num_choices: int = 1

    @property
    def objective(self) -> Answering:
        return Answering(self.head.kind, self.num_choices)


def sequence_case(head: HeadConfig, labels_BX: Tensor) -> Case:
    return Case(head, replace(TOKENS, labels_BX=labels_BX), "AlbertForSequenceClassification", {"labels": labels_BX})


CASES = {
    "two classes": sequence_case(HeadConfig(kind="classes"), torch.tensor([1, 0, 0, 1])),
    "five classes": sequence_case(HeadConfig(kind="classes", num_classes=5), torch.tensor([4, 0, 2, 1])),
    "a number": sequence_case(HeadConfig(kind="classes", num_classes=1), torch.tensor([0.5, 3.75, -1.0, 5.0])),
    "several labels": sequence_case(
        HeadConfig(kind="classes", num_classes=3, several=True),
        torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]),
    ),
    "choices": Case(
        HeadConfig(kind="choice"),
        replace(OPTIONS, labels_BX=torch.tensor([0, 1, 0, 0, 0, 1])),
        "AlbertForMultipleChoice",
        {"labels": torch.tensor([1, 2])},
        num_choices=3,
    ),
    "tags": Case(
        HeadConfig(kind="token_classes", num_classes=4),
        replace(TOKENS, token_labels_T=TAGS_T),
        "AlbertForTokenClassification",
        {"labels": TOKENS.pad(TAGS_T - NO) + NO},
    ),
    "spans": Case(
        HeadConfig(kind="span"),
        replace(EVEN, spans_BX=torch.tensor([[3, 5], [0, 0], [6, 6]])),
        "AlbertForQuestionAnswering",
        {"start_positions": torch.tensor([3, 0, 6]), "end_positions": torch.tensor([5, 0, 6])},
    ),
}
UNEVEN = {
    **{name: case for name, case in CASES.items() if name != "spans"},
    "spans": Case(HeadConfig(kind="span"), replace(TOKENS, spans_BX=SPANS_BX)),
    "answerable spans": Case(
        HeadConfig(kind="answerable_span"), replace(TOKENS, spans_BX=SPANS_BX, allowed_T=ALLOWED_T)
    ),
}


def make_model(head: HeadConfig) -> Model:
    """Random weights, also where a new model has zeros and ones, so that no part can hide."""
    torch.manual_seed(0)
    model = Model(CONFIG, [head], pooler=head.kind in POOLED_KINDS).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def find_loss(model: Model, case: Case) -> Tensor:
    return weigh(case.objective.measure(model, case.batch), case.objective.count(case.batch))


def gradients_of(model: Model) -> dict[str, Tensor]:
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert all(gradient is not None for gradient in found.values())
    return found


def assert_near(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def pad_for_transformers(batch: Batch, num_choices: int = 1) -> dict[str, Tensor]:
    rows = {
        "input_ids": batch.pad(batch.token_ids_T),
        "attention_mask": batch.pad(torch.ones_like(batch.token_ids_T)),
        "token_type_ids": batch.pad(batch.segment_ids_T),
    }
    if num_choices == 1:
        return rows
    return {name: value.view(-1, num_choices, value.shape[1]) for name, value in rows.items()}


def open_peer(model: Model, name: str, folder: Path) -> Any:
    write_model(model, folder)
    peer, report = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    return peer.eval()


@pytest.mark.parametrize("name", CASES)
def test_the_loss_and_its_gradients_equal_transformers(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    model = make_model(case.head)
    peer = open_peer(model, case.peer, tmp_path)
    theirs = peer(**pad_for_transformers(case.batch, case.num_choices), **case.labels or {}).loss
    theirs.backward()
    ours = find_loss(model, case)
    ours.backward()
    assert ours.item() > 0.1
    assert_near(ours, theirs)
    gradients = gradients_of(model)
    named = to_folder(gradients, name_tensors("albert", CONFIG, gradients, 1))
    expected = dict(peer.named_parameters())
    assert named.keys() == expected.keys()
    for weight, parameter in expected.items():
        assert_near(named[weight], parameter.grad)


def test_a_span_competes_with_the_tokens_of_its_own_sequence_alone(tmp_path: Path) -> None:
    case = UNEVEN["spans"]
    model = make_model(case.head)
    peer = open_peer(model, "AlbertForQuestionAnswering", tmp_path)
    alone = [
        peer(**pad_for_transformers(piece), start_positions=piece.spans_BX[:, 0], end_positions=piece.spans_BX[:, 1])
        for piece in case.batch.split(1)
    ]
    assert_near(find_loss(model, case), torch.stack([output.loss for output in alone]).mean())


@pytest.mark.parametrize("name", UNEVEN)
def test_pieces_of_a_batch_add_up_to_the_same_loss_gradients_and_right_answers(name: str) -> None:
    case = UNEVEN[name]
    whole, cut = make_model(case.head), make_model(case.head)
    part, counts = case.objective.measure(whole, case.batch)["answer"], case.objective.count(case.batch)
    weigh({"answer": part}, counts).backward()
    pieces = case.batch.split(case.num_choices)
    assert len(pieces) > 1 and sum(case.objective.count(piece)["answer"] for piece in pieces) == counts["answer"]
    parts = [case.objective.measure(cut, piece)["answer"] for piece in pieces]
    for piece in parts:
        weigh({"answer": piece}, counts).backward()
    assert_near(torch.stack([piece.total for piece in parts]).sum(), part.total, 2e-6)
    assert sum(int(piece.num_right or 0) for piece in parts) == int(part.num_right or 0)
    expected = gradients_of(whole)
    for weight, gradient in gradients_of(cut).items():
        assert_near(gradient, expected[weight], 1e-6)


@pytest.mark.parametrize("name", UNEVEN)
def test_a_run_takes_the_same_steps_in_pieces(name: str) -> None:
    case = UNEVEN[name]
    head = replace(case.head, dropout=0.0)

    def run(micro_sequences: int | None) -> tuple[dict[str, Tensor], list[float], list[float]]:
        training = make_training(
            model=make_model(head),
            objective=case.objective,
            # Some weights have no gradient but rounding errors, such as the keys' bias; this keeps them where they are.
            optimizer=OptimizerConfig(epsilon=1e-3),
            schedule=ScheduleConfig(steps=4, learning_rate=0.01, warmup_steps=1),
            loop=LoopConfig(log_every=1, micro_sequences=micro_sequences),
            batches=lambda step: itertools.repeat(case.batch),
        )
        _, notes = watch_training(training)
        accuracies = [] if case.head.num_classes == 1 else notes.column("answer_accuracy")
        return weights_of(training), notes.column("answer_loss"), accuracies

    whole, losses, accuracies = run(None)
    cut, losses_in_pieces, accuracies_in_pieces = run(case.num_choices)
    assert losses_in_pieces == pytest.approx(losses, abs=1e-5) and losses[-1] != losses[0]
    assert accuracies_in_pieces == accuracies
    for weight, tensor in cut.items():
        assert_near(tensor, whole[weight])


# SQuAD 2.0


def recompute_answerable(head: Any, hidden_LD: Tensor, allowed: list[int], span: tuple[int, int]) -> Tensor:
    """One sequence's loss, where only the tokens that may hold an answer exist."""

    def surprise(logits: list[Tensor], place: int) -> Tensor:
        return torch.stack(logits).exp().sum().log() - logits[allowed.index(place)]

    def normalise(values: Tensor) -> Tensor:
        spread = ((values - values.mean()) ** 2).mean()
        return (values - values.mean()) / (spread + 1e-12).sqrt() * head.end_norm.weight + head.end_norm.bias

    first, last = span
    starts = [head.start.weight[0] @ hidden_LD[place] + head.start.bias[0] for place in allowed]
    ends = []
    for place in allowed:
        beside = torch.cat([hidden_LD[place], hidden_LD[first]])
        raised = torch.tanh(head.end_transform.weight @ beside + head.end_transform.bias)
        ends.append(head.end.weight[0] @ normalise(raised) + head.end.bias[0])
    shares = torch.stack(starts).exp() / torch.stack(starts).exp().sum()
    expected = sum(share * hidden_LD[place] for share, place in zip(shares, allowed, strict=True))
    both = torch.cat([expected, hidden_LD[0]])
    absent = head.answer.weight[0] @ torch.tanh(head.answer_transform.weight @ both + head.answer_transform.bias)
    chance = 1 / (1 + (-absent).exp())
    absence = -(chance if span == (0, 0) else 1 - chance).log()
    return (surprise(starts, first) + surprise(ends, last)) / 2 + absence / 2


def test_the_loss_of_spans_that_may_be_missing_equals_a_plain_recomputation() -> None:
    case = UNEVEN["answerable spans"]
    model, plain = make_model(case.head), make_model(case.head)
    with torch.no_grad():
        for made in (model, plain):
            made.heads["answerable_span"].end_norm.weight.copy_(torch.linspace(0.5, 2.0, 16))
    ours = find_loss(model, case)
    ours.backward()
    losses = []
    for piece in case.batch.split(1):
        allowed = piece.allowed_T.nonzero().flatten().tolist()
        hidden_LD = plain.encode(piece).hidden_TD
        losses.append(
            recompute_answerable(plain.heads["answerable_span"], hidden_LD, allowed, tuple(piece.spans_BX[0].tolist()))
        )
    expected = torch.stack(losses).mean()
    expected.backward()
    assert_near(ours, expected)
    gradients = gradients_of(plain)
    for weight, gradient in gradients_of(model).items():
        assert_near(gradient, gradients[weight])


# Right answers


def count_right(model: Model, case: Case, **found: Tensor) -> int:
    part = case.objective.measure(model, replace(case.batch, **found))["answer"]
    assert part.num_right is not None
    return int(part.num_right)


def test_right_classes_are_counted() -> None:
    case = CASES["five classes"]
    model = make_model(case.head)
    best_B = model(case.batch).logits["classes"].argmax(dim=1)
    wrong_B = (best_B + 1) % 5
    assert count_right(model, case, labels_BX=best_B) == 4
    assert count_right(model, case, labels_BX=torch.cat([best_B[:1], wrong_B[1:]])) == 1
    assert count_right(model, case, labels_BX=wrong_B) == 0


def test_a_sequence_without_a_label_teaches_nothing() -> None:
    model = Model(CONFIG, [HeadConfig(kind="classes", num_classes=3, dropout=0)]).eval()
    objective = Answering("classes")
    batches = [Batch.pack([[2, 5, 3], [2, 7, 8, 3]][: len(labels)], labels=labels) for labels in ([1], [1, NO_LABEL])]
    torch.testing.assert_close(*(mean_loss(objective, model, batch) for batch in batches))


def test_a_number_is_neither_right_nor_wrong() -> None:
    case = CASES["a number"]
    assert case.objective.measure(make_model(case.head), case.batch)["answer"].num_right is None


def test_several_labels_are_right_if_all_of_them_are() -> None:
    case = CASES["several labels"]
    model = make_model(case.head)
    rows_BC = (model(case.batch).logits["classes"].sigmoid() > 0.5).float()
    assert count_right(model, case, labels_BX=rows_BC) == 4
    rows_BC[2, 1] = 1 - rows_BC[2, 1]
    assert count_right(model, case, labels_BX=rows_BC) == 3


def test_a_choice_is_right_among_the_options_of_its_own_question() -> None:
    case = CASES["choices"]
    model = make_model(case.head)
    logits = model(case.batch).logits["choice"].flatten().tolist()
    best = [max(range(first, first + 3), key=logits.__getitem__) for first in (0, 3)]
    labels_B = torch.zeros(6, dtype=torch.long).index_fill(0, torch.tensor(best), 1)
    assert count_right(model, case, labels_BX=labels_B) == 2
    labels_B[3:] = labels_B[3:].roll(1)
    assert count_right(model, case, labels_BX=labels_B) == 1


def test_tags_are_counted_where_there_are_any() -> None:
    case = CASES["tags"]
    model = make_model(case.head)
    tags_T = model(case.batch).logits["token_classes"].argmax(dim=1)
    tags_T[[0, 4, 5]] = NO_LABEL
    tags_T[[1, 7]] = (tags_T[[1, 7]] + 1) % 4
    assert case.objective.count(replace(case.batch, token_labels_T=tags_T)) == {"answer": 23}
    assert count_right(model, case, token_labels_T=tags_T) == 21


def best_spans(model: Model, batch: Batch) -> Iterator[tuple[int, int]]:
    """Start and end chosen apart, in each sequence alone."""
    for piece in batch.split(1):
        logits_LX = model(piece).logits["span"].tolist()
        yield tuple(max(range(len(logits_LX)), key=lambda place: logits_LX[place][side]) for side in (0, 1))


def test_a_span_is_right_if_both_its_sides_are() -> None:
    case = UNEVEN["spans"]
    model = make_model(case.head)
    spans_BX = torch.tensor(list(best_spans(model, case.batch)))
    assert count_right(model, case, spans_BX=spans_BX) == 4
    spans_BX[1, 1] = (spans_BX[1, 1] + 1) % 7
    spans_BX[3, 0] = (spans_BX[3, 0] + 1) % 9
    assert count_right(model, case, spans_BX=spans_BX) == 2


def test_a_span_that_may_be_missing_is_right_if_its_end_is_found_from_its_start() -> None:
    case = UNEVEN["answerable spans"]
    model = make_model(case.head)
    head = model.heads["answerable_span"]
    made = head(model.encode(case.batch), allowed_T=ALLOWED_T, num_starts=1)
    spans_BX = torch.stack([made.starts_BS[:, 0], made.end_logits_BSL[:, 0].argmax(dim=1)], dim=1)
    assert count_right(model, case, spans_BX=spans_BX) == 4
    spans_BX[2, 1] = (spans_BX[2, 1] + 1) % 6
    assert count_right(model, case, spans_BX=spans_BX) == 3


# Precision and refusals


@pytest.mark.parametrize("name", UNEVEN)
def test_in_half_precision_the_loss_is_still_summed_in_full_and_nearly_the_same(name: str) -> None:
    case = UNEVEN[name]
    model = make_model(case.head)
    with torch.autocast("cpu", torch.bfloat16):
        loss = find_loss(model, case)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(find_loss(model, case).item(), rel=0.05)
    assert all(math.isfinite(gradient.norm()) for gradient in gradients_of(model).values())


@pytest.mark.parametrize(
    ("name", "missing", "said"),
    [
        ("two classes", "labels_BX", "no labels to learn from"),
        ("choices", "labels_BX", "no labels to learn from"),
        ("tags", "token_labels_T", "no labels of tokens"),
        ("spans", "spans_BX", "no answers to learn from"),
        ("answerable spans", "spans_BX", "no answers to learn from"),
    ],
)
def test_a_batch_with_nothing_to_learn_from_is_refused(name: str, missing: str, said: str) -> None:
    case = UNEVEN[name]
    with pytest.raises(UserError, match=said):
        case.objective.measure(make_model(case.head), replace(case.batch, **{missing: None}))
