"""Documents -> shards, on all cores, of any size, in parts, and again from where it stopped.

This process reads documents, leaves out what is not wanted and hands blocks of the rest to workers, which split them
into sentences and encode those. The blocks come back in order and fill a shard; whenever one is full it is written, and
then the index, which says where the next one begins. So a build that is stopped loses at most one shard's work, and
what comes out is the same to the byte whether it was stopped or not, and on any number of cores.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from litebert import files
from litebert.config import check_fields, require
from litebert.corpus.encode import DocumentEncoder, Words
from litebert.corpus.index import SPLITS, Block, Index, Split, Statistics
from litebert.corpus.place import find_begun, is_own, place_vocabulary, remove_unfinished, warn_of_changes
from litebert.corpus.pool import encode_here, encode_in_processes
from litebert.corpus.selection import WHOLE, Part, Place, Selection, Work
from litebert.corpus.shards import ShardWriter, join_path
from litebert.corpus.workers import count_cores
from litebert.folders import require_place
from litebert.text.documents import Source
from litebert.text.formats import ReadConfig, Separated
from litebert.text.vocabulary import Vocabulary, open_vocabulary

MOST_WORKERS = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildConfig:
    """What decides a corpus's tokens, beside its text and vocabulary."""

    field: str = "text"
    documents: Separated = "blank-line"
    skip_bad: bool = False
    dev_share: float = 0.005
    """How many documents are held out, chosen by their hash."""
    deduplicate: bool = False
    """Leave out documents that were seen before, to the letter."""
    words: Words = "pieces"
    """What tells whole words: the vocabulary's pieces, or jieba."""
    shard_size: int = 1 << 24
    """Tokens of a shard."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(0 <= self.dev_share < 1, f"dev_share is {self.dev_share:g}; it must be at least 0 and below 1")
        require(0 < self.shard_size < 1 << 31, f"shard_size is {self.shard_size}; it must be between 1 and 2^31 tokens")

    @property
    def reading(self) -> ReadConfig:
        return ReadConfig(field=self.field, documents=self.documents, skip_bad=self.skip_bad)


class Builder:
    """Fills shards with blocks, and writes each when it is full, and the index after it."""

    def __init__(self, index: Index, out: str, config: BuildConfig, unknown: int) -> None:
        self.index = index
        self.statistics = dataclasses.replace(index.statistics, lengths=list(index.statistics.lengths))
        self.writers = {split: ShardWriter(split) for split in SPLITS}
        self.out = out
        self.config = config
        self.unknown = unknown

    def add(self, work: Work, blocks: dict[Split, Block]) -> None:
        self.statistics.add(work.counted)
        for split, block in blocks.items():
            self.writers[split].add(block)
            self.statistics.count(block, self.unknown)
            self.statistics.num_empty += work.documents[split].number - len(block.document_sizes)
        if max(writer.num_tokens for writer in self.writers.values()) >= self.config.shard_size:
            self.write(work.next, complete=False)

    def write(self, resume: tuple[int, int], *, complete: bool) -> Index:
        """Writes what was gathered of every split, so that the index can say where to go on."""
        written = [
            writer.write(self.out, self.shard_name(split))
            for split, writer in self.writers.items()
            if writer.num_tokens
        ]
        shards = (*self.index.shards, *written)
        statistics = dataclasses.replace(self.statistics, lengths=list(self.statistics.lengths))
        self.index = self.index._replace(shards=shards, statistics=statistics, resume=resume, complete=complete)
        files.write_file(join_path(self.out, self.index.name), self.index.to_text().encode())
        return self.index

    def shard_name(self, split: Split) -> str:
        part, total = self.index.part
        number = sum(entry.split == split for entry in self.index.shards)
        return f"{split}-{number:05}.bin" if total == 1 else f"{split}-{part}-of-{total}-{number:05}.bin"


def build_corpus(
    sources: Sequence[Source],
    vocabulary_path: str | Path,
    out: str | Path,
    config: BuildConfig,
    *,
    part: Part = WHOLE,
    num_workers: int | None = None,
    report: Callable[[int, int], None] = lambda source_bytes, text_bytes: None,
) -> Index:
    """Builds a corpus, or a part of one, in a folder or at a URL; goes on with one that was begun there.

    `num_workers` processes encode, one for each core unless it is given; with 0 this one does. `report` hears, block by
    block, how many bytes of the source files have been read, and how many bytes of text were encoded by this call.
    """
    require(
        num_workers is None or 0 <= num_workers <= MOST_WORKERS,
        f"num_workers is {num_workers}; it must be from 0 to {MOST_WORKERS:,}",
    )
    require(str(out), "the folder to build in has no name; give one")
    out, vocabulary = str(out), open_vocabulary(vocabulary_path)
    sources = [source for source in sources if not is_own(source.path, out)]
    require(sources, f"there is no text to build {out} from; name files or folders outside it")
    if not files.is_url(out):
        require_place(files.local_path(out), "--out", "corpus", "vocabulary")
    index = find_begun(out, begin_index(sources, vocabulary, config, part))
    warn_of_changes(sources, out)
    place_vocabulary(Path(vocabulary_path), out)
    remove_unfinished(out, index)
    if index.complete:
        return index
    selection = Selection(sources, part, config.reading, dev_share=config.dev_share, deduplicate=config.deduplicate)
    builder = Builder(index, out, config, vocabulary.special.unknown)
    works = selection.works(Place(*index.resume))
    if num_workers == 0:
        encoded = encode_here(works, DocumentEncoder(vocabulary, config.words))
    else:
        num_workers = num_workers or count_cores()
        num_early = min(num_workers, selection.most_blocks)
        encoded = encode_in_processes(works, vocabulary_path, config.words, num_workers, num_early)
    text_bytes = 0
    with closing(encoded):  # ends the workers here and now, also after an interrupt: at the exit they would hang
        for work, blocks in encoded:
            builder.add(work, blocks)
            text_bytes += work.counted.num_bytes
            report(work.source_bytes, text_bytes)
    require(builder.statistics.num_tokens or part.total > 1, "the text has no sentence with a token in it; add text")
    return builder.write((len(selection.sources), 0), complete=True)


def begin_index(sources: Sequence[Source], vocabulary: Vocabulary, config: BuildConfig, part: Part) -> Index:
    """The index of a corpus of which nothing is built yet."""
    # By name and size: on another machine the folder may be another.
    listed = json.dumps([[Path(source.path).name, source.size] for source in sources])
    return Index(
        vocabulary=vocabulary.fingerprint,
        vocab_size=vocabulary.size,
        token_type=vocabulary.encode_many([])[0].dtype.name,
        config=dataclasses.asdict(config),
        sources={
            "files": len(sources),
            "bytes": sum(source.size for source in sources),
            "sha256": hashlib.sha256(listed.encode()).hexdigest(),
        },
        part=(part.number, part.total),
        shards=(),
        statistics=Statistics(),
        complete=False,
        resume=(0, 0),
    )
