import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import tokenizers
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers.utils import sentencepiece_model_pb2_new as sentencepiece_proto

from litebert.config import UserError
from litebert.text.hub_tokenizer import copy_for_hub
from litebert.text.spiece import change_scores
from litebert.text.vocabulary import Vocabulary, copy_vocabulary, open_vocabulary

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


def test_model_of_byte_pairs_whose_scores_are_whole_is_not_taken_for_ours(spiece: Path, tmp_path: Path) -> None:
    """Whole numbers are multiples of 2^-10 too."""
    places = {piece: -index for index, piece in enumerate(open_vocabulary(spiece).pieces)}
    model = change_scores((spiece / "spiece.model").read_bytes(), lambda piece, _: float(places[piece]))
    (tmp_path / "spiece.model").write_bytes(model)
    assert open_vocabulary(tmp_path).encode("The QUICK fox") == open_vocabulary(tmp_path).encode("the quick fox")


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


def test_a_vocabularys_own_names_for_the_marks_stand_for_them_too(byte_level: Path) -> None:
    vocabulary = open_vocabulary(byte_level)
    assert vocabulary.encode("the <mask></s>") == vocabulary.encode("the [MASK][SEP]")
    assert vocabulary.encode("<mask>") == [4]


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


def test_a_comma_after_a_digit_is_a_piece_of_its_own(tmp_path: Path) -> None:
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(["in 1984, or 2019, or 3,000 or 77,"] * 50 + ["the year 5, 7, 1, 9, 8 4"]),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=50,
        pad_id=3,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        split_by_number=False,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    bare = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spiece.model"))
    assert "▁1984," in bare.encode("in 1984, or", out_type=str)
    vocabulary = open_vocabulary(tmp_path)
    assert [vocabulary.piece(index) for index in vocabulary.encode("in 1984, or 2019,")].count(",") == 2
    assert vocabulary.encode("in 3 or") == bare.encode("in 3 or")


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


def test_pieces_that_are_no_text_are_refused(spiece: Path, tmp_path: Path) -> None:
    model = (spiece / "spiece.model").read_bytes()
    place = model.index("▁the".encode()) + 4
    (tmp_path / "spiece.model").write_bytes(model[:place] + b"\xe1" + model[place + 1 :])
    with pytest.raises(UserError, match=r"spiece.model has pieces that are no text, so it is damaged; copy it again"):
        open_vocabulary(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"model": {"vocab": 7}}'])
def test_the_tokenizer_of_another_vocabulary_beside_the_one_that_decides_is_refused(
    make_folder: Callable[..., Path], tmp_path: Path, content: str
) -> None:
    mixed = Path(shutil.copytree(make_folder("albert"), tmp_path / "mixed"))
    shutil.copy(make_folder("bert") / "tokenizer.json", mixed)
    with pytest.raises(UserError, match=r"tokenizer.json is of another vocabulary \(1000 .* than spiece.model beside"):
        open_vocabulary(mixed)
    assert open_vocabulary(mixed / "spiece.model").size == 1000, "a file that is named decides alone"
    (mixed / "tokenizer.json").write_text(content)
    with pytest.raises(UserError, match=r"tokenizer.json is not a tokenizer; copy it again, or remove it"):
        open_vocabulary(mixed)


