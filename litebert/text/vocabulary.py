"""Characters -> ids: opens the vocabulary that lies in a model folder, or a file of one.

A `spiece.model` that LiteBERT trained is opened as it is, ALBERT's and XLNet's with Google's preparation of the text;
`tokenizer.json` as it is; `vocab.txt` as BERT's WordPiece. `tokenizer_config.json` beside it says whose it is, and
whether text is lower-cased; if it does not, it is, but for XLNet.
"""

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.config import UserError, read_json, require
from litebert.files import write_file
from litebert.folders import VOCABULARY_FILES
from litebert.text.engines import Counts, Engine, SentencePieceEngine, TokenizersEngine
from litebert.text.normalize import normalize_albert, normalize_xlnet
from litebert.text.offsets import Spans
from litebert.text.spiece import change_scores, is_our_model, load_model
from litebert.text.word_table import Tokens

# Under which of these a file of another name is known, by the end of its name.
FILE_NAMES = {".model": "spiece.model", ".json": "tokenizer.json", ".txt": "vocab.txt"}
# The marks of a vocabulary, under the names they go by.
SPECIAL_NAMES = {
    "pad": ("[PAD]", "<pad>"),
    "unknown": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}
# In tokenizer_config.json, what LiteBERT says of a vocabulary that it trained, and of a tokenizer.json that it made.
OUR_KEY = "litebert"
MADE_KEY = "litebert_made_from"
LEAST_USED, MOST_SPARE = 0.9, 127
"""The share of a model's rows that a vocabulary uses, or else how many it may leave over."""


class Special(NamedTuple):
    """The ids of the marks that every vocabulary has."""

    pad: int
    unknown: int
    cls: int
    sep: int
    mask: int


