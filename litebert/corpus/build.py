"""Documents -> shards, on all cores, of any size, in parts, and again from where it stopped.

This process reads documents, leaves out what is not wanted and hands blocks of the rest to workers, which split them
into sentences and encode those. The blocks come back in order and fill a shard; whenever one is full it is written, and
then the index, which says where the next one begins. So a build that is stopped loses at most one shard's work, and
what comes out is the same to the byte whether it was stopped or not, and on any number of cores.
"""

import dataclasses
import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from litebert import files
from litebert.config import UserError, check_fields, require
from litebert.corpus.encode import DocumentEncoder, Documents, Words, encode_in_worker, start_worker
from litebert.corpus.index import SPLITS, Block, Index, Split, Statistics
from litebert.corpus.place import find_begun, is_own, place_vocabulary, warn_of_changes
from litebert.corpus.seen import Seen, hash_text
from litebert.corpus.shards import ShardWriter, join_path
from litebert.corpus.workers import count_cores, uninterrupted, worker_context
from litebert.folders import require_place
from litebert.text.documents import Reader, Source
from litebert.text.formats import ReadConfig, Separated
from litebert.text.vocabulary import Vocabulary, open_vocabulary

logger = logging.getLogger(__name__)

BLOCK_SIZE = 1 << 19
"""Characters handed to a worker at a time."""
LEAST_SIZE = BLOCK_SIZE // 8
"""Bytes of the source files, which may be compressed, that may be a block."""
MOST_PARTS = 1 << 32
MOST_WORKERS = 1 << 12
NUM_AHEAD = 2
"""Blocks that lie ready for each worker, so that none waits."""


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
        require(0 <= self.dev_share < 1, f"the dev share is {self.dev_share:g}; it must be at least 0 and below 1")
        require(0 < self.shard_size < 1 << 31, f"shard_size is {self.shard_size}; it must be between 1 and 2^31 tokens")

    @property
    def reading(self) -> ReadConfig:
        return ReadConfig(field=self.field, documents=self.documents, skip_bad=self.skip_bad)


class Part(NamedTuple):
    """One of the equal parts in which a corpus is built."""

    number: int
    total: int


WHOLE = Part(1, 1)


class Place(NamedTuple):
    """How many sources have been read, and how many documents of the next."""

    source: int
    document: int


class Work(NamedTuple):
    """A block of documents, what was counted on the way to them, and where the next block begins."""

    documents: Documents
    counted: Statistics
    next: Place
    source_bytes: int
    """Bytes of the source files, compressed as they are, that have been read."""