def test_a_tokenizer_to_which_pieces_were_added_is_of_the_same_vocabulary(
    make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(make_folder("albert"), tmp_path / "added"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"].append(["▁never-met", -1.0])
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert open_vocabulary(folder).size == 1000


def test_a_folder_made_of_a_vocab_txt_with_a_hole_opens_again(tmp_path: Path) -> None:
    """A line that comes again, and one of nothing, are pieces of no text."""
    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "a", "", "b"]
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n")
    copy_for_hub(tmp_path, tmp_path / "copy")
    assert (tmp_path / "copy" / "tokenizer.json").exists()
    assert open_vocabulary(tmp_path / "copy").encode("a b") == open_vocabulary(tmp_path).encode("a b") == [6, 8]


def test_any_number_of_texts_is_encoded_as_one_by_one(wordpiece: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litebert.text.engines.TEXTS_PER_CALL", 2)
    vocabulary = open_vocabulary(wordpiece)
    texts = ["the capital", "", "of france", "is 中.", "the"]
    for number in range(len(texts) + 1):
        tokens, counts = vocabulary.encode_many(texts[:number])
        assert counts.tolist() == [len(vocabulary.encode(text)) for text in texts[:number]]
        assert tokens.tolist() == [index for text in texts[:number] for index in vocabulary.encode(text)]
        each = [ids.tolist() for ids in vocabulary.encode_each(texts[:number])]
        assert each == [vocabulary.encode(text) for text in texts[:number]]


def test_a_setting_that_is_none_is_refused(wordpiece: Path) -> None:
    (wordpiece / "tokenizer_config.json").write_text('{"strip_accents": "yes"}')
    with pytest.raises(UserError, match="strip_accents beside .*vocab.txt is 'yes'; make it true, false or null"):
        open_vocabulary(wordpiece)


def test_a_folder_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no vocabulary; put its spiece.model"):
        open_vocabulary(tmp_path)


def test_a_run_s_folder_is_told_from_its_model_s(spiece: Path, tmp_path: Path) -> None:
    shutil.copytree(spiece, tmp_path / "run" / "model")
    with pytest.raises(UserError, match="run has no vocabulary; name .*run/model"):
        open_vocabulary(tmp_path / "run")


def test_a_path_that_is_no_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="nowhere does not exist; name a folder with a vocabulary, such as a model's, or its file"
    ):
        open_vocabulary(tmp_path / "nowhere")
    (tmp_path / "words.csv").write_text("a")
    with pytest.raises(UserError, match="words.csv is no vocabulary; name a .model, a .json, a .txt file, or a folder"):
        open_vocabulary(tmp_path / "words.csv")


def test_a_file_alone_is_opened_by_the_end_of_its_name_and_copied_under_hugging_faces(
    spiece: Path, wordpiece: Path, tmp_path: Path
) -> None:
    shutil.copy(spiece / "spiece.model", tmp_path / "30k-clean.model")
    shutil.move(wordpiece / "vocab.txt", tmp_path / "chinese-vocab.txt")
    open_vocabulary(tmp_path / "chinese-vocab.txt").engine.tokenizer.save(str(tmp_path / "other.json"))
    for name, size, copied in (
        ("30k-clean.model", 62, "spiece.model"),
        ("chinese-vocab.txt", 13, "vocab.txt"),
        ("other.json", 13, "tokenizer.json"),
    ):
        vocabulary = open_vocabulary(tmp_path / name)
        assert vocabulary.size == size
        (tmp_path / copied[:4]).mkdir()
        assert copy_vocabulary(tmp_path / name, tmp_path / copied[:4]) == [copied]
        assert open_vocabulary(tmp_path / copied[:4]).fingerprint == vocabulary.fingerprint


def test_xlnets_model_is_known_by_its_marks_and_keeps_case(tmp_path: Path) -> None:
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(['The "quick" Fox'] * 50),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=30,
        control_symbols=["<cls>", "<sep>", "<pad>", "<mask>"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    vocabulary = open_vocabulary(tmp_path)
    assert vocabulary.piece(vocabulary.special.cls) == "<cls>" and vocabulary.special.unknown == 0
    assert vocabulary.encode("Thé ``quick'' Fox") == vocabulary.encode('The "quick" Fox')
    assert vocabulary.encode("The Fox") != vocabulary.encode("the fox")


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer.json as RoBERTa's."""
    folder = tmp_path_factory.mktemp("bytes")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=330,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([TEXT] * 20, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(params=["spiece", "wordpiece", "byte_level", "ours"])
def kind(request: pytest.FixtureRequest, make_folder: Callable[..., Path]) -> Vocabulary:
    """A vocabulary of each kind."""
    return open_vocabulary(make_folder() if request.param == "ours" else request.getfixturevalue(request.param))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(texts=st.lists(st.text() | st.sampled_from([TEXT, "In 1984, a", "[MASK] [CLS]", "", " ", "\ud800x", "中文"])))
def test_many_texts_are_encoded_as_each_alone(kind: Vocabulary, texts: list[str]) -> None:
    tokens, counts = kind.encode_many(texts)
    assert tokens.dtype == np.uint16 and counts.dtype == np.int64 and counts.sum() == len(tokens)
    rows = np.split(tokens, counts.cumsum()[:-1]) if texts else []
    for text, row in zip(texts, rows, strict=True):
        assert row.tolist() == kind.encode_spans(text).ids == kind.engine.encode(text)


def test_marks_in_many_texts_are_plain_characters(kind: Vocabulary) -> None:
    tokens, _ = kind.encode_many(["the [MASK] of [SEP] <mask> </s> [PAD]"])
    assert not kind.is_special[tokens[tokens != kind.special.unknown]].any()


def test_a_large_vocabulary_needs_larger_numbers(tmp_path: Path) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(66_000))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    vocabulary = open_vocabulary(tmp_path)
    tokens, counts = vocabulary.encode_many(["w65999 w0"])
    assert tokens.dtype == np.uint32 and tokens.tolist() == [66_004, 5] and counts.tolist() == [2]
    assert vocabulary.encode_many([])[0].dtype == np.uint32


def test_tokens_begin_at_their_first_visible_character(spiece: Path, wordpiece: Path, byte_level: Path) -> None:
    for folder, text in ((spiece, "  the quick  fox"), (byte_level, " the quick fox")):
        vocabulary = open_vocabulary(folder)
        ids, begins, _ = vocabulary.encode_spans(text)
        starts = {text[begin] for begin, index in zip(begins, ids, strict=True) if vocabulary.starts_word[index]}
        assert starts == {"t", "q", "f"}
    text = "is 中中 France"
    _, begins, _ = open_vocabulary(wordpiece).encode_spans(text)
    assert [text[begin:] for begin in begins] == ["is 中中 France", "中中 France", "中 France", "France", "ance"]


@pytest.mark.parametrize(
    ("piece", "starts"),
    [
        *[(piece, True) for piece in ("▁the", "▁", "9", ",", "'", "€", "中", "の", "ไ", "[MASK]")],
        *[(piece, False) for piece in ("the", "é", "д", "한", "\u0301")],
    ],
)
def test_a_sentence_piece_starts_a_word_or_goes_on(tmp_path: Path, piece: str, starts: bool) -> None:
    pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "▁"]
    pieces += [piece] if piece not in pieces else []
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram([(name, 0.0) for name in pieces], unk_id=1))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = open_vocabulary(tmp_path)
    assert vocabulary.starts_word[pieces.index(piece)] == starts


