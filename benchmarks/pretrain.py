"""Pre-training, the whole program with its data, beside a plain transformers training loop on the same text.

    python benchmarks/pretrain.py --corpus my-corpus

LiteBERT's side is `litebert pretrain`'s own: corpus, pairs, masks, loop, guard, log. The other side is what one writes
with transformers: its ALBERT with sdpa, its masking collator, sequences that were tokenised and paired before the clock
starts, padding to the longest, AdamW and clipping. Both see sequences of the same windows and batches of the same size,
with the same threads. They live in processes of their own and take turns; medians over rounds are reported, in real
tokens a second.
"""

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro
from sides import begin, compare_memory, compare_speeds, show_memory, show_speeds, start_worker, tell

from litebert.corpus.baseline import restore
from litebert.corpus.loader import Loader, open_mixture
from litebert.corpus.pairs import PairConfig
from litebert.models.folder import write_model
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.presets import find_preset
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.preparation import prepare
from litebert.recipes import find_recipe
from litebert.training.environment import read_peak
from litebert.training.loop import Loop
from litebert.training.parallel import Ranks

NUM_SEQUENCES = {"albert-base": 8, "albert-small": 32}
"""Of a step, where the recipe's are for another machine."""
LENGTH = 128
NUM_PREPARED = 4096


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compares pre-training with LiteBERT and with a plain transformers loop."""

    corpus: Path
    """A corpus with a vocabulary that transformers opens."""
    presets: tuple[str, ...] = ("albert-nano", "albert-micro", "albert-small", "albert-base")
    rounds: int = 5
    seconds: float = 4.0
    """How long each side works at a turn, about."""
    threads: int = 2
    json: Path | None = None
    """Also write the figures here."""


def make_config(preset: str, corpus: str) -> PretrainConfig:
    config = find_recipe(preset)
    number = NUM_SEQUENCES.get(preset, config.num_sequences)
    return replace(
        config,
        corpus=corpus,
        num_sequences=number,
        pairs=PairConfig(length=LENGTH),
        steps=100_000,
        evaluation_sequences=0,
    )


def prepare_litebert(preset: str, corpus: str) -> Callable[[], int]:
    prepared = prepare(make_config(preset, corpus), Path("never-written"), Ranks())
    loop = Loop(prepared.training, None, Ranks())
    loop.model.train()
    batches = prepared.training.batches(0)

    def step() -> int:
        before = loop.tokens
        loop.take_step(batches, [])
        if loop.step % loop.config.log_every == 0:
            loop.log()
        return loop.tokens - before

    return step


def prepare_transformers(preset: str, corpus: str) -> Callable[[], int]:
    from transformers import AutoModelForPreTraining, AutoTokenizer, DataCollatorForLanguageModeling

    config = make_config(preset, corpus)
    corpora, weights = open_mixture(config.corpora)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        write_model(Model(replace(find_preset(preset), vocab_size=corpora[0].vocabulary.size), PRETRAINING), folder)
        model = AutoModelForPreTraining.from_pretrained(folder, attn_implementation="sdpa").train()
    tokenizer = AutoTokenizer.from_pretrained(corpus)
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=config.masking.rate)
    loader = Loader(corpora, config.pairs, config.masking, num_sequences=32, weights=weights)
    examples = list(itertools.islice(make_examples(loader), NUM_PREPARED))
    data = torch.utils.data.DataLoader(examples, batch_size=config.num_sequences, shuffle=True, collate_fn=collate)
    batches = itertools.chain.from_iterable(itertools.repeat(data))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> int:
        batch: dict[str, Any] = next(batches)
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # as a loop that logs its loss
        return int(batch["attention_mask"].sum())

    return step


def make_examples(loader: Loader) -> Iterator[dict[str, Any]]:
    """The sequences of the same windows, as one has them after tokenising: lists, with nothing hidden."""
    for batch in loader.one_epoch():
        tokens_T = restore(batch)
        for number, start in enumerate(batch.starts):
            part = slice(start, start + batch.lengths[number])
            assert batch.pair_labels_B is not None
            yield {
                "input_ids": tokens_T[part].tolist(),
                "token_type_ids": batch.segment_ids_T[part].tolist(),
                "attention_mask": [1] * batch.lengths[number],
                "sentence_order_label": int(batch.pair_labels_B[number]),
            }


SIDES = {"litebert": prepare_litebert, "transformers": prepare_transformers}


def work(side: str, preset: str, corpus: str, threads: str) -> None:
    """A worker: for each line it reads, takes steps for so many seconds and answers with its speed and peak memory."""
    torch.set_num_threads(int(threads))
    step = SIDES[side](preset, corpus)
    for line in sys.stdin:
        start, tokens = time.perf_counter(), 0
        while time.perf_counter() - start < float(line):
            tokens += step()
        speed = tokens / (time.perf_counter() - start)
        print(json.dumps({"speed": speed, "peak": read_peak()}), flush=True)


def compare(preset: str, options: Options) -> dict[str, float]:
    with (
        start_worker(__file__, "litebert", preset, str(options.corpus), str(options.threads)) as ours,
        start_worker(__file__, "transformers", preset, str(options.corpus), str(options.threads)) as theirs,
    ):
        ours("1"), theirs("1")
        turns = [(ours(str(options.seconds)), theirs(str(options.seconds))) for _ in range(options.rounds)]
    ours_by_turns, theirs_by_turns = zip(*turns, strict=True)
    speeds = ([turn["speed"] for turn in side] for side in (ours_by_turns, theirs_by_turns))
    return compare_speeds(*speeds) | compare_memory(turns[-1][0]["peak"], turns[-1][1]["peak"])


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    results = {preset: compare(preset, options) for preset in options.presets}
    rows = [
        {
            "preset, sequences": f"{preset}, {make_config(preset, '').num_sequences} x {LENGTH}",
            **show_speeds(figures, "tokens/s"),
            **show_memory(figures),
        }
        for preset, figures in results.items()
    ]
    tell(rows, results, options.json)


if __name__ == "__main__":
    begin(main, work)
