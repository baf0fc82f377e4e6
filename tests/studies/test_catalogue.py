from dataclasses import replace

import pytest

from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.presets import change_encoder, find_preset
from litebert.pretraining.config import PretrainConfig, check_encoder
from litebert.recipes import find_study_settings
from litebert.studies.catalogue import STUDIES
from litebert.studies.study import MEASURES
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
    base = replace(find_study_settings(preset), mix=MIXED.mix)
    variants = STUDIES[name].variants(base)
    names = [variant.name for variant in variants]
    assert len(set(names)) == len(names) > 1
    for variant in variants:
        encoder = change_encoder(find_preset(variant.settings.preset), variant.settings.encoder)
        assert (variant.settings.init is None) == (variant.after is None)
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
        variants = [variant.settings.fixed | {"init": None} for variant in study.variants(MIXED)]
        differing = {key for key in variants[0] if any(other[key] != variants[0][key] for other in variants)}
        assert differing == expected[name], name


def test_the_sharing_study_has_the_parameters_of_the_paper_s_table_4() -> None:
    found = {name: round(millions(encoder)) for name, encoder in encoders("sharing").items()}
    assert {name: found[name] for name in ("all", "attention", "ffn", "none")} == {
        "all": 12, "attention": 64, "ffn": 38, "none": 90,
    }  # fmt: skip


def test_the_embedding_study_has_the_parameters_of_the_paper_s_table_3() -> None:
    found = {name: millions(encoder) for name, encoder in encoders("embedding").items()}
    assert found == pytest.approx({
        "not shared, E=64": 87.6, "not shared, E=128": 89.7, "not shared, E=256": 93.7, "not shared, E=768": 109.1,
        "shared, E=64": 9.7, "shared, E=128": 11.7, "shared, E=256": 15.7, "shared, E=768": 31.1,
    }, abs=0.06)  # fmt: skip


def test_embeddings_are_never_wider_than_the_hidden_states() -> None:
    assert list(encoders("embedding", "albert-micro")) == [
        f"{kind}, E={size}" for kind in ("not shared", "shared") for size in (64, 128, 192)
    ]


# The paper's averages, from its tables.
FIGURES = {
    "embedding": {"not shared, E=64": 81.3, "not shared, E=128": 81.7, "not shared, E=256": 81.8,
                  "not shared, E=768": 82.3, "shared, E=64": 79.0, "shared, E=128": 80.1, "shared, E=256": 79.6,
                  "shared, E=768": 79.8},
    "sharing": {"all": 80.1, "attention": 81.7, "ffn": 80.2, "none": 81.6},
    "sentence": {"none": 79.0, "nsp": 79.2, "sop": 80.1},
    "depth": {"1 layer": 52.9, "3 layers": 71.2, "6 layers": 77.2, "12 layers": 81.5, "24 layers": 82.1},
    "sizes": {"albert-base-v1": 80.1, "bert-base": 82.3, "albert-large-v1": 82.4, "bert-large": 85.2},
    "dropout": {"with dropout": 90.4, "without dropout": 90.7},
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_each_variant_stands_beside_its_own_figure(name: str) -> None:
    variants = STUDIES[name].variants(MIXED)
    assert {v.name: v.paper["downstream"] for v in variants if "downstream" in v.paper} == FIGURES[name]


@pytest.mark.parametrize("preset", ["albert-nano", "albert-base", "albert-large"])
def test_each_depth_begins_with_the_one_before_it_and_says_its_own_depth(preset: str) -> None:
    variants = STUDIES["depth"].variants(replace(MIXED, preset=preset))
    for variant, layers in zip(variants[1:], (3, 6, 12, 24), strict=True):  # else the folder's would stay
        assert f"num_layers={layers}" in variant.settings.encoder
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


def test_additional_data_needs_data() -> None:
    with pytest.raises(UserError, match="name at least two: --mix"):
        STUDIES["data"].variants(PretrainConfig(corpus="wiki"))


def test_sizes_are_the_study_s_own() -> None:
    with pytest.raises(UserError, match="sharing is what the study's models differ in; leave it out of --encoder"):
        STUDIES["sizes"].variants(replace(MIXED, encoder=("num_layers=2", "sharing=none")))
    shallow = STUDIES["sizes"].variants(replace(MIXED, encoder=("num_layers=2",)))
    assert {variant.settings.encoder for variant in shallow} == {("num_layers=2",)}
    with pytest.raises(
        UserError, match="--preset is bert-nano; this study compares fixed pairs of sizes: choose albert-base,"
    ):
        STUDIES["sizes"].variants(replace(MIXED, preset="bert-nano"))
    assert list(encoders("sizes", "albert-micro")) == ["albert-micro", "bert-micro", "albert-mini", "bert-mini"]
    assert {encoder.hidden_dropout for encoder in encoders("sizes").values()} == {0.1}


def test_masks_are_what_they_are_called_whatever_is_common() -> None:
    base = replace(MIXED, masking=replace(MIXED.masking, masking="word", rate=0.5, hardness=2.0))
    masks = {variant.name: variant.settings.masking for variant in STUDIES["masking"].variants(base)}
    assert masks["n-grams"] == MIXED.masking and masks["n-grams, hard tokens"].hardness == 1


def test_layers_are_those_of_an_albert_and_a_bert_from_either() -> None:
    for preset in ("albert-nano", "bert-nano"):
        albert, bert = encoders("layers", preset).values()
        assert (albert.sharing, bert.sharing) == ("all", "none") and albert.num_layers == bert.num_layers == 12


def test_what_a_study_cannot_heed_is_refused() -> None:
    with pytest.raises(UserError, match="--steps is 9; time gives all runs equal time"):
        STUDIES["time"].variants(replace(MIXED, steps=9))
    with pytest.raises(UserError, match="--init is model; a study compares models that begin anew"):
        STUDIES["sharing"].variants(replace(MIXED, init="model"))
