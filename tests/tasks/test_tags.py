from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.batch import NO_LABEL
from litebert.config import UserError
from litebert.tasks.tags import TagExample, TagTask, read_conll, split_words
from litebert.tasks.task import Limits, Prediction, Question, Task, pack
from litebert.text.vocabulary import Vocabulary, open_vocabulary

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "fox", "dog", "##s", "##y", "sees", "."]
TASK = TagTask(name="tags", metric="f1", read_split=lambda data, split: read_conll(data))
QUESTION = Question("token_classes", ("B-A", "I-A", "O"))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return open_vocabulary(folder)


def make_example(text: str, tags: str | None = None) -> TagExample:
    return TagExample("0", "a.conll, line 1", tuple(text.split(" ")), None if tags is None else tuple(tags.split()))


def answer(labels: Any) -> Any:
    """Logits that are highest for the given classes, and for class 0 where there is none."""
    return np.eye(len(QUESTION.labels))[np.maximum(labels, 0)]


def test_it_is_a_task_that_asks_for_the_tags_it_saw() -> None:
    task: Task = TASK
    assert task.ask([make_example("a b c", "O I-A B-A"), make_example("a", "O")]) == QUESTION
    with pytest.raises(UserError, match="the examples' tags are 'O'; give at least 2"):
        task.ask([make_example("a", "O")])


def test_the_first_piece_of_a_word_carries_its_tag(vocabulary: Vocabulary) -> None:
    example = make_example("fox dogsy . \x01 dogs", "B-A I-A O O B-A")
    (sample,), notes = TASK.encode([example], vocabulary, QUESTION, Limits())
    pieces = [vocabulary.piece(index) for index in sample.token_ids]
    assert pieces == ["[CLS]", "fox", "dog", "##s", "##y", ".", "[UNK]", "dog", "##s", "[SEP]"]
    none = NO_LABEL
    assert sample.token_labels is not None
    assert sample.token_labels.tolist() == [none, 0, 1, none, none, 2, 2, 0, none, none]
    assert notes == [] and sample.second == len(pieces)
    labels = pack([sample]).token_labels_T
    assert labels is not None and labels.tolist() == sample.token_labels.tolist()


WORDS = st.lists(st.sampled_from(["fox", "dogs", "dogsy", "foxsysysy", "zebra", ".", "\x01"]), min_size=1, max_size=40)


@settings(deadline=None, max_examples=50)
@given(st.lists(WORDS, min_size=1, max_size=4), st.integers(8, 20), st.randoms(use_true_random=False), st.booleans())
def test_every_word_gets_a_tag_however_long_the_sentence(
    vocabulary: Vocabulary, sentences: list[list[str]], length: int, random: Any, secret: bool
) -> None:
    tags = [tuple(random.choice(QUESTION.labels) for _ in words) for words in sentences]
    known = [TagExample(str(n), "", tuple(words), tags[n]) for n, words in enumerate(sentences)]
    examples = [example.without_gold() for example in known] if secret else known
    samples, notes = TASK.encode(examples, vocabulary, QUESTION, Limits(length=length))
    assert all(len(sample.token_ids) <= length for sample in samples)
    assert [sample.example for sample in samples] == sorted(sample.example for sample in samples)
    assert all((sample.token_labels is None) == secret for sample in samples)
    told = TASK.encode(known, vocabulary, QUESTION, Limits(length=length)).samples
    outputs = [answer(sample.token_labels) for sample in told]
    found = TASK.decode(examples, samples, outputs, QUESTION, Limits(length=length))
    assert [found[example.id].answer for example in examples] == tags
    assert bool(notes) == (len(samples) > len(examples))
    pieces = [[piece for word in words for piece in vocabulary.encode(word) or [1]] for words in sentences]
    if length >= 9:  # the longest word has 7 pieces
        read = [[int(i) for s in samples if s.example == n for i in s.token_ids[1:-1]] for n in range(len(examples))]
        assert read == pieces


def test_a_word_longer_than_a_sample_is_cut(vocabulary: Vocabulary) -> None:
    example = make_example("fox dog" + "s" * 20 + " fox", "O B-A O")
    samples, notes = TASK.encode([example], vocabulary, QUESTION, Limits(length=8))
    assert [len(sample.token_ids) for sample in samples] == [3, 8, 3]
    assert notes == [
        "1 of 1 sentences have more than 8 tokens and are read in parts; a greater length, if the model has "
        "the positions, keeps them whole"
    ]


