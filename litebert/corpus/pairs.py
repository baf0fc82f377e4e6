"""Segment pairs: which sentences stand together in a sequence, and in which order.

A corpus is first cut into windows: runs of whole sentences of one document that fill a sequence. That depends on the
corpus, the length and the seed alone, so every epoch has the same windows, each exactly once. What becomes of a window
in an epoch is drawn from its key: where it is split in two, and whether the two stay in order (ALBERT 3.1), are
swapped, or the second gives way to one of another document (BERT). Nothing but the text may tell which.

Two fidelities. `paper`: windows hold as many whole sentences as fit, packed from the front of some documents and from
the end of others, so that neither cuts nor lengths betray the order; a tenth of the sequences are shorter, drawn one by
one; sentences are cut only where two are too long; a random segment is such that only its text tells it
(`partners.py`); a document of one sentence is learned from without a pair label. `google`: a window is filled until it
is too long and then cut; lengths are drawn for a document; a random segment is as long as fits; and a window of a
single sentence always gets a random partner, labelled 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL
from litebert.config import check_fields, require
from litebert.corpus.draws import Integers, Keys, below, coin_flips, make_keys, uniform
from litebert.corpus.partners import Wanted, draw_partners, fill_rooms
from litebert.corpus.shards import Corpus, Ends, Shard

Objective = Literal["sop", "nsp", "three-way", "none"]
IN_ORDER, SWAPPED, RANDOM, ALONE = range(4)
# What can become of a window under each objective, with equal chances, and the label that tells it.
KINDS = {"sop": (IN_ORDER, SWAPPED), "nsp": (IN_ORDER, RANDOM), "three-way": (IN_ORDER, SWAPPED, RANDOM)}
LABELS = {
    "sop": (0, 1, 1, NO_LABEL),
    "nsp": (0, NO_LABEL, 1, NO_LABEL),
    "three-way": (0, 1, 2, NO_LABEL),
    "none": (NO_LABEL,) * 4,
}
NUM_MARKS = 3
"""[CLS] first [SEP] second [SEP]; a segment that stands alone has one less."""
SHORTEST = 8
LONGEST = 1 << 16
"""No window has as many sentences as their type can count."""
NUM_SAMPLED = 100_000

# What a draw is for: draws of one key for different purposes are unrelated.
IS_SHORT, SHORT_LENGTH, SHORT_START, DIRECTION, KIND, SPLIT = range(6)
ODD_TOKEN, CUT_FIRST, CUT_SECOND = range(8, 11)  # others are in partners.py


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConfig:
    """How sequences are made of sentences."""

    objective: Objective = "sop"
    """What is to be told of two segments: their order (sop), whether the second is random (nsp), both at once
    (three-way), or nothing, and there is only one (none)."""
    length: int = 512
    """The longest sequence, in tokens, [CLS] and [SEP] included."""
    short_share: float = 0.1
    """The share of sequences that are cut to a random shorter length. They lose whole sentences, as long as a pair or,
    without pairs, a single one remains, which is then cut. With Google's code, it is a share of documents."""
    windows: Literal["document", "paragraph"] = "document"
    """What a sequence may not reach beyond."""
    fidelity: Literal["paper", "google"] = "paper"
    """Do as the paper says, or as Google's code does, in pre-training also with the learning rate's fall. Google's cap
    of 20 predictions is max_predictions."""

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.length >= SHORTEST, f"length is {self.length}; a sequence needs at least {SHORTEST} tokens")
        require(self.length < LONGEST, f"length is {self.length}; the longest sequence has {LONGEST - 1:,} tokens")
        require(0 <= self.short_share <= 1, f"short_share is {self.short_share}; it must be between 0 and 1")

    @property
    def budget(self) -> int:
        """The tokens of a sequence that are text."""
        return self.length - (NUM_MARKS if self.has_pairs else NUM_MARKS - 1)

    @property
    def fewest_sentences(self) -> int:
        """How many sentences a window has at least, where its document has them."""
        return 2 if self.has_pairs else 1

    @property
    def has_pairs(self) -> bool:
        return self.objective != "none"

    @property
    def unit_ends(self) -> Ends:
        """Where what windows may not cross ends."""
        return "document_ends" if self.windows == "document" else "paragraph_ends"

    @property
    def num_pair_classes(self) -> int:
        return len(KINDS.get(self.objective, ()))


