"""Writes the checkpoints and expected numbers of `test_tensorflow.py` with TensorFlow itself.

Run once, in an environment of its own (Python 3.11, tensorflow-cpu 2.21.0, numpy 2.4.6):

    python tests/models/data/make_tensorflow_checkpoint.py

- `tensorflow_albert/`: an ALBERT of a few thousand weights as Google's archives have it, and in `expected.json` the
  checksum of each variable and the outputs that TensorFlow computes from the saved file for two short sequences.
- `tensorflow_hub/`: a smaller one in the layout of TF-Hub, with `module/` before every name.
- `tensorflow_variants/`: one variable of every data type in two data files, and a partitioned variable.

A second run gives the same checkpoints, byte for byte.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

FOLDER = Path(__file__).parent
CONFIG = {
    "attention_probs_dropout_prob": 0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0,
    "embedding_size": 16,
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "max_position_embeddings": 24,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_hidden_groups": 1,
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "inner_group_num": 1,
    "down_scale_factor": 1,
    "type_vocab_size": 2,
    "vocab_size": 97,
}
HUB_CONFIG = CONFIG | {
    "embedding_size": 4,
    "hidden_size": 8,
    "intermediate_size": 12,
    "max_position_embeddings": 6,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 11,
}
INPUTS = {
    "input_ids": [[2, 17, 45, 4, 96, 3, 33, 8, 4, 3], [2, 61, 5, 3, 70, 4, 3, 0, 0, 0]],
    "segment_ids": [[0, 0, 0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 0, 0, 0]],
    "input_mask": [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]],
    "masked_lm_positions": [[3, 8], [1, 5]],
}
LAYER = "bert/encoder/transformer/group_0/inner_group_0"


def name_dense(scope: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{scope}/kernel": (inputs, outputs), f"{scope}/bias": (outputs,)}


def name_norm(scope: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{scope}/gamma": (size,), f"{scope}/beta": (size,)}


def name_variables(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The variables of Google's pre-training graph, one group of one layer, and their shapes."""
    vocabulary, embedding, hidden = config["vocab_size"], config["embedding_size"], config["hidden_size"]
    return {
        "bert/embeddings/word_embeddings": (vocabulary, embedding),
        "bert/embeddings/token_type_embeddings": (config["type_vocab_size"], embedding),
        "bert/embeddings/position_embeddings": (config["max_position_embeddings"], embedding),
        **name_norm("bert/embeddings/LayerNorm", embedding),
        **name_dense("bert/encoder/embedding_hidden_mapping_in", embedding, hidden),
        **name_dense(f"{LAYER}/attention_1/self/query", hidden, hidden),
        **name_dense(f"{LAYER}/attention_1/self/key", hidden, hidden),
        **name_dense(f"{LAYER}/attention_1/self/value", hidden, hidden),
        **name_dense(f"{LAYER}/attention_1/output/dense", hidden, hidden),
        **name_norm(f"{LAYER}/LayerNorm", hidden),
        **name_dense(f"{LAYER}/ffn_1/intermediate/dense", hidden, config["intermediate_size"]),
        **name_dense(f"{LAYER}/ffn_1/intermediate/output/dense", config["intermediate_size"], hidden),
        **name_norm(f"{LAYER}/LayerNorm_1", hidden),
        **name_dense("bert/pooler/dense", hidden, hidden),
        **name_dense("cls/predictions/transform/dense", hidden, embedding),
        **name_norm("cls/predictions/transform/LayerNorm", embedding),
        "cls/predictions/output_bias": (vocabulary,),
        "cls/seq_relationship/output_weights": (2, hidden),
        "cls/seq_relationship/output_bias": (2,),
    }


