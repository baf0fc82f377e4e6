"""The whole path in a few minutes, by the commands that one would type oneself.

    python examples/first_model.py --steps 8000 --out demo

The text is Python's own documentation, which every installation has. A SentencePiece vocabulary is trained on it and a
corpus of token shards built; an albert-nano learns to predict its masked words and the order of its sentences, and
then a BERT of the same shape; the ALBERT is fine-tuned to tell whether a docstring is a module's, a class's or a
function's, beside one that begins with random weights; and a page puts everything together. Every number is measured
in this run.
"""

import ast
import csv
import dataclasses
import pydoc_data.topics
import re
import shlex
import shutil
import sysconfig
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro
from rich.console import Console

import litebert
from litebert.__main__ import main as run_litebert
from litebert.blanks import fill_blanks
from litebert.config import read_json, write_json
from litebert.corpus.shards import Corpus, open_corpus
from litebert.display import print_table
from litebert.training.metrics import read_metrics

BLANKS = [
    "Return a new [MASK] object.",
    "Raise an exception if the file does not [MASK].",
    "The default [MASK] is None.",
    "Return true if the [MASK] is empty.",
]
KINDS = {ast.Module: "module", ast.ClassDef: "class", ast.FunctionDef: "function", ast.AsyncFunctionDef: "function"}
"""What a docstring may describe."""
FUNCTIONS_SHARE = 5
"""Of so many functions the task has one, for there are as many more of them as of the others."""
OWN_TEXT = [
    "litebert vocab YOUR_TEXT --size 8000 --out vocab",
    "litebert corpus YOUR_TEXT --vocab vocab --out corpus",
    "litebert pretrain --preset albert-micro --corpus corpus --run micro",
    "litebert finetune --data YOUR_TABLES --first TEXT --label LABEL --init micro/model --run task",
    'litebert predict --model task/model --text "..."',
]
"""The same path for oneself, in five lines."""
OPTIONS = "options.json"
"""Of a demo that is not done."""
PAGE = "report.html"
console = Console(soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Trains a first model on Python's own documentation."""

    out: Path = Path("demo")
    """Where to write text, vocabulary, corpus, models and the page; what another demo left there is replaced."""
    steps: int = 8000
    """Steps of pre-training, for the ALBERT and for the BERT: two or three minutes each. Minutes would be other steps
    on every machine, and with a fifth of these the pre-training does not help the task."""
    vocab_size: int = 2000
    """How many pieces."""
    length: int = 48
    """The longest sequence, in tokens."""
    num_sequences: int = 16
    """Sequences in a step: small steps taken often learn fastest at this size."""
    seeds: int = 3
    """How many times the task is learned, with pre-training and without."""
    seed: int = 0
    """The first of these, and that of pre-training."""


class Docstring(NamedTuple):
    text: str
    kind: str

    @property
    def number(self) -> int:
        """One that is the same in every run."""
        return zlib.crc32(self.text.encode())

    @property
    def split(self) -> str:
        """A tenth of them choose the best evaluation of the task, a fifth score it."""
        return {0: "dev", 1: "test", 2: "test"}.get(self.number % 10, "train")


def read_modules() -> Iterator[list[Docstring]]:
    """The docstrings of each module of the standard library."""
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")):
        if {"site-packages", "test", "tests", "idlelib"} & set(file.parts):
            continue
        try:
            nodes = ast.walk(ast.parse(file.read_bytes()))
        except (SyntaxError, ValueError):
            continue
        found = ((ast.get_docstring(node), KINDS[type(node)]) for node in nodes if isinstance(node, tuple(KINDS)))
        yield [Docstring(text, kind) for text, kind in found if text]


def write_text(file: Path) -> None:
    """The language reference's topics, and a document for each module: a line for each paragraph, a blank line between.

    The docstrings that the task is scored on are left out, so that no model has seen them.
    """
    documents = [
        *pydoc_data.topics.topics.values(),
        *("\n\n".join(item.text for item in module if item.split == "train") for module in read_modules()),
    ]
    lines = (
        "\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", document) if paragraph.strip())
        for document in documents
        if len(document) > 200
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n\n".join(lines) + "\n", encoding="utf-8")


