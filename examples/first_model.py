"""From nothing to a model that fills in blanks: the commands for text, and a training loop of your own.

    python examples/first_model.py --minutes 4 --out demo

The text is Python's own documentation, which every installation has. A SentencePiece vocabulary is trained on it and a
corpus of token shards built; an albert-nano learns to predict its masked words and the order of its sentences; and the
folder that comes out is opened again, here and by transformers. Every number printed is measured in this run. The loop
is twenty lines of PyTorch, to be replaced by yours.
"""

import ast
import math
import pydoc_data.topics
import re
import shutil
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import litebert
from litebert.__main__ import main as run_litebert
from litebert.batch import NO_LABEL, Batch
from litebert.corpus.loader import Loader, State
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig
from litebert.corpus.shards import Corpus, open_corpus
from litebert.models.folder import write_model
from litebert.models.heads import PRETRAINING, Model
from litebert.presets import albert_nano
from litebert.text.vocabulary import copy_vocabulary
from litebert.training.allocator import keep_freed_memory
from litebert.training.losses import pretraining_loss

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
    learning_rate: float = 1e-3
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


def make_loader(corpus: Corpus, options: Options) -> Loader:
    pairs = PairConfig(length=options.length, windows="paragraph")
    state = State(seed=options.seed)
    return Loader([corpus], pairs, MaskingConfig(), num_sequences=options.num_sequences, state=state)


def train(model: Model, batches: Iterator[Batch], options: Options) -> tuple[int, float]:
    """Twenty lines of PyTorch; returns the steps taken and the tokens trained on per second."""
    keep_freed_memory()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    fields = "step {task.fields[step]:,}  loss {task.fields[loss]:.2f}  {task.fields[speed]:,.0f} tokens/s"
    columns = (TextColumn("pre-training"), BarColumn(), TextColumn(fields), TimeRemainingColumn())
    seconds, tokens, step, loss_seen = options.minutes * 60, 0, 0, math.log(model.config.vocab_size)
    start = time.perf_counter()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=seconds, step=0, loss=loss_seen, speed=0.0)
        while (elapsed := time.perf_counter() - start) < seconds:
            warm_up = min(1.0, (step + 1) / 200)
            optimizer.param_groups[0]["lr"] = options.learning_rate * warm_up * (1 - elapsed / seconds)
            batch = next(batches)
            loss = pretraining_loss(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step, tokens = step + 1, tokens + batch.num_tokens
            loss_seen = 0.98 * loss_seen + 0.02 * loss.item()
            progress.update(bar, completed=elapsed, step=step, loss=loss_seen, speed=tokens / (elapsed + 1e-9))
    return step, tokens / (time.perf_counter() - start)


class Measured(NamedTuple):
    """What a model makes of documents that it has not seen."""

    loss: float
    found: float
    """The share of hidden tokens found."""
    ordered: float
    """The share of segment pairs whose order it tells."""
    num_pairs: int


@torch.inference_mode()
def measure(model: Model, batches: Iterator[Batch]) -> Measured:
    model.eval()
    losses, found, ordered = [], [], []
    for batch in batches:
        logits = model(batch).logits
        assert batch.predicted_ids_P is not None and batch.pair_labels_B is not None
        labelled = batch.pair_labels_B != NO_LABEL
        losses.append(F.cross_entropy(logits["masked_token"], batch.predicted_ids_P, reduction="none"))
        found.append(logits["masked_token"].argmax(-1) == batch.predicted_ids_P)
        ordered.append((logits["pair"].argmax(-1) == batch.pair_labels_B)[labelled])
    loss, found_share, ordered_share = (float(torch.cat(parts).float().mean()) for parts in (losses, found, ordered))
    return Measured(loss, found_share, ordered_share, sum(map(len, ordered)))


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
    torch.manual_seed(options.seed)
    torch.set_flush_denormal(True)
    out = options.out

    console.rule("1. a vocabulary")
    write_text(out / "text.txt")
    call("vocab", out / "text.txt", "--size", options.vocab_size, "--out", out / "vocab", "--overwrite")

    console.rule("2. a corpus")
    shutil.rmtree(out / "corpus", ignore_errors=True)  # that of an earlier run, perhaps with other options
    call("corpus", out / "text.txt", "--vocab", out / "vocab", "--out", out / "corpus", "--dev", "10%")
    call("corpus", out / "corpus", "--show", 2, "--length", options.length)

    console.rule("3. pre-training")
    train_corpus, held_out = open_corpus(out / "corpus"), open_corpus(out / "corpus", "dev")
    # Two layers of the block learn sooner than three; a shared model can be deepened later without new weights.
    config = replace(albert_nano(), vocab_size=options.vocab_size, num_layers=2, num_positions=128)
    model = Model(config, PRETRAINING)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"albert-nano at {config.num_layers} layers of its one block: {parameters:,} parameters")
    unseen = make_loader(held_out, options)
    before = measure(model, unseen.one_epoch())
    step, speed = train(model.train(), iter(make_loader(train_corpus, options)), options)
    after = measure(model, unseen.one_epoch())
    write_model(model, out / "model")
    copy_vocabulary(out / "vocab", out / "model")
    console.print(f"{step:,} steps, {speed:,.0f} tokens/s")
    console.print(
        f"loss on held-out documents: {before.loss:.2f} before, {after.loss:.2f} after; "
        f"{unigram_entropy(train_corpus, held_out):.2f} is what word frequencies alone give; "
        f"{after.found:.1%} of hidden tokens found"
    )
    console.print(f"order of sentences: {after.ordered:.1%} of {after.num_pairs:,} pairs right; chance is half")

    console.rule("4. filling in blanks")
    fill_blanks(out / "model")

    console.rule("5. the same folder in transformers")
    console.print(f"largest difference of any logit: {compare_with_transformers(out / 'model'):.1e}")

    console.rule("made")
    console.print(f"{out}/  text.txt, vocab/, corpus/, and model/: config.json, model.safetensors, tokenizer.json")
    console.print(f"next: litebert inspect {out}/model", highlight=False)
    console.print(
        f'      litebert fill-mask {out}/model "Return the [MASK] of the list."', highlight=False, markup=False
    )
    console.print("      litebert vocab YOUR_TEXT --out vocab", highlight=False)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted; the model is written only after training") from None
