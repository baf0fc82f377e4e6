"""A run as one watches it: a live line on a terminal, plain lines elsewhere; and its files."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from litebert.training.loop import Watcher
from litebert.training.metrics import BASELINES, NAMES, SO_FAR, MetricsWriter, companion_key
from litebert.training.neighbours import Neighbourhood

QUIET_SECONDS = 30
"""How often training says something where there is no terminal."""

Work = Callable[[int], float]
"""How much work the first so many steps of a run are, in any unit."""


@contextmanager
def watch_run(run: Path, from_step: int, steps: int, work: Work = float) -> Iterator[Watcher]:
    """Writes a run's metrics and shows its progress; where steps differ, `work` tells how long the rest will take."""
    with ExitStack() as stack:
        writer = stack.enter_context(MetricsWriter(run, from_step=from_step))
        shown = stack.enter_context(show_run(from_step, steps, work))
        if from_step:
            shown.write("event", from_step, message="from the checkpoint of this step on")
        yield All(writer, shown, Neighbourhood(shown))


class All:
    def __init__(self, *watchers: Watcher) -> None:
        self.watchers = watchers

    def write(self, kind: str, step: int, **values: Any) -> None:
        for watcher in self.watchers:
            watcher.write(kind, step, **values)


@contextmanager
def show_run(from_step: int, steps: int, work: Work) -> Iterator[Watcher]:
    console = Console(stderr=True, highlight=False)
    if not sys.stderr.isatty():
        yield Lines(console, steps, work)
        return
    columns = (TextColumn("{task.completed:,.0f}/{task.total:,.0f}"), BarColumn(bar_width=20),
               TextColumn("{task.description}"), TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=steps, completed=from_step)
        yield Bar(progress, bar, steps, work)


class Lines:
    """A line now and then, for a file."""

    def __init__(self, console: Console, steps: int, work: Work) -> None:
        self.console, self.steps = console, steps
        self.clock = Clock(steps, work)
        self.said_at = 0.0

    def write(self, kind: str, step: int, **values: Any) -> None:
        if kind == "train":
            self.clock.note(step)
            if time.perf_counter() - self.said_at < QUIET_SECONDS:
                return
            self.said_at = time.perf_counter()
            text = f"{describe_step(values)}  {self.clock.left(step)}"
        else:
            text = describe(kind, values)
        self.console.print(f"{step:>9,}/{self.steps:,}  {text}", markup=False, soft_wrap=True)


class Bar:
    """A bar that shows the last step; evaluations and events stay above it."""

    def __init__(self, progress: Progress, bar: Any, steps: int, work: Work) -> None:
        self.progress, self.bar = progress, bar
        self.clock = Clock(steps, work)

    def write(self, kind: str, step: int, **values: Any) -> None:
        if kind == "train":
            self.clock.note(step)
            text = f"{describe_step(values)}  {self.clock.left(step)}"
            self.progress.update(self.bar, completed=step, description=text)
        else:
            self.progress.console.print(f"{step:>9,}  {describe(kind, values)}", markup=False, soft_wrap=True)


class Clock:
    """How long the rest will take at the pace so far."""

    def __init__(self, steps: int, work: Work) -> None:
        self.steps, self.work = steps, work
        self.start: tuple[int, float] | None = None

    def note(self, step: int) -> None:
        self.start = self.start or (step, time.perf_counter())

    def left(self, step: int) -> str:
        assert self.start is not None
        first, began = self.start
        if step == first:
            return ""
        pace = (time.perf_counter() - began) / (self.work(step) - self.work(first))
        return f"{show_seconds(pace * (self.work(self.steps) - self.work(step)))} left"


def show_seconds(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


def describe_step(values: dict[str, Any]) -> str:
    shares = {"masked tokens": "masked_token_accuracy", "pairs": "pair_accuracy", "right": "answer_accuracy"}
    said = [f"loss {values['loss']:.3f}"] if "loss" in values else []
    said += [f"{name} {values[key]:.1%}" for name, key in shares.items() if key in values]
    said += [f"learning rate {values['learning_rate']:.2e}", f"{values['tokens_per_second']:,.0f} tokens/s"]
    if "share_of_peak" in values:
        said.append(f"{values['share_of_peak']:.0%} of peak")
    return "  ".join(said)


def describe(kind: str, values: dict[str, Any]) -> str:
    """An evaluation, each share of pairs with its 95 % interval and the shallow baseline's; or an event."""
    if kind == "event":
        return values["message"]
    if "masked_token_loss" not in values:
        return ", ".join(
            f"{name.replace('_', ' ')} {value:.2f}" for name, value in values.items() if name not in SO_FAR
        )
    said = [f"held out: masked-token loss {values['masked_token_loss']:.3f}"]
    baseline = f"{BASELINES['shallow']} "  # named once, of the first
    for key, name in NAMES.items():
        if key.endswith("accuracy") and key in values:
            share = f"{values[key]:.1%}"
            if companion_key(key, "shallow") in values:
                low, high, shallow = (values[companion_key(key, what)] for what in ("low", "high", "shallow"))
                name = f"pairs ({name})"  # as steps of training call them
                share += f" [{100 * low:.0f} to {100 * high:.0f}] ({baseline}{shallow:.0%})"
                baseline = ""
            said.append(f"{name} {share}")
    return ", ".join(said)
