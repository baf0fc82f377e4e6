import hashlib
import re
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from litebert.config import UserError
from litebert.text.unigram import (
    LONGEST_LINE,
    SPECIAL_PIECES,
    VocabularyConfig,
    cut_lines,
    run_interruptibly,
    sample_lines,
    train_unigram,
)


def small(**changes: object) -> VocabularyConfig:
    return VocabularyConfig(**{"size": 400, "num_lines": 500, "num_threads": 2, **changes})  # type: ignore[arg-type]


def test_an_interrupt_is_heeded_while_another_language_works() -> None:
    done = threading.Event()
    threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(lambda: done.wait(20))
    done.set()


def test_the_first_ids_are_alberts_and_no_piece_is_the_users(topics: list[str]) -> None:
    model = train_unigram(sample_lines(topics, small()).lines, small())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert processor.IdToPiece(list(range(5))) == list(SPECIAL_PIECES)
    assert processor.GetPieceSize() == 400 and processor.bos_id() == processor.eos_id() == -1
    assert [processor.IsControl(index) for index in range(6)] == [True, False, True, True, True, False]
    assert processor.IsUnknown(1)
    # A model that holds its cleaning needs no other.
    assert processor.encode("THE Ｆunction’s ÀRGUMENT") == processor.encode("the function’s argument")


@pytest.mark.parametrize("normalization", ["albert", "bert", "xlnet", "none"])
def test_digits_and_the_signs_of_alberts_vocabulary_are_never_unknown(normalization: str) -> None:
    lines = ["the quick brown fox jumps over the lazy dog", "and another fox"] * 3
    model = train_unigram(lines, small(size=52, normalization=normalization))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert processor.unk_id() not in processor.encode('the (fox) "is" 1234567890 - 5.6 – £7 €8')
    assert processor.unk_id() in processor.encode("the § fox")


def test_the_same_text_and_config_give_the_same_bytes(topics: list[str]) -> None:
    models = [train_unigram(sample_lines(topics, small(seed=seed)).lines, small()) for seed in (0, 0, 1)]
    first, again, other = (hashlib.sha256(model).hexdigest() for model in models)
    assert first == again != other
    assert b"rules" not in models[0] and b"/tmp" not in models[0]


@given(st.lists(st.text(st.sampled_from("ab \n"), max_size=8)))
def test_a_sample_of_everything_is_everything(documents: list[str]) -> None:
    sample = sample_lines(documents, small())
    lines = [line.strip() for document in documents for line in document.split("\n") if line.strip()]
    assert sample == (list(dict.fromkeys(lines)), len(lines), sum(map(len, lines)))


def test_lines_that_come_again_teach_nothing_more(topics: list[str]) -> None:
    """SentencePiece would search what repeats over and over for minutes."""
    once, often = (sample_lines(text, small(num_lines=1_000_000)) for text in (topics, topics * 20))
    assert often.lines == once.lines and often.num_lines == 20 * once.num_lines


def test_lines_that_come_again_take_no_others_place() -> None:
    lines = [*["again"] * 5000, *map(str, range(1500)), *["again"] * 5000]
    sample = sample_lines(lines, small(num_lines=2000))
    assert sample.lines == ["again", *map(str, range(1500))] and sample.num_lines == 11_500


def test_a_sample_does_not_depend_on_the_order_of_the_text() -> None:
    lines = [str(number) for number in range(5000)]
    samples = [sample_lines(text, small(num_lines=100)).lines for text in (lines, lines[::-1], lines * 2)]
    assert len(samples[0]) == 100 and set(samples[0]) == set(samples[1]) and samples[0] == samples[2]


def test_every_line_has_the_same_chance() -> None:
    drawn: Counter[str] = Counter()
    for seed in range(400):
        sample = sample_lines(map(str, range(1000)), small(num_lines=50, seed=seed))
        assert len(set(sample.lines)) == 50 and sample.num_lines == 1000
        drawn.update(sample.lines)
    # 2,000 of the 20,000 draws should fall in each tenth of the corpus; five standard deviations are 212.
    tenths = [sum(drawn[str(line)] for line in range(start, start + 100)) for start in range(0, 1000, 100)]
    assert all(abs(count - 2000) < 212 for count in tenths)


@given(st.text(st.sampled_from("ab中 \0"), max_size=20).map(lambda text: text * 300))
def test_long_lines_are_cut_and_nothing_is_lost(line: str) -> None:
    parts = list(cut_lines(line))
    assert all(0 < len(part) <= LONGEST_LINE and len(part.encode()) <= 4192 for part in parts)
    assert "".join("".join(parts).split()) == "".join(line.replace("\0", " ").split())


def test_long_lines_are_cut_between_words() -> None:
    assert set(" ".join(cut_lines("four letters " * 500)).split()) == {"four", "letters"}


def test_a_text_too_small_says_the_largest_size_which_then_works() -> None:
    lines = ["the quick brown fox jumps over the lazy dog"] * 10
    with pytest.raises(
        UserError, match=r"^size is 400, and the text gives at most \d+ pieces; lower it or add text"
    ) as error:
        train_unigram(lines, small())
    _, largest = map(int, re.findall(r"\d+", str(error.value)))
    assert train_unigram(lines, small(size=largest))
    with pytest.raises(UserError, match=f"at most {largest} pieces"):
        train_unigram(lines, small(size=largest + 1))


def test_texts_that_give_nothing_are_refused(topics: list[str]) -> None:
    with pytest.raises(UserError, match="no text to learn a vocabulary from"):
        train_unigram([], small())
    with pytest.raises(UserError, match="'albert' leaves nothing of the text"):
        train_unigram(["\u200b\u200d"], small())
    with pytest.raises(UserError, match=r"size is 40 and the text's characters alone need \d+; raise it, or lower"):
        train_unigram(sample_lines(topics, small()).lines, small(size=40))


def test_training_says_nothing(topics: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    train_unigram(sample_lines(topics, small()).lines, small())
    with pytest.raises(UserError):
        train_unigram(["a"], small())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"size": 5}, "size is 5; five pieces are marks"),
        ({"normalization": "nfc"}, "normalization is 'nfc'; choose from albert, bert, xlnet, none"),
        ({"character_coverage": 0.5}, "character_coverage is 0.5; it must be between 0.98 and 1"),
        ({"num_lines": 0}, "num_lines is 0"),
        ({"num_threads": 0}, "num_threads is 0"),
    ],
)
def test_an_impossible_config_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        small(**changes)


def test_case_is_kept_where_the_models_of_that_name_keep_it() -> None:
    kept = {name: small(normalization=name).keeps_case for name in ("albert", "bert", "xlnet", "none")}
    assert kept == {"albert": False, "bert": False, "xlnet": True, "none": True}
    assert small(cased=True).keeps_case and not small(normalization="xlnet", cased=False).keeps_case


def test_the_config_of_a_path_is_not_in_the_model(topics: list[str], tmp_path: Path) -> None:
    """A model can be opened where the rules it was trained with are gone."""
    model = train_unigram(sample_lines(topics, small(normalization="bert")).lines, small(normalization="bert"))
    (tmp_path / "spiece.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    assert processor.Normalize("É中") == "▁e▁中"
