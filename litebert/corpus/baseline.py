"""How far one gets without understanding: the numbers that accuracies of sentence order are printed beside.

A logistic regression that sees which pieces each segment has and which three it begins with, and nothing pre-trained.
It learns that what opens with `however` seldom comes first. Only what a model tells beyond that may be called
coherence.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from litebert.batch import NO_LABEL, Batch
from litebert.config import UserError, require
from litebert.corpus.draws import Integers

NUM_OPENERS = 3
"""How many pieces at the beginning of a segment are told apart by their places."""
PENALTY = 100.0
"""On squared weights. Most features are rare pieces: with 1, as is usual, they are learned by heart, and the baseline
tells the order of 50,000 pairs of English Wikipedia less often (0.585 instead of 0.629), which would flatter a model.
"""


def shallow_baseline(train: Iterable[Batch], held_out: Iterable[Batch], vocab_size: int) -> Integers:
    """What the baseline predicts of the held-out sequences that have a pair label, in their order."""
    from sklearn.linear_model import LogisticRegression  # takes a second to import

    features, labels = describe(train, vocab_size)
    require(
        len(np.unique(labels)) > 1,
        f"the {len(labels)} labelled pairs to fit the baseline to have no two different labels; give it more",
    )
    regression = LogisticRegression(C=1 / PENALTY, solver="lbfgs", max_iter=1000).fit(features, labels)
    return np.asarray(regression.predict(describe(held_out, vocab_size)[0]), np.int64)


def describe(batches: Iterable[Batch], vocab_size: int) -> tuple[Any, Integers]:
    """A sparse row of features, and the label, of each sequence that has one."""
    from scipy.sparse import vstack

    rows, labels = [], []
    for batch in batches:
        if batch.pair_labels_B is None:
            raise UserError("a batch has no pair labels; the baseline needs batches of an objective that has")
        labels_B = batch.pair_labels_B.numpy()
        labelled_B = labels_B != NO_LABEL
        rows.append(count_pieces(batch, vocab_size)[labelled_B])
        labels.append(labels_B[labelled_B])
    require(rows, "there are no batches to make features of; the baseline needs some")
    return vstack(rows, format="csr"), np.concatenate(labels)


def count_pieces(batch: Batch, vocab_size: int) -> Any:
    """A sparse row for each sequence: how much oftener its first segment has each piece than its second has, and, for
    each of the places at which a segment's first pieces stand, which piece that is.
    """
    from scipy.sparse import csr_array

    tokens_T, segments_T = restore(batch), batch.segment_ids_T.numpy()
    sequences_T = np.repeat(np.arange(batch.num_sequences), batch.lengths)
    places_T, is_text_T = find_places(batch, sequences_T, segments_T)
    opens_T = is_text_T & (places_T < NUM_OPENERS)
    blocks_T = 1 + NUM_OPENERS * segments_T + places_T
    columns = np.concatenate([tokens_T[is_text_T], (blocks_T * vocab_size + tokens_T)[opens_T]])
    values = np.concatenate([1.0 - 2.0 * segments_T[is_text_T], np.ones(opens_T.sum())])
    sequences = np.concatenate([sequences_T[is_text_T], sequences_T[opens_T]])
    return csr_array((values, (sequences, columns)), (batch.num_sequences, (1 + 2 * NUM_OPENERS) * vocab_size))


def restore(batch: Batch) -> Integers:
    """The tokens as they were before any was hidden."""
    tokens_T = batch.token_ids_T.numpy().copy()
    if batch.predicted_positions_P is not None and batch.predicted_ids_P is not None:
        tokens_T[batch.predicted_positions_P.numpy()] = batch.predicted_ids_P.numpy()
    return tokens_T


def find_places(batch: Batch, sequences_T: Integers, segments_T: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Each token's place in its segment, and whether it is text: [CLS] stands at place -1, a [SEP] at each end."""
    ends_B = np.cumsum(batch.lengths)
    starts_B = ends_B - batch.lengths
    middles_B = ends_B - np.bincount(sequences_T, segments_T, batch.num_sequences).astype(np.int64)
    begins_B2, stops_B2 = np.stack([starts_B + 1, middles_B], axis=1), np.stack([middles_B, ends_B], axis=1)
    tokens = np.arange(len(sequences_T))
    places_T = tokens - begins_B2[sequences_T, segments_T]
    return places_T, (places_T >= 0) & (tokens < stops_B2[sequences_T, segments_T] - 1)


def majority_share(labels_B: ArrayLike) -> float:
    """How often one is right who always says what is most frequent; sequences without a label do not count."""
    labels_B = np.asarray(labels_B)
    _, counts = np.unique(labels_B[labels_B != NO_LABEL], return_counts=True)
    return float(counts.max() / counts.sum()) if len(counts) else float("nan")
