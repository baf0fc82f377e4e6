import errno
import json
import logging
import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from litebert.batch import Batch
from litebert.config import UserError, read_json
from litebert.models.encoder import EncoderConfig
from litebert.models.folder import read_model, write_model
from litebert.models.heads import PRETRAINING, HeadConfig
from litebert.models.model import Model
from litebert.models.names import name_tensors, to_folder
from litebert.presets import twin
from litebert.training.losses import Pretraining, mean_loss

ALBERT = EncoderConfig(
    vocab_size=61, embedding_size=16, hidden_size=32, num_layers=3, num_heads=4, feed_forward_size=64, num_positions=40,
    initializer_range=0.15,
)  # fmt: skip
BERT = twin(ALBERT)
CONFIGS = {"albert": ALBERT, "bert": BERT}
TOKENS = Batch.pack(
    [[2, 9, 8, 3], [2, 9, 10, 11, 12, 13, 3], [2, 20, 21, 3], [2, 5, 6, 7, 8, 9, 3]],
    [[0, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1]],
)
PADDED = {
    "input_ids": TOKENS.pad(TOKENS.token_ids_T),
    "attention_mask": TOKENS.pad(torch.ones_like(TOKENS.token_ids_T)),
    "token_type_ids": TOKENS.pad(TOKENS.segment_ids_T),
}
REAL = PADDED["attention_mask"].bool()