class Selection:
    """The documents that a part of a corpus is made of."""

    def __init__(self, sources: Sequence[Source], config: BuildConfig, part: Part) -> None:
        # Files are dealt out whole, unless there are too few, or equal documents must meet in one part to be known.
        by_hash = config.deduplicate or len(sources) < part.total
        self.sources = sources if by_hash else sources[part.number - 1 :: part.total]
        self.part = part if by_hash else WHOLE
        self.config = config
        self.seen = Seen()

    def works(self, done: Place) -> Iterator[Work]:
        """Blocks of documents, from a place where a block ended."""
        # Duplicates of documents that an earlier run has read can be known only by reading those again.
        start = Place(0, 0) if self.config.deduplicate else done
        reader = Reader(self.config.reading)
        bytes_before = sum(source.size for source in self.sources[: start.source])
        num_reasons = self.num_skipped = 0
        for texts, place in gather(self.read(reader, start)):
            documents, counted = self.select(texts)
            if self.part.number == 1:  # of parts that read the same files, one counts
                counted.num_skipped = reader.skipped - self.num_skipped
            self.num_skipped = reader.skipped
            for reason in reader.reasons[num_reasons:]:
                logger.warning("skipped %s", reason)
            num_reasons = len(reader.reasons)
            if place > done or not texts:
                yield Work(documents, counted, place, bytes_before + reader.bytes_read)

    def read(self, reader: Reader, start: Place) -> Iterator[tuple[str, Place]]:
        """Each document, and the place behind it."""
        for number, source in enumerate(self.sources[start.source :], start=start.source):
            for count, text in enumerate(reader.read(source), start=1):
                if Place(number, count) > start:
                    yield text, Place(number, count)
                else:
                    self.num_skipped = reader.skipped  # an earlier run has counted these

    def select(self, texts: list[str]) -> tuple[Documents, Statistics]:
        """Those of a block's documents that belong to this part and are new."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        hashes = np.array([hash_text(text) for text in encoded], np.uint64)
        kept = hashes % np.uint64(self.part.total) == self.part.number - 1
        counted = Statistics()
        if self.config.deduplicate:
            mine = np.flatnonzero(kept)
            kept[mine] = self.seen.add(hashes[mine])
            counted.num_duplicates = len(mine) - int(kept.sum())
        held_out = hashes / 2.0**64 < self.config.dev_share
        documents: Documents = {
            "train": list(compress(encoded, kept & ~held_out)),
            "dev": list(compress(encoded, kept & held_out)),
        }
        counted.num_bytes = sum(map(len, chain.from_iterable(documents.values())))
        return documents, counted


def gather(documents: Iterator[tuple[str, Place]]) -> Iterator[tuple[list[str], Place]]:
    """Documents in blocks of about `BLOCK_SIZE` characters, each with the place behind it.

    The last may be empty: what was skipped behind the last document is counted with it.
    """
    texts: list[str] = []
    num_characters, place = 0, Place(0, 0)
    for text, place in documents:
        texts.append(text)
        num_characters += len(text)
        if num_characters >= BLOCK_SIZE:
            yield texts, place
            texts, num_characters = [], 0
    yield texts, place


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
            self.statistics.num_empty += len(work.documents[split]) - len(block.document_sizes)
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
        0 < part.total <= MOST_PARTS,
        f"the part is {part.number}/{part.total}; a corpus has at least one part and at most {MOST_PARTS:,}",
    )
    require(
        1 <= part.number <= part.total,
        f"the part is {part.number}/{part.total}; it must be one of 1/{part.total} to {part.total}/{part.total}",
    )
    require(
        num_workers is None or 0 <= num_workers <= MOST_WORKERS,
        f"the number of workers is {num_workers}; it must be from 0 to {MOST_WORKERS:,}",
    )
    require(str(out), "the folder to build in has no name; give one")
    out, vocabulary = str(out), open_vocabulary(vocabulary_path)
    sources = [source for source in sources if not is_own(source.path, out)]
    require(sources, f"there is no text to build {out} from; name files or folders outside it")
    if not files.is_url(out):
        require_place(files.local_path(out), "--out", "corpus", "vocabulary")
    index = find_begun(out, begin_index(sources, vocabulary, config, part))
    warn_of_changes(sources, out)
    place_vocabulary(Path(vocabulary_path), out, vocabulary.fingerprint)
    if index.complete:
        return index
    selection = Selection(sources, config, part)
    builder = Builder(index, out, config, vocabulary.special.unknown)
    works = selection.works(Place(*index.resume))
    if num_workers == 0:
        encoded = encode_here(works, DocumentEncoder(vocabulary, config.words))
    else:
        num_workers = num_workers or count_cores()
        num_early = min(num_workers, 1 + sum(source.size for source in selection.sources) // LEAST_SIZE)
        encoded = encode_in_processes(works, vocabulary_path, config.words, num_workers, num_early)
    text_bytes = 0
    with closing(encoded):  # ends the workers here and now, also after an interrupt: at the exit they would hang
        for work, blocks in encoded:
            builder.add(work, blocks)
            text_bytes += work.counted.num_bytes
            report(work.source_bytes, text_bytes)
    require(builder.statistics.num_tokens or part.total > 1, "the text has no sentence with a token in it; add text")
    return builder.write((len(selection.sources), 0), complete=True)


def encode_here(
    works: Iterator[Work], encoder: DocumentEncoder
) -> Generator[tuple[Work, dict[Split, Block]], None, None]:
    for work in works:
        yield work, encoder.encode(work.documents)


def encode_in_processes(
    works: Iterator[Work], vocabulary_path: str | Path, words: Words, num_workers: int, num_early: int
) -> Generator[tuple[Work, dict[Split, Block]], None, None]:
    """Encodes blocks in worker processes and hands them back in order, never far ahead of the slowest.

    So many of them start at once, while the first block is read; others where there is more to do.
    """
    pool = ProcessPoolExecutor(num_workers, worker_context(), start_worker, (vocabulary_path, words))
    ahead: deque[tuple[Work, Future[dict[Split, Block]]]] = deque()
    failure: UserError | None = None
    try:
        with uninterrupted():
            for _ in range(num_early):
                pool.submit(int)
        try:
            for work in works:
                with uninterrupted():
                    ahead.append((work, pool.submit(encode_in_worker, work.documents)))
                while len(ahead) > NUM_AHEAD * num_workers or (ahead and ahead[0][1].done()):
                    yield ahead[0][0], ahead.popleft()[1].result()
        except UserError as error:  # what was read before the mistake is not lost
            failure = error
        while ahead:
            yield ahead[0][0], ahead.popleft()[1].result()
        if failure is not None:
            raise failure
    except BrokenProcessPool:
        raise UserError(
            "a worker process died, perhaps for lack of memory; run the same command again to go on, with fewer workers"
        ) from None
    finally:
        with uninterrupted():
            pool.shutdown(wait=True, cancel_futures=True)


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
