"""What training costs, computed before it is run: operations, bytes of memory, bytes that devices exchange.

Bytes follow from what the code keeps for the backward pass; the tests compare them with the storages that are alive
after a forward pass, and benchmarks/plan.py with the memory of whole runs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from litebert.models.encoder import SHARED_BY_MANY, Checkpointing, EncoderConfig
from litebert.models.linear import is_large
from litebert.models.sharing import sharing_map
from litebert.training.devices import Precision
from litebert.training.losses import chunk_rows
from litebert.training.optimizer import Rule
from litebert.training.parallel import Parallel

FULL, HALF, WHOLE_NUMBER = 4, 2, 8
"""Bytes of a number: fp32, bf16, int64."""
PROGRAM_BYTES = 330_000_000
"""A CPU run without its model: Python, torch, batches made ahead, the log, and what the heap wastes; two of 45 and 156
MB by `count_memory` held 299 and 357 MB beside it. On this machine `measure_this` takes what timing held instead.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What goes through a model at once on one device."""

    lengths: tuple[int, ...]
    num_predicted: int
    num_layers: int

    @property
    def num_tokens(self) -> int:
        return sum(self.lengths)

    @property
    def num_read(self) -> int:
        """The tokens that heads read: the first of each sequence, and those that are predicted."""
        return len(self.lengths) + self.num_predicted


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a step is taken, as far as memory depends on it."""

    checkpointing: Checkpointing = "nothing"
    precision: Precision = "fp32"
    optimizer: Rule = "lamb"
    parallel: Parallel = "ddp"
    num_devices: int = 1
    on_cpu: bool = False

    @property
    def value(self) -> int:
        """Bytes of what matrix products read and write."""
        return FULL if self.precision == "fp32" else HALF

    def mask(self, size: int) -> int:
        """Bytes of what dropout keeps for a number of so many bytes: on CPU the factor, elsewhere a flag."""
        return size if self.on_cpu else 1


class Memory(NamedTuple):
    """Bytes on one device, at the most that a step needs."""

    weights: int
    gradients: int
    moments: int
    activations: int
    """What the backward pass reads."""
    temporary: int

    @property
    def total(self) -> int:
        return sum(self)


def count_flops(
    config: EncoderConfig,
    lengths: Sequence[int],
    num_predicted: int,
    num_layers: int | None = None,
    *,
    reads_all: bool = False,
) -> int:
    """Useful matrix products of a training step, of which the backward pass has twice as many as the forward pass.

    Real tokens and predicted positions alone count, and in the last layer, unless heads read all tokens, what those and
    the first tokens need. `num_layers` is how many are run, where those are not all.
    """
    layers = config.num_layers if num_layers is None else num_layers
    encoder = sum(length * config.flops_per_token(length, layers if reads_all else layers - 1) for length in lengths)
    last = 0 if reads_all else count_last_layer(config, lengths, num_predicted)
    head = num_predicted * 2 * config.embedding_size * (config.hidden_size + config.vocab_size)
    return 3 * (encoder + last + head)


def count_last_layer(config: EncoderConfig, lengths: Sequence[int], num_predicted: int) -> int:
    """The products of the last layer's forward pass: keys and values of all tokens, the rest where heads read."""
    hidden, rate = config.hidden_size, num_predicted / sum(lengths)
    products = 0.0
    for length in lengths:
        products += length * 2 * hidden**2
        products += (1 + rate * length) * 2 * hidden * (hidden + length + config.feed_forward_size)
    return round(2 * products)


def count_recomputed(config: EncoderConfig, work: Work, checkpointing: Checkpointing) -> int:
    """The matrix products that checkpointing adds to a step: a forward pass of its layers, or none."""
    if checkpointing == "layers":
        layer = sum(n * (config.flops_per_token(n, 1) - config.flops_per_token(n, 0)) for n in work.lengths)
        return layer * (work.num_layers - 1) + count_last_layer(config, work.lengths, work.num_predicted)
    return 0


def count_parameters(config: EncoderConfig, num_pair_classes: int = 2) -> dict[str, int]:
    """Parameters by part, with both heads of pre-training; without a pair head where it has no classes.

    The paper counts the encoder with its pooler: all but the heads.
    """
    hidden, size, inner = config.hidden_size, config.embedding_size, config.feed_forward_size
    pairs = sharing_map(config.sharing, config.num_layers)
    num_attentions, num_feed_forwards = (len(set(half)) for half in zip(*pairs, strict=True))
    rows = config.vocab_size + config.num_positions + config.num_segments
    parts = {
        "embedding": rows * size + 2 * size + (size * hidden + hidden if config.projection else 0),
        "attention": num_attentions * 4 * (hidden * hidden + hidden),
        "feed-forward": num_feed_forwards * (2 * hidden * inner + inner + hidden),
        "norms": len(set(pairs)) * 4 * hidden,
        "pooler": hidden * hidden + hidden,
        "masked-token head": hidden * size + size + 2 * size + config.vocab_size,
        "pair head": num_pair_classes * (hidden + 1),
    }
    return {part: number for part, number in parts.items() if number}