def make_model(config: EncoderConfig, *heads: HeadConfig, seed: int = 0) -> Model:
    """Random weights, also where a new model has zeros and ones, so that no part can hide."""
    torch.manual_seed(seed)
    model = Model(config, heads).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def open_in_transformers(kind: str, folder: Path, **options: Any) -> Any:
    model, report = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True, **options)
    wrong = {what: names for what, names in report.items() if names and what != "unexpected_keys"}
    assert not wrong, wrong
    return model.eval()


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def configurations() -> st.SearchStrategy[EncoderConfig]:
    """Random shapes of both families, among them every sharing that transformers can express."""

    def build(family: str, heads: int, head_size: int, layers: int, sharing: str, **rest: Any) -> EncoderConfig:
        config = EncoderConfig(
            vocab_size=61, num_positions=24, hidden_size=heads * head_size, num_heads=heads, num_layers=layers,
            initializer_range=0.1, **rest,
        )  # fmt: skip
        groups = {"all": "all", "none": "none", "groups": f"groups={(layers + 1) // 2}", "cycle": "cycle=1"}
        config = replace(config, sharing=groups[sharing])
        if layers % 2 == 0 and sharing == "cycle":
            config = replace(config, sharing="cycle=2")
        if layers % 2 and sharing == "groups":
            config = replace(config, sharing="all")
        return twin(config) if family == "bert" else config

    return st.builds(
        build,
        family=st.sampled_from(["albert", "bert"]),
        heads=st.integers(1, 4),
        head_size=st.sampled_from([4, 7, 8]),
        layers=st.integers(1, 5),
        sharing=st.sampled_from(["all", "none", "groups", "cycle"]),
        embedding_size=st.sampled_from([3, 8, 32]),
        feed_forward_size=st.integers(1, 50),
        num_segments=st.integers(2, 3),
        activation=st.sampled_from(["gelu_tanh", "gelu_erf", "relu", "tanh"]),
        layer_norm_epsilon=st.sampled_from([1e-12, 1e-5]),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(config=configurations(), seed=st.integers(0, 9))
def test_logits_equal_transformers_for_random_configurations(
    tmp_path_factory: pytest.TempPathFactory, config: EncoderConfig, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("model")
    model = make_model(config, *PRETRAINING, seed=seed)
    write_model(model, folder)
    theirs = open_in_transformers("AutoModelForPreTraining", folder)(**PADDED)
    ours = model(PADDED["input_ids"], PADDED["attention_mask"], PADDED["token_type_ids"])
    assert_near(ours.logits["masked_token"][REAL], theirs.prediction_logits[REAL])
    other = theirs.sop_logits if "sop_logits" in theirs else theirs.seq_relationship_logits
    assert_near(ours.logits["pair"], other)
    read = read_model(folder)
    assert read.config == config
    assert_same_state(read, model)


def assert_same_state(first: Model, second: Model) -> None:
    ours, theirs = first.state_dict(), second.state_dict()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize(
    ("heads", "kind", "output"),
    [
        ((HeadConfig(kind="masked_token"),), "AutoModelForMaskedLM", "logits"),
        ((HeadConfig(kind="classes", num_classes=5),), "AutoModelForSequenceClassification", "logits"),
        ((HeadConfig(kind="classes", num_classes=1),), "AutoModelForSequenceClassification", "logits"),
        ((HeadConfig(kind="token_classes", num_classes=4),), "AutoModelForTokenClassification", "logits"),
        ((HeadConfig(kind="span"),), "AutoModelForQuestionAnswering", "start_logits"),
        ((HeadConfig(kind="choice"),), "AutoModelForMultipleChoice", "logits"),
    ],
)
def test_every_head_opens_in_transformers_with_the_same_numbers(
    tmp_path: Path, family: str, heads: tuple[HeadConfig, ...], kind: str, output: str
) -> None:
    model = make_model(CONFIGS[family], *heads)
    write_model(model, tmp_path)
    peer = open_in_transformers(kind, tmp_path)
    assert type(peer).__name__ == read_json(tmp_path / "config.json")["architectures"][0]
    shaped = {name: value[None] for name, value in PADDED.items()} if heads[0].kind == "choice" else PADDED
    theirs = peer(**shaped)[output]
    ours = model(TOKENS).logits[heads[0].kind]
    match heads[0].kind:
        case "masked_token" | "token_classes":
            assert_near(ours, theirs[REAL])
        case "span":
            assert_near(ours[:, 0], theirs[REAL])
            assert_near(ours[:, 1], peer(**PADDED).end_logits[REAL])
        case "choice":
            assert_near(ours.T, theirs)
        case _:
            assert_near(ours, theirs)
    read = read_model(tmp_path)
    assert read.head_configs == model.head_configs
    assert_same_state(read, model)


@pytest.mark.parametrize("family", CONFIGS)
def test_the_bare_encoder_opens_as_automodel_with_hidden_states_and_pooled_output(tmp_path: Path, family: str) -> None:
    model = make_model(CONFIGS[family])
    write_model(model, tmp_path)
    theirs = open_in_transformers("AutoModel", tmp_path)(**PADDED, output_hidden_states=True)
    ours = model(**PADDED, keep_depths=True)
    assert_near(ours.hidden[REAL], theirs.last_hidden_state[REAL])
    assert_near(ours.pooled, theirs.pooler_output)
    for depth, hidden in enumerate(theirs.hidden_states):
        assert_near(ours.depths[depth][REAL], hidden[REAL])


@pytest.mark.parametrize("family", CONFIGS)
def test_folders_that_transformers_wrote_open_with_the_same_numbers(tmp_path: Path, family: str) -> None:
    numbers = {
        "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 40, "initializer_range": 0.2,
    }  # fmt: skip
    kind = {"albert": transformers.AlbertConfig, "bert": transformers.BertConfig}[family]
    torch.manual_seed(1)
    for maker, folder in (
        (transformers.AutoModel, tmp_path / "bare"),
        (transformers.AutoModelForPreTraining, tmp_path),
    ):
        peer = maker.from_config(kind(**numbers | ({"embedding_size": 16} if family == "albert" else {}))).eval()
        peer.save_pretrained(folder)
        ours, theirs = read_model(folder)(TOKENS), peer(**PADDED)
        if folder.name == "bare":
            assert_near(ours.hidden, theirs.last_hidden_state[REAL])
        else:
            assert_near(ours.logits["masked_token"], theirs.prediction_logits[REAL])


@pytest.mark.parametrize(("layers", "groups", "inner"), [(6, 6, 2), (1, 1, 2), (4, 2, 3), (5, 2, 1), (6, 4, 1)])
def test_groups_and_inner_groups_that_transformers_wrote_open_with_the_same_numbers(
    tmp_path: Path, layers: int, groups: int, inner: int
) -> None:
    torch.manual_seed(1)
    config = transformers.AlbertConfig(
        vocab_size=61, embedding_size=16, hidden_size=32, num_attention_heads=4, intermediate_size=64,
        num_hidden_layers=layers, num_hidden_groups=groups, inner_group_num=inner, initializer_range=0.2,
    )  # fmt: skip
    peer = transformers.AlbertModel(config).eval()
    peer.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    theirs = peer(**PADDED).last_hidden_state[REAL]
    assert_near(model(TOKENS).hidden, theirs)
    write_model(model, tmp_path / "again")
    assert_near(open_in_transformers("AutoModel", tmp_path / "again")(**PADDED).last_hidden_state[REAL], theirs)


def test_half_precision_is_read_as_float_and_integers_are_refused(tmp_path: Path) -> None:
    model = make_model(replace(ALBERT, embedding_size=32, projection=False), *PRETRAINING)
    write_model(model, tmp_path)
    damage(tmp_path, lambda tensors: tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()}))
    assert torch.equal(read_model(tmp_path).pooler.weight, model.pooler.weight.bfloat16().float())
    damage(tmp_path, lambda tensors: tensors.update({"albert.pooler.bias": torch.ones(32, dtype=torch.int8)}))
    with pytest.raises(UserError, match=r"albert.pooler.bias is torch.int8"):
        read_model(tmp_path)


