"""Fine-tuning and evaluation on a benchmark's real lengths, beside transformers with dynamic padding.

    python benchmarks/finetune.py --sst2 glue/SST-2 --squad squad --vocab albert-en-30k-clean.model

Both sides see the same samples in the same batches: our packed step is that of `litebert finetune`, theirs the usual
one, with transformers' ALBERT on sdpa, each batch padded to its longest sequence, AdamW and clipping. An evaluation
asks about all samples of a part of dev: ours as `litebert evaluate` does, by length; theirs in arrival order. The sides
live in processes of their own and take turns; medians over rounds are reported, in samples a second.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from sides import begin, compare_speeds, show_speeds, start_worker, tell

from litebert.finetuning.asking import ask
from litebert.finetuning.heads import head_of
from litebert.finetuning.stream import Stream
from litebert.finetuning.task_model import draw
from litebert.models.folder import write_model
from litebert.models.model import Model
from litebert.presets import find_preset
from litebert.tasks.registry import TASKS
from litebert.tasks.task import Limits, Question, Sample
from litebert.text.vocabulary import open_vocabulary
from litebert.training.answer_losses import Answering
from litebert.training.loop import Loop, LoopConfig, Training
from litebert.training.optimizer import OptimizerConfig
from litebert.training.parallel import Ranks
from litebert.training.process import prepare_process
from litebert.training.schedule import ScheduleConfig

SIZES = {"sst2": (32, 128, 4096, 256), "squad1": (12, 384, 512, 24)}
"""Samples of a step, their length, examples to train on, examples to evaluate on."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compares fine-tuning with LiteBERT and with transformers."""

    vocab: Path
    """A vocabulary."""
    sst2: Path | None = None
    """The folder of SST-2."""
    squad: Path | None = None
    """The folder of SQuAD 1.1."""
    preset: str = "albert-base"
    rounds: int = 5
    steps: int = 4
    """That each side takes at a turn."""
    threads: int = 2
    json: Path | None = None
    """Also write the figures here."""


class Work:
    """The samples of one task, alike for both sides."""

    def __init__(self, task: str, data: str, vocab: str, preset: str) -> None:
        self.batch_size, length, num_train, num_dev = SIZES[task]
        found, vocabulary = TASKS[task], open_vocabulary(vocab)
        limits = Limits(length=length)
        examples = draw(found.read(data, "train"), num_train)
        self.question: Question = found.ask(examples)
        encoded = [
            found.encode(part, vocabulary, self.question, limits).samples
            for part in (examples, draw(found.read(data, "dev"), num_dev))
        ]
        self.train = [sample for sample in encoded[0] if task == "sst2" or sample.span is not None]
        self.dev: Sequence[Sample] = encoded[1]
        torch.manual_seed(0)
        config = replace(find_preset(preset), vocab_size=vocabulary.size)
        self.model = Model(config, [head_of(self.question, 0.1)], pooler=self.question.head == "classes")


def prepare_litebert(work: Work, steps: int) -> tuple[Callable[[], None], Callable[[], None]]:
    prepare_process()  # as its programs do
    stream = Stream(work.train, num_examples=work.batch_size, ranks=Ranks())
    training = Training(
        model=work.model,
        objective=Answering(work.question.head),
        optimizer=OptimizerConfig(optimizer="adamw"),
        schedule=ScheduleConfig(steps=100_000, learning_rate=1e-5, warmup_steps=10),
        loop=LoopConfig(),
        batches=stream.batches,
    )
    loop = Loop(training, None, Ranks())
    batches = stream.batches(0)

    def train() -> None:
        loop.model.train()
        for _ in range(steps):
            loop.take_step(batches, [])

    return train, lambda: ask(loop.model, work.dev, work.question.head) and None


def prepare_transformers(work: Work, steps: int) -> tuple[Callable[[], None], Callable[[], None]]:
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

    kind = {"classes": AutoModelForSequenceClassification, "span": AutoModelForQuestionAnswering}[work.question.head]
    with tempfile.TemporaryDirectory() as folder:
        write_model(work.model, folder)
        model = kind.from_pretrained(folder, attn_implementation="sdpa")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    order = Stream(work.train, num_examples=work.batch_size, ranks=Ranks())
    place = 0

    def train() -> None:
        nonlocal place
        model.train()
        for _ in range(steps):
            batch = pad([sample for number in range(work.batch_size) for sample in order.at(place + number)])
            place += work.batch_size
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            loss.item()

    def evaluate() -> None:
        model.eval()
        with torch.inference_mode():
            for start in range(0, len(work.dev), work.batch_size):
                batch = pad(work.dev[start : start + work.batch_size])
                model(**{name: value for name, value in batch.items() if name in INPUTS})

    return train, evaluate


INPUTS = ("input_ids", "token_type_ids", "attention_mask")


def pad(samples: Sequence[Sample]) -> dict[str, Any]:
    """A batch as transformers' collators make it."""
    width = max(len(sample.token_ids) for sample in samples)
    arrays = {name: np.zeros((len(samples), width), np.int64) for name in INPUTS}
    for row, sample in enumerate(samples):
        length = len(sample.token_ids)
        arrays["input_ids"][row, :length] = sample.token_ids
        arrays["token_type_ids"][row, sample.second : length] = 1
        arrays["attention_mask"][row, :length] = 1
    batch: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if samples[0].span is not None:
        spans = torch.tensor([sample.span for sample in samples])
        return batch | {"start_positions": spans[:, 0], "end_positions": spans[:, 1]}
    return batch | {"labels": torch.tensor([sample.label for sample in samples])}


SIDES = {"litebert": prepare_litebert, "transformers": prepare_transformers}


def serve(side: str, task: str, data: str, vocab: str, preset: str, steps: str, threads: str) -> None:
    """A worker: for each line it reads, trains or evaluates and answers with its samples a second."""
    torch.set_num_threads(int(threads))
    work = Work(task, data, vocab, preset)
    train, evaluate = SIDES[side](work, int(steps))
    deeds = {"train": (train, int(steps) * work.batch_size), "evaluate": (evaluate, len(work.dev))}
    for line in sys.stdin:
        deed, number = deeds[line.strip()]
        start = time.perf_counter()
        deed()
        print(json.dumps({"speed": number / (time.perf_counter() - start)}), flush=True)


def compare(task: str, data: Path, options: Options) -> dict[str, dict[str, float]]:
    given = (task, str(data), str(options.vocab), options.preset, str(options.steps), str(options.threads))
    with (
        start_worker(__file__, "litebert", *given) as ours,
        start_worker(__file__, "transformers", *given) as theirs,
    ):
        figures = {}
        for deed in ("train", "evaluate"):
            ours(deed), theirs(deed)
            turns = [(ours(deed)["speed"], theirs(deed)["speed"]) for _ in range(options.rounds)]
            figures[deed] = compare_speeds(*zip(*turns, strict=True))
    return figures


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    given = {"sst2": options.sst2, "squad1": options.squad}
    results = {task: compare(task, data, options) for task, data in given.items() if data is not None}
    rows = [
        {"task": task, "": deed, **show_speeds(figures, "samples/s", digits=1)}
        for task, deeds in results.items()
        for deed, figures in deeds.items()
    ]
    tell(rows, results, options.json)


if __name__ == "__main__":
    begin(main, serve)