class Vocabulary:
    """Pieces and their ids. `fingerprint` tells two vocabularies apart that would give other ids for some text."""

    def __init__(self, engine: Engine, fingerprint: str) -> None:
        self.engine = engine
        self.fingerprint = fingerprint
        self.pieces = engine.pieces
        self.ids = {piece: index for index, piece in enumerate(self.pieces)}
        self.special = find_special(self.ids)
        marks = {"[CLS]": self.special.cls, "[SEP]": self.special.sep, "[MASK]": self.special.mask}
        self.marks = marks | {self.pieces[index]: index for index in marks.values()}
        self.mark_pattern = re.compile(f"({'|'.join(map(re.escape, self.marks))})")

    @property
    def size(self) -> int:
        return len(self.pieces)

    @functools.cached_property
    def is_special(self) -> NDArray[np.bool_]:
        """Whether each piece is a mark that never stands for text."""
        control = np.array([self.engine.is_control(index) for index in range(self.size)])
        control[list(self.special)] = True
        return control

    @functools.cached_property
    def starts_word(self) -> NDArray[np.bool_]:
        """Whether each piece begins a word, or a unit of its own such as a digit, a comma or a Chinese character."""
        return np.array([self.engine.starts_word(index) for index in range(self.size)]) | self.is_special

    def piece(self, index: int) -> str:
        return self.pieces[index] if index < self.size else f"<{index}>"

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without [CLS] and [SEP] around it. In it, [CLS], [SEP] and [MASK] are the vocabulary's
        marks, whatever it calls them, and so are its own names for them."""
        return [
            index
            for part in self.mark_pattern.split(text)
            if part.strip()
            for index in ([self.marks[part]] if part in self.marks else self.engine.encode(part))
        ]

    def encode_many(self, texts: Sequence[str]) -> tuple[Tokens, Counts]:
        """The ids of all texts end to end, and how many belong to each. Here [MASK] and its like are plain characters:
        what a corpus quotes must not become a mark."""
        return self.engine.encode_many(texts)

    def encode_each(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """The ids of each text, encoded together as by `encode_many`, which is many times faster than one by one."""
        tokens, counts = self.encode_many(texts)
        for begin, end in itertools.pairwise([0, *np.cumsum(counts).tolist()]):
            yield tokens[begin:end]

    def encode_spans(self, text: str) -> Spans:
        """The ids of a text as from `encode_many`, and which of its characters, as it was written, each stands for."""
        return self.engine.encode_spans(text)

    def decode(self, ids: list[int]) -> str:
        return self.engine.decode(ids)

    def look_up(self, text: str) -> list[int]:
        """The ids of pieces that are separated by spaces; a piece that the vocabulary does not have is refused."""
        known = self.ids | self.marks
        missing = [piece for piece in text.split() if piece not in known]
        require(not missing, f"the vocabulary of {self.size} has no piece {', '.join(map(repr, missing[:5]))}")
        return [known[piece] for piece in text.split()]

    def check_rows(self, num_rows: int, where: object) -> None:
        """Refuses a model with another number of pieces, but for some to make it round."""
        require(
            min(LEAST_USED * num_rows, num_rows - MOST_SPARE) <= self.size <= num_rows,
            f"{where} holds a vocabulary of {self.size} pieces and a model of {num_rows}; put the vocabulary there "
            "that the model was trained with",
        )

    def add_special(self, first: list[int], second: list[int] | None = None) -> list[int]:
        """[CLS] first [SEP], and second [SEP] after it if there is one."""
        ids = [self.special.cls, *first, self.special.sep]
        return ids if second is None else [*ids, *second, self.special.sep]


def open_vocabulary(path: str | Path) -> Vocabulary:
    """The vocabulary of a model folder, or of one file: spiece.model under any name, tokenizer.json or vocab.txt."""
    path = Path(path)
    require(path.exists(), f"{path} does not exist; name a folder with a vocabulary, such as a model's, or its file")
    file = find_file(path) if path.is_dir() else path
    if file is None:
        found = (path / "model").is_dir() and find_file(path / "model")
        advice = f"name {path / 'model'}" if found else "put its spiece.model, tokenizer.json or vocab.txt there"
        raise UserError(f"{path} has no vocabulary; {advice}")
    require(file.suffix in OPENERS, f"{path} is no vocabulary; name a {', a '.join(OPENERS)} file, or a folder")
    try:
        vocabulary = OPENERS[file.suffix](file, read_settings(file.parent))
    except UnicodeDecodeError:
        raise UserError(f"{file} has pieces that are no text, so it is damaged; copy it again") from None
    companion = file.with_name("tokenizer.json")
    if path.is_dir() and companion != file and companion.is_file():
        check_companion(companion, file, vocabulary.pieces)
    return vocabulary


def check_companion(companion: Path, file: Path, pieces: Sequence[str]) -> None:
    """Refuses the tokenizer.json of another vocabulary beside the file that decides here: transformers reads that one.

    It may have pieces that were added, and none for what no text has, such as a line of vocab.txt that comes again.
    """
    try:
        listed = read_json(companion)["model"]["vocab"]
        ids = {piece: index for index, (piece, _) in enumerate(listed)} if isinstance(listed, list) else dict(listed)
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{companion} is not a tokenizer; copy it again, or remove it") from None
    require(
        all(ids.get(piece) == index for index, piece in enumerate(pieces) if piece != f"<{index}>"),
        f"{companion} is of another vocabulary ({len(ids)} pieces) than {file.name} beside it ({len(pieces)}); copy "
        "the right one there, or remove it",
    )


def find_file(folder: Path) -> Path | None:
    """The file that decides a folder's ids. Whoever wrote both a spiece.model and a tokenizer.json made the second
    from the first; of a .model with another name, as some hub folders have, the tokenizer.json says how to use it."""
    source = "vocab.txt" if read_settings(folder).get(MADE_KEY) == "vocab.txt" else "spiece.model"
    named = (folder / name for name in (source, "tokenizer.json"))
    others = (find_sentencepiece(folder), folder / "vocab.txt")
    return next((file for file in (*named, *others) if file is not None and file.is_file()), None)


def read_settings(folder: Path) -> dict[str, Any]:
    file = folder / "tokenizer_config.json"
    return read_json(file) if file.is_file() else {}


def find_sentencepiece(folder: Path) -> Path | None:
    """`spiece.model`, or the only .model of one of Google's archives, whose modules have it in `assets`."""
    if (folder / "spiece.model").is_file():
        return folder / "spiece.model"
    assets = folder.parent / "assets" if folder.name == "variables" else folder / "assets"
    found = [*folder.glob("*.model"), *assets.glob("*.model")]
    return found[0] if len(found) == 1 else None


def list_vocabulary(source: Path) -> dict[str, Path]:
    """The files of a folder's vocabulary, or of one in a file, by the names that Hugging Face looks for."""
    if source.is_file():
        settings = source.with_name("tokenizer_config.json")
        files = {FILE_NAMES.get(source.suffix, source.name): source, settings.name: settings}
    else:
        files = {name: source / name for name in VOCABULARY_FILES}
        if (deciding := find_file(source)) is not None and deciding.suffix == ".model":
            files["spiece.model"] = deciding
    return {name: file for name, file in sorted(files.items()) if file.is_file()}


