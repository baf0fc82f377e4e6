"""Files -> documents, one at a time, so that memory does not grow with the corpus.

A document is its paragraphs, with a line end between them. Text files, JSON lines and tables are read, plain and
compressed, Parquet files, and datasets of the Hugging Face hub by name. What cannot be read is refused with its place,
or counted and passed over if the config says so.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from litebert.config import UserError, require
from litebert.files import find_files, is_url, open_file
from litebert.text.formats import (
    DAMAGE,
    DECOMPRESSORS,
    FORMATS,
    HUB,
    Bad,
    EndlessDocumentError,
    ReadConfig,
    decompress,
    import_datasets,
    import_pyarrow,
    read_hub,
    split_suffix,
)

logger = logging.getLogger(__name__)

NUM_REASONS = 5


class Source(NamedTuple):
    """A file or URL with its size in bytes, or a hub dataset, whose size is not known and given as 0."""

    path: str
    size: int


def find_sources(patterns: Sequence[str | Path]) -> list[Source]:
    """The sources that files, folders, wildcard patterns, URLs and `hub:NAME:CONFIG:SPLIT` name, each once."""
    sources: dict[str, Source] = {}
    for pattern in map(str, patterns):
        for source in [Source(pattern, 0)] if pattern.startswith(HUB) else find_readable(pattern):
            sources.setdefault(identity(source.path), source)
    for path in sources:
        check_packages(path)
    return list(sources.values())


def find_readable(pattern: str) -> list[Source]:
    """The files among those a pattern names that hold documents, by their suffix."""
    found = find_files(pattern)
    readable = [Source(path, size) for path, size in found.items() if split_suffix(path)[0] in FORMATS]
    known = f"{' '.join(FORMATS)}, each also with {' '.join(DECOMPRESSORS)}"
    subject = f"{pattern} does not end" if len(found) == 1 else f"none of the {len(found)} files of {pattern} ends"
    require(readable, f"{subject} in a known suffix ({known}); convert it to one of them")
    if passed := sorted(set(found) - {source.path for source in readable}):
        shown = ", ".join(Path(path).name for path in passed[:3]) + (", ..." if len(passed) > 3 else "")
        logger.warning(
            "passed over %d of the %d files of %s, of no known suffix: %s", len(passed), len(found), pattern, shown
        )
    return readable


def is_remote(path: str) -> bool:
    return path.startswith(HUB) or is_url(path)


def identity(path: str) -> str:
    return path if is_remote(path) else os.path.realpath(path)  # Path.resolve fails for a link to itself


def check_packages(path: str) -> None:
    """Refuses a source whose package is missing before anything is read."""
    if path.startswith(HUB):
        import_datasets(path)
    elif split_suffix(path)[0] == ".parquet":
        import_pyarrow(path)


class Reader:
    """Reads sources one after the other, and knows how far it has come and what it has passed over.

    `bytes_read` counts bytes of the files as they lie on disk: with the sizes of all sources it says how much is left.
    A source that is abandoned counts as read. `skipped` counts bad records and files; `reasons` has the first few.
    """

    def __init__(self, config: ReadConfig | None = None) -> None:
        self.config = config or ReadConfig()
        self.skipped = 0
        self.reasons: list[str] = []
        self._bytes_done = 0
        self._file: BinaryIO | None = None

    @property
    def bytes_read(self) -> int:
        return self._bytes_done + (self._file.tell() if self._file else 0)

    def read(self, source: Source) -> Iterator[str]:
        """The documents of a source, in order."""
        num_documents, skipped_before = 0, self.skipped
        try:
            for record in self._records(source.path):
                if isinstance(record, Bad):
                    self._refuse(source, record)
                elif record:
                    num_documents += 1
                    yield record
        except DAMAGE as error:
            place = next(iter(getattr(error, "__notes__", ())), f"after {num_documents} documents")
            advice = "" if isinstance(error, EndlessDocumentError) else "; mend or fetch it again"
            self._refuse(source, Bad(place, f"{error}{advice}"))
        except (UserError, MemoryError):
            raise
        except Exception as error:  # behind a URL, every protocol has errors of its own
            if not is_url(source.path):
                raise
            raise UserError(
                f"{source.path} could be read no further than {num_documents} documents "
                f"({str(error) or type(error).__name__}); run the same command again when it can be reached"
            ) from error
        finally:
            self._bytes_done += source.size
        if not num_documents and self.skipped == skipped_before:
            self._refuse(source, Bad("from start to end", "no text; leave it out"))

    def _records(self, path: str) -> Iterator[str | Bad]:
        if path.startswith(HUB):
            yield from read_hub(path, self.config)
            return
        kind, _ = split_suffix(path)
        try:
            file = open_file(path)
        except UserError as error:
            if is_url(path):  # it is there, but cannot be reached now
                raise
            yield Bad("", str(error).removeprefix(f"{path} "))
            return
        with file as self._file:
            try:
                yield from FORMATS[kind](decompress(path, self._file), self.config)
            finally:
                self._file = None

    def _refuse(self, source: Source, bad: Bad) -> None:
        reason = f"{', '.join(filter(None, (source.path, bad.place)))}: {bad.problem}"
        require(self.config.skip_bad, f"{reason}, or pass over it with --skip-bad")
        self.skipped += 1
        if len(self.reasons) < NUM_REASONS:
            self.reasons.append(reason)
