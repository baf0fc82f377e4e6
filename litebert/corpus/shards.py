"""Token shards on disk: what `litebert corpus` writes and pre-training reads.

A shard is one file of arrays, one behind the other, mapped into memory and never read whole:

    where each sentence ends (in tokens) · each paragraph · each document (in sentences)     uint32
    the tokens                                                                               uint16 or uint32
    whether a word begins at each token, where the vocabulary cannot say                     one bit each
"""

import hashlib
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from litebert import files
from litebert.config import UserError, require
from litebert.corpus.draws import Integers
from litebert.corpus.index import Block, Entry, Index, Split, read_index
from litebert.folders import INDEX_NAME, VOCABULARY_FILES
from litebert.text.vocabulary import Vocabulary, open_vocabulary

Ends = Literal["sentence_ends", "paragraph_ends", "document_ends"]
MOST_OPEN = 64
"""Shards of a corpus that stay open; a process may have a thousand files, and every mapping is one already."""


class Shard:
    """One file of tokens, mapped into memory, and kept open to be read here and there."""

    def __init__(self, path: Path, entry: Entry, token_type: str, *, stays_open: bool = True) -> None:
        with path.open("rb") as file:
            data = np.memmap(file, np.uint8, mode="r")
            self.descriptor = os.dup(file.fileno()) if stays_open and hasattr(os, "pread") else None
        if self.descriptor is not None:
            weakref.finalize(self, os.close, self.descriptor)
        offset, arrays, offsets = 0, {}, {}
        for name, (kind, size) in entry.sections(token_type).items():
            end = offset + np.dtype(kind).itemsize * size
            arrays[name], offsets[name] = np.asarray(data[offset:end]).view(kind), offset
            offset = end
        self.path = path
        self.entry = entry
        self.sentence_ends = arrays["sentence_ends"]
        self.paragraph_ends = arrays["paragraph_ends"]
        self.document_ends = arrays["document_ends"]
        self.tokens = arrays["tokens"]
        self.packed_word_starts = arrays["word_starts"]
        self.tokens_begin, self.token_bytes = offsets["tokens"], self.tokens.itemsize

    def read_tokens(self, begin: int, end: int) -> bytes:
        """Some of the tokens, for who reads here and there all over the file.

        They are read and not looked at in the mapping: every page that was ever touched there, and its neighbours, stay
        with the process, which thereby grows by the whole corpus; and a disk that fails would kill it without a word.
        """
        if self.descriptor is None:
            return self.tokens[begin:end].tobytes()
        size = (end - begin) * self.token_bytes
        try:
            found = os.pread(self.descriptor, size, self.tokens_begin + begin * self.token_bytes)
        except OSError as error:
            raise UserError(f"{self.path} can be read no further ({error.strerror}); look at its disk") from None
        if len(found) < size:
            raise UserError(f"{self.path} has become shorter while it was read; copy it again")
        return found

    def token_bounds(self, first: int, last: int) -> NDArray[np.int64]:
        """At which token each of some sentences begins, and where the last of them ends."""
        before = self.sentence_ends[first - 1] if first else 0
        return np.concatenate([[before], self.sentence_ends[first:last]]).astype(np.int64)

    def word_starts(self, begin: int, end: int) -> NDArray[np.bool_]:
        """Whether a word begins at each of these tokens, as it was found when the corpus was built."""
        bits = np.unpackbits(self.packed_word_starts[begin // 8 : -(-end // 8)])
        return bits[begin % 8 : begin % 8 + end - begin].astype(bool)


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

    def find_starts(self, ends: Ends, shards_B: Integers, numbers_B: Integers) -> Integers:
        """Where in its shard the so-and-so-many-th sentence, paragraph or document begins."""
        starts_B = np.zeros_like(numbers_B)
        for shard, inside in self.each(shards_B):
            inside &= numbers_B > 0
            starts_B[inside] = getattr(shard, ends)[numbers_B[inside] - 1]
        return starts_B

    def find_numbers(self, ends: Ends, shards_B: Integers, places_B: Integers) -> Integers:
        """Which sentence, paragraph or document of its shard each place lies in."""
        numbers_B = np.empty_like(places_B)
        for shard, inside in self.each(shards_B):
            found = getattr(shard, ends)
            # Of one type, or all ends would be converted.
            numbers_B[inside] = np.searchsorted(found, places_B[inside].astype(found.dtype), side="right")
        return numbers_B

    def each(self, shards_B: Integers) -> Iterator[tuple[Shard, NDArray[np.bool_]]]:
        """The shards that are among these numbers, and where each is."""
        for number in np.flatnonzero(np.bincount(shards_B.ravel())).tolist():  # in a tenth of np.unique's time
            yield self.shards[number], shards_B == number


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
    shards = tuple(
        Shard(file, entry, kind, stays_open=number < MOST_OPEN)
        for number, (file, (entry, kind)) in enumerate(zip(local, entries, strict=True))
    )
    return Corpus(path, shards, vocabulary)


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
    require(
        names,
        f"{path} is no corpus: it has no index.json; build one with litebert corpus TEXT --vocab VOCAB --out CORPUS",
    )
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
        require(size == expected, f"{file} has {size} bytes; its index says {expected}; copy it again")
        if verify and files.hash_file(file) != entry.sha256:
            # The copy of a URL may be of what was there before.
            is_good = files.is_url(where) and files.hash_file(files.fetch(where, anew=True)) == entry.sha256
            require(is_good, f"{where} is damaged (its sha256 differs); copy it again")
        return file

    with ThreadPoolExecutor() as threads:
        return list(threads.map(fetch, entries))


def fetch_vocabulary(path: str) -> Path:
    """The local folder with a corpus's vocabulary."""
    if not files.is_url(path):
        return files.local_path(path)
    names = [name for name in list_names(path) if name in VOCABULARY_FILES]
    local = [files.fetch(join_path(path, name), anew=True) for name in names]
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
        with ThreadPoolExecutor(1) as thread:  # both leave the interpreter to others
            digest = thread.submit(hash_arrays, sections)
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
            sha256=digest.result(),
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


def hash_arrays(arrays: Iterable[NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.data)
    return digest.hexdigest()


def concatenate(arrays: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(list(arrays))