def count_memory(config: EncoderConfig, work: Work, manner: Manner, num_pair_classes: int = 2) -> Memory:
    """The bytes of a training step on one device, without those of the program itself."""
    number = sum(count_parameters(config, num_pair_classes).values())
    share = manner.num_devices if manner.parallel == "fsdp" else 1
    weights, gradients, moments = FULL * number, FULL * number, 2 * FULL * number // share
    if share > 1:
        # All weights are put together for the whole step, beside each device's own part of weights and gradients.
        weights, gradients = weights + weights // share, gradients + gradients // share
    elif manner.num_devices > 1:
        gradients *= 2  # DDP sends copies of them, in buckets
    activations = count_activations(config, work, manner)
    during = max(forward_buffers(config, work, manner), backward_buffers(config, work, manner))
    during += pack_bytes(config, work, manner)
    # LAMB makes an update as large as the weights, when the activations are gone.
    updates = FULL * number // share if manner.optimizer == "lamb" else 0
    return Memory(weights, gradients, moments, activations, max(during, updates - activations))


def count_activations(config: EncoderConfig, work: Work, manner: Manner) -> int:
    """The bytes that are kept from the forward pass for the backward pass."""
    if manner.checkpointing == "layers":
        layers = work.num_layers * layer_input_bytes(config, work, manner)
    else:
        layers = (work.num_layers - 1) * layer_bytes(config, work, manner) + last_layer_bytes(config, work, manner)
    return layers + embedding_bytes(config, work, manner) + head_bytes(config, work, manner)


def residual_size(config: EncoderConfig, manner: Manner) -> int:
    """Bytes of a number between layers. Autocast normalises in fp32, but on CPU in what it was given."""
    return manner.value if manner.on_cpu and config.projection else FULL


def layer_input_bytes(config: EncoderConfig, work: Work, manner: Manner) -> int:
    return work.num_tokens * config.hidden_size * residual_size(config, manner)


def layer_bytes(config: EncoderConfig, work: Work, manner: Manner) -> int:
    """What one layer keeps: the inputs of its matrices, of its normalisations, of attention and of the activation."""
    return work.num_tokens * token_bytes(config, manner) + attention_bytes(config, work.lengths, manner)


def last_layer_bytes(config: EncoderConfig, work: Work, manner: Manner) -> int:
    """The same of the last layer: inputs, keys and values of all tokens, the rest of those that heads read."""
    hidden, value = config.hidden_size, manner.value
    kept = work.num_tokens * 3 * hidden * value + work.num_read * token_bytes(config, manner)
    kept += work.num_read * 4 * WHOLE_NUMBER  # where they stand, and their order both ways
    if config.attention_dropout and manner.on_cpu:
        shares = work.num_read / work.num_tokens * config.num_heads * sum(length**2 for length in work.lengths)
        return kept + round(value * (3 * hidden * work.num_read + 3 * shares))
    return kept + work.num_read * (3 * hidden * value + FULL * config.num_heads)


def token_bytes(config: EncoderConfig, manner: Manner) -> int:
    """What a layer keeps of a token beside what attention does."""
    hidden, value = config.hidden_size, manner.value
    kept = 2 * hidden * (value + residual_size(config, manner))
    kept += 4 * FULL  # a mean and a deviation for each of two normalisations
    again = manner.checkpointing == "activations" or makes_activated_again(config, manner)
    kept += (1 if again else activation_copies(config)) * value * config.feed_forward_size
    if config.hidden_dropout:
        kept += 2 * hidden * manner.mask(value)
    return kept


def makes_activated_again(config: EncoderConfig, manner: Manner) -> bool:
    """Whether that costs nothing, so that it is done unasked."""
    return config.activation == "gelu_tanh" and manner.on_cpu and manner.precision == "fp32"


def activation_copies(config: EncoderConfig) -> int:
    """GELU's gradient needs its input, the next matrix its output; the others' gradients need their output alone."""
    return 2 if config.activation.startswith("gelu") else 1


