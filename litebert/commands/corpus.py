"""Turn text into a corpus of token shards for pre-training, or look into one.

Example:
    litebert corpus books/ wiki.jsonl.gz --vocab my-vocab --out my-corpus
    litebert corpus my-corpus --show 3
    litebert corpus --mix my-wiki=0.7 my-books=0.3 --show 3
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from litebert.text.formats import Separated

if TYPE_CHECKING:
    from litebert.corpus.index import Index
    from litebert.corpus.pairs import PairConfig, Pairs
    from litebert.corpus.selection import Part

LENGTHS = (128, 512)
NUM_ON_PAGE = 20
MOST_SHOWN = 10_000
MUCH_UNKNOWN = 0.05
RENAMED = {"dev_share": "--dev", "deduplicate": "--dedup", "num_workers": "--workers"}
"""Options that are not named as the field that they set."""


@dataclass(frozen=True, kw_only=True)
class Options:
    text: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT...")] = ()
    """Files, folders, patterns or URLs of .txt, .jsonl, .csv, .tsv or .parquet, plain or .gz, .xz, .zst; a dataset of
    the hub as hub:NAME; or, without --out, a corpus to look into."""
    vocab: Path | None = None
    """The vocabulary: a folder, or its file."""
    out: str | None = None
    """Where to build the corpus: a folder or a URL. A build that was begun there continues."""
    field: str = "text"
    """The key or column of the text in .jsonl, .csv, .tsv and .parquet files."""
    documents: Separated = "blank-line"
    """What separates documents in .txt files."""
    dev: str = "0.5%"
    """The share of documents to hold out for evaluation, as 0.005 or 0.5%."""
    part: str = "1/1"
    """Build only this part, such as 3/64; all parts in one folder are one corpus."""
    dedup: bool = False
    """Leave out documents that are exact copies of earlier ones."""
    words: Literal["pieces", "jieba"] = "pieces"
    """How words are found, for masking whole words: by the vocabulary's pieces, or by jieba, for Chinese."""
    skip_bad: bool = False
    """Count what cannot be read and go on, instead of stopping."""
    shard_size: int = 1 << 24
    """Tokens in a shard; a build that is stopped loses at most one shard."""
    workers: int | None = None
    """Processes that encode; by default one for each core."""
    show: int = 0
    """Print this many samples of a corpus."""
    mix: tuple[str, ...] = ()
    """Show samples of several corpora instead, by weight: --mix wiki=0.7 books=0.3."""
    html: Path | None = None
    """Write the samples to an HTML page as well."""
    split: Literal["train", "dev"] = "train"
    """Which documents to take the samples from."""
    objective: Literal["sop", "nsp", "three-way", "none"] = "sop"
    """The pairs to show: sentence order, next sentence, both at once, or none."""
    fidelity: Literal["paper", "google"] = "paper"
    """Make pairs as the paper says, or as Google's code does."""
    windows: Literal["document", "paragraph"] = "document"
    """What a sequence may not reach beyond. The laptop presets train within paragraphs, and in a .txt each line is
    one."""
    length: int = 128
    """The longest sequence to show, in tokens."""
    seed: int = 0
    """Seed of the samples: another one shows others."""
    json: bool = False
    """Print JSON instead of tables."""


def run(options: Options) -> None:
    from litebert.config import check_seed, require
    from litebert.files import require_suffix

    if options.html is not None:
        require_suffix(options.html, ".html")
    require(0 <= options.show <= MOST_SHOWN, f"--show is {options.show}; give from 1 to {MOST_SHOWN:,} samples")
    check_seed(options.seed)
    if options.json:
        for name in ("show", "html", "mix"):
            require(not getattr(options, name), f"--json is for what a corpus holds; leave out --{name}")
    if options.mix:
        require(not options.text, f"--mix names the corpora; leave out {' '.join(options.text)}")
        require(options.out is None, f"--mix looks into finished corpora; leave out --out {options.out}")
        show(options)
        return
    if options.out is not None:
        require(options.vocab, "--vocab is missing; name the vocabulary that the text is to be encoded with")
        require(not options.show and not options.html, "--show looks into a finished corpus; build it first")
        build(options)
        return
    require(
        len(options.text) == 1,
        f"there are {len(options.text)} paths and no --out; say where to build the corpus, or name one to look into",
    )
    if options.show or options.html:
        show(options)
    else:
        describe(options)


def build(options: Options) -> None:
    import shlex
    import time

    from litebert.config import require
    from litebert.corpus.build import BuildConfig, build_corpus
    from litebert.corpus.index import summarize_parts
    from litebert.display import print_json, show_progress
    from litebert.text.documents import find_sources

    config = BuildConfig(
        field=options.field,
        documents=options.documents,
        skip_bad=options.skip_bad,
        dev_share=read_share(options.dev),
        deduplicate=options.dedup,
        words=options.words,
        shard_size=options.shard_size,
    )
    part = read_part(options.part)
    require(options.text, "TEXT is missing; name the files or folders to build the corpus from")
    sources = find_sources(options.text)
    assert options.vocab is not None and options.out is not None
    start = time.perf_counter()
    with show_progress("encoding", sum(source.size for source in sources)) as report:
        index = build_corpus(
            sources,
            options.vocab,
            options.out,
            config,
            part=part,
            num_workers=options.workers,
            report=report,
        )
    seconds = time.perf_counter() - start
    summary = summarize_parts([index])
    if part.total == 1:
        warn_of_oddities(options.out, index, config.dev_share)
    if options.json:
        print_json(summary)
        return
    print_summary(summary)
    print(f"{options.out}: built in {seconds:,.1f} s")
    if part.total == 1:
        print(f"next: litebert corpus {shlex.quote(options.out)} --show 3")


