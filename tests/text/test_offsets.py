import gzip
import io
import itertools
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.text.engines import Engine, SentencePieceEngine, TokenizersEngine
from litebert.text.normalize import normalize_albert, normalize_xlnet
from litebert.text.offsets import align_preparation, cut_aligned, cut_plain
from litebert.text.spiece import load_model
from litebert.text.vocabulary import open_vocabulary

SIGNS = "ﬁ①½ﷺ％ＡéÉ\u0301\u0327´''``\"ΣςİẞǅĲ한국"
SIGNS += "\u1112\u1161\u11ab中。\u200b\u00ad\ufe0f\u2581\u00a0\u3000\r\n\t  aBc1,.\ud800👍🏽"
WRITING = st.text(st.one_of(st.sampled_from(SIGNS), st.characters(max_codepoint=0x52F), st.characters()), max_size=30)
KINDS = ["ours", "ours like xlnet", "albert", "xlnet", "joined", "bytes", "wordpiece", "byte-level"]


@pytest.fixture(scope="session")
def engines(make_folder: Callable[..., Path], topics: list[str]) -> dict[str, Engine]:
    """Every kind of vocabulary: our normalisation, Google's, SentencePiece without words or with bytes, tokenizers."""
    ours, bare = make_folder(), load_model((make_folder("none") / "spiece.model").read_bytes())
    joined = SentencePieceEngine(bare, normalize_albert)
    joined.has_words = False
    return {
        "ours": open_vocabulary(ours).engine,
        "ours like xlnet": open_vocabulary(make_folder("xlnet")).engine,
        "albert": SentencePieceEngine(bare, normalize_albert),
        "xlnet": SentencePieceEngine(bare, normalize_xlnet),
        "joined": joined,
        "bytes": SentencePieceEngine(train_bytes(topics), normalize_albert),
        "wordpiece": make_wordpiece(topics),
        "byte-level": make_byte_level(topics),
    }


def train_bytes(topics: list[str]) -> sentencepiece.SentencePieceProcessor:
    """A model that cuts an unknown character into its bytes, as those of others do."""
    written = io.BytesIO()
    lines = [line[:200] for line in "\n".join(topics[:5]).split("\n")]
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(lines), model_writer=written, vocab_size=400, byte_fallback=True, minloglevel=2
    )
    return load_model(written.getvalue())


