import hashlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from litebert.config import UserError
from litebert.corpus import encode, selection
from litebert.corpus.build import BuildConfig, build_corpus
from litebert.corpus.index import Index, add_statistics
from litebert.corpus.seen import Seen
from litebert.corpus.selection import WHOLE, Part
from litebert.corpus.shards import Corpus, find_indexes, open_corpus
from litebert.text.documents import find_sources
from litebert.text.offsets import Spans
from litebert.text.sentences import split_sentences
from litebert.text.vocabulary import open_vocabulary

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "中",
    "文",
    "字",
    "rain",
    "falls",
    "hills",
]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "!", "##s", *WORDS]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    folder = tmp_path / "vocabulary"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return folder


def make_documents(number: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)

    def sentence() -> str:
        return " ".join(random.choice(WORDS, random.integers(1, 12))).capitalize() + random.choice([".", "!"])

    def paragraph() -> str:
        return " ".join(sentence() for _ in range(random.integers(1, 5)))

    return ["\n".join(paragraph() for _ in range(random.integers(1, 5))) for _ in range(number)]


def write_text(folder: Path, documents: list[str], num_files: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(documents)), num_files)):
        text = "\n\n".join(documents[place] for place in part.tolist())
        (folder / f"{number}.txt").write_text(text + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def documents() -> list[str]:
    return make_documents(300)


@pytest.fixture
def text(tmp_path: Path, documents: list[str]) -> Path:
    return write_text(tmp_path / "text", documents)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "BLOCK_SIZE", 2000)


def make(text: Path, vocabulary: Path, out: Path | str, part: Part = WHOLE, workers: int = 0, **options: Any) -> Index:
    config = BuildConfig(**{"shard_size": 1500, "dev_share": 0.1} | options)
    return build_corpus(find_sources([text]), vocabulary, out, config, part=part, num_workers=workers)


def read_documents(corpus: Corpus) -> list[tuple[tuple[int, ...], ...]]:
    """Each document as its sentences' tokens."""
    found = []
    for shard in corpus.shards:
        sentences = [tuple(part.tolist()) for part in np.split(shard.tokens, shard.sentence_ends)[:-1]]
        for begin, end in itertools.pairwise([0, *shard.document_ends.tolist()]):
            found.append(tuple(sentences[begin:end]))
    return found


