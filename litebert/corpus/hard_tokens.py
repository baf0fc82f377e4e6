"""Which tokens a model finds hard, so that these are hidden more readily.

A running mean of each token's loss is kept over the vocabulary, and every so many steps becomes the weights with which
tokens are drawn to be hidden. All of it is tensors of a checkpoint, so a resumed run hides the same tokens.
"""

import numpy as np
import torch
from torch import Tensor

from litebert.corpus.draws import Floats

REFRESH_STEPS = 100
DECAY = 0.8
"""How much of what was known is kept at each refreshment."""
PRIOR = 5.0
"""How many times a token counts as having been seen with the mean loss before it was seen at all."""
LARGEST = 10.0
UNIT = 1 << 20


class HardTokens:
    """The running losses of all tokens, and the weights that follow from them."""

    def __init__(self, vocab_size: int, hardness: float) -> None:
        self.hardness = hardness
        self.sums_2V = torch.zeros(2, vocab_size, dtype=torch.float64)
        """Of the losses, and of how many there were; old ones fade."""
        self.news_2V = torch.zeros(2, vocab_size, dtype=torch.int64)
        """The same since the last refreshment. Losses are in units of 2^-20: whole numbers have the same sum in any
        order, on any number of ranks."""
        self.weights_V = torch.ones(vocab_size, dtype=torch.float64)

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"sums": self.sums_2V, "news": self.news_2V, "weights": self.weights_V}

    @property
    def weights(self) -> Floats:
        """The weights as they are now and will be: the array changes with each refreshment."""
        return np.asarray(self.weights_V)

    def observe(self, ids_P: Tensor, losses_P: Tensor) -> None:
        units_P = (losses_P.double() * UNIT).round().long().cpu()
        self.news_2V.index_add_(1, ids_P.cpu(), torch.stack([units_P, torch.ones_like(units_P)]))

    def refresh(self) -> None:
        """Turns what was seen on all ranks, which the caller has added up in `news_2V`, into new weights."""
        self.sums_2V.mul_(DECAY).add_(self.news_2V / torch.tensor([[UNIT], [1.0]], dtype=torch.float64))
        self.news_2V.zero_()
        losses_V, counts_V = self.sums_2V
        if counts_V.sum() == 0:
            return
        mean = losses_V.sum() / counts_V.sum()
        relative_V = (losses_V + PRIOR * mean) / (counts_V + PRIOR) / mean
        self.weights_V.copy_(relative_V.clamp(1 / LARGEST, LARGEST) ** self.hardness)
