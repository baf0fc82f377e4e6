import errno
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from litebert.config import UserError
from litebert.corpus import shards
from litebert.corpus.index import Block, Statistics
from litebert.corpus.shards import Corpus, Shard, ShardWriter, open_corpus
from tests.corpus.made import write_corpus


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


BLOCKS = [
    Block(
        np.arange(10, 16, dtype=np.uint16), numbers(2, 4), numbers(2), numbers(2), np.array([1, 0, 1, 1, 0, 1], bool)
    ),
    Block(np.arange(3, dtype=np.uint16), numbers(1, 2), numbers(1, 1), numbers(2), np.array([1, 0, 1], bool)),
]


@pytest.mark.parametrize("token_type", ["uint16", "uint32"])
@pytest.mark.parametrize("has_words", [True, False])
def test_a_shard_reads_as_it_was_written(tmp_path: Path, token_type: str, has_words: bool) -> None:
    writer = ShardWriter("dev")
    for block in BLOCKS:
        writer.add(
            block._replace(tokens=block.tokens.astype(token_type), word_starts=block.word_starts if has_words else None)
        )
    entry = writer.write(str(tmp_path), "dev.bin")
    assert (tmp_path / "dev.bin").stat().st_size == entry.num_bytes(token_type)
    shard = Shard(tmp_path / "dev.bin", entry, token_type)
    assert shard.tokens.tolist() == [10, 11, 12, 13, 14, 15, 0, 1, 2] and shard.tokens.dtype == token_type
    assert shard.sentence_ends.tolist() == [2, 6, 7, 9]
    assert shard.paragraph_ends.tolist() == [2, 3, 4]
    assert shard.document_ends.tolist() == [2, 4]
    if has_words:
        flags = [True, False, True, True, False, True, True, False, True]
        for begin in range(9):
            for end in range(begin, 10):
                assert shard.word_starts(begin, end).tolist() == flags[begin:end]
    assert writer.num_tokens == 0 and not writer.blocks, "the writer begins anew"


def test_statistics_count_sentences_by_powers_of_two() -> None:
    statistics = Statistics()
    lengths = numbers(1, 2, 3, 4, 7, 8, 100_000)
    statistics.count(Block(np.zeros(lengths.sum(), np.uint16), lengths, numbers(7), numbers(7)), unknown=0)
    assert statistics.num_unknown == lengths.sum()
    assert statistics.lengths[:4] == [1, 2, 2, 1] and sum(statistics.lengths) == 7
    table = statistics.length_table()
    assert table["4-7"] == 2 and list(table)[-1] == "32768 and more"
    statistics.add(statistics)
    assert statistics.num_sentences == 14 and statistics.lengths[1] == 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "corpus", [[5, 6, 7], [8, 9]] * 5, num_shards=2)
    return tmp_path / "corpus"


def test_any_flipped_byte_of_index_or_shard_is_found(folder: Path) -> None:
    random = np.random.default_rng(0)
    for file in (folder / "index.json", folder / "train-00000.bin", folder / "train-00001.bin"):
        whole = file.read_bytes()
        for place in random.integers(0, len(whole), 40).tolist():
            broken = bytearray(whole)
            broken[place] ^= 1 << int(random.integers(0, 8))
            file.write_bytes(broken)
            if file.suffix == ".json" and json_equal(whole, bytes(broken)):
                continue
            with pytest.raises(UserError, match=f"{file.name}.*(damaged|format)"):
                open_corpus(folder)
        file.write_bytes(whole)
    open_corpus(folder)


def json_equal(one: bytes, two: bytes) -> bool:
    """White space may change without changing anything."""
    try:
        return json.loads(one) == json.loads(two)
    except ValueError:
        return False


def test_a_shard_cut_short_is_named_also_without_verifying(folder: Path) -> None:
    file = folder / "train-00001.bin"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(UserError, match=r"train-00001.bin has \d+ bytes; its index says \d+; copy it again"):
        open_corpus(folder, verify=False)


def test_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "train-00001.bin").unlink()
    with pytest.raises(UserError, match="train-00001.bin"):
        open_corpus(folder)


def test_a_wrong_vocabulary_is_refused(folder: Path) -> None:
    pieces = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(pieces.replace("##1\n", "##one\n"))
    with pytest.raises(UserError, match="the vocabulary in .* is not the one its tokens were made with"):
        open_corpus(folder)
    (folder / "vocab.txt").unlink()
    with pytest.raises(UserError, match="has no vocabulary"):
        open_corpus(folder)


