import numpy as np
import torch

from litebert.corpus.hard_tokens import DECAY, PRIOR, HardTokens
from litebert.corpus.loader import Loader
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig
from litebert.corpus.shards import Corpus


def test_tokens_with_a_high_loss_weigh_more_and_unseen_ones_as_much_as_the_mean() -> None:
    hard = HardTokens(4, hardness=1.0)
    for _ in range(200):
        hard.observe(torch.tensor([0, 1, 2]), torch.tensor([1.0, 2.0, 3.0]))
    hard.refresh()
    assert hard.weights.tolist() == [
        np.float64((200 * loss + PRIOR * 2.0) / (200 + PRIOR) / 2.0) for loss in (1.0, 2.0, 3.0)
    ] + [1.0]


def test_hardness_is_the_power_of_the_loss() -> None:
    one, two = HardTokens(3, 1.0), HardTokens(3, 2.0)
    for hard in (one, two):
        hard.observe(torch.tensor([0, 1, 1]), torch.tensor([0.5, 4.0, 5.0]))
        hard.refresh()
    np.testing.assert_allclose(two.weights, one.weights**2)


def test_what_was_seen_long_ago_fades() -> None:
    hard = HardTokens(2, 1.0)
    hard.observe(torch.tensor([0]), torch.tensor([8.0]))
    hard.refresh()
    hard.observe(torch.tensor([0]), torch.tensor([2.0]))
    hard.refresh()
    assert hard.sums_2V[:, 0].tolist() == [DECAY * 8.0 + 2.0, DECAY + 1.0]


def test_the_sum_is_the_same_in_any_order() -> None:
    generator = torch.Generator().manual_seed(0)
    ids, losses = torch.randint(0, 5, (1000,), generator=generator), torch.rand(1000, generator=generator) * 9
    straight, shuffled = HardTokens(5, 1.0), HardTokens(5, 1.0)
    straight.observe(ids, losses)
    for part in torch.randperm(1000, generator=generator).split(37):
        shuffled.observe(ids[part], losses[part])
    assert torch.equal(straight.news_2V, shuffled.news_2V)


def test_nothing_seen_changes_nothing() -> None:
    hard = HardTokens(3, 1.0)
    hard.refresh()
    assert hard.weights.tolist() == [1.0, 1.0, 1.0]


def test_weighted_tokens_are_hidden_more_often_at_the_same_rate(corpus: Corpus) -> None:
    heavy = np.arange(corpus.vocabulary.size) % 2 == 0

    def hidden(weights: np.ndarray | None) -> tuple[float, float]:
        loader = Loader(
            [corpus], PairConfig(length=64), MaskingConfig(masking="token"), num_sequences=64, token_weights=weights
        )
        batch = loader.make_sequences(np.arange(2000))
        assert batch.predicted_ids_P is not None
        share = float(heavy[batch.predicted_ids_P.numpy()].mean())
        return share, len(batch.predicted_ids_P) / batch.num_tokens

    plain, rate = hidden(None)
    weighted, weighted_rate = hidden(np.where(heavy, 3.0, 1.0))
    odds = weighted / (1 - weighted) / (plain / (1 - plain))
    # Three times as readily, a little less because what is hidden cannot be hidden again.
    assert 2.3 < odds < 3.0
    assert abs(weighted_rate - rate) < 0.005
    assert hidden(np.ones(len(heavy))) == (plain, rate), "equal weights are no weights"


def test_new_weights_are_heeded_by_the_next_batch(corpus: Corpus) -> None:
    weights = np.ones(corpus.vocabulary.size)
    loader = Loader([corpus], PairConfig(length=64), MaskingConfig(), num_sequences=8, token_weights=weights)
    batches = iter(loader)
    first = next(batches)
    expected = loader.make_batch(8)
    weights[::2] = 50.0
    second = next(batches)
    assert first.num_tokens and second.token_ids_T.tolist() != expected.token_ids_T.tolist()
