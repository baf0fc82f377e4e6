import csv
import gzip
import io
import json
import lzma
import sys
import tracemalloc
import types
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from litebert.config import UserError
from litebert.files import write_file
from litebert.text import documents, formats
from litebert.text.documents import Reader, Source, find_sources
from litebert.text.formats import ReadConfig, split_text

TEXTS = ["Eins. Zwei.\nDrei.", "四。五。", 'six\u2028seven "eight", nine']
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}


def as_text(texts: list[str]) -> bytes:
    return "\n\n".join(texts).encode()


def as_json_lines(texts: list[str]) -> bytes:
    return "\n".join(json.dumps({"id": index, "text": text}) for index, text in enumerate(texts)).encode()


def as_table(texts: list[str]) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows([["id", "text"], *enumerate(texts)])
    return file.getvalue().encode()


def as_tabs(texts: list[str]) -> bytes:
    return "\n".join(["id\ttext", *(f"{index}\t{text}" for index, text in enumerate(texts))]).encode()


def as_parquet(texts: list[str | None]) -> bytes:
    file = io.BytesIO()
    table = pyarrow.table({"id": list(range(len(texts))), "text": texts})
    pyarrow.parquet.write_table(table, file, row_group_size=2)
    return file.getvalue()


FORMATS: dict[str, Callable[[list[str]], bytes]] = {
    ".txt": as_text,
    ".jsonl": as_json_lines,
    ".ndjson": as_json_lines,
    ".csv": as_table,
}


def read(path: Path | str, **config: object) -> list[str]:
    reader = Reader(ReadConfig(**config))  # type: ignore[arg-type]
    return [document for source in find_sources([path]) for document in reader.read(source)]


def write(folder: Path, name: str, content: bytes) -> Path:
    write_file(folder / name, content)
    return folder / name


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_its_documents_plain_and_compressed(tmp_path: Path, suffix: str, compression: str) -> None:
    path = write(tmp_path, f"a{suffix}{compression}", COMPRESSORS[compression](FORMATS[suffix](TEXTS)))
    assert read(path) == TEXTS
    assert read(path.rename(tmp_path / path.name.upper())) == TEXTS


@pytest.mark.parametrize("compression", COMPRESSORS)
def test_tabs_separate_and_quotes_mean_themselves(tmp_path: Path, compression: str) -> None:
    lines = [text.replace("\n", " ") for text in TEXTS]
    assert read(write(tmp_path, f"a.tsv{compression}", COMPRESSORS[compression](as_tabs(lines)))) == lines


def test_parquet_gives_one_column_and_no_empty_documents(tmp_path: Path) -> None:
    table = as_parquet([*TEXTS, None, "", "last"])
    assert read(write(tmp_path, "a.parquet", table)) == [*TEXTS, "last"]
    for suffix, compress in COMPRESSORS.items():
        assert read(write(tmp_path, f"b.parquet{suffix}", compress(table))) == [*TEXTS, "last"]


def test_a_url_is_read_like_a_file() -> None:
    write_file("memory://corpus/a.txt.gz", gzip.compress(as_text(TEXTS)))
    write_file("memory://corpus/b.parquet", as_parquet(TEXTS))
    assert read("memory://corpus") == TEXTS * 2


