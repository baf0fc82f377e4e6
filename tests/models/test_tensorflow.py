"""The files in `data/` were written by TensorFlow itself: see `data/make_tensorflow_checkpoint.py`."""

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from litebert.config import UserError, read_json
from litebert.models import tensorflow
from litebert.models.tensorflow import find_checkpoint, huggingface_names, read_checkpoint

DATA = Path(__file__).parent / "data"
ALBERT = DATA / "tensorflow_albert" / "model.ckpt-best"
HUB = DATA / "tensorflow_hub" / "variables" / "variables"
TYPES = DATA / "tensorflow_variants" / "types.ckpt"
PARTITIONED = DATA / "tensorflow_variants" / "partitioned.ckpt"
LAYER = "bert/encoder/transformer/group_0/inner_group_0"


@pytest.fixture
def expected() -> dict[str, Any]:
    return read_json(ALBERT.parent / "expected.json")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The prefix of a copy of the ALBERT checkpoint, to be damaged."""
    for file in ALBERT.parent.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / ALBERT.name


def build_albert(**changes: Any) -> transformers.AlbertForPreTraining:
    config = read_json(ALBERT.parent / "albert_config.json") | {"hidden_act": "gelu_new"} | changes
    return transformers.AlbertForPreTraining(transformers.AlbertConfig(**config)).eval()


def shapes(weights: Any) -> dict[str, tuple[int, ...]]:
    """The shapes by name, without the output matrices that are tied to others."""
    return {name: tuple(weight.shape) for name, weight in weights.items() if ".decoder." not in name}


def dense(scope: str, inputs: int, outputs: int) -> dict[str, Tensor]:
    return {f"{scope}/kernel": torch.zeros(inputs, outputs), f"{scope}/bias": torch.zeros(outputs)}


def norm(scope: str, size: int) -> dict[str, Tensor]:
    return {f"{scope}/gamma": torch.zeros(size), f"{scope}/beta": torch.zeros(size)}


def output(scope: str, inputs: int, outputs: int) -> dict[str, Tensor]:
    return {f"{scope}output_weights": torch.zeros(outputs, inputs), f"{scope}output_bias": torch.zeros(outputs)}


def test_every_variable_has_the_shape_and_the_bytes_that_tensorflow_saved(expected: dict[str, Any]) -> None:
    read = {
        name: {"shape": list(tensor.shape), "sha256": hashlib.sha256(tensor.numpy().tobytes()).hexdigest()}
        for name, tensor in read_checkpoint(ALBERT).items()
    }
    assert read == expected["variables"]


def test_every_type_of_number_is_read_from_two_data_files_and_strings_are_left_out() -> None:
    tensors = read_checkpoint(TYPES)
    assert set(tensors) == {"float32", "float64", "float16", "bfloat16", "int32", "int64", "scalar", "empty"}
    for name in set(tensors) - {"scalar", "empty"}:
        assert tensors[name].dtype == getattr(torch, name)
        assert tensors[name].tolist() == [[-2, -1, 0], [1, 2, 3]]
    assert tensors["scalar"].shape == () and tensors["scalar"].item() == 0.5
    assert tensors["empty"].shape == (0, 3)


def test_transformers_computes_tensorflows_outputs_from_the_renamed_weights(expected: dict[str, Any]) -> None:
    model = build_albert()
    missing, unexpected = model.load_state_dict(huggingface_names(read_checkpoint(ALBERT)), strict=False)
    assert set(missing) <= {"predictions.decoder.weight", "predictions.decoder.bias"} and not unexpected
    model.tie_weights()

    inputs = {name: torch.tensor(value) for name, value in expected["inputs"].items()}
    arguments = (inputs["input_ids"], inputs["input_mask"], inputs["segment_ids"])
    with torch.no_grad():
        encoded, predicted = model.albert(*arguments), model(*arguments)
    computed = {
        "sequence_output": encoded.last_hidden_state,
        "pooled_output": encoded.pooler_output,
        "masked_lm_logits": predicted.prediction_logits[torch.tensor([[0], [1]]), inputs["masked_lm_positions"]],
        "sentence_order_logits": predicted.sop_logits,
    }
    for name, value in computed.items():
        torch.testing.assert_close(value, torch.tensor(expected["outputs"][name]), atol=1e-5, rtol=0, msg=name)


def test_names_and_shapes_of_albert_are_those_of_transformers() -> None:
    assert shapes(huggingface_names(read_checkpoint(ALBERT))) == shapes(build_albert().state_dict())


def test_groups_and_inner_groups_keep_their_numbers() -> None:
    variables = read_checkpoint(ALBERT)
    for name in [name for name in variables if name.startswith(LAYER)]:
        for group in ("group_0/inner_group_1", "group_1/inner_group_0", "group_1/inner_group_1"):
            variables[name.replace("group_0/inner_group_0", group)] = variables[name]
    model = build_albert(num_hidden_groups=2, inner_group_num=2)
    assert shapes(huggingface_names(variables)) == shapes(model.state_dict())


def test_a_hub_module_gets_the_same_names() -> None:
    variables = read_checkpoint(HUB)
    assert all(name.startswith("module/") for name in variables)
    assert huggingface_names(variables).keys() == huggingface_names(read_checkpoint(ALBERT)).keys()


def test_names_and_shapes_of_bert_are_those_of_transformers() -> None:
    variables = {
        "bert/embeddings/word_embeddings": torch.zeros(11, 8),
        "bert/embeddings/token_type_embeddings": torch.zeros(2, 8),
        "bert/embeddings/position_embeddings": torch.zeros(6, 8),
        "cls/predictions/output_bias": torch.zeros(11),
    }
    variables |= norm("bert/embeddings/LayerNorm", 8) | dense("bert/pooler/dense", 8, 8)
    for layer in ("bert/encoder/layer_0", "bert/encoder/layer_1"):
        for part in ("self/query", "self/key", "self/value", "output/dense"):
            variables |= dense(f"{layer}/attention/{part}", 8, 8)
        variables |= dense(f"{layer}/intermediate/dense", 8, 12) | dense(f"{layer}/output/dense", 12, 8)
        variables |= norm(f"{layer}/attention/output/LayerNorm", 8) | norm(f"{layer}/output/LayerNorm", 8)
    variables |= dense("cls/predictions/transform/dense", 8, 8) | norm("cls/predictions/transform/LayerNorm", 8)
    variables |= output("cls/seq_relationship/", 8, 2)
    config = transformers.BertConfig(
        vocab_size=11,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=6,
    )
    model = transformers.BertForPreTraining(config)
    assert shapes(huggingface_names(variables)) == shapes(model.state_dict())


def test_the_heads_of_fine_tuned_models_are_those_of_transformers() -> None:
    albert = transformers.AlbertConfig(embedding_size=4, hidden_size=8, num_attention_heads=2, vocab_size=11)
    for scope, model, head in (
        ("", transformers.AlbertForSequenceClassification(albert), "classifier"),
        ("cls/squad/", transformers.AlbertForQuestionAnswering(albert), "qa_outputs"),
    ):
        weights = {name: weight for name, weight in model.state_dict().items() if name.startswith(head)}
        assert shapes(huggingface_names(output(scope, 8, 2))) == shapes(weights)


def test_the_answerability_head_is_that_of_xlnet() -> None:
    variables = dense("start_logits/dense", 8, 1)
    variables |= (
        dense("end_logits/dense_0", 16, 8) | norm("end_logits/LayerNorm", 8) | dense("end_logits/dense_1", 8, 1)
    )
    variables |= dense("answer_class/dense_0", 16, 8) | {"answer_class/dense_1/kernel": torch.zeros(8, 1)}
    config = transformers.XLNetConfig(vocab_size=11, d_model=8, n_layer=1, n_head=2, d_inner=8)
    weights = transformers.XLNetForQuestionAnswering(config).state_dict()
    heads = {name: weight for name, weight in weights.items() if not name.startswith("transformer.")}
    assert shapes(huggingface_names(variables)) == shapes(heads)


@pytest.mark.parametrize(
    "name",
    [
        "global_step",
        "bert/pooler/dense/kernel/adam_m",
        "module/bert/pooler/dense/kernel/adam_v",
        "bert/pooler/dense/kernel/lamb_m",
        "bert/pooler/dense/kernel/AdamWeightDecayOptimizer",
        "AdamWeightDecayOptimizer/learning_rate",
        "LAMBOptimizer/beta_1",
    ],
)
def test_the_state_of_training_is_left_out(name: str) -> None:
    assert huggingface_names({name: torch.zeros(1)}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "bert/pooler/dense/extra",
        "bert/crf/kernel",
        "layer_with_weights-0/bias",
        f"{LAYER}/attention_2/output/dense/bias",
    ],
)
def test_a_variable_of_another_model_is_named(name: str) -> None:
    with pytest.raises(UserError, match=re.escape(name)):
        huggingface_names(read_checkpoint(ALBERT) | {name: torch.zeros(1)})


def test_a_checkpoint_is_found_by_its_prefix_its_index_and_its_folder() -> None:
    for path in (ALBERT, Path(f"{ALBERT}.index"), ALBERT.parent):
        assert find_checkpoint(path) == ALBERT
    for path in (HUB, HUB.parent, HUB.parent.parent):
        assert find_checkpoint(path) == HUB


def test_no_checkpoint_is_found_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path, tmp_path / "absent", ALBERT.parent / "albert_config.json", Path()):
        assert find_checkpoint(path) is None


def test_of_several_checkpoints_the_latest_is_taken_and_without_one_all_are_named(tmp_path: Path) -> None:
    folder = shutil.copytree(TYPES.parent, tmp_path / "variants")
    with pytest.raises(UserError, match=r"partitioned\.ckpt, types\.ckpt"):
        find_checkpoint(folder)
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "/elsewhere/types.ckpt"\nall_model_checkpoint_paths: "x"\n'
    )
    assert find_checkpoint(folder) == folder / "types.ckpt"
    (folder / "checkpoint").write_text('model_checkpoint_path: "deleted.ckpt"\n')
    with pytest.raises(UserError, match=r"partitioned\.ckpt, types\.ckpt"):
        find_checkpoint(folder)


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
def test_a_file_that_is_cut_short_is_named(copy: Path, suffix: str, share: float) -> None:
    path = Path(f"{copy}.{suffix}")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UserError, match=rf"{re.escape(str(path))} .*cut short"):
        read_checkpoint(copy)


@pytest.mark.parametrize("position", [0, 1_000, 40_001, -1])
def test_a_flipped_byte_in_the_data_is_found(copy: Path, position: int) -> None:
    path = Path(f"{copy}.data-00000-of-00001")
    flip(path, position)
    with pytest.raises(UserError, match=rf"{re.escape(str(path))} is damaged"):
        read_checkpoint(copy)


def test_a_flipped_byte_in_the_index_is_found_or_changes_nothing(tmp_path: Path) -> None:
    """A table also has a block without use, and padding, which no checksum covers or nobody reads."""
    original, path = Path(f"{TYPES}.index"), tmp_path / "types.ckpt.index"
    undamaged = tensorflow.read_index(original)
    found = 0
    for position in range(original.stat().st_size):
        shutil.copy(original, path)
        flip(path, position)
        try:
            assert tensorflow.read_index(path) == undamaged
        except UserError as error:
            found += 1
            assert str(path) in str(error)
    assert found > 0.75 * original.stat().st_size


@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
def test_a_missing_file_is_named(copy: Path, suffix: str) -> None:
    path = Path(f"{copy}.{suffix}")
    path.unlink()
    with pytest.raises(UserError, match=re.escape(str(path))):
        read_checkpoint(copy)


def test_partitioned_variables_are_refused() -> None:
    with pytest.raises(UserError, match=r"partitioned\.ckpt\.index has partitioned variables"):
        read_checkpoint(PARTITIONED)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def pack_block(items: dict[bytes, bytes], compression: int = 0) -> bytes:
    """A block of a LevelDB table with its trailer, no key sharing anything with the one before."""
    body = b"".join(bytes([0, len(key), len(value)]) + key + value for key, value in items.items())
    body += (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes([compression])
    return body + tensorflow.mask(tensorflow.crc32c(body)).to_bytes(4, "little")


def write_table(path: Path, *blocks: bytes) -> None:
    table, handles = b"", {}
    for number, block in enumerate(blocks):
        handles[bytes([number])] = varint(len(table)) + varint(len(block) - 5)
        table += block
    index = pack_block(handles)
    footer = (varint(0) + varint(0) + varint(len(table)) + varint(len(index) - 5)).ljust(40, b"\0")
    path.write_bytes(table + index + footer + tensorflow.TABLE_MAGIC)


# BundleHeaderProto: one data file, and in the second one the endianness BIG.
HEADER, BIG_ENDIAN_HEADER = b"\x08\x01", b"\x08\x01\x10\x01"


def test_an_index_of_many_blocks_is_read_whole(tmp_path: Path) -> None:
    strings = [pack_block({b"variable_%d" % number: b"\x08\x07"}) for number in range(50)]
    write_table(tmp_path / "model.index", pack_block({b"": HEADER}), *strings)
    num_shards, entries = tensorflow.read_index(tmp_path / "model.index")
    assert num_shards == 1
    assert sorted(entries) == sorted(f"variable_{number}" for number in range(50))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (pack_block({b"": HEADER}, compression=1), "is compressed"),
        (pack_block({b"": BIG_ENDIAN_HEADER}), "is from a big-endian machine"),
    ],
)
def test_what_no_release_of_google_has_is_refused(tmp_path: Path, block: bytes, message: str) -> None:
    write_table(tmp_path / "model.index", block)
    with pytest.raises(UserError, match=rf"model\.index {message}"):
        read_checkpoint(tmp_path / "model")


@pytest.mark.parametrize(("entry", "message"), [(b"\x08\x08", "data type 8"), (b"\x08\x01\x28\x03", "3 bytes")])
def test_a_type_or_a_size_that_cannot_be_is_refused(tmp_path: Path, entry: bytes, message: str) -> None:
    write_table(tmp_path / "model.index", pack_block({b"": HEADER, b"variable": entry}))
    (tmp_path / "model.data-00000-of-00001").write_bytes(b"abc")
    with pytest.raises(UserError, match=rf"model\.data-00000-of-00001: variable has {message}"):
        read_checkpoint(tmp_path / "model")


@pytest.mark.parametrize(
    ("message", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_checksums_are_those_of_rfc_3720(message: bytes, checksum: int) -> None:
    assert tensorflow.crc32c(message) == checksum


@pytest.mark.parametrize("size", [1, 3, 5, 32_763, 32_764, 32_765, 70_001])
def test_checksums_are_those_of_the_definition_at_any_size(size: int) -> None:
    message = (
        torch.randint(256, (size,), generator=torch.Generator().manual_seed(size)).to(torch.uint8).numpy().tobytes()
    )
    register = 0xFFFFFFFF
    for byte in message:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    assert tensorflow.crc32c(message) == register ^ 0xFFFFFFFF
