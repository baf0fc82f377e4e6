import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.config import UserError
from litebert.tasks.tables import find_split, parse_csv, read_table
from litebert.text.formats import DECOMPRESSORS, zstd

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def rows(path: Path, columns: list[str] | None = None) -> list[tuple[str, dict[str, object]]]:
    return [(row.place.removeprefix(f"{path}, "), dict(row.cells)) for row in read_table(path, columns)]


def test_quotes_of_a_tsv_are_plain_characters(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", b'a\tb\n"x\ty"z\n\n1\t""\r\n')
    assert rows(path) == [("line 2", {"a": '"x', "b": 'y"z'}), ("line 4", {"a": "1", "b": '""'})]
    assert rows(write(tmp_path, "a.txt", path.read_bytes())) == rows(path)


def test_quotes_of_a_csv_hold_commas_and_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b'a,b\n"x, ""y""\nz",1\n2,3\n')
    assert rows(path) == [("line 2", {"a": 'x, "y"\nz', "b": "1"}), ("line 4", {"a": "2", "b": "3"})]


def test_a_jsonl_has_an_object_on_each_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", b'{"a": ["x"], "b": 1}\n\n{"a": null}')
    assert rows(path) == [("line 1", {"a": ["x"], "b": 1}), ("line 3", {"a": None})]