def attention_bytes(config: EncoderConfig, lengths: Sequence[int], manner: Manner) -> int:
    """Queries, keys, values and contexts; with dropout on CPU also all probabilities, for nothing is fused there."""
    num_tokens, hidden = sum(lengths), config.hidden_size
    if config.attention_dropout and manner.on_cpu:
        probabilities = config.num_heads * sum(length * length for length in lengths)
        # A sequence that is alone with its length is not copied, and as a view keeps what the others were copied from.
        vectors = 7 if 1 in Counter(lengths).values() else 4
        return manner.value * (vectors * num_tokens * hidden + 3 * probabilities)
    in_place = manner.on_cpu and manner.precision == "fp32"
    contexts = 1 if in_place or len(set(lengths)) == 1 else 2  # those of each length, and all of them end to end
    return num_tokens * (manner.value * (3 + contexts) * hidden + FULL * config.num_heads)


def embedding_bytes(config: EncoderConfig, work: Work, manner: Manner) -> int:
    size = config.embedding_size
    per_token = FULL * size + 2 * FULL  # the normalisation's
    per_token += manner.value * size if config.projection else 0
    per_token += manner.mask(FULL) * size if config.hidden_dropout else 0
    return work.num_tokens * (per_token + 5 * WHOLE_NUMBER)  # the ids in another order, and the order both ways


def head_bytes(config: EncoderConfig, work: Work, manner: Manner) -> int:
    """What both heads keep; the gradient of the table of words is made on the way forward."""
    hidden, size, value = config.hidden_size, config.embedding_size, manner.value
    pooled = len(work.lengths) * 2 * hidden * value
    per_position = value * (hidden + activation_copies(config) * size) + 2 * FULL
    if manner.precision == "fp32":
        table = FULL * config.vocab_size * (size + 1)
        return pooled + work.num_predicted * (per_position + FULL * size) + table
    # Autocast keeps all shares of the vocabulary.
    per_position += value * size + FULL * config.vocab_size
    return pooled + work.num_predicted * per_position + copied_bytes(config, manner)


def copied_bytes(config: EncoderConfig, manner: Manner) -> int:
    """Autocast's copies in 16 bits of the matrices that it multiplies, but for those that are copied again."""
    parts = count_parameters(config)
    forgotten = {
        "nothing": 0,
        "activations": parts["feed-forward"] // 2,
        "layers": parts["attention"] + parts["feed-forward"],
    }
    looked_up = (config.num_positions + config.num_segments) * config.embedding_size
    copied = sum(parts.values()) - looked_up - forgotten[manner.checkpointing]
    *others, last = (attention for attention, _ in sharing_map(config.sharing, config.num_layers))
    if last in others and manner.checkpointing != "layers":
        copied += 3 * config.hidden_size * (config.hidden_size + 1)  # the last layer's queries apart from its keys
    return HALF * copied


def pack_bytes(config: EncoderConfig, work: Work, manner: Manner) -> int:
    """Matrices that many layers share, twice more: as oneDNN wants them on the way forward, and on the way back."""
    hidden, inner = config.hidden_size, config.feed_forward_size
    if not (manner.on_cpu and manner.precision == "fp32" and is_large(work.num_tokens, hidden, inner)):
        return 0
    halves = zip(*sharing_map(config.sharing, config.num_layers)[: work.num_layers], strict=True)
    packed = [sum(uses >= SHARED_BY_MANY for uses in Counter(half).values()) for half in halves]
    return 2 * FULL * (packed[0] * 4 * hidden**2 + packed[1] * 2 * hidden * inner)


def forward_buffers(config: EncoderConfig, work: Work, manner: Manner) -> int:
    """The largest tensors of the forward pass that nothing keeps: logits, which become shares of the vocabulary."""
    vocabulary = config.vocab_size
    if manner.precision == "bf16":
        return work.num_predicted * vocabulary * (HALF + FULL)
    rows = chunk_rows(work.num_predicted, vocabulary)
    return FULL * rows * vocabulary + work.num_tokens * config.hidden_size * FULL


def backward_buffers(config: EncoderConfig, work: Work, manner: Manner) -> int:
    """The largest tensors of the backward pass: gradients of logits, or those of one layer's values and matrix."""
    hidden, inner, value = config.hidden_size, config.feed_forward_size, manner.value
    table = FULL * config.vocab_size * config.embedding_size
    logits = work.num_predicted * config.vocab_size * (HALF + FULL) if manner.precision == "bf16" else 0
    inside = max(hidden + 2 * inner, 7 * hidden)
    layer = work.num_tokens * value * inside + FULL * hidden * inner
    if manner.checkpointing == "layers":
        layer += layer_bytes(config, work, manner)
    elif manner.checkpointing == "activations" or makes_activated_again(config, manner):
        layer += work.num_tokens * value * inner
    return table + max(logits, layer)


def count_exchanged(num_parameters: int, num_devices: int) -> float:
    """The bytes that each device sends in a step: a ring adds up fp32 gradients in two rounds of (N - 1)/N each."""
    return 2 * (num_devices - 1) / num_devices * FULL * num_parameters