def test_gradients_of_the_pretraining_loss_equal_transformers(tmp_path: Path) -> None:
    model = make_model(ALBERT, *PRETRAINING)
    write_model(model, tmp_path)
    positions_P = torch.tensor([1, 5, 8, 14, 20])
    batch = replace(
        TOKENS,
        predicted_positions_P=positions_P,
        predicted_ids_P=torch.tensor([30, 31, 32, 33, 34]),
        pair_labels_B=torch.tensor([0, 1, 1, 0]),
    )
    labels_T = torch.full_like(TOKENS.token_ids_T, -100).index_copy(0, positions_P, batch.predicted_ids_P)
    peer = open_in_transformers("AutoModelForPreTraining", tmp_path)
    labels = TOKENS.pad(labels_T).masked_fill(~REAL, -100)
    theirs = peer(**PADDED, labels=labels, sentence_order_label=batch.pair_labels_B).loss
    theirs.backward()
    ours = mean_loss(Pretraining(), model, batch)
    ours.backward()
    assert_near(ours, theirs)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    named = to_folder(gradients, name_tensors("albert", ALBERT, gradients, 1))
    for name, parameter in peer.named_parameters():
        if "decoder" not in name:
            assert_near(named[name], parameter.grad)


def test_without_a_projection_a_shared_model_still_opens_in_transformers(tmp_path: Path) -> None:
    model = make_model(replace(ALBERT, embedding_size=32, projection=False), *PRETRAINING)
    write_model(model, tmp_path)
    assert read_json(tmp_path / "config.json")["model_type"] == "albert"
    theirs = open_in_transformers("AutoModelForPreTraining", tmp_path)(**PADDED)
    assert_near(model(TOKENS).logits["masked_token"], theirs.prediction_logits[REAL])
    read = read_model(tmp_path)
    assert read.config == model.config
    assert_same_state(read, model)


def test_three_way_pairs_open_in_transformers_albert(tmp_path: Path) -> None:
    model = make_model(ALBERT, HeadConfig(kind="masked_token"), HeadConfig(kind="pair", num_classes=3))
    write_model(model, tmp_path)
    theirs = open_in_transformers("AutoModelForPreTraining", tmp_path)(**PADDED)
    assert_near(model(TOKENS).logits["pair"], theirs.sop_logits)