def write_task(folder: Path) -> None:
    """Docstrings of at least five words with what they describe, each once."""
    found = {
        item.text: item
        for module in read_modules()
        for item in module
        if len(item.text.split()) >= 5 and (item.kind != "function" or item.number // 10 % FUNCTIONS_SHARE == 0)
    }
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["docstring", "kind"])
            table.writerows([" ".join(item.text.split()), item.kind] for item in found.values() if item.split == split)


def call(*arguments: object) -> None:
    """A command, shown as a user types it and run."""
    given = [str(argument) for argument in arguments]
    console.print(f"$ litebert {shlex.join(given)}", style="bold", highlight=False, markup=False)
    run_litebert(given)


def pretrain(preset: str, run: Path, options: Options) -> None:
    # Two layers of the block learn sooner than three; a shared model can be deepened later without new weights.
    call("pretrain", "--preset", preset, "--corpus", options.out / "corpus", "--run", run, "--steps", options.steps,
         "--encoder", "num_layers=2", "num_positions=128", "--num-sequences", options.num_sequences,
         "--length", options.length, "--evaluation-sequences", 256, "--seed", options.seed)  # fmt: skip
    go_on_if(any(line["kind"] == "evaluation" and line["step"] == options.steps for line in read_metrics(run)))


def finetune(run: Path, options: Options, *more: str) -> None:
    call("finetune", "--data", options.out / "kinds", "--first", "docstring", "--label", "kind",
         "--init", options.out / "albert" / "model", "--run", run, "--train-examples", 400, "--epochs", 4,
         "--evaluate-every", 25, "--log-every", 5, "--length", options.length,
         "--seed", options.seed, "--seeds", options.seeds, *more)  # fmt: skip
    go_on_if((run / "scores.json").exists())


def go_on_if(is_done: bool) -> None:
    """A run that is told to end, by SIGTERM, saves where it is and ends well: then this ends too."""
    if not is_done:
        raise SystemExit("stopped; the same command goes on from here")


def last_evaluation(run: Path) -> dict[str, float]:
    return [line for line in read_metrics(run) if line["kind"] == "evaluation"][-1]


def unigram_entropy(train: Corpus, held_out: Corpus) -> float:
    """The loss of one who knows only how frequent each token is."""
    counts = sum(np.bincount(shard.tokens, minlength=train.vocabulary.size) for shard in train.shards) + 1.0
    return float(-np.log(counts / counts.sum())[np.concatenate([shard.tokens for shard in held_out.shards])].mean())


def compare_twins(runs: dict[str, Path], entropy: float) -> None:
    rows = []
    evaluations = {name: last_evaluation(run) for name, run in runs.items()}
    for name, measured in evaluations.items():
        model, _ = litebert.open_model(runs[name] / "model")
        rows.append(
            {
                "": name,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "seconds": round(measured["seconds"]),
                "held-out loss": f"{measured['masked_token_loss']:.2f}",
                "hidden tokens found": f"{measured['masked_token_accuracy']:.1%}",
                "sentence order": f"{measured['sop_accuracy']:.1%}",
            }
        )
    print_table(rows)
    console.print(
        f"word frequencies alone have a loss of {entropy:.2f}; counting words tells the order of "
        f"{evaluations['ALBERT']['sop_shallow']:.1%} of sentence pairs",
        highlight=False,
    )
    if evaluations["ALBERT"]["masked_token_loss"] > entropy:
        console.print("the ALBERT has not learned yet; with more --steps it will")


def show_blanks(folder: Path) -> None:
    model, vocabulary = litebert.open_model(folder)
    for text in BLANKS:
        (candidates,), _ = fill_blanks(model, vocabulary, vocabulary.encode(text), top=4)
        guesses = "  ".join(f"{piece.strip('▁') or piece} ({share:.0%})" for piece, share in candidates)
        console.print(f"  {text.replace('[MASK]', '____'):50} {guesses}", highlight=False)