def test_word_pieces_and_byte_pieces_say_by_their_marks_where_words_start(wordpiece: Path, byte_level: Path) -> None:
    words = open_vocabulary(wordpiece)
    assert words.starts_word.tolist() == [not piece.startswith("##") for piece in words.pieces]
    pieces = open_vocabulary(byte_level)
    for text, starts in ((" quick", [True]), ("x", None), (" years.", None)):
        ids = pieces.engine.encode(text)
        flags = pieces.starts_word[ids].tolist()
        assert flags[0] and (starts is None or flags[: len(starts)] == starts)
    assert not pieces.starts_word[pieces.ids["x"]] and pieces.starts_word[pieces.ids["."]]


def test_special_pieces_are_those_that_no_text_gives(spiece: Path, byte_level: Path, tmp_path: Path) -> None:
    assert np.flatnonzero(open_vocabulary(spiece).is_special).tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(open_vocabulary(byte_level).is_special).tolist() == [0, 1, 2, 3, 4]
    (tmp_path / "vocab.txt").write_text("[PAD]\n[unused1]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nunused\n[")
    assert np.flatnonzero(open_vocabulary(tmp_path).is_special).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_fingerprint_is_of_the_file_and_the_preparation(spiece: Path, tmp_path: Path) -> None:
    shutil.copy(spiece / "spiece.model", tmp_path)
    assert open_vocabulary(tmp_path).fingerprint == open_vocabulary(spiece).fingerprint
    seen = {open_vocabulary(spiece).fingerprint}
    for content in ({"do_lower_case": False}, {"litebert": {"normalization": "albert", "cased": False}}):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(content))
        seen.add(open_vocabulary(tmp_path).fingerprint)
    assert len(seen) == 3 and all(len(fingerprint) == 64 for fingerprint in seen)


