"""What a fine-tuning run needs before it can begin: everything opened and checked, nothing written."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from litebert.config import require
from litebert.finetuning.config import FREE, FinetuneConfig, make_schedule
from litebert.finetuning.heads import head_of
from litebert.finetuning.stuck import count_stuck, lower_rate
from litebert.finetuning.task_file import TaskFile, read_task_file
from litebert.finetuning.task_model import Split, TaskModel, check_model, draw
from litebert.models.folder import complete_model, find_folder
from litebert.models.heads import POOLED_KINDS, make_head
from litebert.models.model import Model
from litebert.models.sharing import sharing_map
from litebert.presets import read_changes
from litebert.tasks.registry import find_task
from litebert.tasks.task import SPAN_KINDS, Question, Sample, Task, describe_balance
from litebert.text.vocabulary import open_vocabulary
from litebert.training.optimizer import find_depth
from litebert.training.parallel import Ranks
from litebert.training.process import prepare_process
from litebert.training.run_folder import check_data, go_on_with, read_begun
from litebert.training.schedule import ScheduleConfig

PLACE = re.compile(r"(, (line|row|article|paragraph|question) \d+)+$")
"""Where in its file an example stands."""


class Prepared(NamedTuple):
    """A run that is ready to start."""

    config: FinetuneConfig
    task_model: TaskModel
    head: str
    """Whether it is new, in words."""
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

    @property
    def num_questions(self) -> int:
        """How many there are to learn from; several samples may be the options of one."""
        return len(self.samples) // self.task_model.question.num_choices


def prepare(config: FinetuneConfig, run: Path, ranks: Ranks) -> Prepared:
    """Opens and checks everything; writes nothing."""
    prepare_process()
    require(config.data, "there is no data; name the folder of the task's files with --data")
    require(config.init, "there is no model to begin with; name its folder with --init")
    config = agree_with_run(heed_patience(config), run, ranks)
    task, given = read_given(config)
    task_model, head = make_task_model(config, task, task.ask(given))  # of all: those drawn may lack a label
    check_sharing_of_work(config, task_model.question, ranks)
    train = task_model.encode("train", draw(given, config.train_examples))
    samples = choose_samples(task_model, train, config)
    dev = [task_model.read(config.data, name, config.dev_examples) for name in task.splits["dev"]]
    check_dev(task, dev, train, config.data)
    data = {split.name: describe_examples(split.examples) for split in (train, *dev)}
    check_data(run, data, "data")
    rate = lower_rate(config.learning_rate, count_stuck(run))
    schedule = make_schedule(config, len(samples) // task_model.question.num_choices, rate)
    notes = [f"{split.name}: {note}" for split in (train, *dev) for note in split.encoded.notes]
    balance = describe_balance(train.examples, task_model.question)
    return Prepared(config, task_model, head, samples, dev, schedule, data, notes, balance)


def read_given(config: FinetuneConfig) -> tuple[Task, Sequence[Any]]:
    """The task, and all examples that there are to learn from."""
    task = find_task(config.task, config.columns, config.data)
    require(task.splits["train"], f"{config.task} is a test alone; fine-tune for a task that has data to learn from")
    given = task.read(config.data, task.splits["train"][0])
    require(task.is_labelled(given), f"the examples of {config.data} have no labels; there is nothing to learn")
    return task, given


def make_task_model(config: FinetuneConfig, task: Task, question: Question) -> tuple[TaskModel, str]:
    """What is to be trained, and in words whether its head is new."""
    vocabulary = open_vocabulary(find_folder(Path(config.init)))
    model, head = make_model(config, question)
    stored = TaskFile(
        task=config.task,
        columns=config.columns,
        limits=config.limits,
        labels=question.labels,
        several=question.kind == "labels",
    )
    task_model = TaskModel(model, vocabulary, task.with_labels(question.labels), question, stored)
    check_model(task_model, config.init)
    return task_model, head


def choose_samples(task_model: TaskModel, train: Split, config: FinetuneConfig) -> list[Sample]:
    """Those of which something can be learned."""
    has_spans = task_model.question.kind in SPAN_KINDS
    samples = [sample for sample in train.encoded.samples if sample.span is not None or not has_spans]
    check_segments(task_model.model, samples, config.init)
    require(samples, f"nothing can be learned from the {len(train.examples):,} examples of {config.data}; mend them")
    return samples


def check_dev(task: Task, dev: Sequence[Split], train: Split, data: str) -> None:
    """Refuses examples that cannot choose a model: those without labels, and those that it learns from."""
    for split in dev:
        require(task.is_labelled(split.examples), f"{split.name} of {data} has no labels; it cannot choose a model")
        files = {PLACE.sub("", examples[0].place) for examples in (split.examples, train.examples)}
        advice = f"give the folder that holds both, named train and {split.name}"
        require(len(files) == 2, f"{data} is one file for train and {split.name}; {advice}")


def check_sharing_of_work(config: FinetuneConfig, question: Question, ranks: Ranks) -> None:
    """Refuses batches that cannot be cut as asked."""
    require(
        config.num_examples % ranks.num_ranks == 0,
        f"a step has {config.num_examples} examples and there are {ranks.num_ranks} devices; make num_examples a "
        f"multiple of {ranks.num_ranks}",
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
    before = read_begun(run, FinetuneConfig, "task", ranks)
    return config if before is None else go_on_with(before, config, run, FREE)


def make_model(config: FinetuneConfig, question: Question) -> tuple[Model, str]:
    """The folder's encoder under a new head; one that was fine-tuned for the same task keeps its own. In words too."""
    torch.manual_seed(config.seed)
    head = head_of(question, config.classifier_dropout)
    dropout = {} if config.dropout is None else dict.fromkeys(("hidden_dropout", "attention_dropout"), config.dropout)
    model, made = complete_model(config.init, heads=[head], **(dropout | read_changes(config.encoder)))
    before = read_task_file(find_folder(Path(config.init)))
    wanted = (config.task, config.columns, question.labels)
    is_other = before is not None and (before.task, before.columns, before.labels) != wanted
    is_new = f"heads.{head.kind}" in made or is_other or config.scratch
    if is_other:
        model.heads[head.kind] = make_head(model.config, head)
    if config.scratch:
        torch.manual_seed(config.seed)
        model = Model(model.config, [head])
    if question.head not in POOLED_KINDS:
        model.pooler = None  # nothing reads it, and transformers' classes for such heads have none
    freeze(model, config.freeze)
    said = "new, with random weights" if is_new else "goes on as it is"
    if "pooler" in made and not config.scratch:
        said += "; the folder has no pooler, so that is new too"
    if before is not None:
        said += f"; {config.init} was fine-tuned for {before.task}"
    return model, said


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