def test_what_is_no_corpus_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="nowhere does not exist"):
        open_corpus(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("text")
    with pytest.raises(UserError, match="other is no corpus: it has no index.json"):
        open_corpus(tmp_path / "other")
    with pytest.raises(UserError, match="has no dev documents"):
        open_corpus(folder, "dev")
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(index | {"format": 99}))
    with pytest.raises(UserError, match="has format 99; this version reads 1"):
        open_corpus(folder)


@pytest.mark.parametrize("content", ["[]", "7", "[" * 100_000, "{}", "", '{"format": 1, "sha256": ""}'])
def test_what_is_no_index_is_called_damaged(folder: Path, content: str) -> None:
    (folder / "index.json").write_text(content)
    with pytest.raises(UserError, match="index.json is damaged"):
        open_corpus(folder)


def test_an_index_in_a_folder_below_is_not_a_part(folder: Path) -> None:
    number = open_corpus(folder).num_documents
    (folder / "backup").mkdir()
    (folder / "backup" / "index.json").write_bytes((folder / "index.json").read_bytes())
    assert open_corpus(folder).num_documents == number
    with pytest.raises(UserError, match="is no corpus: it has no index.json"):
        open_corpus(folder.parent)


def test_a_corpus_behind_a_url_reads_as_one_on_disk(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    monkeypatch.setenv("LITEBERT_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.put(str(folder), "/remote", recursive=True)
    local, remote = open_corpus(folder), open_corpus("memory://remote")
    assert [shard.tokens.tolist() for shard in remote.shards] == [shard.tokens.tolist() for shard in local.shards]
    assert remote.vocabulary.fingerprint == local.vocabulary.fingerprint
    system.rm("/remote", recursive=True)


def test_shards_are_mapped_and_not_read(make_corpus: Callable[..., Corpus]) -> None:
    shard = make_corpus([[5, 6], [7, 8]]).shards[0]
    base = shard.tokens
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap) and not shard.tokens.flags.writeable


def test_tokens_are_read_from_the_file_as_they_are_mapped(make_corpus: Callable[..., Corpus]) -> None:
    shard = make_corpus([[5, 6, 7], [8, 9]]).shards[0]
    closed = Shard(shard.path, shard.entry, shard.tokens.dtype.name, stays_open=False)
    assert shard.descriptor is not None and closed.descriptor is None
    for begin, end in itertools.combinations_with_replacement(range(6), 2):
        mapped = shard.tokens[begin:end].tobytes()
        assert shard.read_tokens(begin, end) == closed.read_tokens(begin, end) == mapped


def test_a_shard_that_becomes_shorter_or_cannot_be_read_is_named(
    make_corpus: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = make_corpus([[5, 6, 7], [8, 9]]).shards[0]
    os.truncate(shard.path, shard.tokens_begin + 4 * shard.token_bytes)
    assert shard.read_tokens(0, 4)
    with pytest.raises(UserError, match="has become shorter while it was read"):
        shard.read_tokens(3, 5)

    def fail(*_: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(UserError, match="can be read no further .Input/output error.; look at its disk"):
        shard.read_tokens(0, 4)


def test_what_was_opened_is_read_whatever_takes_its_place(make_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    shard = make_corpus([[5, 6, 7], [8, 9]]).shards[0]
    before = shard.tokens.tobytes()
    (tmp_path / "other").write_bytes(bytes(shard.path.stat().st_size))
    (tmp_path / "other").replace(shard.path)
    assert shard.read_tokens(0, len(shard.tokens)) == before


def test_only_so_many_shards_stay_open_and_none_longer_than_its_corpus(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "MOST_OPEN", 0)
    corpus = open_corpus(folder)
    assert all(shard.descriptor is None and shard.read_tokens(0, 1) for shard in corpus.shards)
    monkeypatch.undo()
    descriptors = [shard.descriptor for shard in open_corpus(folder).shards]
    for descriptor in descriptors:
        assert descriptor is not None
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_copy_of_what_was_at_a_url_before_is_fetched_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    monkeypatch.setenv("LITEBERT_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.put(str(folder), "/remote", recursive=True)
    name = open_corpus("memory://remote").shards[0].entry.name
    (copy,) = (tmp_path / "cache").rglob(name)
    copy.write_bytes(bytes(copy.stat().st_size))
    assert open_corpus("memory://remote").num_tokens == open_corpus(folder).num_tokens
    with system.open(f"/remote/{name}", "wb") as file:
        file.write(bytes(copy.stat().st_size))
    copy.unlink()
    with pytest.raises(UserError, match=f"memory://remote/{name} is damaged"):
        open_corpus("memory://remote")
    system.rm("/remote", recursive=True)
