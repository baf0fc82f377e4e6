"""Rows of tables, with the line of each: what benchmarks and users keep their examples in.

A .tsv is read as GLUE's are written, without quoting: a quote is a plain character. A .csv has quotes as spreadsheets
write them, a .jsonl one object on each line. All may be compressed. What is no row is refused with its file and line.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from litebert.config import UserError, require
from litebert.files import exists, is_url, local_path, open_file
from litebert.tasks.quotes import quote
from litebert.text.formats import BYTE_ORDER_MARK, DAMAGE, DECOMPRESSORS, decompress, describe, parse_rows, split_suffix

Line = tuple[int, str]


class Row(NamedTuple):
    """One row of a table, its cells by the names of their columns; those of a .jsonl are whatever JSON can hold."""

    place: str
    """The file and the line it begins in."""
    cells: Mapping[str, Any]

    def pick(self, column: str) -> Any:
        """The cell of a column; one that the table does not have is refused."""
        if column not in self.cells:
            there = ", ".join(map(quote, self.cells))
            raise UserError(f"{self.place}: there is no column {column!r}; name one of those that are there ({there})")
        return self.cells[column]


def read_table(path: str | Path, columns: Sequence[str] | None = None, *, allow_short: bool = False) -> Iterator[Row]:
    """The rows of a table. Its first line names the columns unless they are given; a blank line is no row.

    With `allow_short`, the cells that a row lacks at its end are None.
    """
    kind, _ = split_suffix(str(path))
    require(is_url(path) or local_path(path).is_file(), f"{path} is no file; correct the path")
    require(kind in FORMATS, f"{path} does not end in a known suffix ({list_suffixes()}); rename or convert it")
    rows = FORMATS[kind](path, read_lines(path), columns, allow_short)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{path} has no rows; fill it or name another")
    yield first
    yield from rows


def read_lines(path: str | Path) -> Iterator[Line]:
    """The lines of a text file and their numbers, without their ends and without a byte order mark."""
    number = 0
    with open_file(path) as file:
        try:
            for number, line in enumerate(decompress(path, file), 1):
                content = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
                yield number, content.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{path}, line {number}: {describe(error)}") from None
        except DAMAGE as error:
            raise UserError(f"{path}, line {number + 1}: {error}; mend or fetch it again") from None


def read_json(path: str | Path) -> Any:
    """What a JSON file holds, plain or compressed."""
    try:
        with open_file(path) as file:
            text = decompress(path, file).read()
    except DAMAGE as error:
        raise UserError(f"{path}: {error}; mend or fetch it again") from None
    require(text.strip(), f"{path} is empty; fetch it again")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: {describe(error)}") from None


def read_tsv(
    path: str | Path, lines: Iterator[Line], columns: Sequence[str] | None, allow_short: bool
) -> Iterator[Row]:
    rows = ((number, line.split("\t")) for number, line in lines if line)
    yield from name_cells(path, rows, columns, allow_short)


def read_csv(
    path: str | Path, lines: Iterator[Line], columns: Sequence[str] | None, allow_short: bool
) -> Iterator[Row]:
    yield from name_cells(path, parse_csv(path, lines), columns, allow_short)


def parse_csv(path: str | Path, lines: Iterator[Line]) -> Iterator[tuple[int, list[str]]]:
    for number, cells in parse_rows(f"{line}\n" for _, line in lines):
        if isinstance(cells, str):
            raise UserError(f"{path}, line {number}: {cells}")
        yield number, cells


def name_cells(
    path: str | Path, rows: Iterator[tuple[int, list[str]]], columns: Sequence[str] | None, allow_short: bool
) -> Iterator[Row]:
    """Rows whose cells go by the columns' names."""
    for number, cells in rows:
        if columns is None:
            columns = check_header(path, number, cells)
            continue
        short = allow_short and len(cells) < len(columns)
        if len(cells) != len(columns) and not short:
            few = f"{path}, line {number}: {len(cells)} cells where there are {len(columns)} columns"
            raise UserError(f"{few} ({', '.join(map(quote, columns))}); mend it")
        yield Row(f"{path}, line {number}", dict(zip_longest(columns, cells)))


def check_header(path: str | Path, number: int, names: list[str]) -> list[str]:
    twice = next((name for name in names if names.count(name) > 1), None)
    require(twice is None, f"{path}, line {number}: more than one column is named {quote(twice)}; rename all but one")
    return names


def read_json_lines(
    path: str | Path, lines: Iterator[Line], columns: Sequence[str] | None, allow_short: bool
) -> Iterator[Row]:
    for number, line in lines:
        if line.strip():
            yield Row(f"{path}, line {number}", parse_object(f"{path}, line {number}", line))


def parse_object(place: str, line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
        if "\\u" in line:
            json.dumps(content, ensure_ascii=False).encode()  # refuses half a character, which nothing can write again
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: {describe(error)}") from None
    require(isinstance(content, dict), f"{place}: a JSON {type(content).__name__}, not an object; mend it")
    return content


def find_split(data: str | Path, *names: str, suffixes: Sequence[str] = ()) -> str:
    """The file of one split of a folder, by the first of `names` that is there; `data` itself if it is a file."""
    suffixes = suffixes or tuple(FORMATS)
    if not is_folder(data, suffixes):
        return str(data)
    for name in names:
        endings = (f"{suffix}{compression}" for suffix in suffixes for compression in ("", *DECOMPRESSORS))
        found = [path for path in (f"{data}/{name}{ending}" for ending in endings) if exists(path)]
        require(
            len(found) < 2, f"{' and '.join(found)} are both there; leave one of them, or name it instead of {data}"
        )
        if found:
            return found[0]
    missing = f"{' or '.join(names)} ({list_suffixes(suffixes)})"
    raise UserError(f"{data} has no {missing}; put it there, or name a file where one will do")


def is_folder(data: str | Path, suffixes: Sequence[str]) -> bool:
    """Whether splits are to be looked for in `data`; what is not there is refused."""
    if is_url(data):
        return split_suffix(str(data))[0] not in suffixes
    require(exists(data), f"{data} does not exist; correct the path")
    return local_path(data).is_dir()


def list_suffixes(suffixes: Sequence[str] = ()) -> str:
    return f"{' '.join(suffixes or FORMATS)}, also with {' '.join(DECOMPRESSORS)}"


Reader = Callable[[str | Path, Iterator[Line], Sequence[str] | None, bool], Iterator[Row]]
FORMATS: dict[str, Reader] = {".tsv": read_tsv, ".csv": read_csv, ".jsonl": read_json_lines, ".txt": read_tsv}