def describe_examples(examples: Sequence[Any]) -> dict[str, Any]:
    """What tells whether examples are the same; places in files do not."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(example._replace(place="")).encode(errors="surrogatepass"))
    return {"examples": len(examples), "sha256": digest.hexdigest()}


def describe_run(prepared: Prepared) -> dict[str, str]:
    """What a run will do, in words."""
    config, schedule, task_model = prepared.config, prepared.schedule, prepared.task_model
    trained = sum(parameter.numel() for parameter in task_model.model.parameters() if parameter.requires_grad)
    epochs = schedule.steps * config.num_examples / prepared.num_questions
    described = {
        "task": f"{config.task}: {task_model.question.kind.replace('_', ' ')}"
        + (f" of {len(task_model.question.labels)}" if task_model.question.labels else ""),
        "model": f"{config.init}{', weights at random' if config.scratch else ''}: {trained:,} parameters to train",
        "head": prepared.head,
        "data": f"{prepared.num_questions:,} to learn from, "
        + ", ".join(f"{len(split.examples):,} in {split.name}" for split in prepared.dev),
        "steps": f"{schedule.steps:,} of {config.num_examples}: {epochs:,.3g} epochs; length {config.limits.length}",
        "rate": f"{schedule.learning_rate:.3g} after {schedule.warmup_steps:,} steps of warm-up, by {config.recipe}",
    }
    if prepared.balance:
        total = sum(prepared.balance.values())
        shares = ", ".join(f"{label} {count / total:.1%}" for label, count in prepared.balance.items())
        described["labels"] = shares
    return described
