"""Characters -> ids: opens the vocabulary that lies in a model folder.

`spiece.model` is opened as ALBERT's, with Google's preparation of the text; `tokenizer.json` as it is; `vocab.txt` as
BERT's WordPiece. `tokenizer_config.json` says whether text is lower-cased; it is, unless it says otherwise.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from litebert.config import UserError, read_json, require
from litebert.text.normalize import normalize_albert

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY_FILES = (
    "spiece.model",
    "tokenizer.json",
    "vocab.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
# The marks of a vocabulary, under the names they go by.
SPECIAL_NAMES = {
    "pad": ("[PAD]", "<pad>"),
    "unknown": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}
WORD_START = "▁"


class Special(NamedTuple):
    """The ids of the marks that every vocabulary has."""

    pad: int
    unknown: int
    cls: int
    sep: int
    mask: int


class Vocabulary:
    """Pieces and their ids. [CLS], [SEP] and [MASK] in a text are the vocabulary's marks, whatever it calls them."""

    def __init__(
        self,
        pieces: list[str],
        encode_plain: Callable[[str], list[int]],
        decode: Callable[[list[int]], str],
    ) -> None:
        self.pieces = pieces
        self.ids = {piece: index for index, piece in enumerate(pieces)}
        self.special = find_special(self.ids)
        self.encode_plain = encode_plain
        self.decode = decode
        self.marks = {"[CLS]": self.special.cls, "[SEP]": self.special.sep, "[MASK]": self.special.mask}

    @property
    def size(self) -> int:
        return len(self.pieces)

    def piece(self, index: int) -> str:
        return self.pieces[index] if index < self.size else f"<{index}>"

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without [CLS] and [SEP] around it."""
        parts = re.split(r"(\[CLS\]|\[SEP\]|\[MASK\])", text)
        return [
            index
            for part in parts
            if part.strip()
            for index in ([self.marks[part]] if part in self.marks else self.encode_plain(part))
        ]

    def look_up(self, text: str) -> list[int]:
        """The ids of pieces that are separated by spaces; a piece that the vocabulary does not have is refused."""
        known = self.ids | self.marks
        missing = [piece for piece in text.split() if piece not in known]
        require(not missing, f"the vocabulary of {self.size} has no piece {', '.join(map(repr, missing[:5]))}")
        return [known[piece] for piece in text.split()]

    def add_special(self, first: list[int], second: list[int] | None = None) -> list[int]:
        """[CLS] first [SEP], and second [SEP] after it if there is one."""
        ids = [self.special.cls, *first, self.special.sep]
        return ids if second is None else [*ids, *second, self.special.sep]


def open_vocabulary(folder: str | Path) -> Vocabulary:
    """The vocabulary of a model folder."""
    folder = Path(folder)
    settings = folder / "tokenizer_config.json"
    lower_case = bool((read_json(settings) if settings.is_file() else {}).get("do_lower_case", True))
    if (sentencepiece := find_sentencepiece(folder)) is not None:
        return open_sentencepiece(sentencepiece, lower_case)
    if (folder / "tokenizer.json").is_file():
        return open_tokenizer_json(folder / "tokenizer.json")
    if (folder / "vocab.txt").is_file():
        return open_wordpiece(folder / "vocab.txt", lower_case)
    raise UserError(f"{folder} has no vocabulary; put its spiece.model, tokenizer.json or vocab.txt there")


def find_sentencepiece(folder: Path) -> Path | None:
    """`spiece.model`, or the only .model of one of Google's archives, whose modules have it in `assets`."""
    if (folder / "spiece.model").is_file():
        return folder / "spiece.model"
    assets = folder.parent / "assets" if folder.name == "variables" else folder / "assets"
    found = [*folder.glob("*.model"), *assets.glob("*.model")]
    return found[0] if len(found) == 1 else None


def copy_vocabulary(source: Path, target: Path) -> list[str]:
    """Copies a folder's vocabulary files to another, under the names that Hugging Face looks for; says which."""
    files = {name: source / name for name in VOCABULARY_FILES if (source / name).is_file()}
    if (sentencepiece := find_sentencepiece(source)) is not None:
        files["spiece.model"] = sentencepiece
    for name, file in files.items():
        if file.resolve() != (target / name).resolve():
            shutil.copyfile(file, target / name)
    return sorted(files)


def find_special(ids: dict[str, int]) -> Special:
    """The ids of the marks, by the first of their names that the vocabulary has."""
    found = {mark: next((ids[name] for name in names if name in ids), None) for mark, names in SPECIAL_NAMES.items()}
    missing = [" or ".join(SPECIAL_NAMES[mark]) for mark, index in found.items() if index is None]
    require(not missing, f"the vocabulary of {len(ids)} pieces has no {', no '.join(missing)}")
    return Special(**{mark: index for mark, index in found.items() if index is not None})


def open_sentencepiece(file: Path, lower_case: bool) -> Vocabulary:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    try:
        processor.Load(str(file))
    except (OSError, RuntimeError):
        raise UserError(f"{file} is not a SentencePiece model, or is damaged; copy it again") from None

    def encode(text: str) -> list[int]:
        pieces = processor.EncodeAsPieces(normalize_albert(text, lower_case=lower_case))
        return processor.PieceToId([part for piece in pieces for part in split_comma(piece, processor.EncodeAsPieces)])

    return Vocabulary(processor.IdToPiece(list(range(processor.GetPieceSize()))), encode, processor.DecodeIds)


def split_comma(piece: str, encode: Callable[[str], list[str]]) -> list[str]:
    """Takes the comma off a number: ALBERT encodes "9,", which SentencePiece may have learned whole, as two pieces."""
    if not re.search(r"\d,$", piece):
        return [piece]
    first, *rest = encode(piece[:-1].replace(WORD_START, ""))
    if not piece.startswith(WORD_START):
        first = first.removeprefix(WORD_START)
    return [*([first] if first else []), *rest, ","]


def open_tokenizer_json(file: Path) -> Vocabulary:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing narrower
        raise UserError(f"{file} is not a tokenizer ({error}); copy it again") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return wrap_tokenizer(tokenizer)


def open_wordpiece(file: Path, lower_case: bool) -> Vocabulary:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    try:
        # A piece may be a line separator of Unicode's, which str.splitlines would take for a line's end.
        pieces = re.split(r"\r?\n", file.read_text(encoding="utf-8").rstrip("\r\n"))
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 text ({error.reason} at byte {error.start}); copy it again") from None
    ids = {piece: index for index, piece in enumerate(pieces)}
    unknown = next((name for name in SPECIAL_NAMES["unknown"] if name in ids), None)
    require(unknown, f"{file} has no [UNK] among its {len(ids)} pieces; it is no WordPiece vocabulary")
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=str(unknown)))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return wrap_tokenizer(tokenizer)


def wrap_tokenizer(tokenizer: "Tokenizer") -> Vocabulary:
    size = max(tokenizer.get_vocab().values(), default=-1) + 1
    return Vocabulary(
        [tokenizer.id_to_token(index) or f"<{index}>" for index in range(size)],
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
    )
