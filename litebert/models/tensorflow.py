"""Reads Google's TensorFlow checkpoints of ALBERT and BERT, without TensorFlow.

A checkpoint X is a table of contents, `X.index`, and raw tensors, `X.data-0000k-of-0000n`. The index is a LevelDB table
of protobuf messages: one BundleHeaderProto, then one BundleEntryProto per variable. Each block of the index and each
tensor carries a CRC-32C, and all that is read is checked: a flipped byte becomes an error, never a weight.

Refused by name, because no release of Google's has them: partitioned variables, files of big-endian machines, and
compressed index blocks (TensorFlow can read them, but writes none).
"""

import io
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from litebert.config import require
from litebert.protobuf import read_message, read_varint

# Numbers of TensorFlow's DataType enum. A string is never a weight.
DTYPES = {1: torch.float32, 2: torch.float64, 3: torch.int32, 9: torch.int64, 14: torch.bfloat16, 19: torch.float16}
STRING = 7

TABLE_MAGIC = bytes.fromhex("57fb808b247547db")
FOOTER_SIZE = 48
BLOCK_TRAILER_SIZE = 5

CRC_POLYNOMIAL = np.uint32(0x82F63B78)
CRC_LANES = 8192
# Takes a register from zero to the all-ones value that every message starts with.
CRC_START = bytes.fromhex("54641f64")


def find_checkpoint(path: Path) -> Path | None:
    """The prefix of the checkpoint that `path` is the prefix, the index or the folder of; None where there is none."""
    if path.suffix == ".index" and path.is_file():
        return path.with_suffix("")
    if Path(f"{path}.index").is_file():
        return path
    found = sorted(path.glob("*.index")) or sorted(path.glob("variables/variables.index"))
    prefixes = [index.with_suffix("") for index in found]
    return choose_latest(path, prefixes) if len(prefixes) > 1 else next(iter(prefixes), None)


def choose_latest(folder: Path, prefixes: list[Path]) -> Path:
    """The one that TensorFlow's `checkpoint` file names, by its last part: the folder may have moved since."""
    state = folder / "checkpoint"
    text = state.read_text(encoding="utf-8") if state.is_file() else ""
    latest = re.search(r'^model_checkpoint_path: *"(?:.*/)?(.+)"', text, re.MULTILINE)
    chosen = folder / latest[1] if latest else folder
    names = ", ".join(prefix.name for prefix in prefixes)
    require(chosen in prefixes, f"{folder} holds several checkpoints: {names}; give the path of one, {prefixes[0]}")
    return chosen


