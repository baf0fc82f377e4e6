import gzip
import json
import pydoc_data.topics
from pathlib import Path

import pytest
import transformers

from litebert.__main__ import main
from litebert.commands.vocab import measure_units
from litebert.config import UserError
from litebert.text.vocabulary import open_vocabulary

TOPICS = list(pydoc_data.topics.topics.values())[:30]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    with gzip.open(tmp_path / "topics.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n\n\n".join(TOPICS))
    return tmp_path / "topics.txt.gz"


def run(*arguments: object) -> None:
    main(["vocab", *map(str, arguments)])


def fail(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as error:
        run(*arguments)
    said = capsys.readouterr()
    assert error.value.code == 2 and not said.out
    return said.err


def test_a_vocabulary_is_trained_and_described(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(text, "--size", 500, "--out", tmp_path / "vocabulary")
    said = capsys.readouterr()
    assert not said.err
    assert "lines learned from, each once" in said.out and "\na line in pieces: ▁" in said.out
    for word in ("pieces", "500", "lines", "megabytes", "bytes per token", "tokens per word", "unknown rate", "▁"):
        assert word in said.out
    assert f"{tmp_path / 'vocabulary'}: trained in" in said.out
    ours = open_vocabulary(tmp_path / "vocabulary")
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "vocabulary")
    assert ours.size == 500 and peer("The value", "is").input_ids == ours.add_special(
        ours.encode("the value"), ours.encode("is")
    )


def test_the_report_is_json_on_demand(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(
        text,
        "--size",
        400,
        "--out",
        tmp_path / "out",
        "--json",
        "--sample",
        100,
        "--normalization",
        "xlnet",
        "--uncased",
    )
    report = json.loads(capsys.readouterr().out)
    lines = [line for topic in TOPICS for line in topic.split("\n") if line.strip()]
    assert report["lines"] == len(lines) and 90 < report["lines_sampled"] <= 100 and report["pieces"] == 400
    assert report["megabytes"] == pytest.approx(sum(len(line.strip().encode()) for line in lines) / 1e6)
    assert report["unknown_rate"] < 0.01 and report["tokens_per_word"] > 1 and report["bytes_per_token"] > 1
    assert "".join(report["example"]).startswith("▁")
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert settings["litebert"] == {"normalization": "xlnet", "cased": False}


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("今天天气很好，我们去公园散步吧。", {"tokens_per_character": 8 / 16}),
        ("今日は天気がいい ので公園へ行く", {"tokens_per_character": 8 / 15}),
        ("วันนี้อากาศดี", {"tokens_per_character": 8 / 13}),
        ("오늘은 날씨가 좋아서 공원에", {"tokens_per_word": 8 / 4}),
        ("the Chinese word 天 means sky", {"tokens_per_word": 8 / 6}),
    ],
)
def test_tokens_are_told_by_words_where_spaces_part_them_and_else_by_characters(
    text: str, measured: dict[str, float]
) -> None:
    assert measure_units(text, 8) == pytest.approx(measured)


def test_the_same_command_gives_the_same_files(text: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(text, "--size", 300, "--sample", 200, "--out", tmp_path / name, "--json")
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_mistakes_are_said_in_a_sentence(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", tmp_path / "out")
    assert "TEXT is missing" in fail(capsys, *out)
    assert "nowhere.txt does not exist" in fail(capsys, tmp_path / "nowhere.txt", *out)
    assert "and the text gives at most" in fail(capsys, text, *out)
    assert "--cased and --uncased exclude each other" in fail(capsys, text, *out, "--cased", "--uncased")
    assert "--coverage is 2.0; it must" in fail(capsys, text, *out, "--coverage", 2)
    assert "'nfc'" in fail(capsys, text, *out, "--normalization", "nfc")
    (tmp_path / "blank.txt").write_text(" \n\n")
    assert "no text" in fail(capsys, tmp_path / "blank.txt", *out)
    assert "no text to learn" in fail(capsys, tmp_path / "blank.txt", *out, "--skip-bad")
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_is_not_overwritten_unasked(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(text, "--size", 300, "--out", tmp_path / "out", "--json")
    before = open_vocabulary(tmp_path / "out").fingerprint
    capsys.readouterr()
    assert "has a vocabulary already" in fail(capsys, text, "--size", 400, "--out", tmp_path / "out")
    assert open_vocabulary(tmp_path / "out").fingerprint == before
    run(text, "--size", 400, "--out", tmp_path / "out", "--overwrite", "--json")
    assert open_vocabulary(tmp_path / "out").size == 400


def test_url_for_a_local_folder_is_refused_and_makes_none(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (["--out", "s3://bucket/vocab"], ["--out=s3://bucket/vocab"]):
        said = fail(capsys, text, "--size", 300, *arguments)
        assert "s3://bucket/vocab behind --out is a URL; give a local path" in said
    assert not Path("s3:").exists()


def test_model_of_ours_without_its_settings_is_not_taken_for_googles(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(text, "--size", 300, "--out", tmp_path / "out", "--json")
    alone = tmp_path / "my.model"
    (tmp_path / "out" / "spiece.model").rename(alone)
    for settings in (None, {"model_max_length": 512}):
        if settings:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        with pytest.raises(UserError, match="my.model was trained by litebert vocab, .* copy that beside it"):
            open_vocabulary(alone)