def draw_values(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Weights large enough that a swapped or transposed one would show in the outputs."""
    generator = np.random.default_rng(seed)
    values = {}
    for name, shape in shapes.items():
        center = 1.0 if name.endswith("/gamma") else 0.0
        values[name] = generator.normal(center, 0.2, shape).astype(np.float32)
    return values


def add_training_state(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    state: dict[str, np.ndarray] = {"global_step": np.array(125_000, np.int64)}
    for name in ("bert/embeddings/word_embeddings", "bert/pooler/dense/kernel", "bert/pooler/dense/bias"):
        state[f"{name}/adam_m"] = values[name] * 0.1
        state[f"{name}/adam_v"] = values[name] ** 2
    return values | state


def save(prefix: Path, variables: list[Any], **options: Any) -> None:
    """Saves variables of the default graph as Google's Estimator does."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with v1.Session(config=v1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(variables, **options)
        saver.save(session, str(prefix), write_meta_graph=False, write_state=False)


def save_values(prefix: Path, values: dict[str, np.ndarray]) -> None:
    with tf.Graph().as_default():
        save(prefix, [v1.get_variable(name, initializer=value) for name, value in values.items()])


def save_data_types(prefix: Path) -> None:
    """Two data files: the numbers in the first, the rest in the second."""
    numbers = np.arange(6).reshape(2, 3) - 2
    with tf.Graph().as_default():
        with tf.device("/cpu:0"):
            for kind in (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64):
                v1.get_variable(kind.name, initializer=tf.cast(numbers, kind))
        with tf.device("/cpu:1"):
            v1.get_variable("scalar", initializer=np.float32(0.5))
            v1.get_variable("empty", initializer=np.zeros((0, 3), np.float32))
            v1.get_variable("string", initializer=np.array(["not", "a weight"]), dtype=tf.string)
        save(prefix, v1.global_variables(), sharded=True)


def save_partitioned(prefix: Path) -> None:
    with tf.Graph().as_default():
        halves = v1.fixed_size_partitioner(2)
        v1.get_variable("bert/embeddings/word_embeddings", initializer=tf.zeros((6, 2)), partitioner=halves)
        save(prefix, v1.global_variables())


class Albert:
    """ALBERT's forward pass, evaluation only, over the variables of a saved checkpoint."""

    def __init__(self, prefix: Path, config: dict[str, Any]) -> None:
        self.reader = tf.train.load_checkpoint(str(prefix))
        self.config = config

    def weight(self, name: str) -> tf.Tensor:
        return tf.constant(self.reader.get_tensor(name))

    def dense(self, scope: str, x: tf.Tensor) -> tf.Tensor:
        return tf.tensordot(x, self.weight(f"{scope}/kernel"), 1) + self.weight(f"{scope}/bias")

    def norm(self, scope: str, x: tf.Tensor) -> tf.Tensor:
        centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(centered**2, axis=-1, keepdims=True)
        return centered / tf.sqrt(variance + 1e-12) * self.weight(f"{scope}/gamma") + self.weight(f"{scope}/beta")

    def gelu(self, x: tf.Tensor) -> tf.Tensor:
        return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi).astype(np.float32) * (x + 0.044715 * x**3)))

    def embed(self, ids: tf.Tensor, segments: tf.Tensor) -> tf.Tensor:
        words = tf.gather(self.weight("bert/embeddings/word_embeddings"), ids)
        types = tf.gather(self.weight("bert/embeddings/token_type_embeddings"), segments)
        positions = self.weight("bert/embeddings/position_embeddings")[: ids.shape[1]]
        x = self.norm("bert/embeddings/LayerNorm", words + types + positions)
        return self.dense("bert/encoder/embedding_hidden_mapping_in", x)

    def split_heads(self, x: tf.Tensor) -> tf.Tensor:
        batch, length, hidden = x.shape
        heads = self.config["num_attention_heads"]
        return tf.transpose(tf.reshape(x, (batch, length, heads, hidden // heads)), (0, 2, 1, 3))

    def attend(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        query, key, value = (
            self.split_heads(self.dense(f"{LAYER}/attention_1/self/{part}", x)) for part in ("query", "key", "value")
        )
        scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(query.shape[-1]).astype(np.float32)
        scores += (1 - mask[:, None, None, :]) * -10000
        context = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), (0, 2, 1, 3))
        return self.dense(f"{LAYER}/attention_1/output/dense", tf.reshape(context, x.shape))

    def run_layer(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        x = self.norm(f"{LAYER}/LayerNorm", x + self.attend(x, mask))
        inner = self.gelu(self.dense(f"{LAYER}/ffn_1/intermediate/dense", x))
        return self.norm(f"{LAYER}/LayerNorm_1", x + self.dense(f"{LAYER}/ffn_1/intermediate/output/dense", inner))

    def predict_tokens(self, hidden: tf.Tensor) -> tf.Tensor:
        x = self.gelu(self.dense("cls/predictions/transform/dense", hidden))
        x = self.norm("cls/predictions/transform/LayerNorm", x)
        table = self.weight("bert/embeddings/word_embeddings")
        return tf.tensordot(x, tf.transpose(table), 1) + self.weight("cls/predictions/output_bias")

    def predict_order(self, pooled: tf.Tensor) -> tf.Tensor:
        weights = self.weight("cls/seq_relationship/output_weights")
        return tf.matmul(pooled, weights, transpose_b=True) + self.weight("cls/seq_relationship/output_bias")

    def run(self, inputs: dict[str, Any]) -> dict[str, list[Any]]:
        x = self.embed(tf.constant(inputs["input_ids"]), tf.constant(inputs["segment_ids"]))
        for _ in range(self.config["num_hidden_layers"]):
            x = self.run_layer(x, tf.constant(inputs["input_mask"], tf.float32))
        pooled = tf.tanh(self.dense("bert/pooler/dense", x[:, 0]))
        masked = tf.gather(x, tf.constant(inputs["masked_lm_positions"]), batch_dims=1)
        outputs = {
            "sequence_output": x,
            "pooled_output": pooled,
            "masked_lm_logits": self.predict_tokens(masked),
            "sentence_order_logits": self.predict_order(pooled),
        }
        return {name: output.numpy().astype(float).round(7).tolist() for name, output in outputs.items()}


def describe(prefix: Path) -> dict[str, Any]:
    """The shape and the sha256 of the bytes of each variable, as TensorFlow reads them back."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: {"shape": shape, "sha256": hashlib.sha256(reader.get_tensor(name).tobytes()).hexdigest()}
        for name, shape in sorted(reader.get_variable_to_shape_map().items())
    }


def main() -> None:
    albert = FOLDER / "tensorflow_albert" / "model.ckpt-best"
    save_values(albert, add_training_state(draw_values(name_variables(CONFIG), seed=12345)))
    outputs = Albert(albert, CONFIG).run(INPUTS)
    expected = {"inputs": INPUTS, "outputs": outputs, "variables": describe(albert)}
    (albert.parent / "albert_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n", encoding="utf-8")
    (albert.parent / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")

    values = draw_values(name_variables(HUB_CONFIG), seed=54321)
    hub = FOLDER / "tensorflow_hub" / "variables" / "variables"
    save_values(hub, {f"module/{name}": value for name, value in values.items()})

    save_data_types(FOLDER / "tensorflow_variants" / "types.ckpt")
    save_partitioned(FOLDER / "tensorflow_variants" / "partitioned.ckpt")


if __name__ == "__main__":
    main()
