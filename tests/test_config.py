import json
from collections.abc import Callable
from pathlib import Path

import pytest

from litebert.config import (
    OtherFormatError,
    UserError,
    from_dict,
    override,
    read_json,
    refuse_changes,
    seal,
    unseal,
    write_json,
)
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import HeadConfig


def test_a_number_beyond_measure_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"size": ' + "9" * 5000 + "}")
    with pytest.raises(UserError, match=r"a.json is not valid JSON"):
        read_json(tmp_path / "a.json")


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(UserError, match="no 'hiden_size' .did you mean 'hidden_size'"):
        override(EncoderConfig(), {"hiden_size": 3})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hidden_size", "768", "must be int"),
        ("hidden_size", True, "must be int"),
        ("hidden_size", 768.5, "must be int"),
        ("hidden_dropout", "a lot", "must be float"),
        ("activation", "gelu", "one of 'gelu_tanh'"),
        ("projection", 1, "must be bool"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, value: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        override(EncoderConfig(), {key: value})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"num_heads": 7}, "hidden_size is 768, which 7 heads do not divide"),
        ({"projection": False}, "needs a projection"),
        ({"hidden_dropout": 1.0}, r"hidden_dropout is 1.0; it must be in \[0, 1\)"),
        ({"layer_norm_epsilon": 0.0}, "layer_norm_epsilon is 0.0"),
        ({"initializer_range": -0.1}, "initializer_range is -0.1"),
        ({"sharing": "some"}, "sharing is 'some'; it must be all, none"),
        ({"sharing": "groups=13"}, "M must be from 1 to num_layers, 12"),
        ({"sharing": "0,1,2"}, "3 entries; num_layers is 12"),
        ({"sharing": "0,2", "num_layers": 2}, "count up from 0 without gaps"),
    ],
)
def test_an_impossible_value_is_refused_when_the_config_is_made(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        override(EncoderConfig(), changes)


def test_an_int_is_a_float_and_a_list_of_json_is_a_tuple() -> None:
    assert override(EncoderConfig(), {"hidden_dropout": 0}).hidden_dropout == 0
    head = from_dict(HeadConfig, {"kind": "classes", "labels": ["no", "yes"]})
    assert head.labels == ("no", "yes")


def test_heads_refuse_what_they_cannot_mean() -> None:
    with pytest.raises(UserError, match="choose 2 or 3"):
        HeadConfig(kind="pair", num_classes=4)
    with pytest.raises(UserError, match="1 labels for 2 classes"):
        HeadConfig(kind="classes", labels=("one",))


@pytest.mark.parametrize("content", ["", "{", '{"a": 1', "[1, 2]", "\udcff"])
def test_a_file_that_is_no_json_object_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match="config.json"):
        read_json(file)


def test_json_comes_back_as_written(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "中文", "size": 3})
    assert read_json(tmp_path / "a.json") == {"name": "中文", "size": 3}


SEALED = {"name": "中文 \udcff", "sizes": [1, 2], "rate": 0.1, "none": None, "deep": {"b": float("inf"), "a": True}}


def test_what_was_sealed_comes_back_in_its_order() -> None:
    content = unseal(seal(SEALED, 3).encode(), 3)
    assert content == SEALED and list(content["deep"]) == ["b", "a"]


def test_every_flipped_bit_of_sealed_json_is_noticed_also_in_its_white_space() -> None:
    whole = seal(SEALED, 3).encode()
    for place in range(len(whole)):
        for bit in range(8):
            broken = bytearray(whole)
            broken[place] ^= 1 << bit
            with pytest.raises(ValueError, match="is damaged|has format"):
                unseal(bytes(broken), 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + " ",
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace('"rate"', '"rate": 0.2, "rate"'),
        lambda text: text.replace("0.1", "0.10"),
        lambda text: text.replace('"format": 3', '"format": 3.0'),
        lambda text: json.dumps(json.loads(text)),
        lambda text: json.dumps({"deep": 1, **json.loads(text)}, indent=1) + "\n",
        lambda text: text.encode("utf-16").decode("latin-1"),
        lambda text: '{"format": 3, "sha256": "", "a": ' + "[" * 5000 + "]" * 5000 + "}",
    ],
)
def test_other_spellings_of_sealed_json_are_noticed(change: Callable[[str], str]) -> None:
    with pytest.raises(ValueError, match="^is damaged$"):
        unseal(change(seal(SEALED, 3)).encode("latin-1"), 3)


def test_sealed_json_of_another_format_is_told_from_a_damaged_one() -> None:
    with pytest.raises(OtherFormatError, match="^has format 4; this version reads 3$"):
        unseal(seal(SEALED, 4).encode(), 3)


@pytest.mark.parametrize(
    ("before", "asked", "said"),
    [
        ({"steps": 200}, {"steps": 100}, "--steps 100 instead of --steps 200"),
        ({"seed": 1}, {"seed": 0}, "--seed 0 instead of --seed 1"),
        ({"minutes": None}, {"minutes": 2.5}, "--minutes 2.5 instead of no --minutes"),
        ({"depths": ("3", "6@0.5")}, {"depths": ()}, "no --depths instead of --depths 3 6@0.5"),
        ({"tasks": []}, {"tasks": ["rte=my data/RTE"]}, "--tasks 'rte=my data/RTE' instead of no --tasks"),
        ({"retry_if_stuck": False}, {"retry_if_stuck": True}, "--retry-if-stuck instead of no --retry-if-stuck"),
        (
            {"pairs": {"length": 128, "windows": "document"}, "seed": 1},
            {"pairs": {"length": 64, "windows": "document"}, "seed": 2},
            "--length 64 instead of --length 128; --seed 2 instead of --seed 1",
        ),
    ],
)
def test_what_has_changed_is_told_as_it_is_typed(
    before: dict[str, object], asked: dict[str, object], said: str
) -> None:
    refuse_changes(before, before, "runs/a")
    with pytest.raises(UserError) as error:
        refuse_changes(asked, before, "runs/a")
    assert str(error.value) == (
        f"runs/a is a run with another config (now {said}); give the same to go on with it, or a new --run"
    )
