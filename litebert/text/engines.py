"""Two engines that turn text into ids, SentencePiece and tokenizers, with the same methods.

Either takes [MASK] and its like in a text for plain characters: what a corpus quotes is not a command.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from litebert.text.joined import JoinedEncoder, join_lines
from litebert.text.normalize import WORD_START
from litebert.text.offsets import BLANK, Piece, Spans, cut_aligned, cut_plain, join_spans, strip_span
from litebert.text.word_table import LONGEST_WORD, Tokens, WordTable

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer

RESERVED = re.compile(r"\[unused\d+\]")  # rows that BERT's vocabularies keep free
# Scripts whose words are not set apart by spaces, as Unicode's names of their letters begin.
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
MOST_KNOWN_SPANS = 1 << 17
"""How many words are kept with the spans of their pieces before all are forgotten."""

LONG_WORD = 16
"""Characters between spaces, on average, from which a text counts as one of a script without them."""
TEXTS_PER_CALL = 4096
"""Texts whose encodings, which have much beside the ids, tokenizers holds at a time."""
WORDS_PER_CALL = 2000
"""Words whose rows of ids are held at a time: the memory of many is given back, and has to be asked for again."""

Counts = NDArray[np.int64]


class Engine(Protocol):
    """What a vocabulary needs of an engine."""

    pieces: list[str]
    continuation: str | None
    """What marks a piece that goes on with a word, where that is marked and not where words begin."""

    def encode(self, text: str) -> list[int]: ...

    def encode_many(self, texts: Sequence[str]) -> tuple[Tokens, Counts]:
        """The ids of all texts, end to end, and how many belong to each."""

    def encode_spans(self, text: str) -> Spans:
        """The ids of `encode_many`, and the characters of the text, as it was written, that each stands for."""

    def decode(self, ids: list[int]) -> str: ...

    def starts_word(self, index: int) -> bool: ...

    def is_control(self, index: int) -> bool:
        """Whether a piece never stands for text."""


class SentencePieceEngine:
    """A SentencePiece model, and the preparation in Python that those of others rely on.

    No piece goes beyond a word, so the pieces of a text are those of its words one after the other, and each word need
    be prepared and cut only once. SentencePiece adds up whole sentences in single precision: where two ways to cut a
    word are equally good but for its rounding, it may choose the other.
    """

    def __init__(self, processor: "SentencePieceProcessor", prepare: Callable[[str], str] | None = None) -> None:
        self.processor = processor
        self.prepare = prepare
        self.continuation: str | None = None
        self.pieces: list[str] = processor.IdToPiece(list(range(processor.GetPieceSize())))
        self.has_words = has_words(processor, self.pieces)
        self.known_spans: dict[str, list[Piece]] = {}

    @functools.cached_property
    def has_plain_offsets(self) -> bool:
        """Whether each character is of one piece; a vocabulary with bytes may cut one into several."""
        return not self.prepare and not any(map(self.processor.IsByte, range(len(self.pieces))))

    @functools.cached_property
    def words(self) -> WordTable:
        return WordTable(self.encode_bytes, token_type(len(self.pieces)))

    @functools.cached_property
    def joined(self) -> JoinedEncoder:
        return JoinedEncoder(self.processor, self.pieces)

    def encode(self, text: str) -> list[int]:
        return self.encode_many([text])[0].tolist()

    def encode_many(self, texts: Sequence[str]) -> tuple[Tokens, Counts]:
        if not self.has_words or not texts:
            return join(self.encode_bytes([text.encode(errors="replace") for text in texts]), len(self.pieces))
        lines = "\n".join(texts)
        if lines.count("\n") >= len(texts):  # a line end within a text is a space to any preparation
            texts = [text.replace("\n", " ") for text in texts]
            lines = "\n".join(texts)
        if len(lines) > LONG_WORD * (lines.count(" ") + len(texts)):
            return self.encode_unspaced(lines)
        return self.words.encode_lines(lines.encode(errors="replace"))

    def encode_unspaced(self, lines: str) -> tuple[Tokens, Counts]:
        """As the table of words would, for words too long to come again, such as Chinese sentences."""
        if self.prepare or not self.joined.is_exact:
            return self.encode_apart(lines)
        joined = join_lines(lines)
        weights = self.joined.weigh(joined)
        encoded = self.joined.encode(joined, weights, token_type(len(self.pieces)))
        if encoded is None:
            return self.encode_apart(lines)
        fits = weights <= self.joined.most
        if fits.all():
            return encoded
        # Each id is put where its sentence is.
        tokens_of_most, counts = encoded
        tokens_of_others, counts[~fits] = self.encode_apart("\n".join(compress(lines.split("\n"), ~fits)))
        is_of_most = np.repeat(fits, counts)
        tokens = np.empty(len(is_of_most), tokens_of_most.dtype)
        tokens[is_of_most], tokens[~is_of_most] = tokens_of_most, tokens_of_others
        return tokens, counts

    def encode_apart(self, lines: str) -> tuple[Tokens, Counts]:
        """The same with a call for each word."""
        text = lines.encode(errors="replace")
        characters = np.frombuffer(text, np.uint8)
        word_ends = np.flatnonzero((characters == ord(" ")) | (characters == ord("\n")))
        first_words = np.concatenate([[0], np.flatnonzero(characters[word_ends] == ord("\n")) + 1])
        words = text.replace(b"\n", b" ").split(b" ")
        encoded = [
            join(self.encode_bytes(words[start : start + WORDS_PER_CALL]), len(self.pieces))
            for start in range(0, len(words), WORDS_PER_CALL)
        ]
        tokens, sizes = map(np.concatenate, zip(*encoded, strict=True))
        return tokens, np.add.reduceat(sizes, first_words)

    def encode_bytes(self, texts: list[bytes]) -> list[list[int]]:
        """A row of ids for each text; on one thread, since who wants more runs more processes."""
        if self.prepare:
            texts = [self.prepare(text.decode()).encode() for text in texts]
        return self.processor.encode(texts, num_threads=1)

    def encode_spans(self, text: str) -> Spans:
        """By words as in `encode_many`, so that both cut alike."""
        text = make_valid(text)
        words = text.replace("\n", " ").split(" ") if self.has_words else [text]
        found: list[Piece] = []
        place = 0
        for word in words:
            if word:
                cut = self.known_spans.get(word) or self.learn_spans(word)
                found += [(index, begin + place, end + place) for index, begin, end in cut]
            place += len(word) + 1
        return join_spans(text, found)

    def learn_spans(self, word: str) -> list[Piece]:
        if len(self.known_spans) >= MOST_KNOWN_SPANS:
            self.known_spans.clear()
        cut = cut_plain(word, self.processor) if self.has_plain_offsets else None
        if cut is None:
            cut = cut_aligned(word, self.processor, self.prepare)
        if len(word) <= LONGEST_WORD:
            self.known_spans[word] = cut
        return cut

    def decode(self, ids: list[int]) -> str:
        return str(self.processor.decode(ids))

    def starts_word(self, index: int) -> bool:
        return self.pieces[index].startswith(WORD_START) or starts_unit(self.pieces[index])

    def is_control(self, index: int) -> bool:
        processor = self.processor
        return bool(processor.IsControl(index) or processor.IsUnknown(index) or processor.IsUnused(index))


class TokenizersEngine:
    """A pipeline of the library tokenizers: WordPiece, or whatever a tokenizer.json describes."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        size = max(tokenizer.get_vocab().values(), default=-1) + 1
        self.pieces = [tokenizer.id_to_token(index) or f"<{index}>" for index in range(size)]
        self.added = tokenizer.get_added_tokens_decoder()
        self.continuation: str | None = getattr(tokenizer.model, "continuing_subword_prefix", None)
        self.is_bytes = "ByteLevel" in repr(tokenizer.pre_tokenizer)
        self.is_marked = any(piece.startswith(WORD_START) for piece in self.pieces)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(make_valid(text), add_special_tokens=False).ids)

    def encode_many(self, texts: Sequence[str]) -> tuple[Tokens, Counts]:
        starts = range(0, max(len(texts), 1), TEXTS_PER_CALL)
        parts = [self.encode_some(texts[start : start + TEXTS_PER_CALL]) for start in starts]
        tokens, counts = map(np.concatenate, zip(*parts, strict=True))
        return tokens, counts

    def encode_some(self, texts: Sequence[str]) -> tuple[Tokens, Counts]:
        found = self.tokenizer.encode_batch_fast([make_valid(text) for text in texts], add_special_tokens=False)
        return join([encoding.ids for encoding in found], len(self.pieces))

    def encode_spans(self, text: str) -> Spans:
        text = make_valid(text)
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        found = [
            # A space's mark alone is said to stand for the letter behind it.
            (index, *(strip_span(text, *span) if self.pieces[index] != WORD_START else BLANK))
            for index, span in zip(encoding.ids, encoding.offsets, strict=True)
        ]
        return join_spans(text, found)

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def starts_word(self, index: int) -> bool:
        """By the mark of the pipeline's kind; where words have no mark, each piece is one."""
        piece = self.pieces[index]
        if self.continuation:
            return not piece.startswith(self.continuation)
        if self.is_bytes:
            text = self.tokenizer.decoder.decode([piece])
            return text[:1].isspace() or starts_unit(text)
        return not self.is_marked or piece.startswith(WORD_START) or starts_unit(piece)

    def is_control(self, index: int) -> bool:
        added = self.added.get(index)
        return bool(RESERVED.fullmatch(self.pieces[index])) or (added is not None and added.special)


