"""Which documents a corpus, or a part of it, is made of, and in which blocks they are handed on.

Everything is decided by a document's hash, and by the order of the files: so a build can be divided, and gone on with.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import NamedTuple

import numpy as np

from litebert.config import require
from litebert.corpus.encode import Documents
from litebert.corpus.index import Split, Statistics
from litebert.corpus.seen import Seen, hash_text
from litebert.text.documents import Reader, Source
from litebert.text.formats import ReadConfig

logger = logging.getLogger(__name__)

BLOCK_SIZE = 1 << 19
"""Characters handed on at a time."""
LEAST_SIZE = BLOCK_SIZE // 8
"""Bytes of the source files, which may be compressed, that may be a block."""
MOST_PARTS = 1 << 32


@dataclass(frozen=True, slots=True)
class Part:
    """One of the equal parts in which a corpus is built."""

    number: int
    total: int

    def __post_init__(self) -> None:
        require(
            0 < self.total <= MOST_PARTS,
            f"the part is {self.number}/{self.total}; a corpus has at least one part and at most {MOST_PARTS:,}",
        )
        require(
            1 <= self.number <= self.total,
            f"the part is {self.number}/{self.total}; it must be one of 1/{self.total} to {self.total}/{self.total}",
        )


WHOLE = Part(1, 1)


class Place(NamedTuple):
    """How many sources have been read, and how many documents of the next."""

    source: int
    document: int


class Work(NamedTuple):
    """A block of documents, what was counted on the way to them, and where the next block begins."""

    documents: dict[Split, Documents]
    counted: Statistics
    next: Place
    source_bytes: int
    """Bytes of the source files, compressed as they are, that have been read."""


class Selection:
    """The documents that a part of a corpus is made of."""

    def __init__(
        self, sources: Sequence[Source], part: Part, reading: ReadConfig, *, dev_share: float, deduplicate: bool
    ) -> None:
        # Files are dealt out whole, unless there are too few, or equal documents must meet in one part to be known.
        by_hash = deduplicate or len(sources) < part.total
        self.sources = sources if by_hash else sources[part.number - 1 :: part.total]
        self.part = part if by_hash else WHOLE
        self.reading = reading
        self.dev_share = dev_share
        self.seen = Seen() if deduplicate else None

    @property
    def most_blocks(self) -> int:
        """How many blocks there may be, as far as the sizes of files tell."""
        return 1 + sum(source.size for source in self.sources) // LEAST_SIZE

    def works(self, done: Place) -> Iterator[Work]:
        """Blocks of documents, from a place where a block ended."""
        # Duplicates of documents that an earlier run has read can be known only by reading those again.
        start = Place(0, 0) if self.seen else done
        reader = Reader(self.reading)
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
                place = Place(number, count)
                if place > start:
                    yield text, place
                else:
                    self.num_skipped = reader.skipped  # an earlier run has counted these

    def select(self, texts: list[str]) -> tuple[dict[Split, Documents], Statistics]:
        """Those of a block's documents that belong to this part and are new."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        hashes = np.array([hash_text(text) for text in encoded], np.uint64)
        kept = hashes % np.uint64(self.part.total) == self.part.number - 1
        counted = Statistics()
        if self.seen:
            mine = np.flatnonzero(kept)
            kept[mine] = self.seen.add(hashes[mine])
            counted.num_duplicates = len(mine) - int(kept.sum())
        held_out = hashes / 2.0**64 < self.dev_share
        selected: dict[Split, list[bytes]] = {
            "train": list(compress(encoded, kept & ~held_out)),
            "dev": list(compress(encoded, kept & held_out)),
        }
        counted.num_bytes = sum(map(len, chain.from_iterable(selected.values())))
        return {split: Documents(b"\n\n".join(some), len(some)) for split, some in selected.items()}, counted


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
