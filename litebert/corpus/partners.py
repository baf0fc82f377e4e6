"""Random segments: the second segment of another window, in the place of a window's own.

Only its text may tell a random segment from a true one. So it is a true one, of a window in another document: what
windows may not cross it does not cross either, it never opens a document, and any text is met as often as among true
ones. Some windows are looked at, and of their second segments the first is taken that has as many sentences as the one
it takes the place of, and about as many tokens. Google's code takes sentences of any document, as many as there is room
for.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from litebert.corpus.draws import Floats, Integers, Keys, below, make_keys

if TYPE_CHECKING:
    from litebert.corpus.pairs import Pairs

NUM_CANDIDATES = 128
CLOSE_ENOUGH = 1 / 16
"""Of the tokens wanted: not the closest is taken, which would be one of many short sentences."""
OTHER_SIZE = 1 / 4
"""Of the tokens wanted: another number of sentences is as ill as so many tokens too few."""
ALONE = 1 << 32
"""What a window of one sentence costs: it is taken only where there are no others."""

# Purposes of draws, among those of pairs.py.
WINDOW, SPLIT = 6, 7
DOCUMENT, SENTENCE = 11, 12


class Wanted(NamedTuple):
    """What stands where random segments are to stand, and for how many tokens there is room beside the first."""

    documents_R: Integers
    num_sentences_R: Integers
    num_tokens_R: Integers
    rooms_R: Integers


class Partners(NamedTuple):
    """Runs of tokens, each in a shard."""

    shards_R: Integers
    begins_R: Integers
    ends_R: Integers


def draw_partners(pairs: "Pairs", wanted: Wanted, keys_R: Keys) -> Partners:
    """A second segment of another document for each that is wanted."""
    keys_RC = make_keys(keys_R[:, None], np.arange(NUM_CANDIDATES))
    windows_RC = below(keys_RC, WINDOW, len(pairs))
    sizes_RC = pairs.windows.sizes[windows_RC].astype(np.int64)
    splits_RC = np.where(sizes_RC > 1, 1 + below(keys_RC, SPLIT, np.maximum(sizes_RC - 1, 1)), 0)
    shards_RC, firsts_RC = pairs.find_sentences(windows_RC)
    begins_RC = pairs.token_starts(shards_RC, firsts_RC + splits_RC)
    ends_RC = pairs.token_starts(shards_RC, firsts_RC + sizes_RC)
    costs_RC = weigh(sizes_RC - splits_RC, ends_RC - begins_RC, wanted) + np.where(sizes_RC > 1, 0, ALONE)
    costs_RC[pairs.find_documents(shards_RC, firsts_RC) == wanted.documents_R[:, None]] = np.inf
    best_R1 = np.argmin(costs_RC, axis=1)[:, None]
    partners = Partners(
        *(np.take_along_axis(found_RC, best_R1, 1)[:, 0] for found_RC in (shards_RC, begins_RC, ends_RC))
    )
    nowhere = np.flatnonzero(np.isinf(np.take_along_axis(costs_RC, best_R1, 1)[:, 0]))
    return replace(
        partners, nowhere, fill_rooms(pairs, Wanted(*(found_R[nowhere] for found_R in wanted)), keys_R[nowhere])
    )


def weigh(num_sentences_RC: Integers, num_tokens_RC: Integers, wanted: Wanted) -> Floats:
    """How ill each candidate suits.

    What is too long for the room does not suit at all, unless the segment whose place it takes is too: then both are
    cut, and what is not would be known by its length.
    """
    wanted_R1, room_R1 = wanted.num_tokens_R[:, None], wanted.rooms_R[:, None]
    costs_RC = np.maximum(np.abs(num_tokens_RC - wanted_R1) - CLOSE_ENOUGH * wanted_R1, 0)
    costs_RC += np.where(num_sentences_RC != wanted.num_sentences_R[:, None], OTHER_SIZE * wanted_R1, 0)
    return np.where((num_tokens_RC <= room_R1) | (wanted_R1 > room_R1), costs_RC, num_tokens_RC + room_R1)


def fill_rooms(pairs: "Pairs", wanted: Wanted, keys_R: Keys) -> Partners:
    """Google's: any document is as likely as any other, and from any sentence of it on the room is filled, or what
    windows may not cross ends. This also serves where nearly all windows are of one document."""
    corpus = pairs.corpus
    documents_R = below(keys_R, DOCUMENT, corpus.num_documents - 1)
    documents_R += documents_R >= wanted.documents_R
    found = []
    for document, room, key in zip(documents_R.tolist(), wanted.rooms_R.tolist(), keys_R[:, None], strict=True):
        number = int(np.searchsorted(corpus.first_documents, document, side="right")) - 1
        shard = corpus.shards[number]
        begin, end = shard.document_bounds(document - int(corpus.first_documents[number]))
        sentence = begin + int(below(key, SENTENCE, end - begin)[0])
        unit_ends = pairs.config.unit_ends(shard)
        bounds = shard.token_bounds(sentence, int(unit_ends[np.searchsorted(unit_ends, sentence, side="right")]))
        stop = min(max(int(np.searchsorted(bounds, bounds[0] + room)), 1), len(bounds) - 1)
        found.append((number, int(bounds[0]), int(bounds[stop])))
    return Partners(*np.array(found, np.int64).reshape(-1, 3).T)


def replace(partners: Partners, places: Integers, others: Partners) -> Partners:
    for found_R, other_R in zip(partners, others, strict=True):
        found_R[places] = other_R
    return partners