def test_a_tag_that_is_not_known_is_refused_with_its_place(vocabulary: Vocabulary) -> None:
    with pytest.raises(UserError, match="^a.conll, line 1: the label 'B-X' is not one of those known .'B-A'"):
        TASK.encode([make_example("fox", "B-X")], vocabulary, QUESTION, Limits())


def test_spans_are_scored_and_sentences_without_prediction_are_wrong() -> None:
    examples = [
        TagExample("0", "", ("a", "b", "c"), ("B-A", "I-A", "O")),
        TagExample("1", "there", ("a",), ("B-A",)),
    ]
    scores = TASK.score(examples, {"0": Prediction(("B-A", "I-A", "O"))})
    assert scores["f1"] == pytest.approx(200 / 3) and scores["accuracy"] == 75.0
    with pytest.raises(UserError, match="^there: 2 tags were predicted for 1 words"):
        TASK.score(examples, {"1": Prediction(("O", "O"))})
    with pytest.raises(UserError, match="2 of 2 examples have no prediction"):
        TASK.score(examples, {})
    with pytest.raises(UserError, match="here: there are no tags to score by"):
        TASK.score([TagExample("0", "here", ("a",))], {"0": Prediction(("O",))})


def test_written_predictions_are_read_again(tmp_path: Path) -> None:
    examples = [TagExample("0", "", ("a", "b")), TagExample("1", "", ("c",))]
    predictions = {"0": Prediction(("B-A", "O")), "1": Prediction(("O",))}
    (path,) = TASK.write_predictions(tmp_path, "test", examples, predictions)
    assert TASK.read_predictions(path) == predictions
    (tmp_path / "a.tsv").write_text("index\tprediction\n0\tB-A O\n1\tO\n")
    assert TASK.read_predictions(tmp_path / "a.tsv") == predictions


@pytest.mark.parametrize("name", ["a.conll", "a.txt", "a.bio"])
@pytest.mark.parametrize("space", ["\t", " ", "  "])
def test_a_file_with_a_word_on_each_line_is_read(tmp_path: Path, name: str, space: str) -> None:
    lines = ["-DOCSTART- -X- O", "EU NNP B-ORG", "\u00a0 X O", "", " ", "-DOCSTART- -X- O", "", "Peter NNP B-PER", ""]
    (tmp_path / name).write_text("\n".join(line.replace(" ", space) for line in lines))
    path = tmp_path / name
    assert TASK.read(path, "train") == [
        TagExample("0", f"{path}, line 2", ("EU", "\u00a0"), ("B-ORG", "O")),
        TagExample("1", f"{path}, line 8", ("Peter",), ("B-PER",)),
    ]


def test_words_alone_have_secret_tags(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("EU\nsays\n\nno\n")
    assert [example[2:] for example in read_conll(tmp_path / "a.conll")] == [(("EU", "says"), None), (("no",), None)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"EU B-ORG\nsays\n", ", line 2: 1 columns where others have 2"),
        (b"EU B-ORG\nsays O O\n", ", line 2: 3 columns where others have 2"),
        (b"EU\tB-ORG\n\tO\n", ", line 2: 2 columns where others have 2, or an empty one"),
        (b"EU\tB-ORG\nsays\t\n", ", line 2: 2 columns where others have 2, or an empty one"),
        (b"EU O\n\xff O\n", ", line 2: broken UTF-8"),
        (b"\n\n", " has no sentences; fill it"),
        (b"-DOCSTART- O\n", " has no sentences"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.conll").write_bytes(content)
    with pytest.raises(UserError, match=f"^{tmp_path}/a.conll{said}"):
        read_conll(tmp_path / "a.conll")


def test_words_are_a_list_or_separated_by_spaces() -> None:
    for value in (["a", "b c"], '["a", "b c"]'):
        assert split_words("", value) == ("a", "b c")
    assert split_words("", " [ a  b ] ") == ("[", "a", "b", "]")
    assert split_words("", "[1]") == ("[1]",)
    for value in ("", " ", [], "[]", ["a", ""], [1], None, 3):
        with pytest.raises(UserError, match="^here: "):
            split_words("here", value)
