"""Making batches beside transformers' whole-word collator, and beside a training step.

    python benchmarks/make_batches.py my-corpus --presets albert-nano albert-small

Ours is the whole path from shards on disk: windows, sentence-order or next-sentence pairs, n-gram masks of whole words
with 80/10/10, packed. The peer only masks and pads: `DataCollatorForLanguageModeling(whole_word_mask=True)`, which has
no n-grams, no 80/10/10 and no pairs, is given sequences of full length, tokenized and with their offsets, in memory.
One thread each, in turns; medians over rounds. Then a training step of each preset is timed on such batches: what share
of it would go to making its batch, if nothing were prepared ahead.
"""

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
import tyro
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from litebert.batch import Batch
from litebert.corpus.loader import Loader
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import Objective, PairConfig
from litebert.corpus.shards import Corpus, open_corpus
from litebert.display import print_table
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.presets import find_preset
from litebert.training.losses import Pretraining, mean_loss
from litebert.training.process import prepare_process


@dataclass(frozen=True, kw_only=True)
class Options:
    """Times the making of batches."""

    corpus: Annotated[str, tyro.conf.Positional]
    """A corpus, with a tokenizer.json for the peer."""
    lengths: tuple[int, ...] = (128, 512)
    objectives: tuple[Objective, ...] = ("sop", "nsp")
    num_tokens: int = 4096
    """Tokens of a batch at most."""
    presets: tuple[str, ...] = ("albert-nano", "albert-small", "albert-base-v2")
    rounds: int = 7


def seconds(work: Callable[[], object], at_least: float = 0.5) -> float:
    """The mean time of a call, over so many that they take a while."""
    work()
    number, start = 0, time.perf_counter()
    while time.perf_counter() - start < at_least:
        work()
        number += 1
    return (time.perf_counter() - start) / number


def make_loader(corpus: Corpus, pairs: PairConfig, num_tokens: int) -> Loader:
    number = max(1, num_tokens // pairs.length)
    return Loader([corpus], pairs, MaskingConfig(), num_sequences=number, num_threads=0)


def make_examples(batch: Batch, pieces: list[str], length: int, number: int) -> list[dict[str, Any]]:
    """Text as the peer wants it, in rows of full length, since it does not pad offsets.

    A word goes on where a token begins as the last one ends.
    """
    ids = batch.token_ids_T.tolist()
    ids *= -(-length * number // len(ids))
    offsets, end = [], 0
    for index in ids:
        begin = end + pieces[index].startswith("▁")
        end = begin + max(1, len(pieces[index].strip("▁")))
        offsets.append((begin, end))
    rows = [slice(start, start + length) for start in range(0, length * number, length)]
    return [{"input_ids": ids[row], "attention_mask": [1] * length, "offset_mapping": offsets[row]} for row in rows]


def compare_with_collator(corpus: Corpus, options: Options, pairs: PairConfig) -> dict[str, Any]:
    length, loader = pairs.length, make_loader(corpus, pairs, options.num_tokens)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=f"{corpus.path}/tokenizer.json", pad_token="<pad>", mask_token="[MASK]", cls_token="[CLS]",
        sep_token="[SEP]", unk_token="<unk>",
    )  # fmt: skip
    warnings.simplefilter("ignore")
    collator = DataCollatorForLanguageModeling(tokenizer, whole_word_mask=True)
    number, pieces = loader.num_sequences, corpus.vocabulary.pieces
    examples = [make_examples(loader.make_batch(place), pieces, length, number) for place in range(8)]
    mean = statistics.mean(loader.make_batch(place * number).num_tokens for place in range(100)) / number
    batches, stream = iter(range(10**9)), iter(loader)
    theirs, ours = [], []
    for _ in range(options.rounds):
        theirs.append(seconds(lambda: collator([dict(row) for row in examples[next(batches) % 8]])))
        ours.append(seconds(lambda: next(stream)))
    peer, mine = (number / statistics.median(times) for times in (theirs, ours))
    return {
        "pairs": pairs.objective,
        "length": length,
        "transformers, sequences/s": peer,
        "litebert, sequences/s": mine,
        "ratio": mine / peer,
        "mean length": mean,
        "ratio of tokens/s": mine * mean / (peer * length),
    }


def compare_with_step(corpus: Corpus, options: Options, length: int, preset: str) -> dict[str, Any]:
    loader = make_loader(corpus, PairConfig(length=length), options.num_tokens)
    torch.manual_seed(0)
    config = replace(find_preset(preset), vocab_size=corpus.vocabulary.size)
    model = Model(config, PRETRAINING).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    stream = iter(loader)

    def step() -> None:
        mean_loss(Pretraining(), model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    making, training = [], []
    for _ in range(options.rounds):
        making.append(seconds(lambda: next(stream), 0.1))
        batch = next(stream)
        training.append(seconds(step, 0.1))
    made, trained = statistics.median(making), statistics.median(training)
    return {
        "preset": preset,
        "length": length,
        "batch, ms": made * 1e3,
        "step, ms": trained * 1e3,
        "share": f"{made / trained:.2%}",
    }


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    corpus = open_corpus(options.corpus)
    torch.set_num_threads(1)
    kinds = [PairConfig(objective=kind, length=length) for kind in options.objectives for length in options.lengths]
    print_table([compare_with_collator(corpus, options, pairs) for pairs in kinds], title="one thread")
    torch.set_num_threads(2)
    prepare_process()
    rows = [compare_with_step(corpus, options, length, name) for name in options.presets for length in options.lengths]
    print_table(rows, title=f"a training step on 2 threads, batches of at most {options.num_tokens:,} tokens")


if __name__ == "__main__":
    main()
