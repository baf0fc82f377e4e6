"""What becomes of windows, read back from the tokens: each tells the document and sentence it comes from."""

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from litebert.batch import NO_LABEL
from litebert.config import UserError
from litebert.corpus.draws import make_keys
from litebert.corpus.loader import Loader
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig, Pairs, Segments, draw_lengths
from litebert.corpus.shards import Corpus
from tests.corpus.made import NUM_SENTENCES, origin, random_shape, write_corpus

OBJECTIVES = ("sop", "nsp", "three-way", "none")
Sequence = tuple[list[int], list[int], int]


def sequences(corpus: Corpus, config: PairConfig, epoch: int = 0) -> list[Sequence]:
    """The two segments and the label of every window."""
    pairs = Pairs(corpus, config)
    windows = np.arange(len(pairs))
    drawn = pairs.segments(windows, make_keys(0, epoch, windows))
    return [
        (read(corpus, drawn, 0, number), read(corpus, drawn, 1, number), int(drawn.labels_B[number]))
        for number in windows
    ]


def read(corpus: Corpus, drawn: Segments, side: int, number: int) -> list[int]:
    begin, length = int(drawn.begins_2B[side, number]), int(drawn.lengths_2B[side, number])
    return corpus.shards[drawn.shards_2B[side, number]].tokens[begin : begin + length].tolist()


def sentences(segment: list[int]) -> list[tuple[int, int]]:
    """The sentences of a segment, each once, in order."""
    return [place for place, _ in itertools.groupby(map(origin, segment))]


def are_neighbours(places: list[tuple[int, int]]) -> bool:
    return all(b == (a[0], a[1] + 1) for a, b in itertools.pairwise(places))


shapes = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=12), min_size=2, max_size=8)


