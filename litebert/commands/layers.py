"""Measure what each layer of a model does to its input, as in the paper's Figure 1: distances and angles.

Example:
    litebert layers my-albert my-bert --text wiki.txt
    litebert layers my-albert --text wiki.txt.gz --length 128 --sequences 256 --out layers.png
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from litebert.batch import Batch
    from litebert.studies.layers import Layers
    from litebert.text.vocabulary import Vocabulary

NUM_TOGETHER = 16
"""Sequences of a batch."""


@dataclass(frozen=True, kw_only=True)
class Options:
    models: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL...")]
    """Model folders, each with its vocabulary."""
    text: tuple[str, ...]
    """What to read to them: files or folders of text."""
    field: str = "text"
    """The key or column of the text, in .jsonl, .csv, .tsv and .parquet."""
    skip_bad: bool = False
    """Skip what cannot be read."""
    length: int = 128
    """The longest sequence, in tokens."""
    sequences: int = 64
    """How many sequences to read, each from the beginning of a paragraph."""
    pieces: bool = False
    """The text is already cut into pieces of the vocabulary, separated by spaces; for vocabularies that are not of
    words."""
    names: tuple[str, ...] = ()
    """Names for the models, in the same order; by default those of their folders."""
    out: Path | None = None
    """Write the figure here: .png, .pdf or .svg."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    import dataclasses

    from litebert.display import print_json, print_table
    from litebert.studies.layers import tabulate_layers
    from litebert.studies.pictures import draw_layers
    from litebert.training.drawing import save_figure

    check_options(options)
    measured = measure_models(options)
    if options.json:
        print_json({name: dataclasses.asdict(layers) for name, layers in measured.items()})
    else:
        print_table(tabulate_layers(measured))
        print(f"means over {max(layers.num_tokens for layers in measured.values()):,} tokens; angles in degrees")
    if options.out is not None:
        save_figure(draw_layers(measured), options.out)
        if not options.json:
            print(f"{options.out}: a picture of it")


def check_options(options: Options) -> None:
    from litebert.config import require
    from litebert.training.drawing import image_kind

    require(options.models, "MODEL is missing; name a model folder")
    require(options.length > 2, f"--length is {options.length}; [CLS] and [SEP] alone are 2")
    require(0 < options.sequences < 1 << 31, f"--sequences is {options.sequences}; it must be from 1 to 2^31")
    if options.out is not None:
        image_kind(options.out)
    require(
        len(options.names) in (0, len(options.models)) and len(set(options.names)) == len(options.names),
        f"--names is {' '.join(options.names)}; give each of the {len(options.models)} models one of its own",
    )


def measure_models(options: Options) -> "dict[str, Layers]":
    import litebert
    from litebert.config import require
    from litebert.studies.layers import measure_layers
    from litebert.training.drawing import name_runs

    measured = {}
    for name, folder in zip(options.names or name_runs(options.models), options.models, strict=True):
        model, vocabulary = litebert.open_model(folder)
        require(
            options.length <= model.config.num_positions,
            f"--length is {options.length}; {folder} has {model.config.num_positions} positions",
        )
        measured[name] = measure_layers(model, read_batches(options, vocabulary))
    return measured


def read_batches(options: Options, vocabulary: "Vocabulary") -> "Iterator[Batch]":
    """The first paragraphs of the text, cut to the length, in batches of a few."""
    from itertools import islice

    from litebert.batch import Batch
    from litebert.text.documents import Reader, find_sources
    from litebert.text.formats import ReadConfig

    reader = Reader(ReadConfig(field=options.field, skip_bad=options.skip_bad))
    encode = vocabulary.look_up if options.pieces else vocabulary.encode
    paragraphs = (
        paragraph
        for source in find_sources(options.text)
        for document in reader.read(source)
        for paragraph in document.split("\n")
    )
    encoded = (encode(paragraph)[: options.length - 2] for paragraph in paragraphs)
    sequences = islice((vocabulary.add_special(ids) for ids in encoded if ids), options.sequences)
    while batch := list(islice(sequences, NUM_TOGETHER)):
        yield Batch.pack(batch)