class Segments(NamedTuple):
    """Where the tokens of some sequences lie: two runs each, the second empty where there is but one segment."""

    shards_2B: Integers
    begins_2B: Integers
    lengths_2B: Integers
    labels_B: Integers
    kinds_B: Integers
    """What became of each window."""


class Windows(NamedTuple):
    """The runs of sentences that sequences are made of."""

    first_sentences: NDArray[np.uint32]
    sizes: NDArray[np.uint16]
    first_windows: Integers
    """The number of each shard's first window, and at the end that of all."""


class Pairs:
    """Makes the segments of any window of a corpus."""

    def __init__(self, corpus: Corpus, config: PairConfig, seed: int = 0) -> None:
        self.corpus = corpus
        self.config = config
        self.seed = seed
        require(
            corpus.num_documents > 1 or RANDOM not in KINDS.get(config.objective, ()),
            f"{corpus.path} has one {corpus.shards[0].entry.split} document; {config.objective} takes segments from "
            "others: build it with more of them, or use sop",
        )

    @cached_property
    def windows(self) -> Windows:
        cut = [cut_windows(shard, self.config, self.seed, n) for n, shard in enumerate(self.corpus.shards)]
        starts, sizes = (np.concatenate(arrays) for arrays in zip(*cut, strict=True))
        return Windows(starts, sizes, np.cumsum([0, *(len(starts) for starts, _ in cut)]))

    def __len__(self) -> int:
        return len(self.windows.sizes)

    @cached_property
    def usual_size(self) -> float:
        """How many sentences half of the windows have at most."""
        return float(np.median(self.windows.sizes))

    def segments(self, windows_B: Integers, keys_B: Keys) -> Segments:
        """What becomes of these windows under these keys."""
        shards_B, firsts_B = self.find_sentences(windows_B)
        sizes_B = self.windows.sizes[windows_B].astype(np.int64)
        if self.config.fidelity == "google":
            budgets_B = self.find_lengths(shards_B, firsts_B)
        else:
            firsts_B, sizes_B, budgets_B = self.shorten(shards_B, firsts_B, sizes_B, keys_B)
        kinds_B = self.draw_kinds(sizes_B, keys_B)
        splits_B = np.where(kinds_B == ALONE, sizes_B, 1 + below(keys_B, SPLIT, np.maximum(sizes_B - 1, 1)))
        begins_B, middles_B, ends_B = (
            self.token_starts(shards_B, firsts_B + offsets_B) for offsets_B in (0, splits_B, sizes_B)
        )
        shards_2B, begins_2B, ends_2B = (
            np.stack(pair) for pair in ((shards_B, shards_B), (begins_B, middles_B), (middles_B, ends_B))
        )
        random = np.flatnonzero(kinds_B == RANDOM)
        if len(random):
            lengths_2R = ends_2B[:, random] - begins_2B[:, random]
            wanted = Wanted(
                documents_R=self.find_documents(shards_B[random], firsts_B[random]),
                num_sentences_R=(sizes_B - splits_B)[random],
                num_tokens_R=lengths_2R[1],
                rooms_R=budgets_B[random] - lengths_2R[0],
            )
            find_partners = fill_rooms if self.config.fidelity == "google" else draw_partners
            shards_2B[1, random], begins_2B[1, random], ends_2B[1, random] = find_partners(self, wanted, keys_B[random])
        limits_B = budgets_B if self.config.fidelity == "paper" else np.full_like(budgets_B, self.config.budget)
        limits_B = limits_B + (self.config.has_pairs & (kinds_B == ALONE))  # which has a mark less
        begins_2B, lengths_2B = self.cut(begins_2B, ends_2B - begins_2B, limits_B, kinds_B, keys_B)
        order = np.where(kinds_B == SWAPPED, [[1], [0]], [[0], [1]])
        return Segments(
            shards_2B=np.take_along_axis(shards_2B, order, axis=0),
            begins_2B=np.take_along_axis(begins_2B, order, axis=0),
            lengths_2B=np.take_along_axis(lengths_2B, order, axis=0),
            labels_B=np.array(LABELS[self.config.objective])[kinds_B],
            kinds_B=kinds_B,
        )

    def documents(self, windows_B: Integers) -> Integers:
        """The document of the corpus that each window lies in."""
        return self.find_documents(*self.find_sentences(windows_B))

    def find_sentences(self, windows_B: Integers) -> tuple[Integers, Integers]:
        """Each window's shard, and its first sentence there."""
        shards_B = np.searchsorted(self.windows.first_windows, windows_B, side="right") - 1
        return shards_B, self.windows.first_sentences[windows_B].astype(np.int64)

    def find_documents(self, shards_B: Integers, sentences_B: Integers) -> Integers:
        """The document of the corpus that each sentence of a shard belongs to."""
        return self.corpus.first_documents[shards_B] + self.corpus.find_numbers("document_ends", shards_B, sentences_B)

    def draw_kinds(self, sizes_B: Integers, keys_B: Keys) -> Integers:
        if not self.config.has_pairs:
            return np.full(len(sizes_B), ALONE)
        kinds = np.array(KINDS[self.config.objective])
        single = RANDOM if self.config.fidelity == "google" and self.corpus.num_documents > 1 else ALONE
        return np.where(sizes_B > 1, kinds[below(keys_B, KIND, len(kinds))], single)

    def shorten(
        self, shards_B: Integers, firsts_B: Integers, sizes_B: Integers, keys_B: Keys
    ) -> tuple[Integers, Integers, Integers]:
        """Makes a share of the windows shorter: some of their sentences, of any number of tokens."""
        config, fewest = self.config, self.config.fewest_sentences
        budgets_B = draw_lengths(config, keys_B)
        offsets_B = below(keys_B, SHORT_START, np.maximum(sizes_B - fewest + 1, 1))
        from_end_B = below(keys_B, DIRECTION, 2) > 0
        for place in np.flatnonzero((budgets_B < config.budget) & (sizes_B > fewest)).tolist():
            first, offset, budget = int(firsts_B[place]), int(offsets_B[place]), int(budgets_B[place])
            bounds = self.corpus.shards[int(shards_B[place])].token_bounds(first, first + int(sizes_B[place]))
            if from_end_B[place]:
                bounds = bounds[: len(bounds) - offset]
                begin = min(int(np.searchsorted(bounds, bounds[-1] - budget)), len(bounds) - 1 - fewest)
                firsts_B[place], sizes_B[place] = first + begin, len(bounds) - 1 - begin
            else:
                whole = int(np.searchsorted(bounds, bounds[offset] + budget, side="right")) - 1 - offset
                firsts_B[place], sizes_B[place] = first + offset, max(whole, fewest)
        return firsts_B, sizes_B, budgets_B

    def find_lengths(self, shards_B: Integers, sentences_B: Integers) -> Integers:
        """The length that was drawn for the document of each sentence."""
        units_B = self.corpus.find_numbers(self.config.unit_ends, shards_B, sentences_B)
        return draw_lengths(self.config, make_keys(self.seed, shards_B, units_B))

    def token_starts(self, shards_B: Integers, sentences_B: Integers) -> Integers:
        """At which token of its shard each sentence begins."""
        return self.corpus.find_starts("sentence_ends", shards_B, sentences_B)

    def cut(
        self, begins_2B: Integers, lengths_2B: Integers, limits_B: Integers, kinds_B: Integers, keys_B: Keys
    ) -> tuple[Integers, Integers]:
        """Cuts what is too long from the longer segment, at both its ends, so that no end tells which came first.

        Of two equally long ones an odd token is taken by chance; by Google from the one that is shown second.
        """
        excess_B = np.maximum(lengths_2B.sum(axis=0) - limits_B, 0)
        difference_B = lengths_2B[0] - lengths_2B[1]
        from_longer_B = np.minimum(excess_B, np.abs(difference_B))
        odd_B = below(keys_B, ODD_TOKEN, 2) if self.config.fidelity == "paper" else kinds_B == SWAPPED
        first_B = np.where(difference_B > 0, from_longer_B, 0) + (excess_B - from_longer_B + odd_B) // 2
        cuts_2B = np.stack([first_B, excess_B - first_B])
        for begins_B, cuts_B, purpose in zip(begins_2B, cuts_2B, (CUT_FIRST, CUT_SECOND), strict=True):
            if self.config.fidelity == "google":
                begins_B += coin_flips(keys_B, purpose, cuts_B)
            else:
                begins_B += below(keys_B, purpose, cuts_B + 1)
        return begins_2B, lengths_2B - cuts_2B

    def paired_share(self) -> float:
        """How many sequences have two segments."""
        if not self.config.has_pairs:
            return 0.0
        if self.config.fidelity == "google" and self.corpus.num_documents > 1:
            return 1.0
        return float((self.windows.sizes > 1).mean())

    def shown_shares(self) -> tuple[float, float]:
        """How many tokens an epoch shows, for each token of the corpus: in their own windows, each once, and as random
        segments, wherever those were drawn. From a sample of the windows."""
        windows = np.linspace(0, len(self) - 1, min(NUM_SAMPLED, len(self))).astype(np.int64)
        drawn = self.segments(windows, make_keys(self.seed, windows))
        random = drawn.lengths_2B[1, drawn.kinds_B == RANDOM].sum()
        scale = len(self) / len(windows) / self.corpus.num_tokens
        return float(drawn.lengths_2B.sum() - random) * scale, float(random) * scale


