"""From nothing to a model that fills in blanks: the library used with a training loop of your own.

    python examples/first_model.py --minutes 4 --out demo

The text is Python's own documentation, which every installation has. A SentencePiece vocabulary is trained on it, an
albert-nano learns to predict its masked tokens, and the folder that comes out is opened again, here and by
transformers. Every number printed is measured in this run. `litebert` is used for the model, the loss, the batches and
the folder; the loop is twenty lines of PyTorch, to be replaced by yours.
"""

import ast
import io
import math
import pydoc_data.topics
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import litebert
from litebert.batch import Batch
from litebert.models.folder import write_model
from litebert.models.heads import HeadConfig, Model
from litebert.presets import albert_nano
from litebert.text.vocabulary import Vocabulary, open_vocabulary
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
    """Where to write the model folder."""
    minutes: float = 4.0
    """How long to train."""
    vocab_size: int = 2000
    length: int = 32
    """Tokens in a sequence."""
    num_sequences: int = 16
    """Sequences in a step: small steps taken often learn fastest at this size."""
    learning_rate: float = 1e-3
    seed: int = 0


def read_documents() -> list[str]:
    """The language reference's topics, and the docstrings of the standard library, a document for each module."""
    documents = list(pydoc_data.topics.topics.values())
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")):
        if {"site-packages", "test", "tests", "idlelib"} & set(file.parts):
            continue
        try:
            nodes = ast.walk(ast.parse(file.read_bytes()))
        except (SyntaxError, ValueError):
            continue
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        docstrings = [ast.get_docstring(node) for node in nodes if isinstance(node, kinds)]
        documents.append("\n\n".join(text for text in docstrings if text))
    return [" ".join(document.split()) for document in documents if len(document) > 200]


def train_vocabulary(documents: list[str], size: int, folder: Path) -> Vocabulary:
    """A unigram vocabulary whose first ids are ALBERT's."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=(
            document[start : start + 4000].lower() for document in documents for start in range(0, len(document), 4000)
        ),
        model_writer=model,
        vocab_size=size,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        num_threads=2,
        minloglevel=2,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spiece.model").write_bytes(model.getvalue())
    return open_vocabulary(folder)


def make_batches(
    tokens: np.ndarray, vocabulary: Vocabulary, options: Options, random: np.random.Generator
) -> Iterator[Batch]:
    """Windows of the text, endlessly, with 15 % of their tokens hidden: 80 % masked, 10 % random, 10 % as they were."""
    special, width = vocabulary.special, options.length - 2
    while True:
        starts = random.integers(0, len(tokens) - width, options.num_sequences)
        rows = np.full((options.num_sequences, options.length), special.cls)
        rows[:, -1] = special.sep
        rows[:, 1:-1] = tokens[starts[:, None] + np.arange(width)]
        original = rows.flatten()
        inner = (original != special.cls) & (original != special.sep)
        chosen = np.flatnonzero(inner & (random.random(original.size) < 0.15))
        fate = random.random(chosen.size)
        shown = original.copy()
        shown[chosen[fate < 0.8]] = special.mask
        shown[chosen[fate >= 0.9]] = random.integers(5, vocabulary.size, (fate >= 0.9).sum())
        yield Batch(
            lengths=(options.length,) * options.num_sequences,
            token_ids_T=torch.from_numpy(shown),
            segment_ids_T=torch.zeros(shown.size, dtype=torch.long),
            predicted_positions_P=torch.from_numpy(chosen),
            predicted_ids_P=torch.from_numpy(original[chosen]),
        )


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


@torch.inference_mode()
def measure(model: Model, batches: Iterator[Batch], number: int = 50) -> tuple[float, float]:
    """Mean loss, and the share of hidden tokens found, over `number` batches."""
    model.eval()
    losses, right, total = [], 0, 0
    for _ in range(number):
        batch = next(batches)
        logits_PV = model(batch).logits["masked_token"]
        losses.append(torch.nn.functional.cross_entropy(logits_PV, batch.predicted_ids_P).item())
        right += int((logits_PV.argmax(-1) == batch.predicted_ids_P).sum())
        total += len(batch.predicted_ids_P)
    return sum(losses) / number, right / total


def unigram_entropy(train_tokens: np.ndarray, held_out: np.ndarray, size: int) -> float:
    """The loss of one who knows only how frequent each token is."""
    counts = np.bincount(train_tokens, minlength=size) + 1.0
    return float(-np.log(counts / counts.sum())[held_out].mean())


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
    random = np.random.default_rng(options.seed)

    console.rule("1. text and vocabulary")
    documents = read_documents()
    vocabulary = train_vocabulary(documents, options.vocab_size, options.out)
    encoded = [np.array(vocabulary.encode(document)) for document in documents]
    random.shuffle(encoded)  # type: ignore[arg-type]
    share = len(encoded) // 20
    held_out, train_tokens = np.concatenate(encoded[:share]), np.concatenate(encoded[share:])
    console.print(
        f"Python's documentation: {len(documents):,} documents, {len(train_tokens):,} tokens to learn from, "
        f"{len(held_out):,} held out; {vocabulary.size:,} pieces"
    )

    console.rule("2. pre-training")
    # Two layers of the block learn sooner than three; a shared model can be deepened later without new weights.
    config = replace(albert_nano(), vocab_size=vocabulary.size, num_layers=2, num_positions=128)
    model = Model(config, [HeadConfig(kind="masked_token")])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"albert-nano at {config.num_layers} layers of its one block: {parameters:,} parameters")
    held_out_batches = make_batches(held_out, vocabulary, options, np.random.default_rng(1))
    before, _ = measure(model, held_out_batches)
    step, speed = train(model.train(), make_batches(train_tokens, vocabulary, options, random), options)
    loss, accuracy = measure(model, held_out_batches)
    write_model(model, options.out)
    floor = unigram_entropy(train_tokens, held_out, vocabulary.size)
    console.print(f"{step:,} steps, {speed:,.0f} tokens/s")
    console.print(
        f"loss on held-out documents: {before:.2f} before, {loss:.2f} after; "
        f"{floor:.2f} is what word frequencies alone give; {accuracy:.1%} of hidden tokens found"
    )

    console.rule("3. filling in blanks")
    fill_blanks(options.out)

    console.rule("4. the same folder in transformers")
    console.print(f"largest difference of any logit: {compare_with_transformers(options.out):.1e}")

    console.rule("made")
    console.print(f"{options.out}/  a model folder: config.json, model.safetensors, spiece.model")
    console.print(f"next: litebert inspect {options.out}", highlight=False)
    console.print(
        f'      litebert fill-mask {options.out} "Return the [MASK] of the list."', highlight=False, markup=False
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted; the model is written only after training") from None
