"""train(): the only training loop.

It knows batches, a loss and weights, and nothing of text: pre-training and fine-tuning both give it what they have. A
step is a pure function of the weights, the moments and the step's number, so a run that was killed and goes on from a
checkpoint takes the same steps as one that was not, bit for bit.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.config import check_fields, require
from litebert.models.model import Model
from litebert.training.checkpoint import load_checkpoint, save_checkpoint
from litebert.training.costs import count_flops
from litebert.training.devices import Precision
from litebert.training.guard import Guard
from litebert.training.losses import Objective, Part, weigh
from litebert.training.optimizer import OptimizerConfig, make_optimizer, set_rate
from litebert.training.parallel import (
    Parallel,
    Ranks,
    gather_tensors,
    restore_tensors,
    spread,
    whole_weights,
    without_exchange,
)
from litebert.training.schedule import ScheduleConfig
from litebert.training.signals import SIGNALS, catch_signals, name_signal, note_signals

STATE_FORMAT = 1
PRIME = 1_000_003
NUM_EVALUATIONS = 10
"""Of a run, unless it says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """How steps are taken, watched and saved."""

    micro_sequences: int | None = None
    """The most sequences that go through the model at once on a device; the gradients of larger batches are
    accumulated."""
    precision: Precision = "fp32"
    """The precision of matrix products: fp32, or bf16 where torch's autocast allows it."""
    parallel: Parallel = "ddp"
    """How several processes share the work: each with all weights (ddp), or with a part of them (fsdp)."""
    guard_factor: float = 100.0
    """Skip steps whose gradient is this many times longer than usual; those that are not finite are always skipped."""
    log_every: int = 50
    """Steps between lines of the log."""
    evaluate_every: int | None = None
    """Steps between evaluations; by default a tenth of the run. 0 evaluates only at the end."""
    save_every: int = 0
    """Steps between checkpoints, in addition to those by the clock; 0 saves by the clock alone."""
    save_minutes: float = 10.0
    """Minutes between checkpoints."""
    keep: int = 3
    """How many checkpoints to keep."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("log_every", "keep"):
            require(getattr(self, name) > 0, f"{name} is {getattr(self, name)}; it must be at least 1")
        most = self.micro_sequences
        require(most is None or most > 0, f"micro_sequences is {most}; leave it out for whole batches")
        require(self.guard_factor > 1, f"guard_factor is {self.guard_factor}; it must be above 1")
        require(self.save_every >= 0, f"save_every is {self.save_every}; it must be at least 0")
        require((self.evaluate_every or 0) >= 0, f"evaluate_every is {self.evaluate_every}; it must be at least 0")
        require(self.save_minutes > 0, f"save_minutes is {self.save_minutes}; it must be positive")

    @property
    def fixed(self) -> dict[str, Any]:
        """What must be the same when a run is gone on with, as what is learned depends on it.

        With dropout, which is drawn for each piece of a batch, it depends on `micro_sequences` too. That may change all
        the same: a run must be able to go on where there is less memory, and other draws of dropout are as good.
        """
        return {name: getattr(self, name) for name in ("precision", "guard_factor")}

    def evaluation_interval(self, steps: int) -> int:
        """Steps between the evaluations of a run of so many; all of them, where it is evaluated at its end alone."""
        every = -(-steps // NUM_EVALUATIONS) if self.evaluate_every is None else self.evaluate_every
        return every or steps


class Watcher(Protocol):
    """Who is told of a run's progress, on the first rank alone."""

    def write(self, kind: str, step: int, **values: Any) -> None: ...


Watch = Callable[[int], AbstractContextManager[Watcher]]
"""Opens who is told of the progress, given the step that it goes on from."""


@dataclass(kw_only=True)
class Training:
    """All that a run is made of."""

    model: Model
    objective: Objective
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    loop: LoopConfig
    batches: Callable[[int], Iterator[Batch]]
    """This rank's batches from a step on."""
    begin_step: Callable[[Model, int], str | None] = lambda model, step: None
    """Called before each step, and before the first step after a resumption; may say what it changed."""
    observe: Callable[[Batch, Mapping[str, Part]], None] = lambda batch, parts: None
    """Sees what each step that was taken made of its batches."""
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    """Other tensors that belong to a checkpoint; they are restored in place."""
    before_saving: Callable[[], None] = lambda: None
    """Called on all ranks before the first one's extras are saved."""
    after_loading: Callable[[], None] = lambda: None
    """Called on all ranks when they have those extras back."""
    evaluate: Callable[[Model, int], Mapping[str, float]] | None = None
    """What is measured after a step."""
    is_finished: Callable[[int], bool] = lambda step: False
    """Whether a run needs no more than its first so many steps; asked before each."""
    seed: int = 0
    peak: float | None = None
    """What the machine can do at best, in FLOP/s, to tell how much of it is used."""


