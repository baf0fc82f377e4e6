"""From nothing to a model that fills in blanks, by the commands that one would type oneself.

    python examples/first_model.py --minutes 4 --out demo

The text is Python's own documentation, which every installation has. A SentencePiece vocabulary is trained on it and a
corpus of token shards built; an albert-nano learns to predict its masked words and the order of its sentences; and the
folder that comes out is opened again, here and by transformers. Every number printed is measured in this run.
"""

import ast
import pydoc_data.topics
import re
import shutil
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from rich.console import Console

import litebert
from litebert.__main__ import main as run_litebert
from litebert.batch import Batch
from litebert.corpus.shards import Corpus, open_corpus
from litebert.training.metrics import read_metrics

BLANKS = [
    "Return a new [MASK] object.",
    "Raise an exception if the file does not [MASK].",
    "The default [MASK] is None.",
    "Return true if the [MASK] is empty.",
]
console = Console(soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Trains a first model on Python's own documentation."""

    out: Path = Path("demo")
    """Where to write text, vocabulary, corpus and model."""
    minutes: float = 4.0
    """How long to train."""
    vocab_size: int = 2000
    length: int = 48
    """The longest sequence, in tokens."""
    num_sequences: int = 16
    """Sequences in a step: small steps taken often learn fastest at this size."""
    seed: int = 0


def read_documents() -> Iterator[str]:
    """The language reference's topics, and the docstrings of the standard library, a document for each module."""
    yield from pydoc_data.topics.topics.values()
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")):
        if {"site-packages", "test", "tests", "idlelib"} & set(file.parts):
            continue
        try:
            nodes = ast.walk(ast.parse(file.read_bytes()))
        except (SyntaxError, ValueError):
            continue
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        docstrings = [ast.get_docstring(node) for node in nodes if isinstance(node, kinds)]
        yield "\n\n".join(text for text in docstrings if text)


def write_text(file: Path) -> None:
    """A line for each paragraph, a blank line between documents."""
    documents = (
        "\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", document) if paragraph.strip())
        for document in read_documents()
        if len(document) > 200
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n\n".join(documents) + "\n", encoding="utf-8")


def call(*arguments: object) -> None:
    """A command, shown as a user types it and run."""
    console.print(f"$ litebert {' '.join(map(str, arguments))}", style="bold", highlight=False, markup=False)
    run_litebert([str(argument) for argument in arguments])


def unigram_entropy(train: Corpus, held_out: Corpus) -> float:
    """The loss of one who knows only how frequent each token is."""
    counts = sum(np.bincount(shard.tokens, minlength=train.vocabulary.size) for shard in train.shards) + 1.0
    return float(-np.log(counts / counts.sum())[np.concatenate([shard.tokens for shard in held_out.shards])].mean())


def fill_blanks(folder: Path) -> None:
    model, vocabulary = litebert.open_model(folder)
    for text in BLANKS:
        ids = vocabulary.add_special(vocabulary.encode(text))
        with torch.inference_mode():
            logits_TV = model(Batch.pack([ids])).logits["masked_token"]
        best = logits_TV[ids.index(vocabulary.special.mask)].softmax(-1).topk(4)
        guesses = ", ".join(f"{vocabulary.piece(int(i)).strip('▁')} {p:.0%}" for p, i in zip(*best, strict=True))
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


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    out, run = options.out, options.out / "run"

    console.rule("1. a vocabulary")
    write_text(out / "text.txt")
    call("vocab", out / "text.txt", "--size", options.vocab_size, "--out", out / "vocab", "--overwrite")

    console.rule("2. a corpus")
    for earlier in (out / "corpus", run):  # perhaps made with other options
        shutil.rmtree(earlier, ignore_errors=True)
    call("corpus", out / "text.txt", "--vocab", out / "vocab", "--out", out / "corpus", "--dev", "10%")
    call("corpus", out / "corpus", "--show", 2, "--length", options.length)

    console.rule("3. pre-training")
    # Two layers of the block learn sooner than three; a shared model can be deepened later without new weights.
    call("pretrain", "--preset", "albert-nano", "--corpus", out / "corpus", "--run", run, "--minutes", options.minutes,
         "--encoder", "num_layers=2", "num_positions=128", "--num-sequences", options.num_sequences,
         "--length", options.length, "--evaluation-sequences", 256, "--seed", options.seed)  # fmt: skip
    measured = [line for line in read_metrics(run) if line["kind"] == "evaluation"][-1]
    entropy = unigram_entropy(open_corpus(out / "corpus"), open_corpus(out / "corpus", "dev"))
    console.print(
        f"on held-out documents: loss {measured['masked_token_loss']:.2f}, where word frequencies alone give "
        f"{entropy:.2f}; {measured['masked_token_accuracy']:.1%} of hidden tokens found; the order of "
        f"{measured['sop_accuracy']:.1%} of sentence pairs, where counting words tells {measured['sop_shallow']:.1%}"
    )
    call("plot", run)

    console.rule("4. filling in blanks")
    fill_blanks(run / "model")

    console.rule("5. the same folder in transformers")
    console.print(f"largest difference of any logit: {compare_with_transformers(run / 'model'):.1e}")

    console.rule("made")
    console.print(f"{out}/  text.txt, vocab/, corpus/, and run/: config.json, metrics.jsonl, curves.png, model/")
    console.print(f"next: litebert inspect {run}/model", highlight=False)
    console.print(
        f'      litebert fill-mask {run}/model "Return the [MASK] of the list."', highlight=False, markup=False
    )
    console.print("      litebert vocab YOUR_TEXT --out vocab", highlight=False)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
