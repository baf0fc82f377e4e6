from dataclasses import replace

import pytest

from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.presets import change_encoder, find_preset
from litebert.pretraining.config import PretrainConfig, check_encoder
from litebert.recipes import find_study
from litebert.studies.catalogue import STUDIES
from litebert.studies.study import MEASURES, change, identify
from litebert.training.costs import count_parameters

MIXED = PretrainConfig(preset="albert-base", mix=("wiki=0.7", "books=0.3"))


def encoders(study: str, preset: str = "albert-base") -> dict[str, EncoderConfig]:
    variants = STUDIES[study].variants(replace(MIXED, preset=preset))
    return {
        variant.name: change_encoder(find_preset(variant.settings.preset), variant.settings.encoder)
        for variant in variants
    }


def millions(config: EncoderConfig) -> float:
    """As the paper counts: without heads."""
    counted = count_parameters(config)
    return sum(number for part, number in counted.items() if part not in ("masked-token head", "pair head")) / 1e6


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("preset", ["albert-nano", "albert-base"])
def test_every_variant_of_every_study_can_be_run(name: str, preset: str) -> None:
    base = replace(find_study(preset), mix=MIXED.mix)
    variants = STUDIES[name].variants(base)
    names = [variant.name for variant in variants]
    assert len(set(names)) == len(names) > 1
    for variant in variants:
        encoder = change_encoder(find_preset(variant.settings.preset), variant.settings.encoder)
        check_encoder(variant.settings, encoder)
        assert set(variant.paper) <= set(MEASURES)
        assert variant.after is None or variant.after in names[: names.index(variant.name)]


def test_variants_differ_in_what_their_study_asks_about_and_in_nothing_else() -> None:
    expected = {
        "sharing": {"encoder"}, "embedding": {"encoder"}, "depth": {"encoder"}, "width": {"encoder"},
        "dropout": {"encoder"}, "layers": {"encoder"}, "sentence": {"pairs"}, "masking": {"masking"},
        "data": {"mix", "corpus"}, "sizes": {"preset"}, "time": {"encoder", "depths"},
    }  # fmt: skip
    for name, study in STUDIES.items():
        variants = [variant.settings.fixed for variant in study.variants(MIXED)]
        differing = {key for key in variants[0] if any(other[key] != variants[0][key] for other in variants)}
        assert differing == expected[name], name


def test_the_sharing_study_has_the_parameters_of_the_paper_s_table_4() -> None:
    found = {name: round(millions(encoder)) for name, encoder in encoders("sharing").items()}
    assert {name: found[name] for name in ("all", "attention", "ffn", "none")} == {
        "all": 12, "attention": 64, "ffn": 38, "none": 90,
    }  # fmt: skip


def test_the_embedding_study_has_the_parameters_of_the_paper_s_table_3() -> None:
    found = {name: round(millions(encoder), 1) for name, encoder in encoders("embedding").items()}
    # Shared and as wide as the hidden states, the preset keeps its projection, which the paper's count is without.
    without = 31.1 + (768 * 768 + 768) / 1e6
    assert found == pytest.approx({
        "not shared, E=64": 87.6, "not shared, E=128": 89.7, "not shared, E=256": 93.7,
        "not shared, E=768": 109.1 + (768 * 768 + 768) / 1e6,
        "shared, E=64": 9.7, "shared, E=128": 11.7, "shared, E=256": 15.7, "shared, E=768": without,
    }, abs=0.06)  # fmt: skip


def test_each_depth_begins_with_the_one_before_it() -> None:
    variants = STUDIES["depth"].variants(MIXED)
    assert [variant.after for variant in variants] == [None, "1 layer", "3 layers", "6 layers", "12 layers"]


def test_widths_keep_the_size_of_heads_and_the_scale_of_the_initialiser() -> None:
    found = encoders("width", "albert-nano").values()
    assert [encoder.hidden_size for encoder in found] == [128, 256, 512]
    assert {encoder.hidden_size // encoder.num_heads for encoder in found} == {64}
    assert [encoder.initializer_range**2 * encoder.hidden_size for encoder in found] == pytest.approx(
        [1, 1, 1], rel=0.01
    )


def test_one_model_has_one_config_however_a_study_came_to_it() -> None:
    (shared,) = [variant for variant in STUDIES["sharing"].variants(MIXED) if variant.name == "all"]
    (order,) = [variant for variant in STUDIES["sentence"].variants(MIXED) if variant.name == "sop"]
    (without,) = [variant for variant in STUDIES["dropout"].variants(MIXED) if variant.name == "without dropout"]
    assert shared.settings == order.settings == without.settings == MIXED


def test_what_decides_what_is_learned_decides_the_name_of_a_run() -> None:
    assert identify(MIXED) == identify(replace(MIXED, evaluation_sequences=7, minutes=3))
    names = {identify(settings) for settings in (MIXED, replace(MIXED, seed=1), change(MIXED, {"num_layers": 3}))}
    assert len(names) == 3


def test_additional_data_needs_data() -> None:
    with pytest.raises(UserError, match="name at least two: --mix"):
        STUDIES["data"].variants(PretrainConfig(corpus="wiki"))


def test_sizes_are_the_study_s_own() -> None:
    with pytest.raises(UserError, match="leave out --encoder num_layers=2"):
        STUDIES["sizes"].variants(replace(MIXED, encoder=("num_layers=2",)))
    assert list(encoders("sizes", "albert-micro")) == ["albert-micro", "bert-micro", "albert-mini", "bert-mini"]
