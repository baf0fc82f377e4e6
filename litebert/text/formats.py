"""How each kind of file holds documents: text files, JSON lines, tables, Parquet, datasets of the Hugging Face hub.

A format is a function from an open file to its documents, and to a `Bad` for each record that cannot be used.
"""

import csv
import gzip
import itertools
import json
import lzma
import re
import shutil
import sys
import tempfile
import typing
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from litebert.config import UserError, check_fields, require
from litebert.files import name_in_chain

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Separated = Literal["blank-line", "file", "line"]
HUB = "hub:"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CHUNK_SIZE = 1 << 18
# A line end with space before or after it, or three of them, found by the line end, since that is found fast.
LOOSE_LINE_END = re.compile(r"\n(?:[^\S\n]|(?<=[^\S\n]\n)|\n\n)")
LOOSE_BLANK_LINE = re.compile(rb"\n[ \t\f\v]*\n")
# Far above any book; met where a quote is never closed, or where lines are documents and no line is blank.
LARGEST_DOCUMENT = 1 << 24
TOO_LONG = f"{LARGEST_DOCUMENT >> 20} MiB"
ENDLESS = {
    b"\n": f"no line end in {TOO_LONG}",
    b"\n\n": f"no blank line in {TOO_LONG}; put some between documents, or, if each line is one, give --documents line",
}
"""What is wrong, by what separates documents."""
# Of a Parquet file at a time: documents may be long.
NUM_ROWS = 16
MOST_NAMES, LONGEST_NAME = 12, 40
FIRST_LONE_BYTE = 0xDC00
"""What Python adds to a byte that is no UTF-8 where it is to be kept."""

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


class Bad(NamedTuple):
    """A record that cannot be used, or without a place a file. It is yielded, not raised, since a generator that has
    raised cannot go on."""

    place: str
    problem: str


def split_suffix(path: str) -> tuple[str, str]:
    """The suffixes of the format and of the compression: `.txt` and `.gz`, or `.txt` and none."""
    name = Path(name_in_chain(path).lower())
    if name.suffix not in DECOMPRESSORS:
        return name.suffix, ""
    return Path(name.stem).suffix, name.suffix


def decompress(path: str | Path, file: BinaryIO) -> Any:
    """What a file holds, by its path's last suffix."""
    kind, compression = split_suffix(str(path))
    if not compression:
        return file
    unpacked = DECOMPRESSORS[compression](file)
    return unpack(unpacked) if kind == ".parquet" else unpacked


def unpack(file: BinaryIO) -> BinaryIO:
    """The whole of a file on disk, for Parquet, which is read from its end, and compresses itself as a rule."""
    whole = tempfile.TemporaryFile()  # noqa: SIM115  # it goes when nobody reads it any more
    shutil.copyfileobj(file, whole, CHUNK_SIZE)
    whole.seek(0)
    return typing.cast(BinaryIO, whole)


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
            raise EndlessDocumentError(f"its one document has more than {TOO_LONG}; part it")
    bad = next((part for part in parts if isinstance(part, Bad)), None)
    yield bad or "\n".join(part for part in parts if isinstance(part, str))


def split_text(file: BinaryIO, separator: bytes) -> Iterator[str | Bad]:
    line = 1
    try:
        for stretch in find_stretches(file, separator):
            try:
                yield from find_documents(stretch.decode(), separator)
            except UnicodeDecodeError:
                yield from attempt_each(stretch, separator, line)
            line += stretch.count(b"\n") + len(separator)
    except EndlessDocumentError as error:
        error.add_note(f"line {line}")
        raise


def find_documents(text: str, separator: bytes) -> list[str]:
    if separator == b"\n":
        return list(filter(None, map(str.strip, text.split("\n"))))
    return split_documents(text)


def attempt_each(stretch: bytes, separator: bytes, line: int) -> Iterator[str | Bad]:
    """The documents of some text, and what is wrong with those that cannot be decoded."""
    for block in LOOSE_BLANK_LINE.split(stretch) if separator == b"\n\n" else stretch.split(separator):
        try:
            yield from find_documents(block.decode(), separator)
        except UnicodeDecodeError as error:
            broken = line + block.count(b"\n", 0, error.start)
            yield Bad(f"line {broken}", describe(error))
        line += block.count(b"\n") + len(separator)


