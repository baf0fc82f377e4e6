"""Files -> documents, one at a time, so that memory does not grow with the corpus.

A document is its paragraphs, with a line end between them. Text files, JSON lines and tables are read, plain and
compressed, Parquet files, and datasets of the Hugging Face hub by name. What cannot be read is refused with its place,
or counted and passed over if the config says so.
"""

import csv
import gzip
import itertools
import json
import logging
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from litebert.config import UserError, check_fields, require
from litebert.files import find_files, is_url, open_file

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

logger = logging.getLogger(__name__)

Separated = Literal["blank-line", "file", "line"]
HUB = "hub:"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CHUNK_SIZE = 1 << 18
# A line end with space before or after it, found by the line end, since that is found fast.
LOOSE_LINE_END = re.compile(r"\n(?:\s|(?<=\s\n))")
# Far above any book; met where a quote is never closed, or where lines are documents and no line is blank.
LARGEST_DOCUMENT = 1 << 24
NUM_REASONS = 5
MOST_NAMES, LONGEST_NAME = 12, 40

DECOMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lzma.LZMAFile,
    ".zst": zstd.ZstdFile,
}


class EndlessDocumentError(Exception):
    """A document that does not end within LARGEST_DOCUMENT bytes."""


# After these nothing more can be had from a file.
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstd.ZstdError, EndlessDocumentError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """How documents are found in files: `field` is the key or column of the text, `documents` what a .txt holds."""

    field: str = "text"
    documents: Separated = "blank-line"
    skip_bad: bool = False

    def __post_init__(self) -> None:
        require(self.field, "field is empty; name the key or column that holds the text")
        check_fields(self)


class Source(NamedTuple):
    """A file or URL with its size in bytes, or a hub dataset, whose size is not known and given as 0."""

    path: str
    size: int


class Bad(NamedTuple):
    """A record that cannot be used. It is yielded, not raised, since a generator that has raised cannot go on."""

    place: str
    problem: str


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
    known = f"{' '.join(FORMATS)}, and all but .parquet also with {' '.join(DECOMPRESSORS)}"
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
    return path if is_remote(path) else str(Path(path).resolve())


def split_suffix(path: str) -> tuple[str, str]:
    """The suffixes of the format and of the compression: `.txt` and `.gz`, or `.txt` and none."""
    name = Path(path.lower())
    if name.suffix not in DECOMPRESSORS:
        return name.suffix, ""
    kind = Path(name.stem).suffix
    # Parquet is read from its end and compresses itself.
    return "" if kind == ".parquet" else kind, name.suffix


def check_packages(path: str) -> None:
    """Refuses a source whose package is missing before anything is read."""
    if path.startswith(HUB):
        import_datasets(path)
    elif split_suffix(path)[0] == ".parquet":
        import_pyarrow(path)


def import_datasets(path: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise UserError(f"{path} needs the package datasets; pip install datasets brings it") from None
    return datasets


def import_pyarrow(path: str) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"{path} needs the package pyarrow; pip install pyarrow brings it") from None
    return pyarrow


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
            self._refuse(source, Bad(f"after {num_documents} documents", f"{error}; mend or fetch it again"))
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
        kind, compression = split_suffix(path)
        with open_file(path) as self._file:
            try:
                content = DECOMPRESSORS[compression](self._file) if compression else self._file
                yield from FORMATS[kind](content, self.config)
            finally:
                self._file = None

    def _refuse(self, source: Source, bad: Bad) -> None:
        reason = f"{source.path}, {bad.place}: {bad.problem}"
        require(self.config.skip_bad, f"{reason}, or pass over it with --skip-bad")
        self.skipped += 1
        if len(self.reasons) < NUM_REASONS:
            self.reasons.append(reason)


def read_text(file: BinaryIO, config: ReadConfig) -> Iterator[str | Bad]:
    """The documents of a text file: what lies between blank lines, each line, or all of it."""
    documents = split_text(file, b"\n" if config.documents == "line" else b"\n\n")
    if config.documents != "file":
        yield from documents
        return
    parts, size = [], 0
    for part in documents:
        parts.append(part)
        size += len(part) if isinstance(part, str) else 0
        if size > LARGEST_DOCUMENT:
            raise EndlessDocumentError(f"its one document has more than {LARGEST_DOCUMENT >> 20} MiB")
    bad = next((part for part in parts if isinstance(part, Bad)), None)
    yield bad or "\n".join(part for part in parts if isinstance(part, str))


def split_text(file: BinaryIO, separator: bytes) -> Iterator[str | Bad]:
    line = 1
    for block in split_file(file, separator):
        try:
            yield from split_documents(block.decode())
        except UnicodeDecodeError as error:
            broken = line + block.count(b"\n", 0, error.start)
            yield Bad(f"line {broken}", describe(error))
        line += block.count(b"\n") + len(separator)


def split_documents(text: str) -> list[str]:
    """The documents between blank lines, without space around their paragraphs."""
    text = text.strip()
    if not LOOSE_LINE_END.search(text):
        return [text] if text else []
    groups = itertools.groupby((line.strip() for line in text.split("\n")), bool)
    return ["\n".join(paragraphs) for filled, paragraphs in groups if filled]