def read_checkpoint(prefix: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint by TensorFlow's names; strings are left out."""
    num_shards, entries = read_index(Path(f"{prefix}.index"))
    return {
        name: read_tensor(Path(f"{prefix}.data-{entry.shard:05d}-of-{num_shards:05d}"), name, entry)
        for name, entry in entries.items()
        if entry.dtype != STRING
    }


class Entry(NamedTuple):
    """What the index says of one variable: its type, and where its bytes lie."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int


def read_tensor(path: Path, name: str, entry: Entry) -> Tensor:
    require(path.is_file(), f"{path} is missing; put all data files of the checkpoint beside its index")
    require(entry.dtype in DTYPES, f"{path}: {name} has data type {entry.dtype}; of TensorFlow's, {[*DTYPES]} are read")
    dtype = DTYPES[entry.dtype]
    size = math.prod(entry.shape) * dtype.itemsize
    require(size == entry.size, f"{path}: {name} has {entry.size} bytes, but its shape needs {size}; download it again")
    data = torch.empty(size, dtype=torch.uint8)
    with path.open("rb") as file:
        file.seek(entry.offset)
        complete = file.readinto(data.numpy().data) == size
    require(complete, f"{path} is cut short: it ends before the end of {name}; download it again")
    intact = mask(crc32c(data.numpy().data)) == entry.checksum
    require(intact, f"{path} is damaged: {name} does not fit its checksum; download it again")
    return data.view(dtype).reshape(entry.shape)


def read_index(path: Path) -> tuple[int, dict[str, Entry]]:
    """The number of data files, and the entries by variable name."""
    (_, header), *items = read_table(path)
    fields = dict(read_message(header))
    require(not fields.get(2), f"{path} is from a big-endian machine, which is not read; save it on another")
    # A piece of a partitioned variable has an entry of its own, whose key starts with a zero byte.
    partitioned = any(key.startswith(b"\0") for key, _ in items)
    require(not partitioned, f"{path} has partitioned variables, which are not read; save it without a partitioner")
    return fields[1], {key.decode(): read_entry(value) for key, value in items}


def read_entry(message: bytes) -> Entry:
    fields = dict(read_message(message))
    dimensions = [dict(read_message(value)) for number, value in read_message(fields.get(2, b"")) if number == 2]
    shape = tuple(dimension.get(1, 0) for dimension in dimensions)
    return Entry(fields[1], shape, *(fields.get(number, 0) for number in (3, 4, 5, 6)))


def read_table(path: Path) -> list[tuple[bytes, bytes]]:
    """The keys and values of a LevelDB table, in order."""
    require(path.is_file(), f"{path} does not exist; give the prefix of a checkpoint, such as folder/model.ckpt-best")
    table = path.read_bytes()
    complete = len(table) >= FOOTER_SIZE and table.endswith(TABLE_MAGIC)
    require(complete, f"{path} is not the index of a TensorFlow checkpoint, or is cut short; download it again")
    footer = io.BytesIO(table[-FOOTER_SIZE:])
    _, _, offset, size = (read_varint(footer) for _ in range(4))
    handles = [io.BytesIO(handle) for _, handle in read_block(path, table, offset, size)]
    return [item for handle in handles for item in read_block(path, table, read_varint(handle), read_varint(handle))]


def read_block(path: Path, table: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The items of one block. A key is stored as how much it shares with the one before, and the rest."""
    block = table[offset : offset + size + BLOCK_TRAILER_SIZE]
    checksum = int.from_bytes(block[-4:], "little")
    intact = len(block) == size + BLOCK_TRAILER_SIZE and mask(crc32c(block[:-4])) == checksum
    require(intact, f"{path} is damaged: the block at byte {offset} does not fit its checksum; download it again")
    require(block[size] == 0, f"{path} is compressed, which is not read; save it again with TensorFlow's Saver")
    num_restarts = int.from_bytes(block[size - 4 : size], "little")
    stream, key = io.BytesIO(block), b""
    while stream.tell() < size - 4 * (num_restarts + 1):
        shared, unshared, length = (read_varint(stream) for _ in range(3))
        key = key[:shared] + stream.read(unshared)
        yield key, stream.read(length)


def mask(checksum: int) -> int:
    """How LevelDB stores a checksum, so that data with checksums in it can be checked in its turn."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C at the speed of numpy.

    The checksum is linear, so the words of a message can be dealt to many registers that step together, one row of
    words at a time. Then the first half of the registers is moved past the second and added to it, until one is left.
    Zeros in front of a message change nothing.
    """
    padding = bytes(-(len(CRC_START) + len(data)) % (4 * CRC_LANES))
    rows = np.frombuffer(b"".join([padding, CRC_START, data]), "<u4").reshape(-1, CRC_LANES)
    registers: NDArray[np.uint32] = np.zeros(CRC_LANES, np.uint32)
    for row in rows:
        registers = advance(registers, CRC_LANES) ^ row
    while registers.size > 1:
        first, second = np.split(registers, 2)
        registers = advance(first, second.size) ^ second
    return int(advance(registers, 1)[0]) ^ 0xFFFFFFFF


def advance(registers: NDArray[np.uint32], num_words: int) -> NDArray[np.uint32]:
    """The registers after `num_words` more words of zeros; a power of two."""
    low, high = advance_tables(num_words)
    return low[registers & 0xFFFF] ^ high[registers >> 16]


@cache
def advance_tables(num_words: int) -> NDArray[np.uint32]:
    """What becomes of each value of a register's low half, and of its high half."""
    if num_words > 1:
        return advance(advance_tables(num_words // 2), num_words // 2)
    registers = np.arange(2**16, dtype=np.uint32) << np.array([[0], [16]], np.uint32)
    for _ in range(32):
        registers = np.where(registers & 1, registers >> 1 ^ CRC_POLYNOMIAL, registers >> 1)
    return registers


NOT_WEIGHTS = r"(.*/)?(global_step|(adam|lamb)_[mv]|(AdamWeightDecay|LAMB)Optimizer.*)"

# The scope of a variable in TensorFlow -> the module that holds it in transformers.
HEADS = {
    r"": r"classifier",
    r"cls/squad": r"qa_outputs",
    r"(start_logits|end_logits|answer_class)/(dense|dense_0|dense_1|LayerNorm)": r"\1.\2",
}
ALBERT_LAYER = r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/"
ALBERT_MODULE = r"albert.encoder.albert_layer_groups.\1.albert_layers.\2."
ALBERT = HEADS | {
    r"bert/embeddings": r"albert.embeddings",
    r"bert/embeddings/LayerNorm": r"albert.embeddings.LayerNorm",
    r"bert/encoder/embedding_hidden_mapping_in": r"albert.encoder.embedding_hidden_mapping_in",
    ALBERT_LAYER + r"attention_1/self/(query|key|value)": ALBERT_MODULE + r"attention.\3",
    ALBERT_LAYER + r"attention_1/output/dense": ALBERT_MODULE + r"attention.dense",
    ALBERT_LAYER + r"LayerNorm": ALBERT_MODULE + r"attention.LayerNorm",
    ALBERT_LAYER + r"ffn_1/intermediate/dense": ALBERT_MODULE + r"ffn",
    ALBERT_LAYER + r"ffn_1/intermediate/output/dense": ALBERT_MODULE + r"ffn_output",
    ALBERT_LAYER + r"LayerNorm_1": ALBERT_MODULE + r"full_layer_layer_norm",
    r"bert/pooler/dense": r"albert.pooler",
    r"cls/predictions": r"predictions",
    r"cls/predictions/transform/(dense|LayerNorm)": r"predictions.\1",
    r"cls/seq_relationship": r"sop_classifier.classifier",
}
BERT = HEADS | {
    r"bert/embeddings": r"bert.embeddings",
    r"bert/embeddings/LayerNorm": r"bert.embeddings.LayerNorm",
    r"bert/encoder/layer_(\d+)/attention/self/(query|key|value)": r"bert.encoder.layer.\1.attention.self.\2",
    r"bert/encoder/layer_(\d+)/attention/output/(dense|LayerNorm)": r"bert.encoder.layer.\1.attention.output.\2",
    r"bert/encoder/layer_(\d+)/intermediate/dense": r"bert.encoder.layer.\1.intermediate.dense",
    r"bert/encoder/layer_(\d+)/output/(dense|LayerNorm)": r"bert.encoder.layer.\1.output.\2",
    r"bert/pooler/dense": r"bert.pooler.dense",
    r"cls/predictions": r"cls.predictions",
    r"cls/predictions/transform/(dense|LayerNorm)": r"cls.predictions.transform.\1",
    r"cls/seq_relationship": r"cls.seq_relationship",
}
# The last part of a variable's name -> the parameter of that module.
PARAMETERS = {
    r"((?:word|token_type|position)_embeddings)": r"\1.weight",
    r"kernel|gamma|output_weights": r"weight",
    r"bias|beta|output_bias": r"bias",
}


def huggingface_names(variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of an ALBERT or BERT checkpoint under the names, and in the layout, of transformers.

    The matrix of the masked-token output is not among them: it is the word embedding.
    """
    weights = {name: value for name, value in variables.items() if not re.fullmatch(NOT_WEIGHTS, name)}
    scopes = BERT if any("bert/encoder/layer_" in name for name in weights) else ALBERT
    names = {name: rename(name, scopes) for name in weights}
    unknown = sorted(name for name, new in names.items() if new is None)
    some = ", ".join(unknown[:5]) + ", ..." * (len(unknown) > 5)
    require(not unknown, f"{len(unknown)} variables are neither ALBERT's nor BERT's: {some}; give a model of Google's")
    # TensorFlow multiplies x @ kernel; torch's Linear multiplies x @ weight.T.
    return {
        new: weights[name].T.contiguous() if name.endswith("kernel") else weights[name]
        for name, new in names.items()
        if new is not None
    }


def rename(name: str, scopes: Mapping[str, str]) -> str | None:
    """The new name of a variable, None if no rule knows it. Modules of TF-Hub put `module/` before their names."""
    scope, _, leaf = name.removeprefix("module/").rpartition("/")
    module, parameter = apply_rule(scope, scopes), apply_rule(leaf, PARAMETERS)
    return f"{module}.{parameter}" if module and parameter else None


def apply_rule(text: str, rules: Mapping[str, str]) -> str | None:
    matches = ((re.fullmatch(pattern, text), replacement) for pattern, replacement in rules.items())
    return next((match.expand(replacement) for match, replacement in matches if match), None)
