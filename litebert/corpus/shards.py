"""Token shards on disk: what `litebert corpus` writes and pre-training reads.

A corpus is a folder: shards, their vocabulary, and an index that holds the sizes and the sha256 of each. A shard is one
file of arrays, one behind the other, mapped into memory and never read whole:

    where each sentence ends (in tokens) · each paragraph · each document (in sentences)     uint32
    the tokens                                                                               uint16 or uint32
    whether a word begins at each token, where the vocabulary cannot say                     one bit each

Parts of a corpus, built on other machines, differ in the names of their files: in one folder they are one corpus.
"""

import dataclasses
import hashlib
import os
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert import files
from litebert.config import OtherFormatError, UserError, from_dict, require, seal, unseal
from litebert.text.vocabulary import VOCABULARY_FILES, Vocabulary, open_vocabulary

FORMAT = 1
Split = Literal["train", "dev"]
SPLITS: tuple[Split, ...] = ("train", "dev")
INDEX_NAME = re.compile(r"index(-\d+-of-\d+)?\.json")
# Sentence lengths are counted by powers of two: 1, 2-3, 4-7, ..., 32,768 and more.
NUM_LENGTHS = 16


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


class Shard:
    """One file of tokens, mapped into memory."""

    def __init__(self, path: Path, entry: Entry, token_type: str) -> None:
        data = np.memmap(path, np.uint8, mode="r")
        offset, arrays = 0, {}
        for name, (kind, size) in entry.sections(token_type).items():
            end = offset + np.dtype(kind).itemsize * size
            arrays[name] = np.asarray(data[offset:end]).view(kind)
            offset = end
        self.path = path
        self.entry = entry
        self.sentence_ends = arrays["sentence_ends"]
        self.paragraph_ends = arrays["paragraph_ends"]
        self.document_ends = arrays["document_ends"]
        self.tokens = arrays["tokens"]
        self.packed_word_starts = arrays["word_starts"]
        self.first_byte = sum(arrays[name].nbytes for name in ("sentence_ends", "paragraph_ends", "document_ends"))
        self.token_bytes = self.tokens.itemsize

    def read_tokens(self, begin: int, end: int) -> bytes:
        """Some of the tokens, for who reads here and there all over the file.

        They are read and not looked at in the mapping: every page that was ever touched there, and its neighbours, stay
        with the process, which thereby grows by the whole corpus; and a disk that fails would kill it without a word.
        """
        size = (end - begin) * self.token_bytes
        if not hasattr(os, "pread"):
            return self.tokens[begin:end].tobytes()
        found = os.pread(open_shard(self).number, size, self.first_byte + begin * self.token_bytes)
        if len(found) < size:
            raise UserError(f"{self.path} has become shorter while it was read; copy it again")
        return found

    def word_starts(self, begin: int, end: int) -> NDArray[np.bool_]:
        """Whether a word begins at each of these tokens, as it was found when the corpus was built."""
        bits = np.unpackbits(self.packed_word_starts[begin // 8 : -(-end // 8)])
        return bits[begin % 8 : begin % 8 + end - begin].astype(bool)


class OpenFile:
    """A file that is open as long as this lives."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.number)


@lru_cache(maxsize=128)
def open_shard(shard: Shard) -> OpenFile:
    """A corpus may have more shards than a process may have open files."""
    return OpenFile(shard.path)


@dataclass(frozen=True)
class Corpus:
    """The shards of one split, with their vocabulary."""

    path: str
    shards: tuple[Shard, ...]
    vocabulary: Vocabulary

    @cached_property
    def num_tokens(self) -> int:
        return sum(shard.entry.num_tokens for shard in self.shards)

    @cached_property
    def num_documents(self) -> int:
        return sum(shard.entry.num_documents for shard in self.shards)

    @cached_property
    def first_documents(self) -> NDArray[np.int64]:
        """The number of each shard's first document in the corpus, and at the end that of all."""
        return np.cumsum([0, *(shard.entry.num_documents for shard in self.shards)])


def open_corpus(path: str | Path, split: Split = "train", *, verify: bool = True) -> Corpus:
    """Opens a corpus's shards of one split, at a folder or a URL. What is damaged, missing or mixed up is named.

    `verify` compares the sha256 of every shard, at the speed of the disk; sizes and the vocabulary are always compared.
    """
    path = str(path)
    indexes = find_indexes(path)
    check_parts(path, indexes)
    entries = [(entry, index.token_type) for index in indexes for entry in index.shards if entry.split == split]
    share = "larger" if split == "dev" else "smaller"
    require(entries, f"{path} has no {split} documents; build it with a {share} --dev share, or with more text")
    local = fetch_shards(path, entries, verify)
    vocabulary = open_vocabulary(fetch_vocabulary(path))
    require(
        vocabulary.fingerprint == indexes[0].vocabulary,
        f"the vocabulary in {path} ({vocabulary.size} pieces) is not the one its tokens were made with "
        f"({indexes[0].vocab_size} pieces); copy the right one there, or build the corpus again",
    )
    shards = tuple(Shard(file, entry, kind) for file, (entry, kind) in zip(local, entries, strict=True))
    return Corpus(path, shards, vocabulary)


def add_statistics(indexes: Iterable[Index]) -> Statistics:
    """What was counted in the parts of a corpus, together."""
    total = Statistics()
    for index in indexes:
        total.add(index.statistics)
    return total


def join_path(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def list_names(folder: str) -> list[str]:
    """The names of the files in a folder, without those in folders below it."""
    found = files.find_files(folder)
    if files.is_url(folder):  # a protocol may spell the folder otherwise
        depth = min(path.count("/") for path in found)
        return [path.rsplit("/", 1)[-1] for path in found if path.count("/") == depth]
    return [Path(path).name for path in found if Path(path).parent == files.local_path(folder)]


def find_indexes(path: str) -> list[Index]:
    """The indexes of a corpus's parts, in their order."""
    names = [name for name in list_names(path) if INDEX_NAME.fullmatch(name)]
    require(names, f"{path} is no corpus: it has no index.json; make one with litebert corpus TEXT --out {path}")
    indexes = sorted((read_index(join_path(path, name)) for name in names), key=lambda index: index.part)
    for index in indexes:
        require(
            index.complete,
            f"{join_path(path, index.name)} is of a corpus that was not finished; run its litebert corpus again",
        )
    return indexes


def check_parts(path: str, indexes: Sequence[Index]) -> None:
    """Refuses parts that do not belong together, and a corpus that lacks some."""
    first = indexes[0]
    for index in indexes[1:]:
        differing = [name for name, value in index.identity.items() if value != first.identity[name]]
        require(
            not differing,
            f"{path} mixes corpora: {first.name} and {index.name} differ in {', '.join(differing)}; keep those of one",
        )
    missing = sorted(set(range(1, first.part[1] + 1)) - {index.part[0] for index in indexes})
    require(
        not missing,
        f"{path} lacks part {', '.join(map(str, missing[:5]))} of {first.part[1]}; copy their files there",
    )


def fetch_shards(path: str, entries: Sequence[tuple[Entry, str]], verify: bool) -> list[Path]:
    """The local files of shards, each compared with its entry."""

    def fetch(item: tuple[Entry, str]) -> Path:
        entry, token_type = item
        where = join_path(path, entry.name)
        require(
            files.exists(where), f"{where} is missing; copy it again, or remove the index and build the corpus again"
        )
        file = files.fetch(where)
        size, expected = file.stat().st_size, entry.num_bytes(token_type)
        require(
            size == expected, f"{file} has {size} bytes; its index says {expected}: it was cut short, copy it again"
        )
        require(
            not verify or files.hash_file(file) == entry.sha256,
            f"{file} is damaged (its sha256 differs); copy it again",
        )
        return file

    with ThreadPoolExecutor() as threads:
        return list(threads.map(fetch, entries))


def fetch_vocabulary(path: str) -> Path:
    """The local folder with a corpus's vocabulary."""
    if not files.is_url(path):
        return files.local_path(path)
    names = [name for name in list_names(path) if name in VOCABULARY_FILES]
    local = [files.fetch(join_path(path, name)) for name in names]
    require(local, f"{path} has no vocabulary; copy the one its tokens were made with there")
    return local[0].parent


class ShardWriter:
    """Gathers the blocks of one split until they are written as a shard."""

    def __init__(self, split: Split) -> None:
        self.split = split
        self.blocks: list[Block] = []
        self.num_tokens = 0

    def add(self, block: Block) -> None:
        if len(block.tokens):
            self.blocks.append(block)
            self.num_tokens += len(block.tokens)

    def write(self, folder: str, name: str) -> Entry:
        """Writes what was gathered, and begins anew."""
        sections = [np.ascontiguousarray(array) for array in self.sections()]
        digest = hashlib.sha256()
        for section in sections:
            digest.update(section.data)
        with files.replace_file(join_path(folder, name)) as file:
            for section in sections:
                file.write(section.data)
        sentences, paragraphs, documents, tokens = (len(section) for section in sections[:4])
        entry = Entry(
            name=name,
            split=self.split,
            num_tokens=tokens,
            num_sentences=sentences,
            num_paragraphs=paragraphs,
            num_documents=documents,
            has_word_starts=len(sections) == 5,
            sha256=digest.hexdigest(),
        )
        self.blocks, self.num_tokens = [], 0
        return entry

    def sections(self) -> Iterator[NDArray[Any]]:
        for sizes in ("sentence_lengths", "paragraph_sizes", "document_sizes"):
            yield np.cumsum(concatenate(getattr(block, sizes) for block in self.blocks), dtype="<u4")
        tokens = concatenate(block.tokens for block in self.blocks)
        yield tokens.astype(tokens.dtype.newbyteorder("<"), copy=False)
        word_starts = [block.word_starts for block in self.blocks if block.word_starts is not None]
        if word_starts:
            yield np.packbits(concatenate(word_starts))


def concatenate(arrays: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(list(arrays))