def contents(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_shards_hold_the_tokens_of_every_sentence_in_order(
    text: Path, documents: list[str], vocabulary: Path, tmp_path: Path
) -> None:
    index = make(text, vocabulary, tmp_path / "out")
    plain = open_vocabulary(vocabulary)
    expected = [
        tuple(tuple(plain.encode(sentence)) for line in document.split("\n") for sentence in split_sentences(line))
        for document in documents
    ]
    train, dev = (read_documents(open_corpus(tmp_path / "out", split)) for split in ("train", "dev"))
    held_out = iter(dev)
    kept = iter(train)
    upcoming = {"dev": next(held_out, None), "train": next(kept, None)}
    for document in expected:
        split = "dev" if document == upcoming["dev"] else "train"
        assert document == upcoming[split]
        upcoming[split] = next(held_out if split == "dev" else kept, None)
    assert upcoming == {"dev": None, "train": None}
    assert 10 < len(dev) < 60
    assert len(index.shards) > 4, "there are several shards"
    tokens = [token for document in expected for sentence in document for token in sentence]
    assert index.statistics.num_tokens == len(tokens)
    assert index.statistics.num_unknown == tokens.count(1)
    assert index.statistics.num_documents == 300
    assert index.statistics.num_bytes == sum(len(document.encode()) for document in documents)
    paragraphs = sum(
        shard.entry.num_paragraphs for s in ("train", "dev") for shard in open_corpus(tmp_path / "out", s).shards
    )
    assert paragraphs == sum(document.count("\n") + 1 for document in documents)


def test_workers_change_nothing(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    for workers in (0, 2):
        make(text, vocabulary, tmp_path / str(workers), workers=workers)
    assert contents(tmp_path / "0") == contents(tmp_path / "2")


class StopError(Exception):
    pass


@pytest.mark.parametrize("deduplicate", [False, True])
def test_a_build_that_is_stopped_goes_on_and_ends_the_same(vocabulary: Path, tmp_path: Path, deduplicate: bool) -> None:
    documents = make_documents(150) * 2
    text = write_text(tmp_path / "text", documents, num_files=5)
    make(text, vocabulary, tmp_path / "whole", deduplicate=deduplicate)
    random = np.random.default_rng(0)
    for trial in range(6):
        out, stops = tmp_path / f"stopped{trial}", 0
        while True:
            left = int(random.integers(1, 30)) if stops else 5

            def stop(source_bytes: int, text_bytes: int) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    raise StopError

            config = BuildConfig(shard_size=1500, dev_share=0.1, deduplicate=deduplicate)
            try:
                build_corpus(find_sources([text]), vocabulary, out, config, num_workers=0, report=stop)
                break
            except StopError:
                stops += 1
                assert stops < 200
        assert stops > 0
        assert contents(out) == contents(tmp_path / "whole")


def test_a_corpus_that_was_not_finished_cannot_be_opened(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    def stop(source_bytes: int, text_bytes: int) -> None:
        if text_bytes > 20_000:
            raise StopError

    config = BuildConfig(shard_size=1500)
    with pytest.raises(StopError):
        build_corpus(find_sources([text]), vocabulary, tmp_path / "out", config, num_workers=0, report=stop)
    with pytest.raises(
        UserError, match="index.json is of a corpus that was not finished; run its litebert corpus again"
    ):
        open_corpus(tmp_path / "out")


def test_what_a_killed_build_left_unfinished_is_removed_and_what_others_build_is_not(
    text: Path, vocabulary: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    code = "0" * 32
    own = [f".train-1-of-2-00003.bin.{code}.tmp", f".dev-1-of-2-00000.bin.{code}.tmp", f".index-1-of-2.json.{code}.tmp"]
    others = [f".train-2-of-2-00003.bin.{code}.tmp", f".train-00003.bin.{code}.tmp", f".notes.txt.{code}.tmp"]
    for name in (*own, *others):
        (out / name).touch()
    build_corpus(find_sources([text]), vocabulary, out, BuildConfig(), part=Part(1, 2), num_workers=0)
    assert {file.name for file in out.glob(".*")} == set(others)


@pytest.mark.parametrize("harm", [Path.unlink, lambda file: file.write_bytes(b"")])
def test_a_build_whose_shards_were_lost_is_not_gone_on_with(
    text: Path, vocabulary: Path, tmp_path: Path, harm: Callable[[Path], Any]
) -> None:
    def stop(source_bytes: int, text_bytes: int) -> None:
        if text_bytes > 20_000:
            raise StopError

    config = BuildConfig(shard_size=1500, dev_share=0.1)
    with pytest.raises(StopError):
        build_corpus(find_sources([text]), vocabulary, tmp_path / "out", config, num_workers=0, report=stop)
    harm(tmp_path / "out" / "train-00001.bin")
    with pytest.raises(UserError, match=r"train-00001.bin is missing or of another size; .* remove .*index.json"):
        make(text, vocabulary, tmp_path / "out")
    (tmp_path / "out" / "index.json").unlink()
    assert make(text, vocabulary, tmp_path / "out").complete


@pytest.mark.parametrize(("num_files", "deduplicate"), [(1, False), (7, False), (7, True)])
def test_parts_in_one_folder_are_the_whole_corpus(
    vocabulary: Path, documents: list[str], tmp_path: Path, num_files: int, deduplicate: bool
) -> None:
    text = write_text(tmp_path / "text", documents + documents[:50], num_files)
    make(text, vocabulary, tmp_path / "whole", deduplicate=deduplicate)
    for number in (3, 1, 2):
        if number == 2:
            with pytest.raises(UserError, match="lacks part 2 of 3; copy their files there"):
                open_corpus(tmp_path / "parts")
        make(text, vocabulary, tmp_path / "parts", part=Part(number, 3), deduplicate=deduplicate)
    for split in ("train", "dev"):
        whole, parts = (Counter(read_documents(open_corpus(tmp_path / name, split))) for name in ("whole", "parts"))
        assert whole == parts
    whole_counts, part_counts = (add_statistics(find_indexes(str(tmp_path / name))) for name in ("whole", "parts"))
    assert whole_counts == part_counts


def test_parts_that_do_not_belong_together_are_refused(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    make(text, vocabulary, tmp_path / "out", part=Part(1, 2))
    make(text, vocabulary, tmp_path / "other", part=Part(2, 2), dev_share=0.2)
    (tmp_path / "other" / "index-2-of-2.json").rename(tmp_path / "out" / "index-2-of-2.json")
    with pytest.raises(UserError, match="mixes corpora: index-1-of-2.json and index-2-of-2.json differ in config"):
        open_corpus(tmp_path / "out")
    (text / "more.txt").write_text("The fox.\n")
    make(text, vocabulary, tmp_path / "third", part=Part(1, 2))
    (tmp_path / "third" / "index-1-of-2.json").rename(tmp_path / "out" / "index-1-of-2.json")
    with pytest.raises(UserError, match="differ in config, sources; keep those of one"):
        open_corpus(tmp_path / "out")


@pytest.mark.parametrize(
    ("part", "dev_share", "message"),
    [
        (Part(2, 2), 0.2, "index-1-of-2.json was built from the same text with other options .now --dev-share 0.2 "),
        (Part(2, 3), 0.1, "index-1-of-2.json was built in another number of parts"),
        (Part(1, 1), 0.1, "index-1-of-2.json was built in another number of parts"),
    ],
)
def test_part_is_not_built_beside_those_of_another_corpus(
    text: Path, vocabulary: Path, tmp_path: Path, part: Part, dev_share: float, message: str
) -> None:
    out = tmp_path / "out[1]"
    make(text, vocabulary, out, part=Part(1, 2), dev_share=0.1)
    before = contents(out)
    with pytest.raises(UserError, match=message):
        make(text, vocabulary, out, part=part, dev_share=dev_share)
    assert contents(out) == before
    assert make(text, vocabulary, out, part=Part(2, 2), dev_share=0.1).complete


def test_url_that_cannot_be_reached_is_not_taken_for_one_without_a_corpus(
    text: Path, vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no route")

    out = "memory://unreachable/corpus"
    make(text, vocabulary, out)
    monkeypatch.setattr(MemoryFileSystem, "glob", fail)
    with pytest.raises(UserError, match="no route"):
        make(text, vocabulary, out)


def test_duplicates_are_left_out_and_counted(vocabulary: Path, documents: list[str], tmp_path: Path) -> None:
    text = write_text(tmp_path / "text", [*documents, *documents[::3], *documents[:1]])
    index = make(text, vocabulary, tmp_path / "out", deduplicate=True)
    assert index.statistics.num_duplicates == 101
    assert index.statistics.num_documents == 300


def test_the_same_documents_are_held_out_whatever_else_there_is(
    vocabulary: Path, documents: list[str], tmp_path: Path
) -> None:
    small = write_text(tmp_path / "small", documents)
    large = write_text(tmp_path / "large", make_documents(200, seed=1) + documents)
    make(small, vocabulary, tmp_path / "one")
    make(large, vocabulary, tmp_path / "two")
    one, two = (Counter(read_documents(open_corpus(tmp_path / name, "dev"))) for name in ("one", "two"))
    assert one and not one - two


def test_documents_without_tokens_are_counted_as_empty(vocabulary: Path, tmp_path: Path) -> None:
    text = write_text(tmp_path / "text", ["The fox.", "\u200b", "The dog."], num_files=1)
    index = make(text, vocabulary, tmp_path / "out", dev_share=0.0)
    assert (index.statistics.num_documents, index.statistics.num_empty) == (2, 1)
    with pytest.raises(UserError, match="has no dev documents; build it with a larger --dev share"):
        open_corpus(tmp_path / "out", "dev")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"dev_share": 0.5},
            r"other options \(now --dev-share 0.5 instead of .*\); choose another --out, or remove it",
        ),
        ({"text": True}, "was built from other text"),
        ({"vocabulary": True}, "was built from another vocabulary"),
    ],
)
def test_a_corpus_is_never_overwritten(
    text: Path, vocabulary: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    make(text, vocabulary, tmp_path / "out")
    before = contents(tmp_path / "out")
    assert make(text, vocabulary, tmp_path / "out").complete, "the same again is no work and no mistake"
    if change.pop("text", False):
        (text / "more.txt").write_text("More text.\n")
    if change.pop("vocabulary", False):
        (vocabulary / "vocab.txt").write_text("\n".join([*PIECES, "new"]) + "\n")
    with pytest.raises(UserError, match=message):
        make(text, vocabulary, tmp_path / "out", **change)
    assert contents(tmp_path / "out") == before


def test_a_text_that_was_written_later_is_told(
    text: Path, vocabulary: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(text, vocabulary, tmp_path / "out")
    index, file = tmp_path / "out" / "index.json", min(text.iterdir())
    make(text, vocabulary, tmp_path / "out")
    assert not caplog.messages
    os.utime(file, (0, index.stat().st_mtime + 1))
    make(text, vocabulary, tmp_path / "out")
    told = f"{file} was written, or copied, after the corpus in {tmp_path}/out; if it is another text now, choose"
    assert caplog.messages == [f"{told} another --out"]


def test_a_folder_with_another_vocabulary_is_left_as_it_is(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "vocab.txt").write_text("\n".join([*PIECES, "new"]) + "\n")
    before = contents(tmp_path / "model")
    with pytest.raises(UserError, match="vocab.txt is of another vocabulary than --vocab's; choose another --out"):
        make(text, vocabulary, tmp_path / "model")
    assert contents(tmp_path / "model") == before


def test_text_without_a_token_and_impossible_parts_are_refused(vocabulary: Path, tmp_path: Path) -> None:
    text = write_text(tmp_path / "text", ["\u200b"], num_files=1)
    with pytest.raises(UserError, match="no sentence with a token in it"):
        make(text, vocabulary, tmp_path / "out")
    with pytest.raises(UserError, match="the part is 3/2; it must be one of 1/2 to 2/2"):
        make(text, vocabulary, tmp_path / "out", part=Part(3, 2))
    with pytest.raises(UserError, match="the part is 1/0; a corpus has at least one part"):
        make(text, vocabulary, tmp_path / "out", part=Part(1, 0))
    with pytest.raises(UserError, match="dev_share is 1; it must be at least 0 and below 1"):
        BuildConfig(dev_share=1)
    with pytest.raises(UserError, match="shard_size is 0"):
        BuildConfig(shard_size=0)


def test_what_is_bad_stops_the_build_or_is_counted(
    vocabulary: Path, documents: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = write_text(tmp_path / "text", documents)
    (text / "bad.txt").write_bytes(b"The fox.\n\nThe \xff dog.\n\nThe rain.\n\n\xff\n")
    with pytest.raises(UserError, match="bad.txt, line 3"):
        make(text, vocabulary, tmp_path / "out")
    index = make(text, vocabulary, tmp_path / "skipping", skip_bad=True)
    assert index.statistics.num_skipped == 2
    assert "skipped" in caplog.text and "bad.txt, line 3" in caplog.text
    assert index.statistics.num_documents == 302


def test_links_that_lead_nowhere_are_skipped_again_when_a_build_goes_on(
    text: Path, vocabulary: Path, tmp_path: Path
) -> None:
    for number, target in enumerate(("nowhere", 300 * "x")):
        (text / f"link-{number}.txt").symlink_to(target)
    for _ in range(2):
        assert make(text, vocabulary, tmp_path / "out", skip_bad=True).statistics.num_skipped == 2


def test_skipping_may_be_turned_on_for_a_build_that_stopped(
    vocabulary: Path, documents: list[str], tmp_path: Path
) -> None:
    """What was written before the bad record is kept, and the count is that of a build in one go."""
    text = write_text(tmp_path / "text", documents)
    for number in range(3):
        with (text / f"{number}.txt").open("ab") as file:
            file.write(b"\n\n\xff\n\nThe fox.\n")
    with pytest.raises(UserError, match="0.txt, line"):
        make(text, vocabulary, tmp_path / "stopped", workers=1)
    assert list((tmp_path / "stopped").glob("train-*.bin"))
    one, two = (make(text, vocabulary, tmp_path / name, skip_bad=True) for name in ("stopped", "whole"))
    assert one.statistics == two.statistics and one.statistics.num_skipped == 3
    assert one.shards == two.shards
    parts = [make(text, vocabulary, tmp_path / "parts", part=Part(n, 4), skip_bad=True) for n in (1, 2, 3, 4)]
    assert sum(part.statistics.num_skipped for part in parts) == 3


def test_a_corpus_is_not_made_of_its_own_files(text: Path, vocabulary: Path) -> None:
    for _ in range(2):
        assert make(text, vocabulary, text / "corpus").statistics.num_documents == 300
    with pytest.raises(UserError, match="there is no text to build"):
        make(text / "corpus" / "vocab.txt", vocabulary, text / "corpus")


def test_text_that_lies_where_the_corpus_is_built_is_read(text: Path, vocabulary: Path) -> None:
    assert make(text, vocabulary, text).statistics.num_documents == 300
    assert make(text, vocabulary, text).statistics.num_documents == 300


def test_a_folder_that_holds_a_vocabulary_of_another_kind_is_refused(
    text: Path, vocabulary: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "spiece.model").write_bytes(b"of a build that was given up")
    with pytest.raises(UserError, match="out/spiece.model is of another vocabulary than --vocab's; remove it, or"):
        make(text, vocabulary, tmp_path / "out")
    assert list(contents(tmp_path / "out")) == ["spiece.model"]


def test_a_vocabulary_that_was_lost_is_put_back(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    make(text, vocabulary, tmp_path / "out")
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "vocab.txt").unlink()
    make(text, vocabulary, tmp_path / "out")
    assert contents(tmp_path / "out") == before


def test_a_corpus_is_opened_by_the_url_of_a_file(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    make(text, vocabulary, f"file://{tmp_path}/out")
    assert read_documents(open_corpus(f"file://{tmp_path}/out")) == read_documents(open_corpus(tmp_path / "out"))


def test_the_vocabulary_that_decides_is_the_one_that_is_kept(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    """A folder of the hub may hold a SentencePiece model under another name beside its tokenizer.json."""
    from tokenizers import Tokenizer, models

    (vocabulary / "vocab.txt").unlink()
    tokenizer = Tokenizer(models.WordLevel({piece: n for n, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.save(str(vocabulary / "tokenizer.json"))
    (vocabulary / "other.model").write_bytes(b"not asked")
    make(text, vocabulary, tmp_path / "out")
    assert open_corpus(tmp_path / "out").vocabulary.size == len(PIECES)


def test_a_corpus_is_built_at_a_url(
    text: Path, vocabulary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    monkeypatch.setenv("LITEBERT_CACHE", str(tmp_path / "cache"))
    make(text, vocabulary, tmp_path / "out")
    make(text, vocabulary, "memory://built/here")
    remote = open_corpus("memory://built/here")
    assert read_documents(remote) == read_documents(open_corpus(tmp_path / "out"))
    fsspec.filesystem("memory").rm("/built", recursive=True)


def test_words_of_jieba_are_kept_beside_the_tokens(tmp_path: Path) -> None:
    jieba = pytest.importorskip("jieba")
    folder = tmp_path / "vocabulary"
    folder.mkdir()
    sentence = "我们喜欢自然语言处理。"
    (folder / "vocab.txt").write_text("\n".join([*PIECES[:5], *sorted(set(sentence))]) + "\n", encoding="utf-8")
    text = write_text(tmp_path / "text", [sentence * 3], num_files=1)
    make(text, folder, tmp_path / "out", words="jieba", dev_share=0.0)
    shard = open_corpus(tmp_path / "out").shards[0]
    flags = shard.word_starts(0, len(shard.tokens)).tolist()
    starts = [flag for word in jieba.cut(sentence) for flag in [True] + [False] * (len(word) - 1)]
    assert flags == starts * 3 and not all(flags)


def test_the_mark_of_a_space_is_of_the_word_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "word_starts", lambda text: [0, 7])

    class Marked:
        def encode_many(self, _: list[str]) -> list[np.ndarray]:
            return [np.zeros(0, np.uint16)]

        def encode_spans(self, _: str) -> Spans:
            return Spans([1, 2, 3, 1, 4], [0, 0, 3, 7, 7], [0, 3, 6, 7, 8])

    encoder = encode.DocumentEncoder(Marked(), "jieba")  # type: ignore[arg-type]
    assert encoder.encode_words(["secret 是"])[2].tolist() == [True, False, False, True, False]


def test_the_index_says_what_was_built(text: Path, vocabulary: Path, tmp_path: Path) -> None:
    index = make(text, vocabulary, tmp_path / "out")
    written = json.loads((tmp_path / "out" / "index.json").read_text())
    assert written["config"]["dev_share"] == 0.1 and written["complete"]
    assert written["sources"]["files"] == 3
    assert written["vocabulary"] == open_vocabulary(vocabulary).fingerprint
    for entry in written["shards"]:
        assert hashlib.sha256((tmp_path / "out" / entry["name"]).read_bytes()).hexdigest() == entry["sha256"]
    assert len(written["shards"]) == len(index.shards)


def test_seen_hashes_are_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litebert.corpus.seen.LONGEST_RUN", 64)
    random, seen, known = np.random.default_rng(0), Seen(), set()
    for _ in range(300):
        hashes = random.integers(0, 1500, random.integers(1, 12)).astype(np.uint64)
        expected = []
        for value in hashes.tolist():
            expected.append(value not in known)
            known.add(value)
        assert seen.add(hashes).tolist() == expected
    assert len(seen.runs) > 3 and any(isinstance(run, np.memmap) for run in seen.runs)
    assert sum(map(len, seen.runs)) == len(known)