@pytest.mark.parametrize("sharing", ["attention", "ffn", "sandwich", "0,1,0,0", "0:0,0:1,1:0,1:1"])
def test_what_transformers_cannot_express_is_refused_by_name_there_and_round_trips_here(
    tmp_path: Path, sharing: str
) -> None:
    model = make_model(replace(ALBERT, num_layers=4, sharing=sharing), *PRETRAINING)
    write_model(model, tmp_path)
    with pytest.raises(ValueError, match="litebert"):
        transformers.AutoModel.from_pretrained(tmp_path)
    read = read_model(tmp_path)
    assert read.config == model.config and read.head_configs == model.head_configs
    assert_same_state(read, model)


def test_the_answerable_span_head_round_trips_and_its_encoder_opens_in_transformers(tmp_path: Path) -> None:
    model = make_model(ALBERT, HeadConfig(kind="answerable_span"))
    write_model(model, tmp_path)
    assert_same_state(read_model(tmp_path), model)
    theirs = open_in_transformers("AutoModel", tmp_path)(**PADDED)
    assert_near(model(TOKENS).hidden, theirs.last_hidden_state[REAL])


def test_labels_come_back_and_transformers_knows_them(tmp_path: Path) -> None:
    head = HeadConfig(kind="classes", num_classes=3, labels=("no", "yes", "maybe"), dropout=0.25)
    write_model(make_model(ALBERT, head), tmp_path)
    assert read_model(tmp_path).head_configs["classes"] == head
    peer = open_in_transformers("AutoModelForSequenceClassification", tmp_path)
    assert peer.config.id2label == {0: "no", 1: "yes", 2: "maybe"}
    assert peer.dropout.p == 0.25


SEVERAL = HeadConfig(kind="classes", num_classes=3, labels=("sport", "politics", "weather"), several=True)


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("head", [SEVERAL, HeadConfig(kind="classes", num_classes=1, several=True)])
def test_a_head_of_several_labels_comes_back_and_opens_in_transformers_as_such(
    tmp_path: Path, family: str, head: HeadConfig
) -> None:
    model = make_model(CONFIGS[family], head)
    write_model(model, tmp_path)
    assert read_json(tmp_path / "config.json")["problem_type"] == "multi_label_classification"
    read = read_model(tmp_path)
    assert read.head_configs == {"classes": head}
    assert_same_state(read, model)
    peer = open_in_transformers("AutoModelForSequenceClassification", tmp_path)
    rows = torch.zeros(4, head.num_classes)
    theirs = peer(**PADDED, labels=rows)
    logits_BC = model(TOKENS).logits["classes"]
    assert_near(logits_BC, theirs.logits)
    # None of the labels holds: the mean of -log(1 - sigmoid).
    assert_near(-(1 - logits_BC.sigmoid()).log().mean(), theirs.loss)


def test_heads_of_one_label_or_of_a_number_are_not_of_several(tmp_path: Path) -> None:
    for head in (HeadConfig(kind="classes", num_classes=3), HeadConfig(kind="classes", num_classes=1)):
        write_model(make_model(ALBERT, head), tmp_path)
        assert read_json(tmp_path / "config.json").get("problem_type") != "multi_label_classification"
        assert read_model(tmp_path).head_configs == {"classes": head}


