"""Random segments: the second segment of another window, in the place of a window's own.

Only its text may tell a random segment from a true one. So it is a true one, of a window in another document: what
windows may not cross it does not cross either, it never opens a document, and any text is met as often as among true
ones. Some windows are looked at, and each is split so that its second segment has as many sentences as the one whose
place it takes; the first is taken that has about as many tokens, too. Where none has, the closest is, and where all
windows are of one document or have one sentence, sentences from anywhere. Google's code takes sentences of any
document, as many as there is room for.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from litebert.corpus.draws import Floats, Integers, Keys, below, make_keys, uniform
from litebert.corpus.shards import Corpus

if TYPE_CHECKING:
    from litebert.corpus.pairs import Pairs

NUM_CANDIDATES = 128
CLOSE_ENOUGH = 1 / 64
"""Of the tokens wanted, more or fewer."""
OTHER_SIZE = 1 / 4
"""Of the tokens that a sentence wanted has on average: what each sentence more or fewer costs."""
ALONE_COST = 1 << 32
"""What a window of one sentence costs: it is taken only where there are no others."""

# Purposes of draws, among those of pairs.py.
WINDOW, CHANCE = 6, 7
DOCUMENT, SENTENCE = 11, 12


class Wanted(NamedTuple):
    """What stands where random segments are to stand, and for how many tokens there is room beside the first."""

    documents_R: Integers
    num_sentences_R: Integers
    num_tokens_R: Integers
    rooms_R: Integers

    def of(self, places: Integers) -> "Wanted":
        return Wanted(*(array_R[places] for array_R in self))


class Partners(NamedTuple):
    """Runs of tokens, each in a shard."""

    shards_R: Integers
    begins_R: Integers
    ends_R: Integers


def draw_partners(pairs: "Pairs", wanted: Wanted, keys_R: Keys) -> Partners:
    """A second segment of another document for each that is wanted: of some, the one that suits best, the first of
    equals."""
    keys_RC = make_keys(keys_R[:, None], np.arange(NUM_CANDIDATES))
    windows_RC = below(keys_RC, WINDOW, len(pairs))
    sizes_RC = pairs.windows.sizes[windows_RC].astype(np.int64)
    splits_RC = np.maximum(sizes_RC - wanted.num_sentences_R[:, None], np.minimum(sizes_RC - 1, 1))
    shards_RC, firsts_RC = pairs.find_sentences(windows_RC)
    begins_RC = pairs.token_starts(shards_RC, firsts_RC + splits_RC)
    ends_RC = pairs.token_starts(shards_RC, firsts_RC + sizes_RC)
    costs_RC = weigh(sizes_RC - splits_RC, ends_RC - begins_RC, wanted) + np.where(sizes_RC > 1, 0, ALONE_COST)
    # A true segment is one of its window's, each as likely: of many sentences, each split is less often met.
    usual = max(pairs.usual_size / 2, 1)
    is_met_RC = uniform(keys_RC, CHANCE) * (sizes_RC - 1) < np.maximum(wanted.num_sentences_R[:, None], usual)
    costs_RC += np.where(is_met_RC, 0, wanted.num_tokens_R[:, None])
    shards_R, begins_R, ends_R = find_bounds(pairs.corpus, wanted.documents_R)
    is_behind_RC = (shards_RC == shards_R[:, None]) & (firsts_RC >= begins_R[:, None])
    costs_RC[is_behind_RC & (firsts_RC < ends_R[:, None])] = np.inf
    best = np.arange(len(keys_R)), np.argmin(costs_RC, axis=1)
    partners = Partners(shards_RC[best], begins_RC[best], ends_RC[best])
    nowhere = np.flatnonzero(np.isinf(costs_RC[best]))
    for array_R, other_R in zip(partners, fill_rooms(pairs, wanted.of(nowhere), keys_R[nowhere]), strict=True):
        array_R[nowhere] = other_R
    return partners


def weigh(num_sentences_RC: Integers, num_tokens_RC: Integers, wanted: Wanted) -> Floats:
    """How ill each candidate suits.

    What is too long for the room does not suit at all, and what is shorter is taken no more readily than what is longer
    as far as there is room. Where the segment whose place it takes is too long itself, both are cut: what is not would
    be known by its length.
    """
    num_R1, wanted_R1, room_R1 = wanted.num_sentences_R[:, None], wanted.num_tokens_R[:, None], wanted.rooms_R[:, None]
    is_cut_R1 = wanted_R1 > room_R1
    close_R1 = CLOSE_ENOUGH * wanted_R1
    close_R1 = np.where(is_cut_R1, close_R1, np.minimum(close_R1, room_R1 - wanted_R1))
    costs_RC = np.maximum(np.abs(num_tokens_RC - wanted_R1) - close_R1, 0)
    costs_RC += OTHER_SIZE * wanted_R1 * np.abs(num_sentences_RC - num_R1) / num_R1
    return np.where((num_tokens_RC <= room_R1) | is_cut_R1, costs_RC, num_tokens_RC + room_R1)


def fill_rooms(pairs: "Pairs", wanted: Wanted, keys_R: Keys) -> Partners:
    """Google's: any document is as likely as any other, and from any sentence of it on the room is filled, or what
    windows may not cross ends. This also serves where nearly all windows are of one document."""
    corpus, unit_ends = pairs.corpus, pairs.config.unit_ends
    documents_R = below(keys_R, DOCUMENT, corpus.num_documents - 1)
    documents_R += documents_R >= wanted.documents_R
    shards_R, begins_R, ends_R = find_bounds(corpus, documents_R)
    firsts_R = begins_R + below(keys_R, SENTENCE, ends_R - begins_R)
    units_R = corpus.find_numbers(unit_ends, shards_R, firsts_R)
    last_R = corpus.find_starts(unit_ends, shards_R, units_R + 1) - 1
    tokens_R = pairs.token_starts(shards_R, firsts_R)
    filling_R = corpus.find_numbers("sentence_ends", shards_R, tokens_R + np.maximum(wanted.rooms_R, 1) - 1)
    return Partners(shards_R, tokens_R, pairs.token_starts(shards_R, np.minimum(filling_R, last_R) + 1))


def find_bounds(corpus: Corpus, documents_R: Integers) -> tuple[Integers, Integers, Integers]:
    """Each document's shard, its first sentence there, and where it ends."""
    shards_R = np.searchsorted(corpus.first_documents, documents_R, side="right") - 1
    numbers_R = documents_R - corpus.first_documents[shards_R]
    begins_R, ends_R = (corpus.find_starts("document_ends", shards_R, numbers_R + behind) for behind in (0, 1))
    return shards_R, begins_R, ends_R
