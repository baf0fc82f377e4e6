import math
from dataclasses import replace

import pytest
import torch

from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.presets import PRESETS, find_preset


def count(config: EncoderConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Model(config).parameters())


@pytest.mark.parametrize(
    ("name", "encoder", "masked_token", "pair"),
    [
        ("albert-base-v2", 11_683_584, 128_688, 1_538),
        ("albert-large-v2", 17_683_968, 161_456, 2_050),
        ("albert-xlarge-v2", 58_724_864, 292_528, 4_098),
        ("albert-xxlarge-v2", 222_595_584, 554_672, 8_194),
    ],
)
def test_albert_sizes_have_exactly_the_parameters_of_the_released_shapes(
    name: str, encoder: int, masked_token: int, pair: int
) -> None:
    config = find_preset(name)
    assert count(config) == encoder == count(find_preset(name.replace("v2", "v1")))
    with torch.device("meta"):
        heads = Model(config, PRETRAINING).heads
    assert sum(parameter.numel() for parameter in heads["masked_token"].parameters()) == masked_token
    assert sum(parameter.numel() for parameter in heads["pair"].parameters()) == pair


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("bert-base", 108),
        ("bert-large", 334),
        ("bert-xlarge", 1270),
        ("albert-base", 12),
        ("albert-large", 18),
        ("albert-xlarge", 60),
    ],
)
def test_sizes_are_those_of_table_1(name: str, millions: int) -> None:
    assert count(find_preset(name)) / 1e6 == pytest.approx(millions, rel=0.03)


@pytest.mark.parametrize(
    ("sharing", "embedding_size", "millions"),
    [
        ("none", 64, 87.6),
        ("none", 128, 89.7),
        ("none", 256, 93.7),
        ("none", 768, 109.1),
        ("all", 64, 9.7),
        ("all", 128, 11.7),
        ("all", 256, 15.7),
        ("all", 768, 31.1),
        ("attention", 768, 83.1),
        ("attention", 128, 63.7),
        ("ffn", 768, 57.1),
        ("ffn", 128, 37.7),
    ],
)
def test_every_row_of_tables_3_and_4_has_its_parameters(sharing: str, embedding_size: int, millions: float) -> None:
    config = replace(
        find_preset("albert-base"),
        sharing=sharing,
        embedding_size=embedding_size,
        projection=embedding_size != 768,
    )
    assert round(count(config) / 1e6, 1) == millions


def test_versions_differ_by_dropout_but_for_the_largest() -> None:
    for size in ("base", "large", "xlarge"):
        first, second = find_preset(f"albert-{size}-v1"), find_preset(f"albert-{size}-v2")
        assert (first.hidden_dropout, first.attention_dropout) == (0.1, 0.1)
        assert replace(first, hidden_dropout=0.0, attention_dropout=0.0) == second
    assert find_preset("albert-xxlarge-v1") == find_preset("albert-xxlarge-v2")


def test_a_name_without_a_version_is_version_2_and_an_unknown_one_is_refused() -> None:
    assert find_preset("albert-base") == find_preset("albert-base-v2")
    with pytest.raises(UserError, match="no preset 'albert-nan' .did you mean 'albert-nano'"):
        find_preset("albert-nan")


@pytest.mark.parametrize("rung", ["nano", "micro", "mini", "small"])
def test_each_rung_of_the_ladder_has_a_bert_twin_and_an_initialiser_for_its_width(rung: str) -> None:
    albert, bert = find_preset(f"albert-{rung}"), find_preset(f"bert-{rung}")
    for field in ("vocab_size", "hidden_size", "num_layers", "num_heads", "feed_forward_size", "initializer_range"):
        assert getattr(albert, field) == getattr(bert, field)
    assert bert.embedding_size == bert.hidden_size and not bert.projection and bert.sharing == "none"
    assert albert.sharing == "all" and count(albert) < count(bert)
    assert 128 <= albert.hidden_size <= 384
    assert albert.initializer_range == pytest.approx(1 / math.sqrt(albert.hidden_size), rel=0.01)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_says_what_it_is_and_can_be_made(name: str) -> None:
    assert PRESETS[name].__doc__
    assert count(find_preset(name)) > 0