def compare_with_transformers(folder: Path) -> float:
    """The largest difference between our logits and those of transformers for the same folder."""
    from transformers import AutoModelForMaskedLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    ids = torch.randint(5, 1000, (4, 32), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        ours = litebert.open_model(folder)[0](ids).logits["masked_token"]
        theirs = AutoModelForMaskedLM.from_pretrained(folder)(ids).logits
    return float((ours - theirs).abs().max())


def clear_unless_same(options: Options, made: Sequence[Path]) -> bool:
    """Whether it goes on with what an interrupted demo has left; else that, or a finished one, gives way."""
    stored, wanted = options.out / OPTIONS, dataclasses.asdict(options) | {"out": str(options.out)}
    if stored.exists() and read_json(stored) == wanted:
        return True
    if (options.out / PAGE).exists():
        console.print(f"the finished demo in {options.out}/ is made anew; another --out keeps it")
    for path in made:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    write_json(stored, wanted)
    return False


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    out, start = options.out, time.monotonic()
    twins = {"ALBERT": out / "albert", "BERT": out / "bert"}
    tuned = {"pre-trained": out / "kinds-pretrained", "random weights": out / "kinds-random"}

    pages = out / PAGE, out / "curves.png", out / "layers.png"
    goes_on = clear_unless_same(options, (out / "vocab", out / "corpus", *twins.values(), *tuned.values(), *pages))

    console.rule("1. a vocabulary")
    if not (out / "vocab" / "tokenizer_config.json").exists():  # which is written last
        write_text(out / "text.txt")
        call("vocab", out / "text.txt", "--size", options.vocab_size, "--out", out / "vocab", "--overwrite")

    console.rule("2. a corpus")
    call("corpus", out / "text.txt", "--vocab", out / "vocab", "--out", out / "corpus", "--dev", "10%")
    call("corpus", out / "corpus", "--show", 2, "--length", options.length)

    console.rule("3. pre-training an ALBERT, and a BERT of the same shape")
    pretrain("albert-nano", twins["ALBERT"], options)
    pretrain("bert-nano", twins["BERT"], options)
    compare_twins(twins, unigram_entropy(open_corpus(out / "corpus"), open_corpus(out / "corpus", "dev")))
    call("plot", *twins.values(), "--out", out / "curves.png")

    console.rule("4. filling in blanks, and the same folder in transformers")
    show_blanks(twins["ALBERT"] / "model")
    difference = compare_with_transformers(twins["ALBERT"] / "model")
    console.print(
        f"transformers opens the same folder, and no logit differs from LiteBERT's by more than {difference:.1e}"
    )

    console.rule("5. a task, with the pre-training and without")
    write_task(out / "kinds")
    finetune(tuned["pre-trained"], options)
    finetune(tuned["random weights"], options, "--scratch")

    console.rule("6. what layers do to their input, and a page of everything")
    call("layers", *(run / "model" for run in twins.values()), "--names", *twins,
         "--text", out / "text.txt", "--out", out / "layers.png")  # fmt: skip
    call("report", *twins.values(), *tuned.values(), "--out", out / PAGE, "--title", "A first model")

    (out / OPTIONS).unlink()  # the next one measures everything again
    console.rule(f"{'the rest of it ' * goes_on}made in {(time.monotonic() - start) / 60:.1f} minutes")
    found = {name: read_json(run / "scores.json")["test"]["accuracy"] for name, run in tuned.items()}
    scores = {name: score if isinstance(score, dict) else {"median": score} for name, score in found.items()}
    print_table(
        [
            {
                "what a docstring describes, test accuracy": name,
                **{key: f"{score[key]:.1f}" for key in ("median", "lowest", "highest") if key in score},
            }
            for name, score in scores.items()
        ]
    )
    if scores["pre-trained"]["median"] <= scores["random weights"]["median"]:
        console.print("the pre-training did not help here; with more --steps it may")
    console.print(f"{out}/  text.txt, vocab/, corpus/, albert/ and bert/ (config, metrics, model), kinds*/ (the task)")
    console.print(f"{out}/  {PAGE}: open it in a browser; curves.png, layers.png")
    example = f'litebert fill-mask {twins["ALBERT"]}/model "Return the [MASK] of the list."'
    steps = [". .venv/bin/activate", f"litebert inspect {twins['ALBERT']}/model", example, *OWN_TEXT]
    for start_of_line, line in zip(["next:", *[""] * len(steps)], steps, strict=False):
        console.print(f"{start_of_line:6}{line}", highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
