"""A fine-tuning run: a model folder, a task's data and a config become a run folder.

config.json        all that was asked for; accepted back by --config
data.json          what the examples were, so that a run never goes on with others
environment.json   versions and hardware
metrics.jsonl      what was measured, a line each; tensorboard/ holds the same
checkpoints/       where to go on from
best.json          the step of the best model so far, and its score
stuck.json         at which step it was seen that nothing was learned, if so
model/             that model, with its task and a card
predictions/       what it says of dev, and of test where that is there
scores.json        how good that is
stuck-1/ ...       attempts that learned nothing, where the run was told to try again
"""

import dataclasses
import functools
import hashlib
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from litebert.config import from_dict, read_json, refuse_changes, require
from litebert.files import write_file
from litebert.finetuning.card import write_card
from litebert.finetuning.config import FREE, FinetuneConfig, make_schedule
from litebert.finetuning.evaluation import (
    Evaluated,
    Finetuned,
    Split,
    TaskFile,
    check_model,
    draw,
    head_of,
    is_labelled,
    open_finetuned,
    read_task_file,
    with_labels,
    write_task_file,
)
from litebert.finetuning.pictures import draw_pictures
from litebert.finetuning.selection import Selection, lower_rate
from litebert.finetuning.stream import Stream
from litebert.models.encoder import sharing_map
from litebert.models.folder import find_folder, read_model, write_model
from litebert.models.heads import POOLED_KINDS, Model, make_head
from litebert.presets import read_changes
from litebert.tasks.classes import describe_balance
from litebert.tasks.registry import find_task
from litebert.tasks.task import Question, Sample
from litebert.text.vocabulary import copy_vocabulary, open_vocabulary
from litebert.training.allocator import keep_freed_memory
from litebert.training.answer_losses import Answering
from litebert.training.environment import describe_environment
from litebert.training.loop import NUM_EVALUATIONS, Outcome, Training, train
from litebert.training.optimizer import find_depth
from litebert.training.parallel import Ranks
from litebert.training.progress import watch_run
from litebert.training.schedule import ScheduleConfig
from litebert.training.timing import measure_peak

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 4
ATTEMPT = ("checkpoints", "metrics.jsonl", "tensorboard", "model", "best.json", "stuck.json")
"""What belongs to one attempt at a run."""


class Prepared(NamedTuple):
    """A run that is ready to start."""

    config: FinetuneConfig
    asked: Finetuned
    samples: Sequence[Sample]
    """To learn from."""
    dev: Sequence[Split]
    schedule: ScheduleConfig
    data: dict[str, Any]
    """What the examples are."""
    notes: list[str]
    """What a user should know of them."""
    balance: dict[str, int]
    """How many examples to learn from have each label."""