def copy_vocabulary(source: Path, target: Path) -> list[str]:
    """Copies the vocabulary of a folder, or one in a file, under the names that Hugging Face looks for; says which."""
    files = list_vocabulary(source)
    for name, file in files.items():
        if file.resolve() != (target / name).resolve():
            write_file(target / name, file.read_bytes())
    return list(files)


def find_special(ids: dict[str, int]) -> Special:
    """The ids of the marks, by the first of their names that the vocabulary has."""
    found = {mark: next((ids[name] for name in names if name in ids), None) for mark, names in SPECIAL_NAMES.items()}
    missing = [" or ".join(SPECIAL_NAMES[mark]) for mark, index in found.items() if index is None]
    require(not missing, f"the vocabulary of {len(ids)} pieces has no {', no '.join(missing)}")
    return Special(**{mark: index for mark, index in found.items() if index is not None})


def open_sentencepiece(file: Path, settings: dict[str, Any]) -> Vocabulary:
    """A model that LiteBERT trained holds its preparation; Google's for ALBERT and XLNet rely on their code's.

    Ours is known by the settings beside it, and by its scores where those are missing: it is not taken for Google's.
    """
    model = file.read_bytes()
    try:
        processor = load_model(model)
    except RuntimeError:
        raise UserError(f"{file} is not a SentencePiece model, or is damaged; copy it again") from None
    require(
        OUR_KEY in settings or not is_our_model(processor),
        f"{file} was trained by litebert vocab, and says how only with the tokenizer_config.json that was written with "
        "it; copy that beside it",
    )
    if OUR_KEY in settings:
        return Vocabulary(SentencePieceEngine(processor), fingerprint(file, OUR_KEY))
    is_xlnet = processor.PieceToId("<cls>") != processor.unk_id()
    lower_case = bool(settings.get("do_lower_case", not is_xlnet))
    prepare = functools.partial(normalize_xlnet if is_xlnet else normalize_albert, lower_case=lower_case)
    processor = load_model(change_scores(model, avoid_comma))
    return Vocabulary(SentencePieceEngine(processor, prepare), fingerprint(file, prepare.func.__name__, lower_case))


def avoid_comma(piece: str, score: float) -> float:
    """Lowers the score of a piece such as "1984," so that the comma is a piece of its own.

    Google's code takes it off afterwards; transformers lowers the scores by 100, and so do we.
    """
    return score - 100 if re.search(r"\d,$", piece) else score


def open_tokenizer_json(file: Path, settings: dict[str, Any]) -> Vocabulary:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing narrower
        raise UserError(f"{file} is not a tokenizer ({error}); copy it again") from None
    return Vocabulary(TokenizersEngine(tokenizer), fingerprint(file))


def open_wordpiece(file: Path, settings: dict[str, Any]) -> Vocabulary:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    ids = {piece: index for index, piece in enumerate(read_pieces(file))}
    unknown = next((name for name in SPECIAL_NAMES["unknown"] if name in ids), None)
    require(unknown, f"{file} has no [UNK] among its {len(ids)} pieces; it is no WordPiece vocabulary")
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=str(unknown)))
    preparation: dict[str, Any] = {
        "lowercase": bool(settings.get("do_lower_case", True)),
        "strip_accents": settings.get("strip_accents"),
        "handle_chinese_chars": bool(settings.get("tokenize_chinese_chars", True)),
    }
    require(
        preparation["strip_accents"] in (True, False, None),
        f"strip_accents beside {file} is {preparation['strip_accents']!r}; make it true, false or null",
    )
    tokenizer.normalizer = normalizers.BertNormalizer(**preparation)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return Vocabulary(TokenizersEngine(tokenizer), fingerprint(file, "bert", *preparation.values()))


def read_pieces(file: Path) -> list[str]:
    try:
        # A piece may be a line separator of Unicode's, which str.splitlines would take for a line's end.
        return re.split(r"\r?\n", file.read_text(encoding="utf-8").rstrip("\r\n"))
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 text ({error.reason} at byte {error.start}); copy it again") from None


def fingerprint(file: Path, *preparation: object) -> str:
    """A hash of all that decides the ids: the file, and how text is prepared for it."""
    return hashlib.sha256(json.dumps(preparation).encode() + file.read_bytes()).hexdigest()


# How a file is opened, by the end of its name.
OPENERS = {".model": open_sentencepiece, ".json": open_tokenizer_json, ".txt": open_wordpiece}