def test_several_labels_that_transformers_wrote_are_known_as_such(tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = transformers.AlbertConfig(
        vocab_size=61, embedding_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, problem_type="multi_label_classification", num_labels=3,
    )  # fmt: skip
    peer = transformers.AlbertForSequenceClassification(config).eval()
    peer.save_pretrained(tmp_path)
    model = read_model(tmp_path)
    assert model.head_configs["classes"] == HeadConfig(kind="classes", num_classes=3, several=True)
    assert_near(model(TOKENS).logits["classes"], peer(**PADDED).logits)


def test_several_labels_come_back_where_transformers_has_no_class(tmp_path: Path) -> None:
    model = make_model(replace(ALBERT, sharing="attention"), SEVERAL)
    write_model(model, tmp_path)
    assert read_model(tmp_path).head_configs == {"classes": SEVERAL}


def test_two_heads_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only one of the heads classes, choice"):
        write_model(make_model(ALBERT, HeadConfig(kind="classes"), HeadConfig(kind="choice")), tmp_path)


def test_heads_asked_for_are_kept_made_new_or_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = make_model(ALBERT, *PRETRAINING)
    write_model(model, tmp_path)
    wanted = [HeadConfig(kind="masked_token"), HeadConfig(kind="classes", num_classes=4)]
    read = read_model(tmp_path, wanted)
    assert list(read.heads) == ["masked_token", "classes"]
    assert torch.equal(read.heads["masked_token"].bias, model.heads["masked_token"].bias)
    assert read.heads["classes"].output.weight.std() > 0
    assert "has no heads.classes that fits; it is made new" in caplog.text
    caplog.clear()
    remade = read_model(tmp_path, [HeadConfig(kind="pair", num_classes=3)])
    assert "heads.pair that fits" in caplog.text and remade.heads["pair"].output.weight.shape == (3, 32)


def name_classes(*labels: str) -> HeadConfig:
    return HeadConfig(kind="classes", num_classes=len(labels), labels=labels)


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        # From MNLI to RTE, from a task of 0 and 1 to RTE, and to the same names in another order.
        (name_classes("contradiction", "entailment", "neutral"), name_classes("entailment", "not_entailment")),
        (name_classes("0", "1"), name_classes("entailment", "not_entailment")),
        (name_classes("entailment", "not_entailment"), name_classes("not_entailment", "entailment")),
        (HeadConfig(kind="classes"), name_classes("entailment", "not_entailment")),
    ],
)
def test_a_head_for_other_labels_is_made_new_and_the_rest_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, held: HeadConfig, wanted: HeadConfig
) -> None:
    model = make_model(ALBERT, held)
    write_model(model, tmp_path)
    torch.manual_seed(7)
    read = read_model(tmp_path, [wanted])
    assert read.head_configs == {"classes": wanted}
    assert caplog.text.count("has no heads.classes that fits; it is made new") == 1 and "pooler" not in caplog.text
    made, old = read.heads["classes"].output, model.heads["classes"].output
    assert made.weight.shape == (2, 32) and not made.bias.any() and old.bias.all()
    assert not any(torch.equal(row, other) for row in made.weight for other in old.weight)
    state, before = read.state_dict(), model.state_dict()
    assert all(torch.equal(state[name], before[name]) for name in before if not name.startswith("heads."))


def test_a_head_for_the_same_labels_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = make_model(ALBERT, name_classes("entailment", "not_entailment"))  # of QNLI, as of RTE
    write_model(model, tmp_path)
    wanted = replace(name_classes("entailment", "not_entailment"), dropout=0.3)
    read = read_model(tmp_path, [wanted])
    assert read.head_configs == {"classes": wanted} and not caplog.text
    assert_same_state(read, model)


def test_a_missing_pooler_is_made_new_only_if_a_head_needs_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    write_model(Model(ALBERT, [HeadConfig(kind="masked_token")], pooler=False), tmp_path)
    assert read_model(tmp_path).pooler is None and not caplog.text
    assert read_model(tmp_path, [HeadConfig(kind="classes")]).pooler is not None
    assert "has no pooler that fits" in caplog.text


