"""Train a SentencePiece vocabulary on text, with ALBERT's special tokens, for LiteBERT and Hugging Face alike.

TEXT is files, folders or patterns of them: .txt .jsonl .csv .tsv .parquet, plain or compressed, URLs, or a dataset of
the hub as hub:NAME. A sample of its lines is learned from, so the text may be of any size. DIR receives spiece.model,
tokenizer.json and tokenizer_config.json: AutoTokenizer.from_pretrained(DIR) gives the same ids as LiteBERT. The first
five ids are ALBERT's: <pad>, <unk>, [CLS], [SEP], [MASK]. As in ALBERT's vocabulary, digits and the signs
( ) " - . – £ € are always pieces.

Examples:
    litebert vocab wiki/*.txt.gz --out vocab
    litebert vocab reviews.jsonl --field body --size 8000 --normalization none --out vocab
"""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    from litebert.text.documents import Reader, Source
    from litebert.text.unigram import Sample, VocabularyConfig
    from litebert.text.vocabulary import Vocabulary

NUM_MEASURED = 2000
EXAMPLE_LENGTH = 80
WITHOUT_SPACES = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese letters."""
FEW = 0.1
"""The share of such letters from which on spaces say little of words."""
RENAMED = {"character_coverage": "--coverage", "num_lines": "--sample"}
"""Options that are not named as the field that they set."""


@dataclass(frozen=True, kw_only=True)
class Options:
    text: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT...")]
    """The text to learn from."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """The folder to write."""
    size: int = 30_000
    """How many pieces, the five special tokens among them."""
    normalization: Literal["albert", "bert", "xlnet", "none"] = "albert"
    """How text is cleaned: albert and xlnet replace letters by their plain forms and remove accents, also those that
    Japanese and the scripts of India cannot do without; bert sets Chinese characters apart; none only makes all spaces
    alike."""
    cased: bool = False
    """Keep capitals; xlnet and none do so by themselves."""
    uncased: bool = False
    """Lower-case all letters; albert and bert do so by themselves."""
    coverage: float = 0.99995
    """The share of the text's characters that become pieces. For Chinese 0.9995 leaves more pieces for words."""
    sample: int = 1_000_000
    """Learn from at most this many lines, drawn at random."""
    seed: int = 0
    """Seed of that draw."""
    field: str = "text"
    """The key or column of the text, in .jsonl, .csv, .tsv, .parquet and hub datasets."""
    skip_bad: bool = False
    """Skip what cannot be read, and count it."""
    overwrite: bool = False
    """Replace the vocabulary that is in DIR."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    from litebert.display import print_json
    from litebert.text.documents import Reader
    from litebert.text.formats import ReadConfig
    from litebert.text.hub_tokenizer import require_free, write_vocabulary
    from litebert.text.unigram import train_unigram
    from litebert.text.vocabulary import open_vocabulary

    start = time.perf_counter()
    config = make_config(options)
    # Lines are learned from, whatever documents they make.
    reader = Reader(ReadConfig(field=options.field, documents="line", skip_bad=options.skip_bad))
    require_free(options.out, options.overwrite)
    sample = read_sample(options.text, reader, config)
    with show_clock(f"learning {config.size:,} pieces from {len(sample.lines):,} lines"):
        model = train_unigram(sample.lines, config)
    write_vocabulary(model, config, options.out)
    report = {
        "pieces": config.size,
        "lines": sample.num_lines,
        "megabytes": sample.num_bytes / 1e6,
        "lines_sampled": len(sample.lines),
        "skipped": reader.skipped,
        **measure(open_vocabulary(options.out), sample.lines),
        "seconds": time.perf_counter() - start,
        "folder": str(options.out),
    }
    (print_json if options.json else print_report)(report)


def make_config(options: Options) -> "VocabularyConfig":
    from litebert.config import require
    from litebert.text.unigram import VocabularyConfig

    require(options.text, "TEXT is missing; name files, folders or patterns of text")
    require(not (options.cased and options.uncased), "--cased and --uncased exclude each other; choose one")
    return VocabularyConfig(
        size=options.size,
        normalization=options.normalization,
        cased=options.cased if options.cased or options.uncased else None,
        character_coverage=options.coverage,
        num_lines=options.sample,
        seed=options.seed,
    )


def read_sample(patterns: Sequence[str], reader: "Reader", config: "VocabularyConfig") -> "Sample":
    from litebert.display import show_progress
    from litebert.text.documents import find_sources
    from litebert.text.unigram import sample_lines

    sources = find_sources(patterns)
    with show_progress("reading", sum(source.size for source in sources)) as report:
        return sample_lines(follow(reader, sources, report), config)


def follow(reader: "Reader", sources: "Sequence[Source]", report: Callable[[int, int], None]) -> Iterator[str]:
    """The documents of all sources; of every hundredth, the progress is told."""
    num_bytes = 0
    for number, document in enumerate(document for source in sources for document in reader.read(source)):
        num_bytes += len(document.encode(errors="replace"))
        if number % 100 == 0:
            report(reader.bytes_read, num_bytes)
        yield document


@contextmanager
def show_clock(title: str) -> Iterator[None]:
    """The time that has passed, on a terminal, for work that cannot say how far it has come."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(title), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        progress.add_task("", total=None)
        yield


def measure(vocabulary: "Vocabulary", lines: Sequence[str]) -> dict[str, Any]:
    """How a vocabulary cuts some of the lines that it was learned from."""
    measured = lines[:: max(1, len(lines) // NUM_MEASURED)]
    tokens, _ = vocabulary.encode_many(measured)
    text = " ".join(measured)
    example = min(measured, key=lambda line: abs(len(line) - EXAMPLE_LENGTH))[: 2 * EXAMPLE_LENGTH]
    return {
        "characters_covered": sum(len(piece) == 1 for piece in vocabulary.pieces),
        "bytes_per_token": len(text.encode()) / len(tokens),
        **measure_units(text, len(tokens)),
        "unknown_rate": float((tokens == vocabulary.special.unknown).mean()),
        "example": [vocabulary.piece(index) for index in vocabulary.encode(example)],
    }


def measure_units(text: str, num_tokens: int) -> dict[str, float]:
    """Tokens per word; or per character, where many are of scripts that set no spaces between words."""
    letters = "".join(text.split())
    if len(WITHOUT_SPACES.findall(letters)) > FEW * len(letters):
        return {"tokens_per_character": num_tokens / len(letters)}
    return {"tokens_per_word": num_tokens / len(text.split())}


def print_report(report: dict[str, Any]) -> None:
    from litebert.display import print_table

    example, folder, seconds = (report.pop(key) for key in ("example", "folder", "seconds"))
    report["unknown_rate"] = f"{report['unknown_rate']:.3%}"
    names = {"lines_sampled": "lines learned from, each once"}
    print_table(
        [{"vocabulary": names.get(name, name.replace("_", " ")), "number": value} for name, value in report.items()]
    )
    print(f"a line in pieces: {' '.join(example)}")
    print(f"{folder}: trained in {seconds:,.1f} s")
    print(f"next: litebert corpus TEXT --vocab {folder} --out CORPUS")