def test_a_table_without_header_has_the_columns_it_is_given(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", b"1\t2\n3\t4")
    assert rows(path, ["x", "y"]) == [("line 1", {"x": "1", "y": "2"}), ("line 2", {"x": "3", "y": "4"})]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.csv"):
        assert rows(write(tmp_path, name, b"\xef\xbb\xbfQuality\n1\n")) == [("line 2", {"Quality": "1"})]
    assert rows(write(tmp_path, "a.jsonl", b'\xef\xbb\xbf{"a": 1}')) == [("line 1", {"a": 1})]


def test_line_separators_of_unicode_end_no_line(tmp_path: Path) -> None:
    text = "one\x0b\x0c\x1c\x85\u2028\u2029two"
    assert rows(write(tmp_path, "a.tsv", f"a\n{text}\n".encode())) == [("line 2", {"a": text})]


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize(("suffix", "content"), [(".tsv", b"a\n1\n"), (".csv", b"a\n1\n"), (".jsonl", b'{"a": "1"}')])
def test_a_table_may_be_compressed(tmp_path: Path, suffix: str, content: bytes, compression: str) -> None:
    path = write(tmp_path, f"a{suffix}{compression}", COMPRESSORS[compression](content))
    assert [cells for _, cells in rows(path)] == [{"a": "1"}]
    assert find_split(tmp_path, "a") == str(path)


def test_all_known_compressions_are_tried_above() -> None:
    assert set(COMPRESSORS) - {""} == set(DECOMPRESSORS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", b"a\tb\n1\t2\n1\n", "a.tsv, line 3: 1 cells where there are 2 columns .'a', 'b'.; mend it"),
        ("a.tsv", b"a\tb\n1\t2\t3\n", "a.tsv, line 2: 3 cells where there are 2 columns"),
        ("a.csv", b'a,b\n"1\n2",3\n1\n', "a.csv, line 4: 1 cells where there are 2 columns"),
        ("a.csv", b'a,b\n1,2\n"1,2\n', "a.csv, line 3: no row of a table .*; mend it"),
        ("a.csv", b'a,b\n"1"x,2\n', "a.csv, line 2: no row of a table"),
        ("a.tsv", b"a\tb\ta\n", "a.tsv, line 1: more than one column is named 'a'; rename"),
        ("a.tsv", b"a\n1\n\xff\n", "a.tsv, line 3: broken UTF-8 .*0xff.*; convert or mend it"),
        ("a.csv", b"a\n1\n\xff\n", "a.csv, line 3: broken UTF-8"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "a.jsonl, line 2: not JSON .*; mend it"),
        ("a.jsonl", b"[1]\n", "a.jsonl, line 1: a JSON list, not an object; mend it"),
        ("a.jsonl", b'{"a": "\\ud800"}\n', "a.jsonl, line 1: broken UTF-8 .half a character.; convert or mend it"),
        ("a.tsv", b"", "a.tsv has no rows; fill it or name another"),
        ("a.csv", b"a,b\n", "a.csv has no rows"),
        ("a.jsonl", b"\n", "a.jsonl has no rows"),
        ("a.tsv.gz", gzip.compress(b"a\n1\n" * 999)[:-9], "a.tsv.gz, line .*; mend or fetch it again"),
        ("a.tsv.gz", b"a\n1\n", "a.tsv.gz, line 1: .*; mend or fetch it again"),
        ("a.xlsx", b"", "a.xlsx does not end in a known suffix .*; .*convert it"),
    ],
)
def test_what_is_no_table_is_named_with_its_line(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    with pytest.raises(UserError, match=f"^{tmp_path}/{said}"):
        list(read_table(write(tmp_path, name, content)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a.tsv is no file; correct the path"):
        list(read_table(tmp_path / "a.tsv"))
    with pytest.raises(UserError, match="nowhere does not exist; correct the path"):
        find_split(tmp_path / "nowhere", "train")


def test_cells_that_short_rows_lack_are_none_if_they_may_be_short(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", b"a\tb\n1\n1\t2\n")
    assert [row.cells for row in read_table(path, allow_short=True)] == [{"a": "1", "b": None}, {"a": "1", "b": "2"}]
    with pytest.raises(UserError, match="line 2: 3 cells"):
        list(read_table(write(tmp_path, "b.tsv", b"a\tb\n1\t2\t3\n"), allow_short=True))


def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    (row,) = read_table(write(tmp_path, "a.csv", b"a,b\n1,2\n"))
    assert row.pick("b") == "2"
    with pytest.raises(UserError, match="a.csv, line 2: there is no column 'c'; name one of .*those.* .'a', 'b'."):
        row.pick("c")


def test_a_split_is_the_file_of_its_name(tmp_path: Path) -> None:
    for name in ("train.tsv", "validation.jsonl.gz", "test.csv.bak", "sub/other.tsv"):
        write(tmp_path, name, b"")
    assert find_split(tmp_path, "train") == str(tmp_path / "train.tsv")
    assert find_split(tmp_path, "dev", "validation") == str(tmp_path / "validation.jsonl.gz")
    assert find_split(tmp_path, "sub/other", "train") == str(tmp_path / "sub/other.tsv")
    assert find_split(tmp_path / "train.tsv", "test") == str(tmp_path / "train.tsv")
    with pytest.raises(UserError, match=f"^{tmp_path} has no test or final .*csv.*gz.*; put it there, or name a file"):
        find_split(tmp_path, "test", "final")
    with pytest.raises(UserError, match="has no train .\\.csv, also"):
        find_split(tmp_path, "train", suffixes=(".csv",))


def test_two_files_of_one_split_are_refused(tmp_path: Path) -> None:
    for name in ("train.tsv", "train.csv.gz"):
        write(tmp_path, name, b"")
    with pytest.raises(UserError, match="train.tsv and .*train.csv.gz are both there; leave one"):
        find_split(tmp_path, "train")


CELLS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\0"), max_size=8)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=5))
def test_what_pythons_csv_writes_is_read(table: list[list[str]]) -> None:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(table)
    lines = file.getvalue().removesuffix("\n").split("\n")
    assert [cells for _, cells in parse_csv("a.csv", iter(enumerate(lines, 1)))] == table


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(CELLS, st.one_of(CELLS, st.integers(), st.lists(CELLS))))
def test_what_pythons_json_writes_is_read(tmp_path_factory: pytest.TempPathFactory, record: dict[str, object]) -> None:
    path = write(tmp_path_factory.mktemp("json"), "a.jsonl", json.dumps(record, ensure_ascii=False).encode())
    assert [cells for _, cells in rows(path)] == [record]