def damage(folder: Path, change: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


PREFIX = "albert.encoder.albert_layer_groups.0.albert_layers.0"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors: tensors.pop(f"{PREFIX}.ffn.weight"), f"it lacks {PREFIX}.ffn.weight"),
        (lambda tensors: tensors.pop("predictions.dense.bias"), "it lacks predictions.dense.bias"),
        (lambda tensors: tensors.update(extra=torch.ones(2)), "it has besides extra"),
        (
            lambda tensors: tensors.update({"albert.pooler.bias": torch.ones(31)}),
            r"it has misshapen albert.pooler.bias \(31,\) instead of \(32,\)",
        ),
        (
            lambda tensors: tensors.update({"predictions.decoder.weight": torch.ones(61, 16)}),
            "predictions.decoder.weight differs from albert.embeddings.word_embeddings.weight",
        ),
    ],
)
def test_missing_extra_misshapen_and_untied_tensors_are_refused_by_name(tmp_path: Path, change: Any, said: str) -> None:
    write_model(make_model(ALBERT, *PRETRAINING), tmp_path)
    damage(tmp_path, change)
    with pytest.raises(UserError, match=said):
        read_model(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, value: float) -> None:
    model = make_model(ALBERT, *PRETRAINING)
    with torch.no_grad():
        next(model.parameters())[3, 2] = value
    write_model(model, tmp_path)
    with pytest.raises(UserError, match=r"no numbers, or infinite: .*; fetch it again"):
        read_model(tmp_path)