@settings(max_examples=80, deadline=None)
@given(
    shape=shapes,
    num_shards=st.integers(1, 2),
    length=st.integers(8, 64),
    short_share=st.sampled_from([0.0, 0.1, 1.0]),
    objective=st.sampled_from(OBJECTIVES),
    fidelity=st.sampled_from(["paper", "google"]),
    windows=st.sampled_from(["document", "paragraph"]),
)
def test_segments_are_runs_of_sentences_that_stand_as_their_label_says(
    shape: list[list[int]], num_shards: int, **options: object
) -> None:
    config = PairConfig(**options)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        made = sequences(write_corpus(Path(folder), shape, num_shards), config)
    assert made
    for first, second, label in made:
        places = sentences(first), sentences(second)
        assert first and len(first) + len(second) + (3 if second else 2) <= config.length
        for run in places:
            assert are_neighbours(run), "a segment is consecutive sentences of one document"
            if config.windows == "paragraph" and label in (0, NO_LABEL):
                assert len({place // 2 for _, place in run}) <= 1
        if config.objective == "none" or label == NO_LABEL:
            assert not second
            continue
        same = places[0][0][0] == places[1][0][0]
        relation = "random" if not same else "in order" if places[0] < places[1] else "swapped"
        if relation != "random":
            earlier, later = sorted(places)
            assert earlier[-1] < later[0], "the segments do not overlap"
            assert config.fidelity == "google" or are_neighbours([*earlier, *later]), "and nothing is missing between"
        expected = {"in order": 0, "swapped": 1, "random": 2 if config.objective == "three-way" else 1}
        assert label == expected[relation]
        if config.objective == "sop" and config.fidelity == "paper":
            assert same, "a sentence-order pair is of one document"
        if config.objective == "nsp":
            assert relation != "swapped"


@pytest.mark.parametrize("objective", ["sop", "none"])
def test_an_epoch_of_whole_windows_shows_every_sentence(corpus: Corpus, objective: str) -> None:
    config = PairConfig(objective=objective, length=128, short_share=0)  # type: ignore[arg-type]
    seen = Counter(place for a, b, _ in sequences(corpus, config) for place in {*sentences(a), *sentences(b)})
    shape = random_shape(400)
    assert set(seen) == {(document, place) for document, sizes in enumerate(shape) for place in range(len(sizes))}
    # Only a sentence left over at a document's end takes the one before it along, which is then shown twice.
    assert max(seen.values()) <= 2 and sum(count == 2 for count in seen.values()) <= len(shape)
    own, random = Pairs(corpus, config).shown_shares()
    assert own > 0.98 and random == 0


@pytest.mark.parametrize("fidelity", ["paper", "google"])
def test_tokens_that_give_way_to_random_segments_are_not_counted_as_shown(corpus: Corpus, fidelity: str) -> None:
    config = PairConfig(objective="nsp", length=64, short_share=0, fidelity=fidelity)  # type: ignore[arg-type]
    pairs = Pairs(corpus, config)
    windows = np.arange(len(pairs))
    drawn = pairs.segments(windows, make_keys(0, windows))
    made = [(read(corpus, drawn, 0, number), read(corpus, drawn, 1, number)) for number in windows]
    from_elsewhere = sum(len(b) for a, b in made if b and origin(a[0])[0] != origin(b[0])[0])
    own, random = pairs.shown_shares()
    assert random == pytest.approx(from_elsewhere / corpus.num_tokens) and random > 0.1
    assert own == pytest.approx(sum(len(a) + len(b) for a, b in made) / corpus.num_tokens - random)


@pytest.mark.parametrize("short_share", [0.0, 1.0])
def test_the_paper_cuts_no_sentence_but_the_last_two(corpus: Corpus, short_share: float) -> None:
    shape = random_shape(400)
    for first, second, _ in sequences(corpus, PairConfig(length=128, short_share=short_share)):
        lengths = Counter(map(origin, [*first, *second]))
        is_whole = all(shape[document][place] == size for (document, place), size in lengths.items())
        assert is_whole or (short_share and len(lengths) <= 2)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("length", [32, 128])
def test_none_is_longer_than_drawn(corpus: Corpus, objective: str, length: int) -> None:
    """Also where two sentences alone are longer, as they mostly are in short sequences."""
    config = PairConfig(objective=objective, length=length)  # type: ignore[arg-type]
    pairs = Pairs(corpus, config)
    windows = np.arange(len(pairs))
    keys = make_keys(0, windows)
    drawn, lengths = pairs.segments(windows, keys), draw_lengths(config, keys)
    # A segment that stands alone has a mark less, and so a token more.
    alone = (drawn.labels_B == NO_LABEL) & config.has_pairs
    assert (drawn.lengths_2B.sum(axis=0) <= lengths + alone).all()
    assert abs((lengths < config.budget).mean() - 0.1) < 5 * np.sqrt(0.09 / len(windows))


def test_a_tenth_of_the_sequences_is_drawn_shorter(make_corpus: Callable[..., Corpus]) -> None:
    corpus = make_corpus([[2] * NUM_SENTENCES] * 200)
    budget = PairConfig(length=40).budget
    made = sequences(corpus, PairConfig(length=40))
    full = [a for a in made if len(a[0]) + len(a[1]) >= budget - 1]
    tails = sum(1 for a in made if (49 in {place for _, place in sentences(a[0] + a[1])}))
    share = 1 - len(full) / (len(made) - tails)
    assert abs(share - 0.1 * (1 - 2 / (budget - 1))) < 5 * np.sqrt(0.09 / len(made))
    again = sequences(corpus, PairConfig(length=40), epoch=1)
    assert {i for i, a in enumerate(made) if a in full} != {i for i, a in enumerate(again) if len(a[0] + a[1]) > 35}


def test_google_draws_a_length_for_each_document(make_corpus: Callable[..., Corpus]) -> None:
    corpus = make_corpus([[2] * NUM_SENTENCES] * 400)
    made = sequences(corpus, PairConfig(length=43, fidelity="google", short_share=0.3))
    lengths: dict[int, set[int]] = {}
    for first, second, _ in made:
        if NUM_SENTENCES - 1 not in {place for _, place in sentences(first + second)}:
            lengths.setdefault(origin(first[0])[0], set()).add(len(first + second))
    # Sentences of two tokens are filled up to the length drawn, and one too long for a sequence is cut.
    assert all(max(sizes) - min(sizes) <= 1 for sizes in lengths.values())
    short = np.mean([max(sizes) < 40 for sizes in lengths.values()])
    assert abs(short - 0.3) < 5 * np.sqrt(0.21 / 400) + 0.02


def test_google_gives_single_sentences_a_random_partner_labelled_as_swapped(make_corpus: Callable[..., Corpus]) -> None:
    corpus = make_corpus([[30]] * 20)
    google = sequences(corpus, PairConfig(length=32, fidelity="google"))
    assert all(label == 1 and origin(a[0])[0] != origin(b[0])[0] for a, b, label in google)
    paper = sequences(corpus, PairConfig(length=32, short_share=0))
    assert all(label == NO_LABEL and len(a) == 30 and not b for a, b, label in paper)


@pytest.mark.parametrize("objective", ["sop", "nsp", "three-way"])
def test_labels_are_balanced_and_change_from_epoch_to_epoch(corpus: Corpus, objective: str) -> None:
    config = PairConfig(objective=objective, length=64)  # type: ignore[arg-type]
    epochs = [[label for *_, label in sequences(corpus, config, epoch) if label != NO_LABEL] for epoch in (0, 1)]
    counts = np.bincount(epochs[0])
    expected = len(epochs[0]) / config.num_pair_classes
    assert len(counts) == config.num_pair_classes
    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all()
    assert np.mean(np.array(epochs[0]) != np.array(epochs[1])) > 0.4


def test_the_point_of_the_split_is_uniform(make_corpus: Callable[..., Corpus]) -> None:
    corpus = make_corpus([[5] * 5] * 2000)
    made = sequences(corpus, PairConfig(objective="sop", length=28, short_share=0))
    splits = Counter(len(a if origin(a[0]) < origin(b[0]) else b) // 5 for a, b, _ in made)
    assert set(splits) == {1, 2, 3, 4} and len(made) == 2000
    assert all(abs(count - 500) < 5 * np.sqrt(500) for count in splits.values())


def test_what_is_cut_does_not_tell_the_order(make_corpus: Callable[..., Corpus]) -> None:
    """Two sentences too long for the sequence: how much of each remains, and which part, is alike for both labels."""
    pairs = Pairs(make_corpus([[40, 40]] * 3000), PairConfig(length=64, short_share=0))
    windows = np.arange(len(pairs))
    drawn = pairs.segments(windows, make_keys(3, windows))
    for measure in (*(drawn.begins_2B % 40), *drawn.lengths_2B):
        in_order, swapped = (measure[drawn.labels_B == label] for label in (0, 1))
        error = np.sqrt(in_order.var() / len(in_order) + swapped.var() / len(swapped))
        assert measure.std() > 0
        assert abs(in_order.mean() - swapped.mean()) < 5 * error


@pytest.mark.parametrize("length", [48, 128, 256])
@pytest.mark.parametrize("short_share", [0.0, 1.0])
def test_the_lengths_of_the_segments_do_not_tell_the_order(
    make_corpus: Callable[..., Corpus], length: int, short_share: float
) -> None:
    """Sentences of random lengths have no order, so nothing about their lengths may predict the label."""
    corpus = make_corpus(random_shape(2500, seed=length))
    pairs = Pairs(corpus, PairConfig(length=length, short_share=short_share))
    windows = np.arange(len(pairs))
    drawn = pairs.segments(windows, make_keys(5, windows))
    paired = drawn.labels_B != NO_LABEL
    differences = (drawn.lengths_2B[0] - drawn.lengths_2B[1])[paired] * np.where(drawn.labels_B[paired] == 0, 1, -1)
    assert paired.sum() > 3000
    # Windows of one document go together, so the error is wider than for as many windows of different ones.
    assert abs(differences.mean()) < 6 * differences.std() / np.sqrt(paired.sum())
    assert abs((differences > 0).mean() - (differences < 0).mean()) < 6 / np.sqrt(paired.sum())


def test_google_takes_an_odd_token_from_the_segment_shown_second(make_corpus: Callable[..., Corpus]) -> None:
    """From the one that comes second in the text, the lengths of equally cut segments would tell the label."""
    corpus = make_corpus([[40] * NUM_SENTENCES] * 100)
    made = sequences(corpus, PairConfig(length=48, fidelity="google", short_share=0.0))
    cut = [(len(a) - len(b), label) for a, b, label in made if len(a + b) == 45 and abs(len(a) - len(b)) == 1]
    assert {difference for difference, _ in cut} == {1} and {label for _, label in cut} == {0, 1}


@pytest.mark.parametrize("objective", ["nsp", "three-way"])
@pytest.mark.parametrize(
    ("length", "short_share", "windows"),
    [(32, 0.1, "document"), (64, 0.1, "document"), (128, 0.1, "document"), (128, 1.0, "document"),
     (512, 0.1, "document"), (64, 0.1, "paragraph"), (128, 0.1, "paragraph")],
)  # fmt: skip
def test_the_lengths_of_the_segments_do_not_tell_a_random_one(
    make_corpus: Callable[..., Corpus], objective: str, length: int, short_share: float, windows: str
) -> None:
    """A tree that sees lengths alone finds no more than chance in windows that it has not learned from."""
    random, factor = np.random.default_rng(1), max(1, length // 128)
    shape = [random.integers(4, 40, factor * random.integers(10, 60)).tolist() for _ in range(600 // factor)]
    corpus = make_corpus(shape, paragraph=5)
    options: dict[str, Any] = {"objective": objective, "windows": windows}
    pairs = Pairs(corpus, PairConfig(length=length, short_share=short_share, **options))
    windows_B, epochs_B = (array.ravel() for array in np.meshgrid(np.arange(len(pairs)), np.arange(2 * factor - 1)))
    drawn = pairs.segments(windows_B, make_keys(5, epochs_B, windows_B))
    is_random = drawn.labels_B == (1 if objective == "nsp" else 2)
    lengths = np.stack([*drawn.lengths_2B, drawn.lengths_2B.sum(axis=0)], axis=1)
    learned = pairs.documents(windows_B) % 2 == 0
    tree = DecisionTreeClassifier(max_depth=5, min_samples_leaf=50, class_weight="balanced")
    tree.fit(lengths[learned], is_random[learned])
    found = tree.predict(lengths[~learned])
    right = [(found == is_random[~learned])[is_random[~learned] == kind].mean() for kind in (False, True)]
    assert (~learned).sum() > 2000 and abs(np.mean(right) - 0.5) < 0.03


@pytest.mark.parametrize("windows", ["document", "paragraph"])
def test_a_random_segment_is_built_like_a_true_one(make_corpus: Callable[..., Corpus], windows: str) -> None:
    """It crosses nothing that windows do not cross, opens no document or paragraph, since the first segment stands
    before a true one, and has as many sentences; headings, which stand alone, are in neither."""
    random = np.random.default_rng(1)
    shape = [random.integers(4, 40, random.integers(2, 40)).tolist() for _ in range(900)]  # odd ones end in a heading
    corpus = make_corpus(shape, paragraph=3)
    config = PairConfig(objective="nsp", length=96, windows=windows, short_share=0)  # type: ignore[arg-type]
    numbers: dict[int, Counter[int]] = {0: Counter(), 1: Counter()}
    for first, second, label in sequences(corpus, config):
        if label == NO_LABEL:
            continue
        places = sentences(second)
        numbers[label][len(places)] += 1
        opens = {0} if windows == "document" else range(0, NUM_SENTENCES, 3)
        assert places[0][1] not in opens, (first, second)
        assert windows == "document" or len({place // 3 for _, place in places}) == 1
    assert min(counts.total() for counts in numbers.values()) > 500
    for size in (1, 2, 3, 4):
        next_share, random_share = (numbers[label][size] / numbers[label].total() for label in (0, 1))
        error = np.sqrt(sum(next_share * (1 - next_share) / counts.total() for counts in numbers.values()))
        assert abs(next_share - random_share) <= 4 * error


@pytest.mark.parametrize("short_share", [0.0, 1.0])
def test_a_random_segment_is_not_cut_where_the_true_one_fits(
    make_corpus: Callable[..., Corpus], short_share: float
) -> None:
    """Else what is cut would tell it."""
    shape = np.random.default_rng(1).integers(4, 21, (600, 30)).tolist()
    config = PairConfig(objective="nsp", length=128, short_share=short_share)
    corpus = make_corpus(shape)
    keys = make_keys(0, 0, np.arange(len(Pairs(corpus, config))))
    fits = draw_lengths(config, keys) >= 40  # two sentences at least
    random = [second for (_, second, label), fit in zip(sequences(corpus, config), fits, strict=True) if label and fit]
    assert len(random) > 500
    for second in random:
        lengths = Counter(map(origin, second))
        assert all(shape[document][place] == size for (document, place), size in lengths.items())


def test_random_segments_are_of_any_text_as_often_as_true_ones(make_corpus: Callable[..., Corpus]) -> None:
    """Drawn by documents or by sentences, they would be known by what long or short documents are about."""
    corpus = make_corpus([[5] * 40] * 60 + [[5] * 2] * 400)
    made = sequences(corpus, PairConfig(objective="nsp", length=24, short_share=0))
    of_short = {
        kind: np.array([origin(second[0])[0] >= 60 for _, second, label in made if label == kind]) for kind in (0, 1)
    }
    error = np.sqrt(sum(chosen.var() / len(chosen) for chosen in of_short.values()))
    assert 0.1 < of_short[0].mean() < 0.9 and abs(of_short[0].mean() - of_short[1].mean()) < 4 * error


def test_where_nearly_all_windows_are_of_one_document_segments_are_still_of_another(
    make_corpus: Callable[..., Corpus],
) -> None:
    for shape in ([[5] * 50, [7]], [[5] * 50, [7, 3]], [[40, 40], [1]]):
        made = sequences(make_corpus(shape), PairConfig(objective="nsp", length=16, short_share=0))
        random = [(first, second) for first, second, label in made if label == 1]
        assert all(origin(first[0])[0] != origin(second[0])[0] for first, second in random)


def test_a_window_is_shortened_from_its_end_as_from_its_front(make_corpus: Callable[..., Corpus]) -> None:
    """From its front alone, a long sentence would be left out behind, and the first segment be the longer."""
    shape = np.random.default_rng(1).choice([3, 30], (3000, 12), p=[0.7, 0.3]).tolist()
    pairs = Pairs(make_corpus(shape), PairConfig(length=128, short_share=1.0))
    windows = np.arange(len(pairs))
    drawn = pairs.segments(windows, make_keys(3, windows))
    paired = drawn.labels_B != NO_LABEL
    earlier = (drawn.lengths_2B[0] - drawn.lengths_2B[1])[paired] * np.where(drawn.labels_B[paired] == 0, 1, -1)
    assert abs(earlier.mean()) < 4 * earlier.std() / np.sqrt(paired.sum())


def test_a_window_is_shortened_to_any_part_of_it(make_corpus: Callable[..., Corpus]) -> None:
    pairs = Pairs(make_corpus([[5] * 12] * 4000), PairConfig(objective="none", length=62, short_share=1.0))
    windows = np.arange(len(pairs))
    drawn = pairs.segments(windows, make_keys(3, windows))
    first, length = drawn.begins_2B[0] % 60 // 5, drawn.lengths_2B[0] // 5
    few = length < 4
    middles = (first + length / 2)[few]
    assert few.sum() > 1000 and abs(middles.mean() - 6) < 0.5
    assert np.histogram(middles, 4, (0, 12))[0].min() > few.sum() / 8


def test_a_sentence_alone_has_a_partner_only_where_there_is_another_document(
    make_corpus: Callable[..., Corpus],
) -> None:
    config = PairConfig(length=32, fidelity="google", short_share=0.0)
    assert Pairs(make_corpus([[30], [30]]), config).paired_share() == 1
    assert Pairs(make_corpus([[30]]), config).paired_share() == 0


def test_impossible_settings_and_corpora_are_refused(make_corpus: Callable[..., Corpus]) -> None:
    with pytest.raises(UserError, match="length is 4; a sequence needs at least 8"):
        PairConfig(length=4)
    with pytest.raises(UserError, match="short_share is 2; it must be between 0 and 1"):
        PairConfig(short_share=2)
    with pytest.raises(UserError, match="^fidelity is 'googel'; it must be one of 'paper', 'google'"):
        PairConfig(fidelity="googel")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="has one train document; nsp takes segments from others"):
        Pairs(make_corpus([[3, 4, 5]]), PairConfig(objective="nsp"))


def test_a_model_learns_from_every_objective(corpus: Corpus) -> None:
    for objective in OBJECTIVES:
        loader = Loader([corpus], PairConfig(objective=objective, length=32), MaskingConfig(), num_sequences=8)
        batch = loader.make_batch(0)
        assert (batch.pair_labels_B is None) == (objective == "none")
        assert batch.num_sequences == 8 and max(batch.lengths) <= 32


def test_every_window_is_in_the_document_of_its_first_sentence(make_corpus: Callable[..., Corpus]) -> None:
    pairs = Pairs(make_corpus([[3, 3], [20, 20, 20], [5], [4, 30, 4]], num_shards=2), PairConfig(length=16))
    windows = np.arange(len(pairs))
    drawn = pairs.segments(windows, make_keys(0, windows))
    shown = [origin(read(pairs.corpus, drawn, 0, number)[0])[0] for number in windows]
    assert pairs.documents(windows).tolist() == shown and set(shown) == {0, 1, 2, 3}
    assert pairs.documents(windows[:0]).tolist() == []
