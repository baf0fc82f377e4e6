"""The index of a corpus: what its shards are, what was counted while it was built, and where to go on.

A corpus is a folder: shards, their vocabulary, and an index that holds the sizes and the sha256 of each. Parts of a
corpus, built on other machines, differ in the names of their files: in one folder they are one corpus.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert import files
from litebert.config import OtherFormatError, UserError, from_dict, seal, unseal

FORMAT = 1
Split = Literal["train", "dev"]
SPLITS: tuple[Split, ...] = ("train", "dev")
# Sentence lengths are counted by powers of two: 1, 2-3, 4-7, ..., 32,768 and more.
NUM_LENGTHS = 16
FEW_DOCUMENTS = 10
ENOUGH = 0.1
"""Of the documents to hold out."""


class Block(NamedTuple):
    """Some documents as tokens: the sizes of their sentences, and how many of those each paragraph and document has."""

    tokens: NDArray[Any]
    sentence_lengths: NDArray[np.uint32]
    paragraph_sizes: NDArray[np.uint32]
    document_sizes: NDArray[np.uint32]
    word_starts: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A shard as its index describes it."""

    name: str
    split: Split
    num_tokens: int
    num_sentences: int
    num_paragraphs: int
    num_documents: int
    has_word_starts: bool
    sha256: str

    def sections(self, token_type: str) -> dict[str, tuple[str, int]]:
        """The arrays of the file in order, each with its type and size."""
        bits = -(-self.num_tokens // 8) if self.has_word_starts else 0
        return {
            "sentence_ends": ("<u4", self.num_sentences),
            "paragraph_ends": ("<u4", self.num_paragraphs),
            "document_ends": ("<u4", self.num_documents),
            "tokens": (np.dtype(token_type).newbyteorder("<").str, self.num_tokens),
            "word_starts": ("|u1", bits),
        }

    def num_bytes(self, token_type: str) -> int:
        return sum(np.dtype(kind).itemsize * size for kind, size in self.sections(token_type).values())


@dataclass(slots=True, kw_only=True)
class Statistics:
    """What was counted while a corpus was built."""

    num_bytes: int = 0
    num_documents: int = 0
    num_sentences: int = 0
    num_tokens: int = 0
    num_unknown: int = 0
    num_duplicates: int = 0
    num_empty: int = 0
    num_skipped: int = 0
    lengths: list[int] = field(default_factory=lambda: [0] * NUM_LENGTHS)
    """How many sentences have 1, 2 to 3, 4 to 7, ... tokens."""

    def count(self, block: Block, unknown: int) -> None:
        self.num_documents += len(block.document_sizes)
        self.num_sentences += len(block.sentence_lengths)
        self.num_tokens += len(block.tokens)
        self.num_unknown += int((block.tokens == unknown).sum())
        powers = np.minimum(np.frexp(block.sentence_lengths)[1] - 1, NUM_LENGTHS - 1)
        for power, number in enumerate(np.bincount(powers, minlength=NUM_LENGTHS).tolist()):
            self.lengths[power] += number

    def length_table(self) -> dict[str, int]:
        """How many sentences have how many tokens, up to the longest."""
        last = max((power for power, count in enumerate(self.lengths) if count), default=0)
        inner = [f"{1 << power}-{(2 << power) - 1}" for power in range(1, NUM_LENGTHS - 1)]
        names = ["1", *inner, f"{1 << NUM_LENGTHS - 1} and more"]
        return {name: self.lengths[power] for power, name in enumerate(names[: last + 1])}

    def add(self, other: "Statistics") -> None:
        for item in dataclasses.fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            total = mine + theirs if isinstance(mine, int) else [a + b for a, b in zip(mine, theirs, strict=True)]
            setattr(self, item.name, total)


class Index(NamedTuple):
    """The table of contents of a corpus, or of one part of it."""

    vocabulary: str
    """The fingerprint of the vocabulary that made the tokens."""
    vocab_size: int
    token_type: str
    config: dict[str, Any]
    sources: dict[str, Any]
    """How many text files there are, their bytes, and the sha256 of their names and sizes."""
    part: tuple[int, int]
    shards: tuple[Entry, ...]
    statistics: Statistics
    complete: bool
    resume: tuple[int, int]
    """How many sources, and how many documents of the next, are in the shards."""

    @property
    def identity(self) -> dict[str, Any]:
        """What parts of one corpus, and a build and its continuation, have in common."""
        config = {key: value for key, value in self.config.items() if key != "skip_bad"}
        return {"vocabulary": self.vocabulary, "config": config, "sources": self.sources, "parts": self.part[1]}

    @property
    def name(self) -> str:
        return "index.json" if self.part[1] == 1 else f"index-{self.part[0]}-of-{self.part[1]}.json"

    def to_text(self) -> str:
        """Sealed JSON: no byte of it can change unseen."""
        content = self._asdict() | {
            "shards": [dataclasses.asdict(entry) for entry in self.shards],
            "statistics": dataclasses.asdict(self.statistics),
        }
        return seal(content, FORMAT)


def read_index(path: str) -> Index:
    """An index file; one that is damaged, of another format or not an index is refused by name."""
    with files.open_file(path) as file:
        text = file.read()
    try:
        content = unseal(text, FORMAT)
    except OtherFormatError as error:
        raise UserError(f"{path} {error}: build the corpus again") from None
    except ValueError as error:
        raise UserError(f"{path} {error}; copy it again, or remove it and build the corpus again") from None
    content["shards"] = tuple(from_dict(Entry, entry) for entry in content["shards"])
    content["statistics"] = Statistics(**content["statistics"])
    return Index(**content | {name: tuple(content[name]) for name in ("part", "resume")})


def add_statistics(indexes: Iterable[Index]) -> Statistics:
    """What was counted in the parts of a corpus, together."""
    total = Statistics()
    for index in indexes:
        total.add(index.statistics)
    return total


def count_held_out(indexes: Iterable[Index]) -> int:
    return sum(entry.num_documents for index in indexes for entry in index.shards if entry.split == "dev")


def find_lack(indexes: Sequence[Index]) -> str | None:
    """What a corpus lacks to measure a model on, and what to do about it, in words that follow its name."""
    total, held_out = add_statistics(indexes).num_documents, count_held_out(indexes)
    if held_out >= FEW_DOCUMENTS:
        return None
    if total == 1:
        return "has one document, and nothing to hold out; build another of more text, or with other --documents"
    may_help = total >= FEW_DOCUMENTS and held_out < ENOUGH * total / 2
    advice = "build it again elsewhere, with --dev 10%" if may_help else "build another of more documents"
    return f"holds out {held_out or 'none'} of its {total:,} documents, too few to measure a model on; {advice}"


def summarize_parts(indexes: Sequence[Index]) -> dict[str, Any]:
    """What a corpus, or a part of one, holds."""
    statistics = add_statistics(indexes)
    shards = [entry for index in indexes for entry in index.shards]
    tokens = max(statistics.num_tokens, 1)
    return {
        "documents": statistics.num_documents,
        "sentences": statistics.num_sentences,
        "tokens": statistics.num_tokens,
        "bytes": statistics.num_bytes,
        "bytes_per_token": statistics.num_bytes / tokens,
        "unknown_rate": statistics.num_unknown / tokens,
        "duplicates": statistics.num_duplicates,
        "empty": statistics.num_empty,
        "skipped": statistics.num_skipped,
        "vocabulary": indexes[0].vocab_size,
        "splits": {
            split: {
                "documents": sum(entry.num_documents for entry in shards if entry.split == split),
                "tokens": sum(entry.num_tokens for entry in shards if entry.split == split),
                "shards": sum(entry.split == split for entry in shards),
            }
            for split in SPLITS
        },
        "sentence_lengths": statistics.length_table(),
    }