class Outcome(NamedTuple):
    step: int
    stopped_by: int | None
    """The signal that ended the run early."""
    num_skipped: int
    """How many steps the guard did not let through."""


class Learner(nn.Module):
    """A model with its objective: what ranks run forward and backward together."""

    def __init__(self, model: Model, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch, counts: Mapping[str, float]) -> tuple[Tensor, dict[str, Part]]:
        parts = self.objective.measure(self.model, batch)
        return weigh(parts, counts), parts


@dataclass
class Meter:
    """Sums since the last line of the log; saved with a checkpoint, so that a resumed run writes the same lines."""

    sums: dict[str, float] = field(default_factory=dict)

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def read(self) -> dict[str, float]:
        """The means, and a new beginning."""
        sums, self.sums = self.sums, {}
        steps = max(sums.pop("steps", 0.0), 1.0)
        counts = {name.removesuffix("_count"): sums.pop(name) for name in list(sums) if name.endswith("_count")}
        values = {name: value / steps for name, value in sums.items() if not name.endswith("_right")}
        rights = {name.removesuffix("_right"): value for name, value in sums.items() if name.endswith("_right")}
        return values | {f"{name}_accuracy": value / max(counts[name], 1.0) for name, value in rights.items()}


def train(
    training: Training,
    folder: Path | None = None,
    *,
    ranks: Ranks | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Takes all steps of a run, from where the last checkpoint in `folder` left it.

    `watch` opens who is told of the progress, given the step that it goes on from; on the first rank alone.
    """
    return Loop(training, folder, ranks or Ranks()).run(watch)


class Loop:
    """A run that is under way."""

    watcher: Watcher | None = None

    def __init__(self, training: Training, folder: Path | None, ranks: Ranks) -> None:
        self.training, self.folder, self.ranks = training, folder, ranks
        self.config, self.schedule = training.loop, training.schedule
        self.model = training.model.to(ranks.device)
        self.learner = spread(Learner(self.model, training.objective), ranks, self.config.parallel)
        self.optimizer = make_optimizer(self.model, training.optimizer)
        self.guard = Guard(self.config.guard_factor)
        self.meter = Meter()
        self.step, self.tokens, self.sequences, self.seconds = 0, 0, 0, 0.0
        self.clock = self.saved_at = time.perf_counter()
        self.resume()

    def resume(self) -> None:
        found = load_checkpoint(self.folder) if self.folder is not None else None
        self.ranks.agree_on(found.step if found else 0, "checkpoints of steps")
        if found is None:
            return
        number = found.state.get("format")
        require(number == STATE_FORMAT, f"{found.path} has format {number!r}; this version reads {STATE_FORMAT}")
        restore_tensors(self.model, self.optimizer, found.tensors)
        for name, tensor in self.training.extras.items():
            tensor.copy_(found.tensors[f"extras.{name}"])
        self.training.after_loading()
        state = found.state
        self.step, self.tokens, self.sequences, self.seconds = (
            state[name] for name in ("step", "tokens", "sequences", "seconds")
        )
        self.guard.restore(state["guard"])
        self.meter.sums = dict(state["meter"])

    def open_watcher(self, stack: contextlib.ExitStack, watch: Watch) -> None:
        self.watcher = stack.enter_context(watch(self.step))

    def run(self, watch: Watch | None) -> Outcome:
        self.model.train()
        batches = self.training.batches(self.step)
        self.clock = self.saved_at = time.perf_counter()
        with contextlib.ExitStack() as stack:
            caught = stack.enter_context(catch_signals(is_told=watch is not None and self.ranks.is_first))
            if watch is not None:
                self.ranks.do_first(lambda: self.open_watcher(stack, watch))
            stopped_by = None
            if isinstance(self.learner, nn.parallel.DistributedDataParallel):
                batches = self.warm_up(batches)
            while not self.is_done() and stopped_by is None:
                before = self.step
                stopped_by, must_save = self.take_step(batches, caught)
                if self.step > before:
                    self.report()
                if must_save or stopped_by is not None or self.is_done():
                    self.save()
            # What was said during the last evaluation or save is meant for whatever comes next.
            stopped_by = stopped_by or name_signal(self.ranks.add_up(note_signals(caught)))
        return Outcome(self.step, stopped_by, self.guard.num_skipped)

    def report(self) -> None:
        """What is to be logged and evaluated after a step."""
        if self.step % self.config.log_every == 0 or self.step == self.schedule.steps:
            self.log()
        if self.is_evaluation_due():
            self.evaluate()

    def is_done(self) -> bool:
        return self.step >= self.schedule.steps or self.training.is_finished(self.step)

    def warm_up(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """One pass of which nothing is kept, before the first step that a process takes.

        DDP arranges what it sends anew after its first pass. With three ranks and more the arrangement decides in
        which order numbers are added, and a run that goes on must add them as one that was never stopped.
        """
        first = next(batches)
        self.propagate(first, dict.fromkeys(self.training.objective.count(first), 1.0))
        self.optimizer.zero_grad()
        return itertools.chain([first], batches)

    def take_step(self, batches: Iterator[Batch], caught: list[int]) -> tuple[int | None, bool]:
        """One step; returns the signal that is to end the run, if any rank caught one, and whether a save is due.

        A step that a signal interrupts is undone: a run that goes on takes it again.
        """
        start = time.perf_counter()
        batch, undo = next(batches), self.remember()
        index, self.step = self.step, self.step + 1
        if (change := self.training.begin_step(self.model, index)) is not None:
            self.tell("event", message=change)
        counts, stopped_by, must_save = self.agree(batch, caught)
        # Dropout's draws belong to the step, not to what was drawn before it.
        torch.manual_seed(((self.training.seed * PRIME + index) * PRIME + self.ranks.rank) % (1 << 63))
        set_rate(self.optimizer, self.schedule.rate(index))
        made = self.propagate(batch, counts, caught)
        if made is None:
            undo()
            return name_signal(note_signals(caught)), True
        norm = self.clip()
        reason = self.guard.refuses(norm)
        if reason is None:
            self.optimizer.step()
            self.measure([parts for _, parts in made], counts, norm)
            for piece, parts in made:
                self.training.observe(piece, parts)
        else:
            self.tell("event", message=f"step {self.step} was skipped: {reason}")
        self.optimizer.zero_grad()
        self.meter.add(seconds=time.perf_counter() - start)
        return stopped_by, must_save

    def remember(self) -> Callable[[], None]:
        """What undoes a step that has moved no weights yet: it puts back all that a checkpoint holds beside them."""
        counts, sums = (self.step, self.tokens, self.sequences), dict(self.meter.sums)
        extras = {name: tensor.clone() for name, tensor in self.training.extras.items()}

        def undo() -> None:
            (self.step, self.tokens, self.sequences), self.meter.sums = counts, sums
            for name, tensor in self.training.extras.items():
                tensor.copy_(extras[name])
            self.optimizer.zero_grad()

        return undo

    def agree(self, batch: Batch, caught: list[int]) -> tuple[dict[str, float], int | None, bool]:
        """What all ranks must know of a step: its counts, whether one caught a signal, whether to save behind it."""
        counts = self.training.objective.count(batch)
        by_clock = time.perf_counter() - self.saved_at > 60 * self.config.save_minutes
        by_step = self.config.save_every and self.step % self.config.save_every == 0
        work = count_flops(
            self.model.config,
            batch.lengths,
            counts.get("masked_token", 0),
            self.model.encoder.num_layers,
            reads_all=self.model.reads_all(batch),
        )
        mine = [self.ranks.is_first and by_clock, batch.num_tokens, batch.num_sequences, work, *counts.values()]
        sums = self.ranks.add_up([*note_signals(caught), *map(float, mine)])
        signals, (clock, tokens, sequences, flops, *totals) = sums[: len(SIGNALS)], sums[len(SIGNALS) :]
        self.tokens += int(tokens)
        self.sequences += int(sequences)
        self.meter.add(tokens=tokens, flops=flops)
        return dict(zip(counts, totals, strict=True)), name_signal(signals), bool(clock or by_step)

    def propagate(
        self, batch: Batch, counts: Mapping[str, float], caught: Sequence[int] = ()
    ) -> list[tuple[Batch, dict[str, Part]]] | None:
        """Forward and backward, in pieces where the batch is too large for one; what was made of each.

        Nothing, where a signal came before the last: with 4096 sequences on a laptop, a step takes hours. Several ranks
        go through all the same, since they would have to agree at every piece that they stop there.
        """
        pieces = batch.split(self.config.micro_sequences or batch.num_sequences)
        made = []
        for number, piece in enumerate(pieces):
            if caught and self.ranks.num_ranks == 1:
                return None
            is_last = number == len(pieces) - 1
            with contextlib.nullcontext() if is_last else without_exchange(self.learner):
                piece = piece.to(self.ranks.device)
                with torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
                    loss, parts = self.learner(piece, counts)
                # Gradients come out as means over the ranks, and the counts are those of all ranks.
                (loss * self.ranks.num_ranks).backward()
            made.append((piece, {name: part._replace(total=part.total.detach()) for name, part in parts.items()}))
        return made

    def clip(self) -> float:
        """The norm of the gradient of all weights, on all ranks, which is shortened where it is too long."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters])  # type: ignore[misc]
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        torch.nn.utils.clip_grads_with_norm_(parameters, self.training.optimizer.clip_norm, norm)
        return norm.item()

    def measure(self, made: list[dict[str, Part]], counts: Mapping[str, float], norm: float) -> None:
        values = {"steps": 1.0, "gradient_norm": norm, "loss": 0.0}
        names = list(made[0])
        mine = [float(sum(parts[name].total for parts in made)) for name in names]
        mine += [float(sum(parts[name].num_right or 0 for parts in made)) for name in names]
        totals = self.ranks.add_up(mine)
        for name, total, right in zip(names, totals[: len(names)], totals[len(names) :], strict=True):
            values[f"{name}_loss"] = total / max(1.0, counts[name])
            values["loss"] += values[f"{name}_loss"]
            if made[0][name].num_right is not None:
                values |= {f"{name}_right": right, f"{name}_count": counts[name]}
        self.meter.add(**values)

    def log(self) -> None:
        values = self.meter.read()
        seconds, tokens, flops = (values.pop(name) for name in ("seconds", "tokens", "flops"))
        values["tokens_per_second"] = tokens / seconds
        if self.training.peak is not None:
            values["share_of_peak"] = flops / seconds / self.training.peak
        self.tell("train", learning_rate=self.schedule.rate(self.step - 1), **values)

    def is_evaluation_due(self) -> bool:
        if self.training.evaluate is None:
            return False
        every = self.config.evaluation_interval(self.schedule.steps)
        return self.step == self.schedule.steps or self.step % every == 0

    def evaluate(self) -> None:
        assert self.training.evaluate is not None
        with whole_weights(self.learner):
            values = self.training.evaluate(self.model, self.step)
        self.model.train()
        self.tell("evaluation", **values)

    def tell(self, kind: str, **values: Any) -> None:
        self.pass_time()
        if self.watcher is not None:
            so_far = {"tokens": self.tokens, "sequences": self.sequences, "seconds": round(self.seconds, 3)}
            self.watcher.write(kind, self.step, **so_far, **values)

    def pass_time(self) -> None:
        now = time.perf_counter()
        self.seconds, self.clock = self.seconds + now - self.clock, now

    def save(self) -> None:
        if self.folder is None:
            return
        self.pass_time()
        self.training.before_saving()
        tensors = gather_tensors(self.model, self.optimizer)
        tensors |= {f"extras.{name}": tensor for name, tensor in self.training.extras.items()}
        state = {
            "format": STATE_FORMAT,
            "step": self.step,
            "tokens": self.tokens,
            "sequences": self.sequences,
            "seconds": self.seconds,
            "guard": self.guard.state,
            "meter": self.meter.sums,
        }
        folder, keep = self.folder, self.config.keep
        self.ranks.do_first(lambda: save_checkpoint(folder, self.step, tensors, state, keep=keep))
        self.saved_at = time.perf_counter()
