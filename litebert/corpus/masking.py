"""What to hide: n-grams of whole words (ALBERT 3.1), whole words, or tokens.

Each segment is cut into n-grams whose lengths follow p(n) ∝ 1/n, and as many of these are taken at random as hold, on
average, the tokens that are to be hidden. So neither the rate nor the lengths are bent, as they are where n-grams are
tried until a budget is spent, and no word is ever hidden in part. All of it is done for a whole batch at once.

Tokens may be weighted, as `HardTokens` does: an n-gram is then taken as readily as its tokens weigh on average.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.config import check_fields, require
from litebert.corpus.draws import Floats, Integers, Keys, below, uniform

Flags = NDArray[np.bool_]
# Beside the letters of `batch`: W words, N n-grams, S segments, I tokens that are not marks.

# Draws for other purposes are made in `pairs`: these begin behind them.
NGRAM_LENGTH, PRIORITY, LUCK, FATE, REPLACEMENT = range(100, 105)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskingConfig:
    """Which tokens are hidden, and how."""

    masking: Literal["span", "word", "token"] = "span"
    """What is hidden together: n-grams of whole words (span), single whole words, or single tokens."""
    longest: int = 3
    """The most words in an n-gram; one of n words is drawn with a probability in proportion to 1/n."""
    rate: float = 0.15
    """The share of a sequence's tokens that are predicted."""
    final_rate: float | None = None
    """Let the rate change to this one, in a straight line, over the first `rate_sequences` sequences."""
    rate_sequences: int = 0
    """How many sequences that takes; in pre-training by default the whole run."""
    masked_share: float = 0.8
    """The share of the predicted tokens that is shown as [MASK]."""
    random_share: float = 0.1
    """The share that is shown as a random token; the rest is shown as it is."""
    max_predictions: int | None = None
    """The most predictions in a sequence. Google's code has 20, which at length 512 is 4 % instead of 15."""
    hardness: float = 0.0
    """How strongly to prefer tokens that the model finds hard: they are drawn by this power of their loss. 0 has no
    preference."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.longest >= 1, f"longest is {self.longest}; an n-gram has at least one word")
        for name in ("rate", "final_rate", "masked_share", "random_share"):
            value = getattr(self, name)
            require(value is None or 0 <= value <= 1, f"{name} is {value}; it must be between 0 and 1")
        require(self.rate > 0, "rate is 0; something must be predicted")
        shares = self.masked_share + self.random_share
        require(shares <= 1 + 1e-9, f"masked_share and random_share add up to {shares:g}; together they are at most 1")
        require(self.rate_sequences >= 0, f"rate_sequences is {self.rate_sequences}; it must be at least 0")
        require(
            self.rate_sequences == 0 or self.final_rate is not None,
            f"rate_sequences is {self.rate_sequences}; a schedule needs a final_rate too",
        )
        require(0 <= self.hardness <= 3, f"hardness is {self.hardness}; it must be between 0 and 3")
        most = self.max_predictions
        require(most is None or most > 0, f"max_predictions is {most}; leave it out for no limit")

    @property
    def last_rate(self) -> float:
        """The rate that a run ends with."""
        return self.rate if self.final_rate is None else self.final_rate

    def at_rate(self, rate: float) -> "MaskingConfig":
        """The same at one rate throughout, and with no token hidden more readily than another."""
        return replace(self, rate=rate, final_rate=None, rate_sequences=0, hardness=0.0)

    def rates(self, positions_B: Integers) -> Floats:
        """The share to be predicted of the sequences at these positions of the stream."""
        if self.final_rate is None:
            return np.full(len(positions_B), self.rate)
        require(self.rate_sequences, f"final_rate is {self.final_rate}; say in rate_sequences over how many sequences")
        return np.interp(positions_B, [0, self.rate_sequences], [self.rate, self.final_rate])


class Text(NamedTuple):
    """The sequences of a batch end to end, before anything is hidden."""

    token_ids_T: Integers
    lengths_B: Integers
    starts_word_T: Flags
    is_mark_T: Flags
    """Where [CLS] and [SEP] stand, which are never hidden."""
    is_unknown_T: Flags
    """Where the vocabulary has no piece: there is nothing to be predicted, and what it stands for is seen."""


def hide(
    text: Text,
    keys_B: Keys,
    rates_B: Floats,
    config: MaskingConfig,
    mask: int,
    replacements: Integers,
    weights_V: Floats | None = None,
) -> tuple[Integers, Integers]:
    """What is shown instead of the tokens, and the positions that are to be predicted, in increasing order.

    `rates_B` are the shares to predict, `replacements` the tokens that may stand for a hidden one, `weights_V` how
    readily each token is hidden.
    """
    sequences_T = np.repeat(np.arange(len(text.lengths_B)), text.lengths_B)
    starts_B = np.cumsum(text.lengths_B) - text.lengths_B
    places_T = np.arange(len(sequences_T)) - starts_B[sequences_T]
    keys_T: Keys = keys_B[sequences_T] + places_T.astype(np.uint64)
    wanted_B = np.maximum(rates_B * text.lengths_B, 1.0)
    if config.max_predictions is not None:
        wanted_B = np.minimum(np.round(wanted_B), config.max_predictions)
    weights_T = None if weights_V is None else weights_V[text.token_ids_T]
    chosen_P = choose(text, sequences_T, keys_T, wanted_B, uniform(keys_B, LUCK), config, weights_T)
    keys_P, tokens_P = keys_T[chosen_P], text.token_ids_T[chosen_P]
    fates_P = uniform(keys_P, FATE)
    random_P = replacements[below(keys_P, REPLACEMENT, len(replacements))]
    shown_P = np.where(fates_P < config.masked_share + config.random_share, random_P, tokens_P)
    shown_T = text.token_ids_T.copy()
    shown_T[chosen_P] = np.where(fates_P < config.masked_share, mask, shown_P)
    return shown_T, chosen_P


def choose(
    text: Text,
    sequences_T: Integers,
    keys_T: Keys,
    wanted_B: Floats,
    luck_B: Floats,
    config: MaskingConfig,
    weights_T: Floats | None,
) -> Integers:
    """The positions to hide: whole n-grams, about as many tokens of each sequence as are wanted."""
    inner_T = ~text.is_mark_T
    behind_mark_T = np.concatenate([[True], text.is_mark_T[:-1]])
    opens_T = inner_T & (behind_mark_T | text.starts_word_T | (config.masking == "token"))
    places_W = np.flatnonzero(opens_T)
    longest = config.longest if config.masking == "span" else 1
    ngrams_W = cut_ngrams(behind_mark_T[places_W], keys_T[places_W], longest)
    ngrams_I = ngrams_W[(np.cumsum(opens_T) - 1)[inner_T]]
    firsts_N = places_W[np.flatnonzero(np.diff(ngrams_W, prepend=-1))]
    sizes_N = np.bincount(ngrams_I, minlength=len(firsts_N))
    sequences_N, priorities_N = sequences_T[firsts_N], uniform(keys_T[firsts_N], PRIORITY)
    if weights_T is None:
        order = np.argsort(sequences_N + priorities_N)
    else:
        # A race of exponential times, at rates that are the weights: the first ones are a weighted sample.
        weights_N = np.bincount(ngrams_I, weights_T[inner_T], len(firsts_N)) / sizes_N
        order = np.lexsort((-np.log1p(-priorities_N) / weights_N, sequences_N))  # ten times as slow
    taken_N = take(
        sizes_N=sizes_N,
        sequences_N=sequences_N,
        order=order,
        wanted_B=wanted_B,
        luck_B=luck_B,
        capped=config.max_predictions is not None,
    )
    chosen_P = np.flatnonzero(inner_T)[taken_N[ngrams_I]]
    return chosen_P[~text.is_unknown_T[chosen_P]]


def cut_ngrams(opens_segment_W: Flags, keys_W: Keys, longest: int) -> Integers:
    """The n-gram that each word belongs to: segments are cut from their beginnings into lengths with p(n) ∝ 1/n."""
    if longest == 1:
        return np.arange(len(keys_W))
    chances = 1 / np.arange(1, longest + 1)
    lengths_W = 1 + np.searchsorted(
        np.cumsum(chances / chances.sum())[:-1], uniform(keys_W, NGRAM_LENGTH), side="right"
    )
    firsts_S = np.flatnonzero(opens_segment_W)
    sizes_S = np.diff(firsts_S, append=len(keys_W))
    totals_W = np.cumsum(lengths_W)
    ends_W = totals_W - np.repeat(totals_W[firsts_S] - lengths_W[firsts_S], sizes_S)
    inside_W = ends_W < np.repeat(sizes_S, sizes_S)
    opens_ngram_W = opens_segment_W.copy()
    opens_ngram_W[np.repeat(firsts_S, sizes_S)[inside_W] + ends_W[inside_W]] = True
    return np.cumsum(opens_ngram_W) - 1


def take(
    *, sizes_N: Integers, sequences_N: Integers, order: Integers, wanted_B: Floats, luck_B: Floats, capped: bool
) -> Flags:
    """Which n-grams to take of each sequence; `order` has one sequence after the other, and the n-grams of each in the
    order in which they are taken.

    Their number is what holds the wanted tokens on average, a fraction of one decided by luck; the sizes of those that
    are taken have no part in it. Where the wanted tokens are a cap, as many are taken as it holds.
    """
    sizes, sequences = sizes_N[order], sequences_N[order]
    firsts = np.searchsorted(sequences, sequences)
    if capped:
        taken = fill(sizes, sequences, firsts, wanted_B)
    else:
        number_B, tokens_B = (np.bincount(sequences_N, weights, len(wanted_B)) for weights in (None, sizes_N))
        allowed_B = np.floor(wanted_B * number_B / np.maximum(tokens_B, 1) + luck_B)
        taken = np.arange(len(order)) - firsts < allowed_B[sequences]
    taken_N = np.zeros(len(order), bool)
    taken_N[order] = taken
    return taken_N


def fill(sizes: Integers, sequences: Integers, firsts: Integers, room_B: Floats) -> Flags:
    """Which of the n-grams, taken one after the other, find room; one that does not is passed over.

    `firsts` is where each one's sequence begins. A few rounds come to the same as going through them one by one: those
    that fit behind all before them are taken, and what is now too large falls out.
    """
    taken = np.zeros(len(sizes), bool)
    possible = sizes <= room_B[sequences]
    while possible.any():
        totals = np.cumsum(np.where(possible, sizes, 0))
        before = totals - np.where(possible, sizes, 0)
        within = totals - before[firsts] <= room_B[sequences]
        taken |= possible & within
        room_B = room_B - np.bincount(sequences[possible & within], sizes[possible & within], len(room_B))
        possible &= ~within & (sizes <= room_B[sequences])
    return taken
