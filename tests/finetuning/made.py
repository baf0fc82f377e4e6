"""Small models, and made-up data of every layout, in which a word or two decide what is right."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from litebert.finetuning.config import FinetuneConfig
from litebert.finetuning.run import finetune
from litebert.models.encoder import EncoderConfig
from litebert.models.folder import write_model
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.tasks.task import Limits
from litebert.tasks.text import TextColumns
from litebert.training.loop import LoopConfig
from litebert.training.metrics import read_metrics
from litebert.training.optimizer import OptimizerConfig
from litebert.training.parallel import Ranks

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FILLERS = ("the", "a", "dog", "bird", "rain", "wind", "house", "sees", "hears", "finds", "big", "old")
NAMES = ("anna", "bert", "carl", "dora")
VOCABULARY = (*MARKS, *FILLERS, *NAMES, "good", "bad", "loud", "who", "is", "it", ".", "?", "##s")
CONFIG = EncoderConfig(
    vocab_size=len(VOCABULARY), embedding_size=8, hidden_size=16, num_layers=2, num_heads=2, feed_forward_size=32,
    num_positions=48, initializer_range=0.25,
)  # fmt: skip
SIZES = {"train": 96, "dev": 24, "test": 12}
Random = np.random.Generator


def write_start(folder: Path, **changes: Any) -> Path:
    """A model folder as pre-training leaves it, with random weights that no run draws for itself."""
    torch.manual_seed(1234)
    write_model(Model(replace(CONFIG, **changes), PRETRAINING), folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return folder


def draw_words(random: Random, *added: str, most: int = 8) -> list[str]:
    """Fillers, with other words at places of their own."""
    words = random.choice(FILLERS, random.integers(3, most)).tolist()
    for word in added:
        words.insert(random.integers(0, len(words) + 1), word)
    return words


def make_labels(random: Random, number: int) -> dict[str, Any]:
    word = ("bad", "good")[number % 2]
    return {"text": " ".join(draw_words(random, word)), "label": {"bad": "no", "good": "yes"}[word]}


def make_numbers(random: Random, number: int) -> dict[str, Any]:
    return {"text": " ".join(draw_words(random, NAMES[number % 4])), "score": number % 4}


def make_label_sets(random: Random, number: int) -> dict[str, Any]:
    words = [word for place, word in enumerate(("good", "loud")) if number >> place & 1]
    return {"text": " ".join(draw_words(random, *words)), "labels": words}


def make_tags(random: Random, number: int) -> dict[str, Any]:
    words = draw_words(random, NAMES[number % 4])
    return {"text": words, "tags": ["B-NAME" if word in NAMES else "O" for word in words]}


def make_passage(random: Random, number: int) -> dict[str, Any]:
    """The right option is the good one."""
    right = int(random.integers(4))
    options = [" ".join(draw_words(random, "good" if place == right else "bad", most=5)) for place in range(4)]
    return {
        "id": f"middle{number}.txt",
        "article": " ".join(draw_words(random)),
        "questions": ["it is _ ."],
        "options": [options],
        "answers": ["ABCD"[right]],
        "level": ("middle", "high")[number % 2],
    }


def make_paragraph(random: Random, number: int, *, with_name: bool = True) -> dict[str, Any]:
    """Who it is, is the only name of the paragraph; where it has none there is no answer."""
    words = draw_words(random, *[NAMES[number % 4]] * with_name, most=12)
    context = " ".join(words)
    name = next((word for word in words if word in NAMES), None)
    answers = [{"text": name, "answer_start": context.index(name)}] if name else []
    asked = {"id": f"question-{number}", "question": "who is it ?", "answers": answers, "is_impossible": not answers}
    return {"context": context, "qas": [asked]}


def write_table(make: Callable[[Random, int], dict[str, Any]]) -> Callable[[Path, str, int], None]:
    def write(folder: Path, split: str, seed: int) -> None:
        random = np.random.default_rng([seed, len(split)])
        rows = [make(random, number) for number in range(SIZES[split])]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    return write


def write_squad(version: str) -> Callable[[Path, str, int], None]:
    def write(folder: Path, split: str, seed: int) -> None:
        random = np.random.default_rng([seed, len(split)])
        paragraphs = [
            make_paragraph(random, number, with_name=version == "v1.1" or number % 3 > 0)
            for number in range(SIZES[split])
        ]
        content = {"version": version, "data": [{"title": "", "paragraphs": paragraphs}]}
        (folder / f"{split}-{version}.json").write_text(json.dumps(content))

    return write


def write_sst2(folder: Path, split: str, seed: int) -> None:
    """As GLUE has it: the test has numbers instead of labels, and they need not begin with 0."""
    random = np.random.default_rng([seed, len(split)])
    rows = []
    for number in range(SIZES[split]):
        text, label = make_labels(random, number).values()
        rows.append(f"{number + 100}\t{text}" if split == "test" else f"{text}\t{int(label == 'yes')}")
    header = "index\tsentence" if split == "test" else "sentence\tlabel"
    (folder / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n")


LAYOUTS: dict[str, Callable[[Path, str, int], None]] = {
    "label": write_table(make_labels),
    "number": write_table(make_numbers),
    "several": write_table(make_label_sets),
    "tags": write_table(make_tags),
    "choice": write_table(make_passage),
    "squad1": write_squad("v1.1"),
    "squad2": write_squad("v2.0"),
    "sst2": write_sst2,
}
"""What writes a split of a folder, by the kind of data."""
TASKS: dict[str, dict[str, Any]] = {
    "label": {},
    "number": {"columns": TextColumns(score="score"), "steps": 100},
    "several": {"columns": TextColumns(labels="labels"), "steps": 160},
    "tags": {"columns": TextColumns(tags="tags")},
    "choice": {"task": "race", "num_examples": 8},
    "squad1": {"task": "squad1"},
    "squad2": {"task": "squad2"},
    "sst2": {"task": "sst2"},
}
"""What a config says of each kind."""


def write_data(kind: str, folder: Path, seed: int = 0, splits: tuple[str, ...] = ("train", "dev", "test")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        LAYOUTS[kind](folder, split, seed)
    return folder


def make_config(kind: str, data: Path, start: Path, **changes: Any) -> FinetuneConfig:
    """A run that learns its data in a second or two."""
    settings: dict[str, Any] = {
        "data": str(data),
        "init": str(start),
        "num_examples": 16,
        "steps": 60,
        "learning_rate": 1e-2,
        "classifier_dropout": 0.0,
        "limits": Limits(length=32),
        "optimizer": OptimizerConfig(optimizer="adamw"),
        "loop": LoopConfig(log_every=10, evaluate_every=20, keep=1),
    }
    return FinetuneConfig(**settings | TASKS[kind] | changes)


class Finished(NamedTuple):
    """A run that is done."""

    config: FinetuneConfig
    run: Path
    scores: dict[str, Any]


def finish(kind: str, folder: Path, start: Path, **changes: Any) -> Finished:
    """Writes data and learns them."""
    config = make_config(kind, write_data(kind, folder / "data"), start, **changes)
    return Finished(config, folder / "run", run_to_end(config, folder / "run"))


def run_to_end(config: FinetuneConfig, run: Path) -> dict[str, Any]:
    outcome, scores = finetune(config, run, Ranks())
    assert outcome.stopped_by is None
    return scores


def read_file(run: Path, name: str) -> Any:
    return json.loads((run / name).read_text())


def weights_of(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def lines_of(run: Path) -> list[dict[str, Any]]:
    """What a run measured, without what a clock says."""
    clocks = ("seconds", "tokens_per_second", "share_of_peak")
    return [{key: value for key, value in line.items() if key not in clocks} for line in read_metrics(run)]
