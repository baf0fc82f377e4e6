"""The batches of a fine-tuning run: a pure function of the step's number."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from litebert.batch import Batch
from litebert.tasks.task import Sample, pack
from litebert.training.parallel import Ranks


class Stream:
    """Samples in an order that is drawn anew in each epoch; a batch may hold the end of one and the start of the next.

    Samples that are options of one question stay together, in their order.
    """

    def __init__(
        self, samples: Sequence[Sample], *, num_examples: int, num_choices: int = 1, seed: int = 0, ranks: Ranks
    ) -> None:
        self.samples, self.num_choices, self.seed, self.ranks = samples, num_choices, seed, ranks
        self.num_examples = num_examples
        self.size = len(samples) // num_choices
        self.drawn: tuple[int, list[int]] | None = None
        """The epoch that is under way, and its order."""

    def batches(self, step: int) -> Iterator[Batch]:
        """This rank's batches from a step on."""
        mine = self.num_examples // self.ranks.num_ranks
        for number in itertools.count(step):
            first = number * self.num_examples + self.ranks.rank * mine
            yield pack([sample for place in range(first, first + mine) for sample in self.at(place)])

    def at(self, place: int) -> Sequence[Sample]:
        """The samples of the question at a place in the endless sequence of epochs."""
        epoch, index = divmod(place, self.size)
        first = self.order(epoch)[index] * self.num_choices
        return self.samples[first : first + self.num_choices]

    def order(self, epoch: int) -> list[int]:
        if self.drawn is None or self.drawn[0] != epoch:
            self.drawn = epoch, np.random.default_rng([self.seed, epoch]).permutation(self.size).tolist()
        return self.drawn[1]