def make_wordpiece(topics: list[str]) -> TokenizersEngine:
    letters = sorted({c for text in topics[-5:] for c in unicodedata.normalize("NFD", text.lower()) if not c.isspace()})
    pieces = ["[UNK]", "the", "##ing", *letters, *(f"##{letter}" for letter in letters)]
    model = tokenizers.models.WordPiece({piece: index for index, piece in enumerate(pieces)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return TokenizersEngine(tokenizer)


def make_byte_level(topics: list[str]) -> TokenizersEngine:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(topics[:3], trainer)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return TokenizersEngine(tokenizer)


def normalize(engine: Engine, text: str) -> str:
    """What the engine itself makes of a text before it cuts it, without spaces; a final sigma is as any other."""
    if isinstance(engine, SentencePieceEngine):
        text = engine.processor.Normalize(engine.prepare(text) if engine.prepare else text)
    elif engine.tokenizer.normalizer:
        text = engine.tokenizer.normalizer.normalize_str(text)
    return "".join(text.replace("▁", " ").replace("ς", "σ").split())


@pytest.mark.parametrize("kind", KINDS)
def test_spans_are_in_order_and_leave_out_only_what_the_vocabulary_does(engines: dict[str, Engine], kind: str) -> None:
    engine = engines[kind]

    @settings(deadline=None, max_examples=100)
    @given(WRITING)
    def check(text: str) -> None:
        ids, begins, ends = engine.encode_spans(text)
        text = text.encode(errors="replace").decode()
        assert ids == engine.encode_many([text])[0].tolist()
        assert list(begins) == sorted(begins) and list(ends) == sorted(ends)
        assert all(0 <= begin <= end <= len(text) for begin, end in zip(begins, ends, strict=True))
        covered = set(itertools.chain.from_iterable(map(range, begins, ends)))
        assert not [c for place, c in enumerate(text) if place not in covered and normalize(engine, c)]
        slices = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        assert all(part == part.strip() for part in slices)

    check()


@pytest.mark.parametrize("kind", ["ours", "ours like xlnet"])
def test_the_short_way_ends_where_the_long_one_does(engines: dict[str, Engine], kind: str) -> None:
    engine = engines[kind]
    assert isinstance(engine, SentencePieceEngine) and engine.has_plain_offsets
    processor = engine.processor
    assert cut_plain("Quick中", processor) and cut_plain("ﬁ", processor) is None

    @settings(deadline=None, max_examples=300)
    @given(WRITING)
    def check(text: str) -> None:
        text = text.encode(errors="replace").decode()
        assert cut_plain(text, processor) in (None, cut_aligned(text, processor, None))

    check()


def test_the_short_way_is_not_for_bytes_and_preparations(engines: dict[str, Engine]) -> None:
    for kind in ("albert", "bytes"):
        assert not engines[kind].has_plain_offsets  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["ours", "ours like xlnet", "albert", "xlnet", "joined", "wordpiece"])
def test_a_piece_is_the_normal_form_of_its_characters(engines: dict[str, Engine], kind: str) -> None:
    engine = engines[kind]

    @settings(deadline=None, max_examples=100)
    @given(WRITING)
    def check(text: str) -> None:
        text = text.encode(errors="replace").decode()
        ids, begins, ends = engine.encode_spans(text)
        for number, (index, begin, end) in enumerate(zip(ids, begins, ends, strict=True)):
            piece = engine.pieces[index]
            if not engine.is_control(index) and piece != "[UNK]":
                piece = piece.removeprefix("##").strip("▁").replace("ς", "σ")
                shared = begin < max(ends[:number], default=0) or end > min(begins[number + 1 :], default=end)
                form = normalize(engine, text[begin:end])
                assert piece in form if shared else piece == form

    check()


@pytest.mark.parametrize("prepare", [normalize_albert, normalize_xlnet])
def test_googles_preparation_is_followed_for_any_text(prepare: Callable[[str], str]) -> None:
    for start in range(0, 0x20000, 500):
        align_preparation(" a".join(map(chr, range(start, start + 500))), prepare)

    @settings(deadline=None)
    @given(WRITING)
    def check(text: str) -> None:
        prepared, spans = align_preparation(text, prepare)
        assert len(prepared) == len(spans)
        for character, (begin, end) in zip(prepared, spans, strict=True):
            assert character.isspace() or character.replace("ς", "σ") in prepare(text[begin:end]).replace("ς", "σ")

    check()


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("ours", "½", ["½", "½", "½"]),
        ("ours", "x  e\u0301\u200b ", ["x", "e\u0301"]),
        ("xlnet", "``x''", ["``", "x", "''"]),
        ("albert", "x \n\t Ｘ", ["x", "Ｘ"]),
        ("bytes", "x €", ["x", "€", "€", "€"]),
        ("byte-level", "x €", ["x", "€", "€", "€"]),
        ("wordpiece", "x\u00ad\u0301 Ｘ", ["x", "Ｘ"]),
    ],
)
def test_a_span_is_what_was_written(engines: dict[str, Engine], kind: str, text: str, expected: list[str]) -> None:
    spans = engines[kind].encode_spans(text)
    assert [text[b:e] for b, e in zip(spans.begins, spans.ends, strict=True) if b < e] == expected


def test_sentencepiece_and_tokenizers_agree_on_the_spans_of_one_vocabulary(
    make_folder: Callable[..., Path], topics: list[str]
) -> None:
    folder = make_folder()
    ours = open_vocabulary(folder).engine
    peer = TokenizersEngine(tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")))
    lines = [line for text in [*topics[:5], *topics[-5:]] for line in text.split("\n") if line.strip()]
    assert len(lines) > 100
    differ = 0
    for line in lines:
        one, two = ours.encode_spans(line), peer.encode_spans(line)
        differ += one.ids != two.ids
        if one.ids == two.ids:
            assert one == two
    assert differ < 0.02 * len(lines)  # equally good ways to cut a word


@pytest.mark.parametrize("name", ["albert-en-30k-clean.model", "xlnet-en-spiece.model", "bert-base-uncased-vocab.txt"])
def test_spans_on_real_paragraphs_have_the_ids_that_a_model_is_trained_with(data: Path, name: str) -> None:
    vocabulary = open_vocabulary(data / "vocab" / name)
    with gzip.open(data / "squad" / "dev-v1.1.json.gz") as file:
        articles = json.load(file)["data"]
    texts = [paragraph["context"] for article in articles[::4] for paragraph in article["paragraphs"]]
    tokens, counts = vocabulary.encode_many(texts)
    found = [vocabulary.encode_spans(text) for text in texts]
    assert [len(spans.ids) for spans in found] == counts.tolist()
    assert list(itertools.chain.from_iterable(spans.ids for spans in found)) == tokens.tolist()
    for text, (_, begins, ends) in zip(texts, found, strict=True):
        covered = set(itertools.chain.from_iterable(map(range, begins, ends)))
        missing = {c for place, c in enumerate(text) if place not in covered and not c.isspace()}
        assert {unicodedata.category(c) for c in missing} <= {"Mn", "Cf", "Cc", "Lm", "Sk"}
