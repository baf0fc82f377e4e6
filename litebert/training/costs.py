"""What training costs, computed before it is run."""

from collections.abc import Sequence

from litebert.models.encoder import EncoderConfig


def count_flops(
    config: EncoderConfig, lengths: Sequence[int], num_predicted: int, num_layers: int | None = None
) -> int:
    """Useful matrix products of a training step, of which the backward pass has twice as many as the forward pass.

    Real tokens and predicted positions alone count. `num_layers` is how many are run, where those are not all.
    """
    encoder = sum(length * config.flops_per_token(length, num_layers) for length in lengths)
    head = num_predicted * 2 * config.embedding_size * (config.hidden_size + config.vocab_size)
    return 3 * (encoder + head)
