import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.config import UserError
from litebert.corpus.draws import make_keys
from litebert.corpus.masking import MaskingConfig, Text, hide

UNKNOWN, CLS, SEP, MASK = 1, 2, 3, 4
REPLACEMENTS = np.arange(5, 1000)


def make_text(num_sequences: int, length: int, seed: int = 0, start_share: float = 0.7) -> Text:
    """Sequences of two segments; a token begins a word with a certain chance."""
    random = np.random.default_rng(seed)
    lengths_B = random.integers(max(5, length // 2), length + 1, num_sequences)
    tokens_T = random.integers(5, 1000, lengths_B.sum())
    ends_B = np.cumsum(lengths_B)
    is_mark_T = np.zeros(len(tokens_T), bool)
    is_mark_T[ends_B - lengths_B] = True
    is_mark_T[ends_B - 1] = True
    is_mark_T[ends_B - lengths_B // 2] = True
    tokens_T[is_mark_T] = SEP
    tokens_T[ends_B - lengths_B] = CLS
    starts_word_T = random.random(len(tokens_T)) < start_share
    return Text(tokens_T, lengths_B, starts_word_T, is_mark_T, is_unknown_T=tokens_T == UNKNOWN)


def hide_in(text: Text, config: MaskingConfig, epoch: int = 0) -> tuple[np.ndarray, np.ndarray]:
    number = len(text.lengths_B)
    rates_B = config.rates(np.arange(number))
    return hide(text, make_keys(1, epoch, np.arange(number)), rates_B, config, MASK, REPLACEMENTS)


def words(text: Text) -> list[list[int]]:
    """The positions of each word, found by a plain walk."""
    found: list[list[int]] = []
    for place, is_mark in enumerate(text.is_mark_T):
        if is_mark:
            continue
        if text.starts_word_T[place] or text.is_mark_T[place - 1]:
            found.append([])
        found[-1].append(place)
    return found


def masked_runs(text: Text, chosen: np.ndarray) -> list[int]:
    """How many words each unbroken run of hidden words has."""
    hidden, runs = set(chosen.tolist()), []
    for is_hidden, group in itertools.groupby(words(text), key=lambda word: word[0] in hidden):
        if is_hidden:
            group_words = list(group)
            breaks = [b[0] - a[-1] > 1 for a, b in itertools.pairwise(group_words)]
            runs += [len(part) for part in split(group_words, breaks)]
    return runs


def split(items: list[list[int]], breaks: list[bool]) -> list[list[list[int]]]:
    parts = [[items[0]]]
    for item, is_break in zip(items[1:], breaks, strict=True):
        parts.append([item]) if is_break else parts[-1].append(item)
    return parts


@settings(max_examples=150, deadline=None)
@given(
    num_sequences=st.integers(1, 12),
    length=st.integers(5, 80),
    seed=st.integers(0, 1000),
    start_share=st.sampled_from([0.0, 0.5, 1.0]),
    masking=st.sampled_from(["span", "word", "token"]),
    longest=st.integers(1, 5),
    rate=st.sampled_from([0.01, 0.15, 0.5, 1.0]),
    max_predictions=st.sampled_from([None, 1, 7]),
)
def test_whole_words_are_hidden_and_nothing_else_changes(
    num_sequences: int, length: int, seed: int, start_share: float, masking: str, **options: object
) -> None:
    text = make_text(num_sequences, length, seed, start_share)
    config = MaskingConfig(masking=masking, **options)  # type: ignore[arg-type]
    shown, chosen = hide_in(text, config)
    assert (np.diff(chosen) > 0).all() and not text.is_mark_T[chosen].any()
    unchanged = np.ones(len(shown), bool)
    unchanged[chosen] = False
    assert (shown[unchanged] == text.token_ids_T[unchanged]).all()
    hidden = set(chosen.tolist())
    if masking != "token":
        assert all(len(hidden & set(word)) in (0, len(word)) for word in words(text)), "words stay whole"
    if config.max_predictions is not None:
        sequences_T = np.repeat(np.arange(num_sequences), text.lengths_B)
        assert np.bincount(sequences_T[chosen], minlength=num_sequences).max() <= config.max_predictions


@pytest.mark.parametrize("masking", ["span", "word", "token"])
@pytest.mark.parametrize("rate", [0.15, 0.4])
@pytest.mark.parametrize("length", [30, 128])
def test_the_rate_is_what_was_asked_for(masking: str, rate: float, length: int) -> None:
    text = make_text(4000, length)
    _, chosen = hide_in(text, MaskingConfig(masking=masking, rate=rate))  # type: ignore[arg-type]
    # N-grams vary in size: the error is that of their number, about half the tokens', times three tokens.
    assert abs(len(chosen) - rate * len(text.token_ids_T)) < 5 * 3 * np.sqrt(len(chosen) / 2)


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_ngrams_have_lengths_in_proportion_to_one_over_n(longest: int) -> None:
    """At a low rate hardly any two n-grams touch, so runs of hidden words are n-grams."""
    text = make_text(2000, 510)
    _, chosen = hide_in(text, MaskingConfig(longest=longest, rate=0.01))
    runs = masked_runs(text, chosen)
    chances = 1 / np.arange(1, longest + 1)
    expected = chances / chances.sum()
    seen = np.bincount(runs, minlength=longest + 1)[1 : longest + 1] / len(runs)
    # The last n-gram of a segment may be cut short, and two may touch: a hundredth is left for that.
    assert np.abs(seen - expected).max() < 5 * np.sqrt(0.25 / len(runs)) + 0.01


def test_of_the_hidden_tokens_eight_in_ten_are_masked_one_random_one_kept() -> None:
    text = make_text(3000, 128)
    shown, chosen = hide_in(text, MaskingConfig())
    masked = shown[chosen] == MASK
    kept = shown[chosen] == text.token_ids_T[chosen]
    replaced = shown[chosen][~masked & ~kept]
    error = 5 * np.sqrt(0.16 / len(chosen))
    assert abs(masked.mean() - 0.8) < error
    assert abs(kept.mean() - 0.1 - 0.1 / len(REPLACEMENTS)) < error
    assert set(replaced.tolist()) <= set(REPLACEMENTS.tolist())
    counts = np.bincount(replaced, minlength=1000)[5:]
    assert abs(((counts - counts.mean()) ** 2 / counts.mean()).sum() - 995) < 5 * np.sqrt(2 * 995)
    # Each token for itself, not the n-gram as a whole.
    neighbours = masked[:-1][np.diff(chosen) == 1], masked[1:][np.diff(chosen) == 1]
    assert abs(np.corrcoef(*neighbours)[0, 1]) < 5 / np.sqrt(len(neighbours[0]))


def test_every_token_is_hidden_equally_often_wherever_it_stands() -> None:
    text = make_text(1, 60, start_share=1.0)
    counts = np.zeros(len(text.token_ids_T))
    for epoch in range(4000):
        counts[hide_in(text, MaskingConfig(), epoch)[1]] += 1
    inner = counts[~text.is_mark_T]
    assert inner.std() < 2.5 * np.sqrt(inner.mean()), "no place is favoured"
    assert abs(inner.sum() / 4000 - 0.15 * len(counts)) < 0.1


def test_the_cap_of_google_is_never_passed_and_almost_reached() -> None:
    text = make_text(500, 512)
    _, chosen = hide_in(text, MaskingConfig(max_predictions=20))
    counts = np.bincount(np.repeat(np.arange(500), text.lengths_B)[chosen], minlength=500)
    assert counts.max() == 20 and counts.mean() > 18.5


def test_below_the_cap_an_ngram_that_does_not_fit_gives_way_to_others() -> None:
    text = make_text(2000, 16, start_share=1.0)
    _, chosen = hide_in(text, MaskingConfig(max_predictions=20))
    sequences = np.repeat(np.arange(2000), text.lengths_B)[chosen]
    wanted = np.round(np.maximum(0.15 * text.lengths_B, 1))
    counts = np.bincount(sequences, minlength=2000)
    assert (counts <= wanted).all() and (counts == wanted).mean() > 0.95


def test_the_rate_follows_its_schedule() -> None:
    config = MaskingConfig(rate=0.4, final_rate=0.1, rate_sequences=1000)
    assert config.rates(np.array([0, 500, 1000, 5000])).tolist() == pytest.approx([0.4, 0.25, 0.1, 0.1])


def test_a_mask_is_new_each_epoch_and_the_same_for_the_same_key() -> None:
    text = make_text(50, 64)
    (shown, chosen), again, other = (hide_in(text, MaskingConfig(), epoch) for epoch in (0, 0, 1))
    assert (chosen == again[1]).all() and (shown == again[0]).all()
    assert len(set(chosen.tolist()) & set(other[1].tolist())) < 0.3 * len(chosen)


@pytest.mark.parametrize("masking", ["span", "word", "token"])
def test_what_has_no_piece_is_never_hidden(masking: str) -> None:
    text = make_text(200, 64)
    tokens_T = np.where(np.random.default_rng(1).random(len(text.token_ids_T)) < 0.1, UNKNOWN, text.token_ids_T)
    tokens_T = np.where(text.is_mark_T, text.token_ids_T, tokens_T)
    marked = text._replace(token_ids_T=tokens_T, is_unknown_T=tokens_T == UNKNOWN)
    config = MaskingConfig(masking=masking, rate=0.5)  # type: ignore[arg-type]
    shown, chosen = hide_in(marked, config)
    assert not marked.is_unknown_T[chosen].any() and (shown[marked.is_unknown_T] == UNKNOWN).all()
    assert set(chosen) == set(hide_in(text, config)[1]) - set(np.flatnonzero(marked.is_unknown_T))


def test_a_sequence_is_hidden_alike_in_any_batch() -> None:
    text = make_text(6, 64)
    ends = np.cumsum(text.lengths_B)
    shown, _ = hide_in(text, MaskingConfig())
    part = slice(ends[1], ends[2])
    alone = Text(
        text.token_ids_T[part],
        text.lengths_B[2:3],
        text.starts_word_T[part],
        text.is_mark_T[part],
        text.is_unknown_T[part],
    )
    rates = np.array([0.15])
    assert (hide(alone, make_keys(1, 0, [2]), rates, MaskingConfig(), MASK, REPLACEMENTS)[0] == shown[part]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"masking": "foo"}, "masking is 'foo'; it must be one of 'span', 'word', 'token'"),
        ({"longest": 0}, "longest is 0; an n-gram has at least one word"),
        ({"rate": 0.0}, "rate is 0; something must be predicted"),
        ({"rate": 1.5}, "rate is 1.5; it must be between 0 and 1"),
        ({"masked_share": 0.8, "random_share": 0.3}, "add up to 1.1; together they are at most 1"),
        ({"rate_sequences": 100}, "rate_sequences is 100; a schedule needs a final_rate too"),
        ({"rate_sequences": -1, "final_rate": 0.3}, "rate_sequences is -1; it must be at least 0"),
        ({"hardness": 4.0}, "hardness is 4.0; it must be between 0 and 3"),
        ({"max_predictions": 0}, "max_predictions is 0; leave it out for no limit"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        MaskingConfig(**options)  # type: ignore[arg-type]