def has_words(processor: "SentencePieceProcessor", pieces: list[str]) -> bool:
    """Whether a model encodes a text as it does its words, which some trained for other purposes do not."""
    joined = any(WORD_START in piece[1:] for piece in pieces if piece.strip(WORD_START))
    return not joined and processor.encode("a  a a ") == 3 * processor.encode("a")


def token_type(size: int) -> "np.dtype[np.unsignedinteger[Any]]":
    """The smallest type for the ids of a vocabulary."""
    return np.dtype(np.uint16) if size <= 2**16 else np.dtype(np.uint32)


def join(rows: Sequence[Sequence[int]], size: int) -> tuple[Tokens, Counts]:
    """Rows of ids end to end, and their lengths."""
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), token_type(size), counts.sum()), counts


def starts_unit(piece: str) -> bool:
    """Whether a piece without a mark begins a word or is one: a digit, a punctuation mark or a symbol does; a letter
    goes on with the letter before it, unless their script has no spaces."""
    first = piece[:1]
    category = unicodedata.category(first) if first else "M"
    if category.startswith("L"):
        return unicodedata.name(first, "").startswith(UNSPACED)
    return not category.startswith("M") and first != "\ufffd"  # a letter that was lost


def make_valid(text: str) -> str:
    """A question mark stands for half of a surrogate pair, which UTF-8 does not have."""
    return text.encode(errors="replace").decode()
