import itertools
import json
import shutil
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
import transformers

from litebert.config import UserError
from litebert.text.normalize import normalize_albert
from litebert.text.vocabulary import Vocabulary, copy_vocabulary, open_vocabulary, split_comma

TEXT = "the quick brown fox jumps over the lazy dog, in 1984, in 2019, and in 3,000 other years. 中文 字符 über café"


@pytest.fixture(scope="session")
def spiece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small SentencePiece model with ALBERT's first ids."""
    folder = tmp_path_factory.mktemp("spiece")
    lines = [" ".join(words) for words in itertools.permutations(TEXT.split()[:7], 3)] + [TEXT] * 50
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(lines),
        model_prefix=str(folder / "spiece"),
        vocab_size=62,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
    )
    return folder


@pytest.fixture
def wordpiece(tmp_path: Path) -> Path:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "capital", "of", "fr", "##ance", "is", "中", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return tmp_path


def test_sentencepiece_is_opened_with_alberts_marks_and_preparation(spiece: Path) -> None:
    vocabulary = open_vocabulary(spiece)
    assert vocabulary.special == (0, 1, 2, 3, 4)
    assert vocabulary.encode("The  QUICK\tbrown") == vocabulary.encode("the quick brown")
    assert vocabulary.encode("Über") == vocabulary.encode("uber")
    ids = vocabulary.encode("the quick brown fox")
    assert vocabulary.decode(ids) == "the quick brown fox"
    assert vocabulary.add_special(ids) == [2, *ids, 3]
    assert vocabulary.add_special(ids, [9]) == [2, *ids, 3, 9, 3]


def test_case_is_kept_where_the_folder_says_so(spiece: Path, tmp_path: Path) -> None:
    shutil.copy(spiece / "spiece.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert open_vocabulary(tmp_path).encode("QUICK") != open_vocabulary(spiece).encode("QUICK")


def test_marks_in_a_text_stand_for_themselves(spiece: Path, wordpiece: Path) -> None:
    for folder in (spiece, wordpiece):
        vocabulary = open_vocabulary(folder)
        the, of, mask = vocabulary.encode("the"), vocabulary.encode("of"), [vocabulary.special.mask]
        assert vocabulary.encode("the [MASK] of[MASK][SEP]") == [*the, *mask, *of, *mask, vocabulary.special.sep]


def test_wordpiece_splits_words_as_transformers_does(wordpiece: Path) -> None:
    vocabulary = open_vocabulary(wordpiece)
    peer = transformers.BertTokenizer(str(wordpiece / "vocab.txt"))
    for text in ("The capital of France is.", "中中 the", "unheard of", ""):
        assert vocabulary.encode(text) == peer(text, add_special_tokens=False).input_ids


def test_a_tokenizer_json_is_opened_as_it_is(tmp_path: Path) -> None:
    pieces = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "<mask>": 4, "one": 5, "two": 6}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = open_vocabulary(tmp_path)
    assert vocabulary.size == 7 and vocabulary.special.mask == 4
    assert vocabulary.encode("one [MASK] three two") == [5, 4, 1, 6]


def test_padding_and_truncation_stored_in_a_tokenizer_json_are_not_applied(tmp_path: Path) -> None:
    pieces = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "one": 5}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=4)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert open_vocabulary(tmp_path).encode("one") == [5]
    assert open_vocabulary(tmp_path).encode("one " * 9) == [5] * 9


@pytest.mark.parametrize(
    ("folder", "place"),
    [("archive", "30k-clean.model"), ("module", "assets/30k-clean.model"), ("variables", "../assets/30k-clean.model")],
)
def test_googles_vocabulary_is_found_under_its_own_name_and_copied_as_hugging_faces(
    spiece: Path, tmp_path: Path, folder: str, place: str
) -> None:
    source, target = tmp_path / folder, tmp_path / "target"
    source.mkdir()
    (source / place).parent.mkdir(exist_ok=True)
    target.mkdir()
    shutil.copy(spiece / "spiece.model", source / place)
    assert open_vocabulary(source).size == 62
    assert copy_vocabulary(source, target) == ["spiece.model"]
    assert (target / "spiece.model").read_bytes() == (spiece / "spiece.model").read_bytes()


def test_pieces_can_be_looked_up_and_unknown_ones_are_refused(wordpiece: Path) -> None:
    vocabulary = open_vocabulary(wordpiece)
    assert vocabulary.look_up("fr ##ance [MASK] .") == [8, 9, 4, 12]
    with pytest.raises(UserError, match="vocabulary of 13 has no piece 'xyz'"):
        vocabulary.look_up("fr xyz")


@pytest.mark.parametrize(
    ("piece", "parts"),
    [
        ("▁1984,", ["▁1984", ","]),
        ("84,", ["84", ","]),
        ("▁dog,", ["▁dog,"]),
        (",", [","]),
        ("4", ["4"]),
        ("▁9,", ["▁9", ","]),
    ],
)
def test_a_comma_after_a_digit_is_a_piece_of_its_own(piece: str, parts: list[str]) -> None:
    assert split_comma(piece, lambda text: [f"▁{text}"]) == parts


def test_normalisation_is_googles() -> None:
    assert normalize_albert("  Ａ\u3000 CAFÉ\n") == "a cafe"
    assert normalize_albert("É", lower_case=False) == "E"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("spiece.model", b"not a model", "not a SentencePiece model"),
        ("tokenizer.json", b"{", "is not a tokenizer"),
        ("vocab.txt", b"\xff\xfe", "not UTF-8"),
        ("vocab.txt", b"a\nb\n", r"has no \[UNK\]"),
        ("vocab.txt", b"[UNK]\nb\n", r"has no \[PAD\] or <pad>, no \[CLS\]"),
    ],
)
def test_a_broken_vocabulary_is_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        open_vocabulary(tmp_path)


def test_a_folder_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no vocabulary; put its spiece.model"):
        open_vocabulary(tmp_path)


def real_lines(data: Path, name: str, number: int) -> list[str]:
    import gzip

    with gzip.open(data / "text" / name, "rt", encoding="utf-8") as file:
        return [line.strip() for line in itertools.islice((line for line in file if line.strip()), number)]


@pytest.mark.parametrize(
    ("name", "text"),
    [("bert-base-uncased-vocab.txt", "wiki_en.txt.gz"), ("albert-zh-bert-vocab.txt", "wiki_zh.txt.gz")],
)
def test_real_wordpiece_vocabularies_give_transformers_ids(data: Path, tmp_path: Path, name: str, text: str) -> None:
    shutil.copy(data / "vocab" / name, tmp_path / "vocab.txt")
    vocabulary = open_vocabulary(tmp_path)
    peer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    for line in real_lines(data, text, 300):
        assert vocabulary.encode(line) == peer(line, add_special_tokens=False).input_ids


def test_the_original_albert_vocabulary_opens(data: Path, tmp_path: Path) -> None:
    shutil.copy(data / "vocab" / "albert-en-30k-clean.model", tmp_path / "spiece.model")
    vocabulary: Vocabulary = open_vocabulary(tmp_path)
    assert vocabulary.size == 30000 and vocabulary.special == (0, 1, 2, 3, 4)
    assert [vocabulary.piece(index) for index in range(5, 10)] == ["(", ")", '"', "-", "."]
    lines = real_lines(data, "wiki_en.txt.gz", 200)
    unknown = sum(vocabulary.encode(line).count(1) for line in lines)
    assert unknown < 0.01 * sum(len(vocabulary.encode(line)) for line in lines)