def warn_of_oddities(out: str, index: "Index", dev_share: float) -> None:
    """What a corpus can be built with, but hardly learned from."""
    import logging

    from litebert.corpus.index import find_lack

    logger = logging.getLogger(__name__)
    lack = find_lack([index])
    if dev_share and lack is not None:
        logger.warning("%s %s", out, lack)
    unknown = index.statistics.num_unknown / index.statistics.num_tokens
    if unknown > MUCH_UNKNOWN:
        logger.warning("%.1f %% of the tokens are unknown; is this the vocabulary of this text?", 100 * unknown)


def describe(options: Options) -> None:
    """What a corpus holds, and how much of it an epoch shows."""
    from litebert.corpus.index import summarize_parts
    from litebert.corpus.pairs import Pairs
    from litebert.corpus.shards import find_indexes, open_corpus
    from litebert.display import print_json, print_table

    summary = summarize_parts(find_indexes(options.text[0]))
    corpus = open_corpus(options.text[0], options.split)
    epochs = [describe_epoch(Pairs(corpus, make_pairs(options, length))) for length in LENGTHS]
    if options.json:
        print_json(summary | {"epoch": epochs})
        return
    print_summary(summary)
    where = f"{options.split} {options.windows}s"
    print_table(epochs, title=f"an epoch of {options.objective} pairs of the {where}")


def make_pairs(options: Options, length: int) -> "PairConfig":
    from litebert.corpus.pairs import PairConfig

    return PairConfig(objective=options.objective, length=length, fidelity=options.fidelity, windows=options.windows)


def describe_epoch(pairs: "Pairs") -> dict[str, Any]:
    """Tokens that give way to a random segment are not shown in this epoch, unless as a random segment elsewhere."""
    own, random = pairs.shown_shares()
    return {
        "length": pairs.config.length,
        "sequences": len(pairs),
        "of two segments": f"{pairs.paired_share():.1%}",
        "tokens shown": f"{own:.1%}",
        **({"and in random segments": f"{random:.1%}"} if random else {}),
    }


def show(options: Options) -> None:
    """Samples as a model would see them."""
    from rich.console import Console
    from rich.rule import Rule

    from litebert.corpus.loader import Loader, State, open_mixture
    from litebert.corpus.masking import MaskingConfig
    from litebert.corpus.show import read_samples, to_page, to_terminal
    from litebert.display import print_rich
    from litebert.files import write_file

    corpora, weights = open_mixture(options.mix or [f"{options.text[0]}=1"], options.split)
    masking = MaskingConfig(max_predictions=20 if options.fidelity == "google" else None)
    number = options.show or (NUM_ON_PAGE if options.html else 3)
    state = State(seed=options.seed)
    pairs = make_pairs(options, options.length)
    loader = Loader(corpora, pairs, masking, num_sequences=number, weights=weights, state=state)
    samples = read_samples(loader.make_batch(0), loader.vocabulary, options.objective)
    console = Console(highlight=False)
    for sample in samples[: 0 if options.html and not options.show else None]:
        print_rich(console, Rule(f"{sample.label}: {sample.heading}"), to_terminal(sample))
    if options.html:
        note = f"{options.objective} pairs of at most {options.length} tokens, seed {options.seed}."
        title = f"Samples of {' '.join(options.mix or options.text)}"
        write_file(options.html, to_page(samples, title, note).encode())
        print(f"{options.html}: {len(samples)} samples")


def print_summary(summary: dict[str, Any]) -> None:
    from litebert.display import print_table, show_bars

    print_table([{"split": split, **counts} for split, counts in summary["splits"].items()])
    print_table(show_bars(summary["sentence_lengths"]), title="tokens of a sentence")
    print(
        f"{summary['documents']:,} documents, {summary['sentences']:,} sentences, {summary['tokens']:,} tokens of "
        f"{summary['vocabulary']:,} kinds from {summary['bytes'] / 1e6:,.1f} MB of text: "
        f"{summary['bytes_per_token']:.2f} bytes per token, {summary['unknown_rate']:.3%} unknown"
    )
    left_out = {name: summary[name] for name in ("duplicates", "empty", "skipped") if summary[name]}
    if left_out:
        print("left out: " + ", ".join(f"{count:,} {name}" for name, count in left_out.items()))


def read_share(text: str) -> float:
    """`0.5%` and `0.005` are the same."""
    from litebert.config import UserError

    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UserError(f"--dev is {text!r}; give a share such as 0.5% or 0.005") from None


def read_part(text: str) -> "Part":
    from litebert.config import require
    from litebert.corpus.selection import Part

    number, _, total = text.partition("/")
    require(number.isdecimal() and total.isdecimal(), f"--part is {text!r}; give it as 3/64")
    return Part(int(number), int(total))
