import itertools
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from litebert.batch import Batch
from litebert.config import UserError
from litebert.models.model import Model
from litebert.training.checkpoint import load_checkpoint
from litebert.training.guard import Guard
from litebert.training.loop import LoopConfig, Meter, Training
from litebert.training.losses import Part, Pretraining, mean_loss
from litebert.training.optimizer import OptimizerConfig, make_optimizer
from tests.training.made import make_batch, make_training, same_weights, watch_training, weights_of


@pytest.mark.parametrize("optimizer", ["lamb", "adamw"])
def test_steps_equal_a_loop_written_out_by_hand(optimizer: str) -> None:
    settings = OptimizerConfig(optimizer=optimizer)
    training = make_training(optimizer=settings)
    expected = make_training().model
    moved = make_optimizer(expected, settings)
    losses = []
    for step in range(20):
        loss = mean_loss(Pretraining(), expected.train(), make_batch(step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(expected.parameters(), 1.0)
        for group in moved.param_groups:
            group["lr"] = training.schedule.rate(step)
        moved.step()
        moved.zero_grad()
        losses.append(loss.item())
    _, notes = watch_training(training)
    assert notes.column("loss") == pytest.approx(losses, abs=1e-5)
    for name, tensor in training.model.state_dict().items():
        torch.testing.assert_close(tensor, expected.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_training_lowers_the_loss() -> None:
    # The same batch again and again: what can be learned by heart.
    training = make_training(steps=150, batches=lambda step: itertools.repeat(make_batch(0)))
    _, notes = watch_training(training)
    assert notes.column("masked_token_loss")[-1] < 0.5 * notes.column("masked_token_loss")[0]
    assert notes.column("masked_token_accuracy")[-1] > 0.5


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_a_batch_cut_into_pieces_makes_the_same_step(pieces: int) -> None:
    whole, cut = make_training(), make_training(loop=LoopConfig(log_every=1, micro_sequences=24 // pieces))
    _, one = watch_training(whole)
    _, other = watch_training(cut)
    assert other.column("loss") == pytest.approx(one.column("loss"), abs=1e-5)
    for name, tensor in cut.model.state_dict().items():
        # The keys' bias has no gradient but rounding errors, which the optimizer makes as long as any gradient.
        torch.testing.assert_close(tensor, whole.model.state_dict()[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("optimizer", ["lamb", "adamw"])
def test_a_run_that_was_cut_off_goes_on_bit_for_bit(tmp_path: Path, optimizer: str, dropout: float) -> None:
    settings = {"optimizer": OptimizerConfig(optimizer=optimizer), "dropout": dropout}
    loop = LoopConfig(log_every=4, save_every=3)
    straight = make_training(loop=loop, **settings)
    _, expected = watch_training(straight)

    def fall_over(model: Model, step: int) -> None:
        if step == 10:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        watch_training(make_training(loop=loop, begin_step=fall_over, **settings), tmp_path)
    found = load_checkpoint(tmp_path)
    assert found is not None and found.step == 9
    resumed = make_training(loop=loop, **settings)
    _, notes = watch_training(resumed, tmp_path)
    assert same_weights(weights_of(resumed), weights_of(straight))
    for key in ("step", "loss", "gradient_norm", "masked_token_accuracy", "pair_accuracy", "tokens"):
        assert notes.column(key) == expected.column(key)[2:], key


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    first = make_training()
    watch_training(first, tmp_path)
    second = make_training()
    outcome, notes = watch_training(second, tmp_path)
    assert outcome.step == 20 and not notes.lines
    assert same_weights(weights_of(first), weights_of(second))


class Poisoned(Pretraining):
    """Gives a loss that is no number, or a huge one, at some calls."""

    def __init__(self, factors: dict[int, float]) -> None:
        self.factors, self.calls = factors, -1

    def measure(self, model: Model, batch: Batch) -> dict:
        self.calls += 1
        parts = super().measure(model, batch)
        part = parts["masked_token"]
        return parts | {"masked_token": part._replace(total=part.total * self.factors.get(self.calls, 1.0))}


@pytest.mark.parametrize(("factor", "said"), [(float("nan"), "is nan"), (1e9, "times the usual")])
def test_a_step_that_is_not_finite_or_explodes_is_skipped_and_said(factor: float, said: str) -> None:
    training = make_training(steps=40, objective=Poisoned({30: factor}))
    before: list[dict] = []

    def remember(model: Model, step: int) -> None:
        if step in (30, 31):
            before.append({name: tensor.clone() for name, tensor in model.state_dict().items()})

    _, notes = watch_training(replace(training, begin_step=remember))
    assert same_weights(*before), "the bad step moved nothing"
    (event,) = notes.column("message", "event")
    assert event.startswith("step 31 was skipped") and said in event
    assert all(torch.isfinite(tensor).all() for tensor in training.model.state_dict().values())
    assert "loss" not in notes.lines[31], "nothing is told of a loss that was not learned from"


def test_twenty_bad_steps_in_a_row_end_the_run_with_what_to_try() -> None:
    training = make_training(steps=100, objective=Poisoned(dict.fromkeys(range(5, 100), float("inf"))))
    with pytest.raises(UserError, match="20 steps in a row were skipped.*a third of the learning rate"):
        watch_training(training)


def test_a_good_step_begins_the_count_of_bad_ones_anew() -> None:
    guard = Guard(100.0)
    for _ in range(3):
        for _ in range(19):
            assert guard.refuses(float("nan"))
        assert guard.refuses(1.0) is None
    assert guard.num_skipped == 57


def test_a_signal_during_the_last_evaluation_is_not_lost(tmp_path: Path) -> None:
    """Else a study would go on with its next run."""

    def send(model: Model, step: int) -> dict[str, float]:
        if step == 8:
            signal.raise_signal(signal.SIGTERM)
        return {}

    outcome, _ = watch_training(make_training(steps=8, evaluate=send), tmp_path)
    assert outcome == (8, signal.SIGTERM, 0)
    found = load_checkpoint(tmp_path)
    assert found is not None and found.step == 8


class Interrupted(Pretraining):
    """Sends SIGTERM as a pass begins."""

    def __init__(self, call: int) -> None:
        self.call, self.calls = call, -1

    def measure(self, model: Model, batch: Batch) -> dict[str, Part]:
        self.calls += 1
        if self.calls == self.call:
            signal.raise_signal(signal.SIGTERM)
        return super().measure(model, batch)


@pytest.mark.parametrize(("call", "step"), [(0, 0), (1, 0), (3, 1), (19, 6), (20, 7), (21, 7), (59, 20)])
def test_sigterm_ends_the_run_between_two_pieces_of_a_step_which_is_taken_again(
    tmp_path: Path, call: int, step: int
) -> None:
    """Three pieces to a step: after the last one, the step is done."""
    loop = LoopConfig(log_every=4, micro_sequences=8)

    def make(**changes: Any) -> tuple[Training, Tensor]:
        """With a tensor beside the weights that changes where a step begins and where it ends, as hard tokens do."""
        state = torch.zeros(2)

        def begin(model: Model, step: int) -> None:
            if step % 3 == 0:
                state.mul_(0.5).add_(step)

        def observe(batch: Batch, parts: Mapping[str, Part]) -> None:
            state.add_(batch.num_tokens)

        changes |= {"begin_step": begin, "observe": observe, "extras": {"state": state}}
        return make_training(loop=loop, dropout=0.2, **changes), state

    straight, expected = make()
    _, all_notes = watch_training(straight)
    stopped, _ = make(objective=Interrupted(call))
    before = signal.getsignal(signal.SIGTERM)
    outcome, first = watch_training(stopped, tmp_path)
    assert outcome == (step, signal.SIGTERM, 0)
    assert signal.getsignal(signal.SIGTERM) is before
    found = load_checkpoint(tmp_path)
    assert found is not None and found.step == step
    resumed, state = make()
    outcome, rest = watch_training(resumed, tmp_path)
    assert outcome == (20, None, 0)
    assert same_weights(weights_of(resumed), weights_of(straight)) and torch.equal(state, expected)
    for key in ("step", "loss", "gradient_norm", "tokens", "sequences"):
        assert first.column(key) + rest.column(key) == all_notes.column(key), key


def test_evaluations_are_made_on_time_and_leave_the_model_training() -> None:
    modes = []

    def evaluate(model: Model, step: int) -> dict[str, float]:
        model.eval()
        modes.append(model.training)
        return {"something": 0.5}

    training = make_training(evaluate=evaluate, loop=LoopConfig(evaluate_every=8))
    _, notes = watch_training(training)
    assert notes.column("step", "evaluation") == [8, 16, 20]
    assert training.model.training and not any(modes)


def test_a_meter_that_was_saved_goes_on_where_it_was() -> None:
    straight, saved = Meter(), Meter()
    for meter in (straight, saved):
        meter.add(steps=1, loss=0.1, pair_right=3, pair_count=4)
    resumed = Meter(dict(saved.sums))
    for meter in (straight, resumed):
        meter.add(steps=1, loss=0.2, pair_right=1, pair_count=4)
    assert resumed.read() == straight.read() == {"loss": (0.1 + 0.2) / 2, "pair_accuracy": 0.5}


def test_bf16_learns_nearly_the_same() -> None:
    _, exact = watch_training(make_training())
    _, rough = watch_training(make_training(loop=LoopConfig(log_every=1, precision="bf16")))
    assert rough.column("loss") == pytest.approx(exact.column("loss"), rel=0.03)
    assert rough.column("loss") != exact.column("loss")


def test_extra_tensors_are_saved_and_put_back(tmp_path: Path) -> None:
    tensor = torch.zeros(3)

    def count(batch: Batch, parts: object) -> None:
        tensor.add_(1)

    watch_training(make_training(extras={"count": tensor}, observe=count), tmp_path)
    found = torch.zeros(3)
    watch_training(make_training(extras={"count": found}), tmp_path)
    assert found.tolist() == [20.0] * 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"log_every": 0}, "log_every is 0"),
        ({"micro_sequences": 0}, "micro_sequences is 0; leave it out"),
        ({"guard_factor": 1.0}, "guard_factor is 1.0"),
        ({"precision": "fp8"}, "must be one of 'fp32', 'bf16'"),
        ({"save_minutes": 0.0}, "save_minutes is 0.0"),
    ],
)
def test_an_impossible_loop_is_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        LoopConfig(**changes)


def test_batches_are_asked_for_from_the_step_that_the_run_goes_on_from(tmp_path: Path) -> None:
    asked = []
    training = make_training(steps=5)

    def batches(step: int) -> Iterator[Batch]:
        asked.append(step)
        return training.batches(step)

    watch_training(replace(training, batches=batches), tmp_path)
    longer = make_training(steps=9)
    watch_training(replace(longer, batches=batches), tmp_path)
    assert asked == [0, 5]