def draw_lengths(config: PairConfig, keys: Keys) -> Integers:
    """How many tokens of text each key's sequence is to have: all it can, or for a share of them any number."""
    is_short = uniform(keys, IS_SHORT) < config.short_share
    return np.where(is_short, 2 + below(keys, SHORT_LENGTH, config.budget - 1), config.budget)


def cut_windows(
    shard: Shard, config: PairConfig, seed: int, number: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """The first sentence and the size of each window of a shard, which is the corpus's so-and-so-many-th."""
    ends = getattr(shard, config.unit_ends).astype(np.int64)
    units = Units(
        token_starts=np.concatenate([[0], shard.sentence_ends]).astype(np.int64),
        begins=np.concatenate([[0], ends[:-1]]),
        ends=ends,
        keys=make_keys(seed, number, np.arange(len(ends))),
    )
    if config.fidelity == "google":
        walked = list(fill_windows(units, config))
    else:
        # A long sentence that does not fit begins the next window, so the first of a window's sentences are longer than
        # its last. Half of the documents are cut from their end, where it is the other way round: lengths tell nothing.
        from_end = below(units.keys, DIRECTION, 2) > 0
        walked = [
            *pack_windows(units.choose(~from_end), config),
            *pack_windows_backwards(units.choose(from_end), config),
        ]
    starts, stops = (np.concatenate(arrays) for arrays in zip(*walked, strict=True))
    order = np.argsort(starts, kind="stable")
    return starts[order].astype(np.uint32), (stops - starts)[order].astype(np.uint16)


class Units(NamedTuple):
    """Documents or paragraphs of a shard, each from its first sentence up to but without its end."""

    token_starts: Integers
    """At which token of the shard each sentence begins, and at the end where the last one ends."""
    begins: Integers
    ends: Integers
    keys: Keys

    def choose(self, chosen: NDArray[np.bool_]) -> "Units":
        return Units(self.token_starts, self.begins[chosen], self.ends[chosen], self.keys[chosen])


def pack_windows(units: Units, config: PairConfig) -> Iterator[tuple[Integers, Integers]]:
    """As many whole sentences as fit, two at least. All units are gone through at once, a window each at a time."""
    token_starts, begins, ends, _ = units
    fewest, starts = config.fewest_sentences, begins
    while len(starts):
        starts = np.clip(ends - fewest, begins, starts)  # the last sentence takes the one before with it
        stops = np.searchsorted(token_starts, token_starts[starts] + config.budget, side="right") - 1
        stops = np.clip(stops, np.minimum(starts + fewest, ends), ends)
        yield starts, stops
        left = stops < ends
        starts, begins, ends = stops[left], begins[left], ends[left]


def pack_windows_backwards(units: Units, config: PairConfig) -> Iterator[tuple[Integers, Integers]]:
    """The same from the ends of the units."""
    token_starts, begins, ends, _ = units
    fewest, stops = config.fewest_sentences, ends
    while len(stops):
        stops = np.clip(begins + fewest, stops, ends)  # the first sentence takes the one behind with it
        starts = np.searchsorted(token_starts, token_starts[stops] - config.budget)
        starts = np.clip(starts, begins, np.maximum(stops - fewest, begins))
        yield starts, stops
        left = starts > begins
        stops, begins, ends = starts[left], begins[left], ends[left]


def fill_windows(units: Units, config: PairConfig) -> Iterator[tuple[Integers, Integers]]:
    """As Google's code does: sentences until the length that was drawn for the document is reached or passed."""
    token_starts, starts, ends, keys = units
    lengths = draw_lengths(config, keys)
    while len(starts):
        stops = np.minimum(np.searchsorted(token_starts, token_starts[starts] + lengths), ends)
        yield starts, stops
        left = stops < ends
        starts, ends, lengths = stops[left], ends[left], lengths[left]
