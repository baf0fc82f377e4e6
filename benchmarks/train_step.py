"""A training step of LiteBERT beside transformers': tokens per second, share of the GEMM peak, peak memory.

    python benchmarks/train_step.py --rows base-128 tiny-128

One step is forward, backward and AdamW of the masked-token and the pair loss. Both sides have the same weights, tokens,
optimizer and threads, and both must report the same loss, or the run is void. Each lives in a process of its own, so
that memory is its own: LiteBERT's sets the allocator as its programs do, transformers' runs as it comes. They take
turns, each of at least a second, with a probe of the machine's matrix-product peak; medians over rounds are reported.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
import tyro
from sides import begin, compare_memory, compare_speeds, show_memory, show_speeds, start_worker, tell

from litebert.batch import Batch
from litebert.models.encoder import Checkpointing, EncoderConfig
from litebert.models.folder import read_model, write_model
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.training.costs import count_flops
from litebert.training.environment import read_peak
from litebert.training.losses import Pretraining, mean_loss
from litebert.training.process import prepare_process
from litebert.training.timing import measure_peak

PADDED_SHARE = 0.1
TURN_SECONDS = 1.0


@dataclass(frozen=True)
class Row:
    """A model and a batch."""

    config: EncoderConfig
    length: int
    num_sequences: int
    checkpointing: Checkpointing = "nothing"


BASE = EncoderConfig()
SMALL = EncoderConfig(hidden_size=384, num_layers=6, num_heads=6, feed_forward_size=1536)
TINY = EncoderConfig(
    vocab_size=8000, embedding_size=64, hidden_size=128, num_layers=2, num_heads=2, feed_forward_size=512
)
ROWS = {
    "base-128": Row(BASE, 128, 8),
    "base-512": Row(BASE, 512, 4),
    "base-512-recompute": Row(BASE, 512, 4, checkpointing="activations"),
    "small-128": Row(SMALL, 128, 32),
    "tiny-128": Row(TINY, 128, 64),
}
RowName = Literal["base-128", "base-512", "base-512-recompute", "small-128", "tiny-128"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compares one training step of LiteBERT and of transformers."""

    rows: tuple[RowName, ...] = ("base-128", "base-512", "base-512-recompute", "small-128", "tiny-128")
    rounds: int = 7
    """How often the two take turns."""
    threads: int = 2
    json: Path | None = None
    """Also write the figures here."""


def make_batch(row: Row) -> Batch:
    """Random tokens in lengths like those of pre-training: most sequences full, a tenth of the padded batch empty."""
    for seed in range(10_000):
        draw = random.Random(seed)
        lengths = [row.length if draw.random() < 0.8 else draw.randint(2, row.length) for _ in range(row.num_sequences)]
        if abs(1 - sum(lengths) / (row.length * row.num_sequences) - PADDED_SHARE) < 0.01:
            break
    torch.manual_seed(0)
    num_tokens = sum(lengths)
    token_ids_T = torch.randint(5, row.config.vocab_size, (num_tokens,))
    predicted_P = torch.randperm(num_tokens)[: round(0.15 * num_tokens)].sort().values
    return Batch(
        lengths=tuple(lengths),
        token_ids_T=token_ids_T,
        segment_ids_T=torch.randint(0, 2, (num_tokens,)),
        predicted_positions_P=predicted_P,
        predicted_ids_P=token_ids_T[predicted_P],
        pair_labels_B=torch.randint(0, 2, (len(lengths),)),
    )


def prepare_litebert(folder: Path, batch: Batch, checkpointing: Checkpointing) -> Callable[[], float]:
    prepare_process()
    model = read_model(folder).train()
    model.encoder.checkpointing = checkpointing
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> float:
        loss = mean_loss(Pretraining(), model, replace(batch))  # a new batch, that has computed nothing yet
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def prepare_transformers(folder: Path, batch: Batch, _: Checkpointing) -> Callable[[], float]:
    from transformers import AutoModelForPreTraining

    # Its pair head drops out a tenth of its input, which neither the paper nor LiteBERT does.
    model = AutoModelForPreTraining.from_pretrained(folder, attn_implementation="sdpa", classifier_dropout_prob=0.0)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    labels_T = torch.full_like(batch.token_ids_T, -100)
    assert batch.predicted_positions_P is not None and batch.predicted_ids_P is not None
    labels_T[batch.predicted_positions_P] = batch.predicted_ids_P
    real_BL = batch.pad(torch.ones_like(labels_T))
    inputs = {
        "input_ids": batch.pad(batch.token_ids_T),
        "attention_mask": real_BL,
        "token_type_ids": batch.pad(batch.segment_ids_T),
        "labels": batch.pad(labels_T).where(real_BL == 1, -100),
        "sentence_order_label": batch.pair_labels_B,
    }

    def step() -> float:
        loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


SIDES = {"litebert": prepare_litebert, "transformers": prepare_transformers}


def work(side: str, name: str, folder: str, threads: str) -> None:
    """A worker: for each line it reads it takes a turn, and answers with the median time of its steps, the loss of the
    first and the peak memory so far."""
    torch.set_num_threads(int(threads))
    row = ROWS[name]
    step = SIDES[side](Path(folder), make_batch(row), row.checkpointing)
    for _ in sys.stdin:
        seconds, losses = [], []
        while sum(seconds) < TURN_SECONDS:
            start = time.perf_counter()
            losses.append(step())
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": statistics.median(seconds), "loss": losses[0], "peak": read_peak()}), flush=True)


def compare(name: str, options: Options) -> dict[str, float]:
    row, batch = ROWS[name], make_batch(ROWS[name])
    assert batch.predicted_ids_P is not None
    flops = count_flops(row.config, batch.lengths, len(batch.predicted_ids_P))
    measured: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        write_model(Model(row.config, PRETRAINING), folder)
        with (
            start_worker(__file__, "litebert", name, folder, str(options.threads)) as ours,
            start_worker(__file__, "transformers", name, folder, str(options.threads)) as theirs,
        ):
            first = ours()["loss"], theirs()["loss"]
            assert abs(first[0] - first[1]) < 1e-4, f"the two compute different losses: {first}"
            for _ in range(options.rounds):
                peaks.append(measure_peak())
                measured["litebert"].append(ours())
                measured["transformers"].append(theirs())
    peak = statistics.median(peaks)
    speeds = {side: [batch.num_tokens / step["seconds"] for step in steps] for side, steps in measured.items()}
    figures = compare_speeds(speeds["litebert"], speeds["transformers"])
    figures |= compare_memory(measured["litebert"][-1]["peak"], measured["transformers"][-1]["peak"])
    figures |= {"padding": 1 - batch.num_tokens / (row.length * row.num_sequences), "gemm_gflops": peak / 1e9}
    return figures | {f"{side}_share_of_peak": figures[side] * flops / batch.num_tokens / peak for side in SIDES}


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    torch.set_num_threads(options.threads)
    results = {name: compare(name, options) for name in options.rows}
    rows = [
        {
            "model, length": name,
            "padding": f"{figures['padding']:.0%}",
            "GEMM peak": f"{figures['gemm_gflops']:.0f} GFLOP/s",
            **show_speeds(figures, "tokens/s"),
            "of peak, theirs": f"{figures['transformers_share_of_peak']:.2f}",
            "of peak, ours": f"{figures['litebert_share_of_peak']:.2f}",
            **show_memory(figures),
        }
        for name, figures in results.items()
    ]
    tell(rows, results, options.json)


if __name__ == "__main__":
    begin(main, work)