def test_a_pickle_of_other_things_is_no_weights_file(tmp_path: Path) -> None:
    write_model(make_model(ALBERT, *PRETRAINING), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save({"albert.embeddings.word_embeddings.weight": 1}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="does not hold tensors by name"):
        read_model(tmp_path)


def edit_config(folder: Path, **changes: Any) -> None:
    content = read_json(folder / "config.json") | changes
    (folder / "config.json").write_text(json.dumps({k: v for k, v in content.items() if v is not ...}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "roberta"}, "model_type 'roberta'"),
        ({"hidden_size": ...}, "lacks hidden_size"),
        ({"hidden_act": "swish"}, "hidden_act 'swish'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'"),
        ({"is_decoder": True}, "is_decoder = True"),
        ({"num_attention_heads": 5}, "5 heads do not divide"),
        ({"num_hidden_groups": 4}, "num_hidden_groups 4"),
        ({"hidden_size": 64}, "misshapen"),
        ({"vocab_size": "61"}, "vocab_size '61'; it must be a whole number"),
        ({"num_hidden_layers": 3.0}, "num_hidden_layers 3.0; it must be a whole number"),
        ({"inner_group_num": None}, "inner_group_num None"),
        ({"litebert": [1]}, "litebert"),
        ({"id2label": ["a"]}, "id2label"),
        ({"hidden_act": ["gelu"]}, "hidden_act"),
        ({"hidden_act": []}, r"hidden_act \[\]; it must be a text"),
        ({"architectures": True}, "architectures True; it must be a list"),
        ({"litebert": {"sharing": 5}}, "the litebert in config.json says sharing 5; it must be a text"),
        ({"num_hidden_layers": 10**30}, "num_hidden_layers is 10+; it must be at most 4,096"),
        ({"inner_group_num": 10**7}, "inner_group_num is 10+; it must be at most 4,096"),
        ({"model_type": "litebert", "litebert": True}, "litebert True; it must be an object"),
        ({"model_type": "litebert", "litebert": {"encoder": {}, "heads": 5}}, "heads 5; it must be a list"),
        ({"model_type": "litebert", "litebert": {"heads": ["pair"]}}, r"heads \['pair'\]; each is an object"),
        ({"hidden_dropout_prob": "0.1"}, "hidden_dropout is '0.1'"),
        ({"classifier_dropout_prob": "0.1"}, "dropout is '0.1'"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    write_model(make_model(ALBERT, *PRETRAINING), tmp_path)
    edit_config(tmp_path, **changes)
    with pytest.raises(UserError, match=said) as refused:
        read_model(tmp_path)
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize("files", [["a"], "a", None, {"a": 5}])
def test_an_index_of_weights_that_names_no_files_is_refused(tmp_path: Path, files: Any) -> None:
    write_model(make_model(ALBERT), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    with pytest.raises(UserError, match="index.json does not say in its weight_map which file each tensor is in"):
        read_model(tmp_path)


def test_a_missing_folder_and_one_without_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="nowhere does not exist; give a model folder or the prefix of a TensorFlow checkpoint"
    ):
        read_model(tmp_path / "nowhere")
    with pytest.raises(
        UserError, match="neither a config.json nor a checkpoint of TensorFlow; name the folder of a model"
    ):
        read_model(tmp_path)
    write_model(make_model(ALBERT), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match="has no weights"):
        read_model(tmp_path)


def test_a_file_cut_short_is_refused_by_name(tmp_path: Path) -> None:
    write_model(make_model(ALBERT), tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UserError, match="model.safetensors cannot be read"):
        read_model(tmp_path)
    file.write_bytes(b"")
    with pytest.raises(UserError, match="model.safetensors cannot be read"):
        read_model(tmp_path)


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("a pickle ran code",)


def test_an_old_pickle_is_read_but_never_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make_model(ALBERT, *PRETRAINING)
    write_model(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    # As the first releases named and stored them.
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in tensors.items()}
    old["albert.embeddings.position_ids"] = torch.arange(40)[None]
    old["predictions.decoder.weight"] = tensors["albert.embeddings.word_embeddings.weight"]
    (tmp_path / "model.safetensors").unlink()
    torch.save(old, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert_same_state(read_model(tmp_path), model)
    refused = pytest.raises(UserError, match="pytorch_model.bin is no pickle of tensors alone")
    torch.save({"weight": Trap()}, tmp_path / "pytorch_model.bin")
    with refused:
        read_model(tmp_path)
    torch.save(old, tmp_path / "pytorch_model.bin", pickle_protocol=4)
    with warnings.catch_warnings(), refused:
        warnings.simplefilter("error")  # torch has one for it
        read_model(tmp_path)
    assert "a pickle ran code" not in capsys.readouterr().out


def test_shards_are_read_together(tmp_path: Path) -> None:
    model = make_model(ALBERT, *PRETRAINING)
    write_model(model, tmp_path)
    peer = open_in_transformers("AutoModelForPreTraining", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    peer.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert_same_state(read_model(tmp_path), model)
    next(tmp_path.glob("model-*.safetensors")).unlink()
    with pytest.raises(UserError, match="is missing, though the folder's index names it"):
        read_model(tmp_path)


def test_writing_replaces_a_model_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_model(make_model(ALBERT, seed=1), tmp_path)
    second = make_model(ALBERT, seed=2)
    write_model(second, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert_same_state(read_model(tmp_path), second)


def test_a_failed_write_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_model(ALBERT, seed=1)
    write_model(first, tmp_path)

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("litebert.models.folder.write_json", fail)
    with pytest.raises(UserError, match=f"{tmp_path} cannot be written: no space is left; make room, or choose"):
        write_model(make_model(ALBERT, seed=2), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert_same_state(read_model(tmp_path), first)


# Traps


def released(folder: Path, **changes: Any) -> None:
    """A folder with the config of a released size and too few weights: warnings come before the weights."""
    write_model(make_model(ALBERT), folder)
    edit_config(folder, embedding_size=128, vocab_size=30000, **changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_act": "gelu"},
            "open them with activation='gelu_tanh'",
        ),
        ({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16}, "open it with num_heads=32"),
        ({"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32}, "open it with num_heads=16"),
    ],
)
def test_known_traps_are_warned_of_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], said: str
) -> None:
    released(tmp_path, **changes)
    with caplog.at_level(logging.WARNING), pytest.raises(UserError):
        read_model(tmp_path)
    assert said in caplog.text


def test_transformers_missing_dropout_is_warned_of_when_writing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_model(make_model(replace(ALBERT, hidden_dropout=0.1)), tmp_path / "albert")
    assert "never applies it after the feed-forward network" in caplog.text
    caplog.clear()
    write_model(make_model(replace(BERT, hidden_dropout=0.1)), tmp_path / "bert")
    write_model(make_model(ALBERT), tmp_path / "quiet")
    assert not caplog.text


def test_a_wrong_config_can_be_overridden(tmp_path: Path) -> None:
    write_model(make_model(replace(ALBERT, activation="gelu_erf"), *PRETRAINING), tmp_path)
    assert read_model(tmp_path).config.activation == "gelu_erf"
    assert read_model(tmp_path, activation="gelu_tanh", num_heads=8).config == replace(ALBERT, num_heads=8)
    with pytest.raises(UserError, match="did you mean 'num_heads'"):
        read_model(tmp_path, num_head=8)


# Google's checkpoints

GOOGLE = Path(__file__).parent / "data" / "tensorflow_albert"


def test_a_tensorflow_checkpoint_gives_tensorflows_numbers() -> None:
    model = read_model(GOOGLE)
    expected = read_json(GOOGLE / "expected.json")
    inputs, outputs = expected["inputs"], expected["outputs"]
    mask = torch.tensor(inputs["input_mask"])
    ours = model(torch.tensor(inputs["input_ids"]), mask, torch.tensor(inputs["segment_ids"]))
    real = mask.bool()
    assert_near(ours.hidden[real], torch.tensor(outputs["sequence_output"])[real])
    assert_near(ours.pooled, torch.tensor(outputs["pooled_output"]))
    assert_near(ours.logits["pair"], torch.tensor(outputs["sentence_order_logits"]))
    positions = torch.tensor(inputs["masked_lm_positions"])
    predicted = ours.logits["masked_token"].take_along_dim(positions[..., None], dim=1)
    assert_near(predicted, torch.tensor(outputs["masked_lm_logits"]).view_as(predicted))


def test_a_tensorflow_checkpoint_without_its_config_is_refused(tmp_path: Path) -> None:
    for file in GOOGLE.glob("model.ckpt-best.*"):
        shutil.copy(file, tmp_path)
    with pytest.raises(UserError, match="has no albert_config.json or bert_config.json beside it"):
        read_model(tmp_path)


# Real weights


def test_real_albert_weights_reproduce_the_recorded_logits_and_layers(data: Path) -> None:
    folder = data / "models" / "albert_reactions"
    model = read_model(folder)
    right = total = 0
    golden = read_json(folder / "golden_hf_outputs.json")
    for case in golden["cases"]:
        ids = case["input_ids"]
        output = model(Batch.pack([ids]), keep_depths=True)
        logits_TV = output.logits["masked_token"]
        assert_near(logits_TV[:4, :6], torch.tensor(case["logits_first4x6"]))
        assert float(logits_TV.double().sum()) == pytest.approx(case["logits_sum"], rel=1e-6)
        means = [float(hidden_TD.abs().mean()) for hidden_TD in output.depths]
        assert means == pytest.approx(case["hidden_abs_mean_per_layer"], abs=1e-5)
        masked = [
            [14 if place == hidden else token for place, token in enumerate(ids)] for hidden in range(1, len(ids) - 1)
        ]
        predicted = model(Batch.pack(masked)).logits["masked_token"].argmax(-1).view(len(masked), len(ids))
        right += sum(int(predicted[row, row + 1]) == ids[row + 1] for row in range(len(masked)))
        total += len(masked)
    assert [right, total] == golden["single_mask_mlm_accuracy"]


def test_real_bert_weights_equal_transformers(data: Path, tmp_path: Path) -> None:
    model = read_model(data / "models" / "bert_reactions")
    of_masked_tokens = [
        p.numel() for name, p in model.named_parameters() if not name.startswith(("pooler", "heads.pair"))
    ]
    assert sum(of_masked_tokens) == 6_675_535
    write_model(model, tmp_path)
    peer = open_in_transformers("AutoModelForPreTraining", tmp_path)
    theirs = peer(**PADDED)
    assert_near(model(TOKENS).logits["masked_token"], theirs.prediction_logits[REAL])