def test_a_vocabulary_is_opened_without_torch_or_transformers(spiece: Path) -> None:
    program = (
        "import sys; from litebert.text.vocabulary import open_vocabulary; "
        f"open_vocabulary({str(spiece)!r}).encode_many(['a']); "
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [("bert-base-uncased-vocab.txt", "wiki_en.txt.gz"), ("albert-zh-bert-vocab.txt", "wiki_zh.txt.gz")],
)
@pytest.mark.parametrize("lower_case", [True, False])
def test_real_wordpiece_vocabularies_give_transformers_ids(
    data: Path, tmp_path: Path, real_lines: Callable[[str, int], list[str]], name: str, text: str, lower_case: bool
) -> None:
    shutil.copy(data / "vocab" / name, tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower_case}))
    vocabulary = open_vocabulary(tmp_path)
    peer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=lower_case)
    lines = real_lines(text, 2000)
    tokens, counts = vocabulary.encode_many(lines)
    theirs = peer(lines, add_special_tokens=False).input_ids
    assert counts.tolist() == [len(ids) for ids in theirs]
    assert tokens.tolist() == list(itertools.chain.from_iterable(theirs))


@pytest.mark.parametrize(
    ("name", "peer_class"),
    [
        ("albert-en-30k-clean.model", transformers.AlbertTokenizer),
        ("xlnet-en-spiece.model", transformers.XLNetTokenizer),
    ],
)
@pytest.mark.parametrize("text", ["wiki_en.txt.gz", "novels_en.txt.gz", "wiki_zh.txt.gz"])
def test_googles_models_give_transformers_ids(
    data: Path,
    real_lines: Callable[[str, int], list[str]],
    is_tie: Callable[[Vocabulary, str, list[int], list[int]], bool],
    name: str,
    peer_class: type[transformers.PreTrainedTokenizerFast],
    text: str,
) -> None:
    """As in the tokenizer.json of the hub's folders. From the SentencePiece file alone, transformers 5 splits text at
    brackets, hyphens and points, which is not how these models were trained."""
    vocabulary = open_vocabulary(data / "vocab" / name)
    peer = peer_class(**read_proto(data / "vocab" / name))
    lines = [line for line in real_lines(text, 3000) if "''" not in line]
    differing = 0
    for line, theirs in zip(lines, peer(lines, add_special_tokens=False).input_ids, strict=True):
        ours = vocabulary.engine.encode(line)
        if ours != theirs:
            differing += 1
            assert is_tie(vocabulary, line, ours, theirs), line
    assert differing <= 0.001 * len(lines)


def read_proto(file: Path) -> dict[str, object]:
    """The pieces and map of a SentencePiece model as transformers' converter for ALBERT gives them to its tokenizer."""
    model = sentencepiece_proto.ModelProto()
    model.ParseFromString(file.read_bytes())
    check = transformers.convert_slow_tokenizer.check_number_comma
    vocab = [(piece.piece, piece.score - (0 if check(piece.piece) else 100)) for piece in model.pieces]
    return {"vocab": vocab, "_spm_precompiled_charsmap": model.normalizer_spec.precompiled_charsmap}


def test_the_original_albert_vocabulary_opens(data: Path, real_lines: Callable[[str, int], list[str]]) -> None:
    vocabulary: Vocabulary = open_vocabulary(data / "vocab" / "albert-en-30k-clean.model")
    assert vocabulary.size == 30000 and vocabulary.special == (0, 1, 2, 3, 4)
    assert [vocabulary.piece(index) for index in range(5, 10)] == ["(", ")", '"', "-", "."]
    tokens, _ = vocabulary.encode_many(real_lines("wiki_en.txt.gz", 200))
    assert (tokens == 1).mean() < 0.01