def split_file(file: BinaryIO, separator: bytes) -> Iterator[bytes]:
    """The parts of a file between separators, which are line ends."""
    pending: list[bytes] = []
    for chunk in read_chunks(file):
        first, *others = chunk.split(separator)
        pending.append(first)
        if others:
            yield b"".join(pending)
            yield from others[:-1]
            pending = others[-1:]
        elif sum(map(len, pending)) > LARGEST_DOCUMENT:
            missing = "line end" if separator == b"\n" else "blank line"
            raise EndlessDocumentError(f"no {missing} in {LARGEST_DOCUMENT >> 20} MiB")
    yield b"".join(pending)


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    """A file without its byte order mark and with no line end but `\\n`; no chunk ends between two, if they are two."""
    # What a damaged archive still gives is had with read1, and lost with read.
    read = getattr(file, "read1", file.read)
    held = file.read(len(BYTE_ORDER_MARK)).removeprefix(BYTE_ORDER_MARK)
    while chunk := read(CHUNK_SIZE):
        chunk = held + chunk
        held = next((end for end in (b"\r\n", b"\n", b"\r") if chunk.endswith(end)), b"")
        yield unify_line_ends(chunk.removesuffix(held))
    yield unify_line_ends(held)


def unify_line_ends(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def read_json_lines(file: BinaryIO, config: ReadConfig) -> Iterator[str | Bad]:
    """One field of the objects in a file that has one on each line."""
    for number, line in enumerate(split_file(file, b"\n"), 1):
        if line.strip():
            yield attempt(f"line {number}", parse_line, line, config.field)


def read_table(file: BinaryIO, config: ReadConfig, *, delimiter: str, quoting: Literal[0, 3]) -> Iterator[str | Bad]:
    """One column of a table whose first row names the columns."""
    csv.field_size_limit(LARGEST_DOCUMENT)
    # A broken byte becomes a lone surrogate here and is refused with its row, if it is in the column at all.
    lines = (line.decode("utf-8", "surrogateescape") + "\n" for line in split_file(file, b"\n"))
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    header: list[str] = []
    while True:
        place = f"line {rows.line_num + 1}"
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Bad(place, f"no row of a table ({error}); mend it")
            continue
        if header and row:
            yield attempt(place, pick_text, dict(zip(header, row, strict=False)), config.field)
        header = header or row


def read_parquet(file: BinaryIO, config: ReadConfig) -> Iterator[str | Bad]:
    """One column of a Parquet file, a few rows at a time; the others are not touched."""
    pyarrow = import_pyarrow("a .parquet")
    number = 0
    try:
        table = pyarrow.parquet.ParquetFile(file, buffer_size=CHUNK_SIZE)
        if config.field not in table.schema_arrow.names:
            yield Bad("row 1", missing_field(config.field, table.schema_arrow.names))
            return
        batches = table.iter_batches(batch_size=256, columns=[config.field], use_threads=False)
        for number, cell in enumerate(itertools.chain.from_iterable(batch.column(0) for batch in batches), 1):
            # A cell is converted alone: a broken one would take its batch along.
            yield attempt(f"row {number}", parse_cell, cell, config.field)
    except (ConnectionError, TimeoutError):  # nothing is wrong with the file
        raise
    except (pyarrow.ArrowException, OSError) as error:
        yield Bad(f"row {number + 1}", f"{error}; mend or fetch it again")


def read_hub(path: str, config: ReadConfig) -> Iterator[str | Bad]:
    """One field of a hub dataset's rows, which are fetched while they are read."""
    name, subset, split, *_ = [*path.removeprefix(HUB).split(":"), "", ""]
    load_dataset = import_datasets(path).load_dataset
    try:
        rows = load_dataset(name, subset or None, split=split or "train", streaming=True)
        for number, row in enumerate(rows, 1):
            yield attempt(f"row {number}", pick_text, row, config.field)
    except Exception as error:  # datasets, the hub and the network have no error in common
        raise UserError(f"{path} cannot be read ({error}); check its name, config and split") from None


def attempt(place: str, read: Callable[..., str], *arguments: object) -> str | Bad:
    """The text that `read` gives, or what is wrong with the record."""
    try:
        return read(*arguments)
    except (ValueError, RecursionError) as error:
        return Bad(place, describe(error))


def describe(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"broken UTF-8 ({error.reason}, 0x{error.object[error.start]:02x}); convert or mend it"
    if isinstance(error, UnicodeEncodeError):
        return "broken UTF-8 (half a character); convert or mend it"
    if isinstance(error, json.JSONDecodeError | RecursionError):
        return f"not JSON ({error}); mend it"
    return str(error)


def parse_line(line: bytes, field: str) -> str:
    return pick_text(json.loads(line), field)


def parse_cell(cell: Any, field: str) -> str:
    return check_text(cell.as_py(), field)


def pick_text(record: object, field: str) -> str:
    """The text in one field of a record."""
    if not isinstance(record, dict):
        raise ValueError(f"a JSON {type(record).__name__}, not an object; mend it")
    if field not in record:
        raise ValueError(missing_field(field, record))
    return check_text(record[field], field)


def missing_field(field: str, names: Iterable[str]) -> str:
    shown = [name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..." for name in names]
    more = ", ..." if len(shown) > MOST_NAMES else ""
    return f"no {field!r} among its fields ({', '.join(shown[:MOST_NAMES])}{more}); name one of them with --field"


def check_text(value: object, field: str) -> str:
    """A value as a document; null is a document without text, and so no document."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{field!r} is a {type(value).__name__}, not a string; set field to another or mend it")
    value.encode()  # refuses half a character, which JSON can escape and no vocabulary can encode
    return "\n".join(split_documents(value.replace("\r", "\n")))


FORMATS: dict[str, Callable[[BinaryIO, ReadConfig], Iterator[str | Bad]]] = {
    ".txt": read_text,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".csv": partial(read_table, delimiter=",", quoting=csv.QUOTE_MINIMAL),
    ".tsv": partial(read_table, delimiter="\t", quoting=csv.QUOTE_NONE),
    ".parquet": read_parquet,
}