def split_documents(text: str) -> list[str]:
    """The documents between blank lines, without space around their paragraphs."""
    text = text.strip()
    if not LOOSE_LINE_END.search(text):
        return text.split("\n\n") if text else []
    groups = itertools.groupby((line.strip() for line in text.split("\n")), bool)
    return ["\n".join(paragraphs) for filled, paragraphs in groups if filled]


def split_file(file: BinaryIO, separator: bytes) -> Iterator[bytes]:
    """The parts of a file between separators, which are line ends."""
    for stretch in find_stretches(file, separator):
        yield from stretch.split(separator)


def find_stretches(file: BinaryIO, separator: bytes) -> Iterator[bytes]:
    """A file in stretches of whole parts, without the separators between those; one may be long, parts are many."""
    pending: list[bytes] = []
    for chunk in count_lines(read_chunks(file)):
        whole, found, rest = chunk.rpartition(separator)
        if found:
            yield b"".join([*pending, whole])
            pending = []
        pending.append(rest)
        if not found and sum(map(len, pending)) > LARGEST_DOCUMENT:
            # Lines of space are blank too, but seldom there, and slow to look for.
            *parts, last = LOOSE_BLANK_LINE.split(b"".join(pending)) if separator == b"\n\n" else [b""]
            if not parts:
                raise EndlessDocumentError(ENDLESS[separator])
            yield from parts
            pending = [last]
    yield b"".join(pending)


def count_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same; where a file is damaged, the error has a note of the line that could be read last."""
    line = 1
    try:
        for chunk in chunks:
            yield chunk
            line += chunk.count(b"\n")
    except DAMAGE as error:
        error.add_note(f"line {line}")
        raise


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
    # A broken byte becomes a lone surrogate here and is refused with its row, if it is in the column at all.
    lines = (line.decode("utf-8", "surrogateescape") + "\n" for line in split_file(file, b"\n"))
    header: list[str] = []
    for number, cells in parse_rows(lines, delimiter, quoting):
        if isinstance(cells, str):
            yield Bad(f"line {number}", cells)
        elif header:
            yield attempt(f"line {number}", pick_text, dict(zip(header, cells, strict=False)), config.field)
        else:
            header = cells


def parse_rows(
    lines: Iterable[str], delimiter: str = ",", quoting: Literal[0, 3] = csv.QUOTE_MINIMAL
) -> Iterator[tuple[int, list[str] | str]]:
    """The cells of each row that has any, or what is wrong with it; and the line it begins in, since a quoted cell may
    go over several."""
    csv.field_size_limit(LARGEST_DOCUMENT)
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    while True:
        number = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, f"no row of a table ({error}); mend it"
            continue
        if cells:
            yield number, cells


def read_parquet(file: BinaryIO, config: ReadConfig) -> Iterator[str | Bad]:
    """One column of a Parquet file, a few rows at a time; the others are not touched."""
    pyarrow = import_pyarrow("a .parquet")
    number = 0
    try:
        # With a buffer of its own making it would hold all row groups before the first is asked for.
        table = pyarrow.parquet.ParquetFile(file, buffer_size=CHUNK_SIZE, pre_buffer=False)
        if config.field not in table.schema_arrow.names:
            yield Bad("row 1", missing_field(config.field, table.schema_arrow.names))
            return
        batches = table.iter_batches(batch_size=NUM_ROWS, columns=[config.field], use_threads=False)
        for number, cell in enumerate(itertools.chain.from_iterable(batch.column(0) for batch in batches), 1):
            # A cell is converted alone: a broken one would take its batch along.
            yield attempt(f"row {number}", parse_cell, cell, config.field)
    except (ConnectionError, TimeoutError):  # nothing is wrong with the file
        raise
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition(". ")[0]
        yield Bad(f"row {number + 1}", f"{reason}; mend or fetch it again")


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
        code = ord(error.object[error.start]) - FIRST_LONE_BYTE
        return f"broken UTF-8 ({f'0x{code:02x}' if 0x80 <= code <= 0xFF else 'half a character'}); convert or mend it"
    if isinstance(error, json.JSONDecodeError | RecursionError):
        return f"not JSON ({error}); mend it"
    if "integer string conversion" in str(error):  # with advice to whoever writes Python
        return "a number of thousands of digits; mend it"
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
        raise ValueError(f"{field!r} holds {type(value).__name__} and no text; name another with --field, or mend it")
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