def test_an_archive_of_text_is_read_by_a_chain_of_urls(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("a.txt.gz", gzip.compress(as_text(TEXTS)))
        archive.writestr("b.parquet", as_parquet(TEXTS))
    assert read(f"zip://::file://{tmp_path}/b.zip") == TEXTS * 2


def test_parquet_is_read_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory does not grow with the file."""
    random = np.random.default_rng(0)
    content = as_parquet([random.bytes(50_000).hex() for _ in range(200)])
    monkeypatch.setattr(documents, "open_file", lambda path: io.BytesIO(content))
    before = pyarrow.total_allocated_bytes()
    reading = Reader().read(Source("a.parquet", 0))
    next(reading)
    assert pyarrow.total_allocated_bytes() - before < len(content) / 5


def test_a_parquet_file_whose_server_breaks_off_is_not_taken_for_a_damaged_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise TimeoutError

    monkeypatch.setattr(documents, "open_file", lambda path: Breaking(as_parquet(TEXTS)))
    with pytest.raises(UserError, match="could be read no further than 0 documents .TimeoutError."):
        list(Reader(ReadConfig(skip_bad=True)).read(Source("https://host/a.parquet", 20)))


@pytest.mark.parametrize("error", [ConnectionResetError("reset by peer"), LookupError("the server has gone")])
def test_a_url_that_breaks_off_is_named_with_how_far_it_was_read(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            if found := super().read1(size):
                return found
            raise error

    monkeypatch.setattr(documents, "open_file", lambda path: Breaking(b"first\n\nsecond\n\nthi"))
    texts = Reader(ReadConfig(skip_bad=True)).read(Source("https://host/a.txt", 20))
    assert [next(texts), next(texts)] == ["first", "second"]
    with pytest.raises(UserError, match=f"https://host/a.txt could be read no further than 2 documents .{error}."):
        next(texts)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\n\nc", ["a\nb", "c"]),
        (b"\n\n a \t\n  b\n\n\n\nc\n", ["a\nb", "c"]),
        (b"a\n \t\nb\n\xe3\x80\x80\nc", ["a", "b", "c"]),
        (b"a\r\nb\r\n\r\nc\r\n", ["a\nb", "c"]),
        (b"a\rb\r\rc", ["a\nb", "c"]),
        (b"\xef\xbb\xbfa\n\nb", ["a", "b"]),
        ("a\u2028b\x85c\x0bd\n\ne".encode(), ["a\u2028b\x85c\x0bd", "e"]),
        (b"a\n\x0c\nb\n\x0cc", ["a", "b\nc"]),
    ],
)
def test_blank_lines_separate_the_documents_of_a_text_file(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    assert read(write(tmp_path, "a.txt", content)) == expected


def test_lines_or_the_file_can_be_the_documents(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"a\n b\r\n\nc\n")
    assert read(path, documents="line") == ["a", "b", "c"]
    assert read(path, documents="file") == ["a\nb\nc"]


@given(st.text(st.sampled_from("aé中 \n\r\ufeff"), max_size=60), st.integers(1, 9))
def test_documents_do_not_depend_on_where_chunks_end(text: str, chunk_size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "CHUNK_SIZE", chunk_size)
        found = list(split_text(io.BytesIO(text.encode()), b"\n\n"))
    lines = text.encode().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    marked = "\n".join(line.strip() or "|" for line in lines).split("|")
    assert found == [block.strip() for block in marked if block.strip()]


def test_line_ends_within_a_value_separate_paragraphs(tmp_path: Path) -> None:
    record = json.dumps({"text": " a \r\n\r\n b\rc "}).encode()
    assert read(write(tmp_path, "a.jsonl", record)) == ["a\nb\nc"]
    assert read(write(tmp_path, "a.csv", b'id,text\r\n1," a \r\n\r\n b"\r\n')) == ["a\nb"]


def test_null_and_empty_values_are_no_documents_and_not_bad(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", b'{"text": null}\n\n{"text": " "}\n{"text": "a"}')
    assert read(path) == ["a"]


def test_another_field_can_be_named(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.jsonl", b'{"text": "a", "body": "b"}'), field="body") == ["b"]
    assert read(write(tmp_path, "a.csv", b"text,body\na,b"), field="body") == ["b"]
    assert read(write(tmp_path, "a.parquet", as_parquet(["a"])), field="text") == ["a"]


BAD: dict[str, tuple[str, bytes, str, list[str]]] = {
    "broken text": ("a.txt", b"a\n\nb\nc\xff\n\nd", r"line 4: broken UTF-8 \(invalid start byte, 0xff\)", ["a", "d"]),
    "broken line": ("a.jsonl", b'{"text": "a"}\n{"text": "\xe4"}\n{"text": "b"}', "line 2: broken UTF-8", ["a", "b"]),
    "half a character": ("a.jsonl", b'{"text": "\\ud83d"}\n{"text": "b"}', "line 1: broken UTF-8", ["b"]),
    "no JSON": ("a.jsonl", b'{"text": "a"}\n{"text"\n{"text": "b"}', "line 2: not JSON", ["a", "b"]),
    "long number": (
        "a.jsonl",
        b'{"text": "a"}\n{"text": "b", "id": ' + b"1" * 6000 + b"}",
        "line 2: a number of thousands of digits; mend it",
        ["a"],
    ),
    "deep JSON": ("a.jsonl", b"[" * 100_000 + b'\n{"text": "b"}', "line 1: not JSON", ["b"]),
    "no object": ("a.jsonl", b'["a"]\n{"text": "b"}', "line 1: a JSON list, not an object", ["b"]),
    "no string": ("a.jsonl", b'{"text": 3}\n{"text": "b"}', "line 1: 'text' holds int and no text", ["b"]),
    "no field": (
        "a.jsonl",
        b'{"text": "a"}\n{"id": 1, "body": ""}',
        r"line 2: no 'text' among its fields \(id, body\); name one of them with --field",
        ["a"],
    ),
    "no column": ("a.csv", b"id,body\n1,a", r"line 2: no 'text' among its fields \(id, body\)", []),
    "short row": ("a.csv", b'id,text\n1,a\n2\n3,"b\nc"\n4,d', r"line 3: no 'text' .*\(id\)", ["a", "b\nc", "d"]),
    "broken row": ("a.csv", b"id,text\n1,\xff\n\xff,b", "line 2: broken UTF-8", ["b"]),
    "loose quote": ("a.csv", b'id,text\n1,"a"b\n2,c', "line 2: no row of a table", ["c"]),
    "open quote": ("a.csv", b'id,text\n1,a\n2,"b', r"line 3: no row of a table \(unexpected end", ["a"]),
    "no parquet": ("a.parquet", b"PAR1 and nonsense", "row 1: .*; mend or fetch it again", []),
    "cut parquet": ("a.parquet", as_parquet(["a"] * 9)[:-50], "row 1: .*; mend or fetch it again", []),
    "other parquet": ("a.parquet", as_parquet([1, 2]), "row 1: 'text' holds int and no text", []),  # type: ignore[list-item]
    "empty": ("a.txt", b"", "from start to end: no text; leave it out", []),
    "blank": ("a.jsonl", b'\n{"text": " "}\n', "from start to end: no text", []),
    "empty archive": ("a.txt.gz", gzip.compress(b""), "from start to end: no text", []),
    "no gz": ("a.txt.gz", b"plain text", "line 1: Not a gzipped file", []),
    "no xz": ("a.txt.xz", b"plain text", "line 1: .*; mend or fetch it again", []),
    "no zst": ("a.txt.zst", b"plain text", "line 1: .*; mend or fetch it again", []),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_bad_is_refused_with_its_place_or_passed_over(tmp_path: Path, case: str) -> None:
    name, content, said, rest = BAD[case]
    path = write(tmp_path, name, content)
    with pytest.raises(UserError, match=f"^{path}, {said}.*, or pass over it with --skip-bad$"):
        read(path)
    reader = Reader(ReadConfig(skip_bad=True))
    (source,) = find_sources([path])
    assert list(reader.read(source)) == rest
    assert reader.skipped == len(reader.reasons) >= 1
    assert reader.reasons[0].startswith(f"{path}, ")


def test_a_link_that_leads_nowhere_is_refused_or_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", b"text")
    link = tmp_path / "b.txt"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=f"^{link}: does not exist; correct the path, or pass over it with --skip-bad$"):
        read(tmp_path)
    reader = Reader(ReadConfig(skip_bad=True))
    assert [text for source in find_sources([tmp_path]) for text in reader.read(source)] == ["text"]
    assert reader.skipped == 1
    link.unlink()
    link.symlink_to(link)
    assert read(tmp_path, skip_bad=True) == ["text"], "a link to itself"
    long = tmp_path / "c.txt"
    long.symlink_to(300 * "x")
    assert read(tmp_path, skip_bad=True) == ["text"], "and one to a name that no file has"
    with pytest.raises(UserError, match=f"^{link} "):
        find_sources([link])


@pytest.mark.parametrize("blank", [b"\n\n", b"\n \n", b"\n\t \n\n"])
def test_a_broken_byte_costs_one_document_whatever_is_in_blank_lines(tmp_path: Path, blank: bytes) -> None:
    texts = [b"document %d" % number for number in range(1000)]
    path = write(tmp_path, "a.txt", blank.join([*texts[:500], b"broken \xff", *texts[500:]]))
    line = 1 + 500 * blank.count(b"\n")
    with pytest.raises(UserError, match=f"a.txt, line {line}: broken UTF-8"):
        read(path)
    assert read(path, skip_bad=True) == [text.decode() for text in texts]


def test_one_bad_part_makes_a_whole_file_bad_if_files_are_documents(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", b"a\n\nb\xff\n\nc\xff")
    with pytest.raises(UserError, match="line 3: broken UTF-8"):
        read(path, documents="file")
    assert read(path, documents="file", skip_bad=True) == []


def test_a_broken_string_in_parquet_costs_one_row(tmp_path: Path) -> None:
    column = pyarrow.array([b"a", b"\xff", b"b"]).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="row 2: broken UTF-8"):
        read(tmp_path)
    assert read(tmp_path, skip_bad=True) == ["a", "b"]


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_documents_before_the_damage_of_an_archive_are_kept(tmp_path: Path, compression: str) -> None:
    texts = [str(index**9) * 50 for index in range(20_000)]
    archive = COMPRESSORS[compression](as_text(texts))
    write(tmp_path, f"a.txt{compression}", archive[: len(archive) // 2])
    write(tmp_path, "b.txt", b"the next file")
    with pytest.raises(UserError, match=rf"a.txt{compression}, line \d\d+: .*end") as told:
        read(tmp_path)
    reader = Reader(ReadConfig(skip_bad=True))
    kept, after = (list(reader.read(source)) for source in find_sources([tmp_path]))
    assert kept == texts[: len(kept)] and len(texts) // 4 < len(kept) < len(texts)
    assert after == ["the next file"] and reader.skipped == 1
    line = int(str(told.value).partition("line ")[2].partition(":")[0])
    assert 0 <= line - 2 * len(kept) <= 3, "a document is a line and a blank one"


def test_the_first_few_reasons_are_kept_and_all_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", b"nonsense\n" * 100)
    reader = Reader(ReadConfig(skip_bad=True))
    assert list(reader.read(*find_sources([path]))) == []
    assert reader.skipped == 100 and [reason.split(":")[0][-6:] for reason in reader.reasons[:2]] == [
        "line 1",
        "line 2",
    ]
    assert len(reader.reasons) == 5


@pytest.mark.parametrize(("config", "missing"), [({}, "blank line"), ({"documents": "line"}, "line end")])
def test_a_document_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, str], missing: str
) -> None:
    monkeypatch.setattr(formats, "LARGEST_DOCUMENT", 2 << 20)
    line = b"a" * 99 + (b"\n" if missing == "blank line" else b" ")
    path = write(tmp_path, "a.txt", b"first\n\n" + line * 40_000)
    with pytest.raises(UserError, match=f"a.txt, line 3: no {missing} in 16 MiB") as refused:
        read(path, **config)
    assert ("--documents line" in str(refused.value)) == (missing == "blank line")


@pytest.mark.parametrize("blank", [b" ", b"\t \x0c", b"\r"])
def test_lines_of_space_part_documents_however_large_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blank: bytes
) -> None:
    monkeypatch.setattr(formats, "LARGEST_DOCUMENT", 1 << 20)
    documents = [f"document {number}\n{'word ' * 50}" for number in range(20_000)]
    content = (b"\n" + blank + b"\n").join(document.encode() for document in documents)
    assert len(content) > 3 << 20
    assert read(write(tmp_path, "a.txt", content)) == [document.strip() for document in documents]


def test_a_column_longer_than_the_csv_modules_usual_limit_is_read(tmp_path: Path) -> None:
    text = "long " * 100_000
    assert read(write(tmp_path, "a.csv", as_table([text]))) == [text.strip()]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.xz", "a.csv.zst", "a.parquet", "a.txt"])
def test_bytes_read_grow_to_the_size_of_the_files(tmp_path: Path, name: str) -> None:
    texts = [str(index**9) * 50 for index in range(8000)]
    suffix, _, compression = name[1:].partition(".")[2].partition(".")
    make = FORMATS.get(f".{suffix}", as_parquet)
    write(tmp_path, name, COMPRESSORS[f".{compression}" if compression else ""](make(texts)))
    write(tmp_path, "z.txt", b"last")
    reader, sources = Reader(), find_sources([tmp_path])
    assert reader.bytes_read == 0 and [source.size for source in sources][1] == 4
    middle = [reader.bytes_read for _ in reader.read(sources[0])][len(texts) // 2]
    assert 0.2 < middle / sources[0].size < 0.95
    assert reader.bytes_read == sources[0].size
    assert list(reader.read(sources[1])) == ["last"] and reader.bytes_read == sources[0].size + 4


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    paragraph = b"word " * 200 + b"\n"
    with gzip.open(tmp_path / "a.txt.gz", "wb", compresslevel=1) as file:
        for _ in range(5000):
            file.write(paragraph * 10 + b"\n")
    tracemalloc.start()
    num_bytes = sum(len(document) for document in Reader().read(*find_sources([tmp_path])))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert num_bytes > 49_000_000 and peak < 3_000_000


def test_a_folder_is_searched_for_what_can_be_read(tmp_path: Path) -> None:
    for name in ("b.txt", "a.jsonl.zst", "deep/c.csv", "notes.md", "model.bin", "d.parquet.gz", ".hidden.txt"):
        write(tmp_path, name, b"x")
    found = find_sources([tmp_path])
    assert [Path(source.path).name for source in found] == ["a.jsonl.zst", "b.txt", "d.parquet.gz", "c.csv"]
    assert all(isinstance(source, Source) and source.size == 1 for source in found)


def test_a_file_named_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.txt", b"a")
    write(tmp_path, "b.txt", b"b")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    monkeypatch.chdir(tmp_path)
    found = find_sources(["b.txt", "./b.txt", str(tmp_path), "*.txt", f"file://{tmp_path}/a.txt"])
    assert [Path(source.path).name for source in found] == ["b.txt", "a.txt"]


@pytest.mark.parametrize("name", ["notes.docx", "noted", "a.gz", "a.txt.bz2"])
def test_a_file_that_cannot_be_read_is_named_with_the_known_suffixes(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, b"x")
    with pytest.raises(UserError, match=rf"{name} does not end in a known suffix \(\.txt \.jsonl .*\.gz \.xz \.zst\)"):
        find_sources([path])
    write(tmp_path, "other.bin", b"x")
    with pytest.raises(UserError, match=f"none of the 2 files of {tmp_path} ends in a known suffix"):
        find_sources([tmp_path])


def test_missing_and_empty_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere.txt does not exist"):
        find_sources([tmp_path / "nowhere.txt"])
    with pytest.raises(UserError, match="holds no files"):
        find_sources([tmp_path])


def test_a_missing_package_is_named_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"hub:imdb needs the package datasets; pip install datasets"):
        find_sources(["hub:imdb"])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.delattr(pyarrow, "parquet")
    with pytest.raises(UserError, match=r"needs the package pyarrow; pip install pyarrow"):
        find_sources([write(tmp_path, "a.parquet", b"x")])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str | None, str], list[dict[str, object]]]:
    """A hub whose datasets are rows by name, config and split."""
    rows: dict[tuple[str, str | None, str], list[dict[str, object]]] = {}

    def load_dataset(name: str, subset: str | None, *, split: str, streaming: bool) -> list[dict[str, object]]:
        assert streaming, "a dataset may be larger than the disk"
        return rows[name, subset, split]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))  # type: ignore[arg-type]
    return rows


def test_a_hub_dataset_is_read_by_name_config_and_split(
    hub: dict[tuple[str, str | None, str], list[dict[str, object]]],
) -> None:
    hub["imdb", None, "train"] = [{"text": "a"}, {"text": None}, {"text": " b\n"}]
    hub["org/wiki", "en", "train"] = [{"text": "c"}]
    hub["org/wiki", "en", "test"] = [{"text": 4}]
    assert read("hub:imdb") == ["a", "b"]
    assert read("hub:org/wiki:en") == ["c"]
    with pytest.raises(UserError, match="hub:org/wiki:en:test, row 1: 'text' holds int and no text"):
        read("hub:org/wiki:en:test")
    with pytest.raises(UserError, match=r"hub:other cannot be read .*; check its name, config and split"):
        read("hub:other")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"documents": "page"}, "documents is 'page'; it must be one of 'blank-line', 'file', 'line'"),
        ({"field": ""}, "field"),
    ],
)
def test_an_impossible_config_is_refused(config: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ReadConfig(**config)  # type: ignore[arg-type]


def test_real_corpora_have_the_documents_that_blank_lines_make(data: Path) -> None:
    path = data / "text" / "novels_en.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        expected = file.read().split("\n\n")
    assert read(path) == [block.strip() for block in expected if block.strip()]
