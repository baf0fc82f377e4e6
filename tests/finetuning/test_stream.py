import itertools
from collections import Counter

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.batch import Batch
from litebert.finetuning.stream import Stream
from litebert.tasks.task import Sample
from litebert.training.parallel import Ranks

SIZES = st.integers(1, 30)
BATCHES = st.integers(1, 12)
SEEDS = st.integers(0, 1000)


def make_samples(number: int) -> list[Sample]:
    """Samples of several lengths whose second token is their number, which is their label too."""
    lengths = np.random.default_rng(0).integers(3, 9, number).tolist()
    return [
        Sample(np.array([2, place, *[5] * (length - 3), 3], np.int32), length, place, place)
        for place, length in enumerate(lengths)
    ]


def make_stream(
    number: int, num_examples: int, num_choices: int = 1, seed: int = 0, rank: int = 0, of: int = 1
) -> Stream:
    samples = make_samples(number * num_choices)
    return Stream(samples, num_examples=num_examples, num_choices=num_choices, seed=seed, ranks=Ranks(rank, of))


def numbers_of(batch: Batch) -> list[int]:
    return batch.token_ids_T[batch.starts_B + 1].tolist()


def take(stream: Stream, steps: int, begin: int = 0) -> list[list[int]]:
    return [numbers_of(batch) for batch in itertools.islice(stream.batches(begin), steps)]


@settings(deadline=None, max_examples=40)
@given(SIZES, BATCHES, SEEDS)
def test_each_epoch_holds_every_example_once(number: int, num_examples: int, seed: int) -> None:
    steps = -(-3 * number // num_examples)
    taken = list(itertools.chain.from_iterable(take(make_stream(number, num_examples, seed=seed), steps)))
    for epoch in range(3):
        assert Counter(taken[epoch * number : (epoch + 1) * number]) == Counter(range(number))


@settings(deadline=None, max_examples=40)
@given(SIZES, BATCHES, BATCHES, SEEDS)
def test_the_order_does_not_depend_on_how_many_make_a_step(number: int, one: int, other: int, seed: int) -> None:
    rows = [take(make_stream(number, size, seed=seed), -(-40 // size)) for size in (one, other)]
    first, second = (list(itertools.chain.from_iterable(row))[:40] for row in rows)
    assert first == second


def test_the_order_depends_on_the_seed_and_the_epoch() -> None:
    orders = [make_stream(50, 5, seed=seed).order(epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert make_stream(50, 5, seed=1).order(1) == orders[3], "and on nothing else"


@settings(deadline=None, max_examples=40)
@given(SIZES, st.integers(1, 4), st.integers(1, 4), SEEDS)
def test_ranks_see_together_what_one_sees_alone(number: int, share: int, num_ranks: int, seed: int) -> None:
    alone = take(make_stream(number, share * num_ranks, seed=seed), 6)
    parts = [
        take(make_stream(number, share * num_ranks, seed=seed, rank=rank, of=num_ranks), 6) for rank in range(num_ranks)
    ]
    assert [list(itertools.chain.from_iterable(rows)) for rows in zip(*parts, strict=True)] == alone


@settings(deadline=None, max_examples=40)
@given(SIZES, BATCHES, st.integers(1, 5), SEEDS)
def test_the_options_of_a_question_stay_together(number: int, num_examples: int, choices: int, seed: int) -> None:
    for taken in take(make_stream(number, num_examples, choices, seed), 5):
        assert len(taken) == num_examples * choices
        for place in range(0, len(taken), choices):
            first = taken[place]
            assert first % choices == 0
            assert taken[place : place + choices] == list(range(first, first + choices))


@settings(deadline=None, max_examples=40)
@given(SIZES, BATCHES, st.integers(1, 3), SEEDS, st.integers(0, 25))
def test_a_stream_can_begin_at_any_step(number: int, num_examples: int, choices: int, seed: int, step: int) -> None:
    straight = take(make_stream(number, num_examples, choices, seed), step + 3)
    assert take(make_stream(number, num_examples, choices, seed), 3, begin=step) == straight[step:]
    used = make_stream(number, num_examples, choices, seed)
    take(used, 7)
    assert take(used, 3, begin=step) == straight[step:], "nor does it remember what it has given"


def test_a_batch_holds_its_samples_as_they_are() -> None:
    samples = make_samples(12)
    stream = Stream(samples, num_examples=5, ranks=Ranks())
    for batch in itertools.islice(stream.batches(0), 4):
        parts = torch.split(batch.token_ids_T, list(batch.lengths))
        assert batch.labels_BX is not None and batch.labels_BX.tolist() == numbers_of(batch)
        for number, part in zip(numbers_of(batch), parts, strict=True):
            assert part.tolist() == samples[number].token_ids.tolist()