def prepare(config: FinetuneConfig, run: Path, ranks: Ranks) -> Prepared:
    """Opens and checks everything; writes nothing."""
    keep_freed_memory()
    torch.set_flush_denormal(True)
    require(config.data, "there is no data; name the folder of the task's files with --data")
    require(config.init, "there is no model to begin with; name its folder with --init")
    config = agree_with_run(heed_patience(config), run, ranks)
    task = find_task(config.task, config.columns, config.data)
    require(task.splits["train"], f"{config.task} is a test alone; fine-tune for a task that has data to learn from")
    train_examples = draw(task.read(config.data, task.splits["train"][0]), config.train_examples)
    require(is_labelled(train_examples), f"the examples of {config.data} have no labels; there is nothing to learn")
    question = task.ask(train_examples)
    task = with_labels(task, question)
    vocabulary = open_vocabulary(find_folder(Path(config.init)))
    model = make_model(config, question)
    require(
        config.limits.length <= model.config.num_positions,
        f"length is {config.limits.length}; the model has {model.config.num_positions} positions",
    )
    stored = TaskFile(
        task=config.task, columns=config.columns, limits=config.limits, labels=question.labels, several=question.several
    )
    asked = Finetuned(model, vocabulary, task, question, stored)
    check_model(asked, config.init)
    check_sharing_of_work(config, question, ranks)
    encoded = task.encode(train_examples, vocabulary, question, config.limits)
    samples = [sample for sample in encoded.samples if sample.span is not None or "span" not in question.kind]
    check_segments(model, samples, config.init)
    require(samples, f"nothing can be learned from the {len(train_examples):,} examples of {config.data}; mend them")
    dev = [asked.read(config.data, name, config.dev_examples) for name in task.splits["dev"]]
    for split in dev:
        require(is_labelled(split.examples), f"{split.name} of {config.data} has no labels; it cannot choose a model")
        require(
            split.examples[0].place != train_examples[0].place,
            f"{config.data} is one file for train and {split.name}; give the folder that holds both",
        )
    data = describe_data(train_examples, dev)
    if (run / "data.json").exists():
        require(
            read_json(run / "data.json") == data,
            f"the data of {run} have changed since it began; restore them, or start a new --run",
        )
    rate = lower_rate(config.learning_rate, count_stuck(run))
    schedule = make_schedule(config, len(samples) // question.num_choices, rate)
    notes = [f"train: {note}" for note in encoded.notes]
    notes += [f"{split.name}: {note}" for split in dev for note in split.encoded.notes]
    return Prepared(config, asked, samples, dev, schedule, data, notes, describe_balance(train_examples, question))


def check_sharing_of_work(config: FinetuneConfig, question: Question, ranks: Ranks) -> None:
    """Refuses batches that cannot be cut as asked."""
    require(
        config.num_examples % ranks.num_ranks == 0,
        f"a step has {config.num_examples} examples and there are {ranks.num_ranks} devices; make it a multiple",
    )
    micro = config.loop.micro_sequences
    require(
        micro is None or micro % question.num_choices == 0,
        f"micro_sequences is {micro}; it must be a multiple of the {question.num_choices} options of a question",
    )


def check_segments(model: Model, samples: Sequence[Sample], path: str) -> None:
    has_two = any(sample.second < len(sample.token_ids) for sample in samples)
    require(
        model.config.num_segments > 1 or not has_two,
        f"{path} tells no segments apart (num_segments is 1), and the task has two texts; choose another model",
    )


def heed_patience(config: FinetuneConfig) -> FinetuneConfig:
    """Who is to stop early must look on the way, also at tasks that are else evaluated at the end alone."""
    if config.loop.evaluate_every == 0 and (config.patience or config.retry_if_stuck):
        return replace(config, loop=replace(config.loop, evaluate_every=None))
    return config


def agree_with_run(config: FinetuneConfig, run: Path, ranks: Ranks) -> FinetuneConfig:
    """The config of a run that has begun, which must be the one given; or the one given."""
    stored = run / "config.json"
    ranks.agree_on(int(stored.exists()), "a config.json, 0 or 1,")  # none writes before all have looked
    require(
        stored.exists() or not (run / "checkpoints").exists(),
        f"{run} has checkpoints but no config.json; restore it, or start a new --run",
    )
    if not stored.exists():
        return config
    content = read_json(stored)
    require("task" in content, f"{run} is a run of another kind; start a new --run")
    before = from_dict(FinetuneConfig, content)
    refuse_changes(config.fixed, before.fixed, run)
    return replace(before, **{name: getattr(config, name) for name in FREE})


def make_model(config: FinetuneConfig, question: Question) -> Model:
    """The folder's encoder under a new head; one that was fine-tuned for the same task keeps its own."""
    torch.manual_seed(config.seed)
    head = head_of(question, config.classifier_dropout)
    dropout = {} if config.dropout is None else dict.fromkeys(("hidden_dropout", "attention_dropout"), config.dropout)
    model = read_model(config.init, heads=[head], **(dropout | read_changes(config.encoder)))
    before = read_task_file(find_folder(Path(config.init)))
    if before is not None and not config.scratch:
        is_same = (before.task, before.columns, before.labels) == (config.task, config.columns, question.labels)
        made = "goes on" if is_same else "is made new, with random weights"
        logger.warning("%s was fine-tuned for %s; its head %s", config.init, before.task, made)
        if not is_same:
            model.heads[head.kind] = make_head(model.config, head)
    if config.scratch:
        torch.manual_seed(config.seed)
        model = Model(model.config, [head])
    if question.kind not in POOLED_KINDS:
        model.pooler = None  # nothing reads it, and transformers' classes for such heads have none
    freeze(model, config.freeze)
    return model


def freeze(model: Model, what: str) -> None:
    """Takes weights out of training: the embedding, the encoder, or all that only the first layers use."""
    if what == "nothing":
        return
    layers = {"embedding": 0, "encoder": model.config.num_layers}.get(what)
    depth = int(what) if layers is None else layers
    require(depth <= model.config.num_layers, f"freeze is {what}; the model has {model.config.num_layers} layers")
    if 0 < depth < model.config.num_layers:
        pairs = sharing_map(model.config.sharing, model.config.num_layers)
        below, above = ([set(half) for half in zip(*part, strict=True)] for part in (pairs[:depth], pairs[depth:]))
        require(
            all(low.isdisjoint(high) for low, high in zip(below, above, strict=True)),
            f"freeze is {what}, but layers above share the weights of these (sharing={model.config.sharing}); "
            "freeze the embedding or the encoder",
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(find_depth(model.config, name) > depth)


def describe_data(examples: Sequence[Any], dev: Sequence[Split]) -> dict[str, Any]:
    parts = {"train": examples} | {split.name: split.examples for split in dev}
    return {name: describe_examples(part) for name, part in parts.items()}


def describe_examples(examples: Sequence[Any]) -> dict[str, Any]:
    """What tells whether examples are the same; places in files do not."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example._replace(place="")).encode(errors="surrogatepass"))
    return {"examples": len(examples), "sha256": digest.hexdigest()}


def count_stuck(run: Path) -> int:
    return len(list(run.glob("stuck-*")))


def finetune(config: FinetuneConfig, run: Path, ranks: Ranks) -> tuple[Outcome, dict[str, Any]]:
    """Starts a run, or goes on with it, until it is done or stopped; its scores are empty where it was stopped."""
    return carry_out(prepare(config, run, ranks), run, ranks)


def carry_out(prepared: Prepared, run: Path, ranks: Ranks) -> tuple[Outcome, dict[str, Any]]:
    ranks.do_first(lambda: write_description(prepared, run, ranks))
    selection = make_selection(prepared, run, ranks)
    training, steps = make_training(prepared, selection, ranks), prepared.schedule.steps
    outcome = train(training, run / "checkpoints", ranks=ranks, watch=lambda step: watch_run(run, step, steps))
    if outcome.stopped_by is not None:
        return outcome, {}
    if selection.must_retry(outcome.step):
        ranks.do_first(lambda: set_aside(run))
        return finetune(prepared.config, run, ranks)
    scores: dict[str, Any] = {}
    if ranks.is_first:
        scores = finish(prepared, run, outcome, selection)
    return outcome, scores


def set_aside(run: Path) -> None:
    """Moves an attempt away that learned nothing; the next begins with a lower rate."""
    folder = run / f"stuck-{count_stuck(run) + 1}"
    unfinished = run / f".{folder.name}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that ended here; the attempt was made again since
    unfinished.mkdir()
    for name in ATTEMPT:
        if (run / name).exists():
            (run / name).rename(unfinished / name)
    unfinished.rename(folder)
    logger.warning("the attempt that learned nothing is in %s; trying again with a third of its learning rate", folder)


def make_selection(prepared: Prepared, run: Path, ranks: Ranks) -> Selection:
    config, schedule = prepared.config, prepared.schedule

    def keep(weights: Mapping[str, Tensor], result: Evaluated) -> None:
        trained = prepared.asked.model
        model = Model(trained.config, trained.head_configs.values(), pooler=trained.pooler is not None)
        model.load_state_dict(weights)
        write_model(model, run / "model")
        copy_vocabulary(find_folder(Path(config.init)), run / "model")
        write_task_file(run / "model", replace(prepared.asked.stored, threshold=result.threshold))

    every = config.loop.evaluate_every or -(-schedule.steps // NUM_EVALUATIONS)
    return Selection(
        asked=prepared.asked,
        dev=prepared.dev,
        folder=run,
        keep=keep,
        steps=schedule.steps,
        warmup_steps=schedule.warmup_steps,
        patience_steps=config.patience * every,
        stops_if_stuck=config.retry_if_stuck and count_stuck(run) < MOST_ATTEMPTS - 1,
        ranks=ranks,
    )


def make_training(prepared: Prepared, selection: Selection, ranks: Ranks) -> Training:
    config, question = prepared.config, prepared.asked.question
    stream = Stream(
        prepared.samples,
        num_examples=config.num_examples,
        num_choices=question.num_choices,
        seed=config.seed,
        ranks=ranks,
    )
    measurable = ranks.device.type == "cpu" and config.loop.precision == "fp32"
    return Training(
        model=prepared.asked.model,
        objective=Answering(question.kind, question.num_choices),
        optimizer=config.optimizer,
        schedule=prepared.schedule,
        loop=config.loop,
        batches=stream.batches,
        evaluate=selection.evaluate,
        is_finished=selection.is_finished,
        seed=config.seed,
        peak=find_peak() * ranks.num_ranks if measurable else None,
    )


@functools.cache
def find_peak() -> float:
    """Measured once: seeds and attempts follow each other on one machine, and small ones take less time than this."""
    return measure_peak()


def write_description(prepared: Prepared, run: Path, ranks: Ranks) -> None:
    """What the run is. The config comes last: where it is, the run has begun."""
    contents = {
        "data": prepared.data,
        "environment": describe_environment(ranks),
        "config": dataclasses.asdict(prepared.config),
    }
    for name, content in contents.items():
        write_json_file(run / f"{name}.json", content)


def write_json_file(path: Path, content: Mapping[str, Any]) -> None:
    write_file(path, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")


def finish(prepared: Prepared, run: Path, outcome: Outcome, selection: Selection) -> dict[str, Any]:
    """Asks the best model about dev, and about test where that is there; writes all that people look at."""
    config = prepared.config
    device = next(prepared.asked.model.parameters()).device
    asked = open_finetuned(run / "model", config.data, config.task, device=device)
    splits = [*prepared.dev, *read_test(asked, config)]
    best = selection.read_best() or {}
    scores: dict[str, Any] = {
        "task": config.task,
        "metric": asked.task.metric,
        "step": best.get("step"),
        "steps": outcome.step,
        "learning_rate": prepared.schedule.learning_rate,
        "seed": config.seed,
        "stuck": selection.find_stuck(outcome.step),
        "attempts": count_stuck(run) + 1,
        "notes": prepared.notes,
        "files": {},
    }
    (run / "predictions").mkdir(exist_ok=True)
    for split in splits:
        result = asked.evaluate(split)
        written = asked.task.write_predictions(run / "predictions", split.name, split.examples, result.predictions)
        scores["files"][split.name] = str(written[0].relative_to(run))
        if result.scores:
            scores[split.name] = result.scores
        if split is prepared.dev[0]:
            draw_pictures(run, asked.question, split.examples, result.predictions)
    write_json_file(run / "scores.json", scores)
    write_card(run / "model", config, asked.model, scores, len(prepared.samples) // asked.question.num_choices)
    return scores


def read_test(asked: Finetuned, config: FinetuneConfig) -> list[Split]:
    """The splits of test, where their files are there; none for a run that was told to evaluate on a part of dev."""
    found: list[Split] = []
    if config.dev_examples is not None:
        return found
    for name in asked.task.splits.get("test", ()):
        try:
            found.append(asked.read(config.data, name))
        except ValueError as error:
            logger.warning("there are no predictions for %s: %s", name, error)
    return found


def describe_run(prepared: Prepared) -> dict[str, str]:
    """What a run will do, in words."""
    config, schedule, asked = prepared.config, prepared.schedule, prepared.asked
    questions = len(prepared.samples) // asked.question.num_choices
    trained = sum(parameter.numel() for parameter in asked.model.parameters() if parameter.requires_grad)
    described = {
        "task": f"{config.task}: {asked.question.kind.replace('_', ' ')}"
        + (f" of {len(asked.question.labels)}" if asked.question.labels else ""),
        "model": f"{config.init}{', weights at random' if config.scratch else ''}: {trained:,} parameters to train",
        "data": f"{questions:,} to learn from, "
        + ", ".join(f"{len(split.examples):,} in {split.name}" for split in prepared.dev),
        "steps": f"{schedule.steps:,} of {config.num_examples}: {schedule.steps * config.num_examples / questions:.2g} "
        f"epochs; length {config.limits.length}",
        "rate": f"{schedule.learning_rate:.3g} after {schedule.warmup_steps:,} steps of warm-up, by {config.recipe}",
    }
    if prepared.balance:
        total = sum(prepared.balance.values())
        shares = ", ".join(f"{label} {count / total:.1%}" for label, count in prepared.balance.items())
        described["labels"] = shares
    return described
