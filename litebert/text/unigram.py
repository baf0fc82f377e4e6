"""Text -> a SentencePiece unigram vocabulary with ALBERT's first ids.

The corpus may be of any size: a sample of its lines is kept, drawn evenly while it is read once. The same text, config
and version of SentencePiece give the same vocabulary, byte for byte.
"""

import hashlib
import io
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from litebert.config import UserError, check_seed, require
from litebert.text.normalize import NORMALIZATIONS, character_map
from litebert.text.spiece import SCORE_UNIT, change_scores, load_model

SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
"""ALBERT's, with its ids."""
ALWAYS_KNOWN = '()"-.–£€0123456789'
"""Pieces, however rare in the text: the signs that ALBERT's vocabulary makes sure of, and digits."""
# SentencePiece leaves out lines of more than 4,192 bytes; a character has at most four.
LONGEST_LINE = 1000
# normalizer_spec { normalization_rule_tsv: "" }
EMPTY_RULES_NAME = b"\x1a\x02\x32\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyConfig:
    """What decides a vocabulary, beside its text."""

    size: int = 30_000
    normalization: str = "albert"
    cased: bool | None = None
    """Whether case is kept; None for as the normalisation's own models do."""
    character_coverage: float = 0.99995
    """The share of the sample's characters that become pieces; the rarest others are unknown. ALBERT's."""
    num_lines: int = 1_000_000
    """The largest number of lines to learn from."""
    seed: int = 0
    num_threads: int = 16
    """Sums depend on it, so it is not the number of cores of the machine at hand."""

    def __post_init__(self) -> None:
        known = ", ".join(NORMALIZATIONS)
        require(self.normalization in NORMALIZATIONS, f"normalization is {self.normalization!r}; choose from {known}")
        require(self.size > len(SPECIAL_PIECES), f"size is {self.size}; five pieces are marks, so it must be above 5")
        require(self.size < 1 << 31, f"size is {self.size}; no vocabulary has 2^31 pieces")
        require(
            0.98 <= self.character_coverage <= 1.0,
            f"character_coverage is {self.character_coverage}; it must be between 0.98 and 1",
        )
        check_seed(self.seed)
        require(self.num_lines > 0, f"num_lines is {self.num_lines}; it must be at least 1")
        require(1 <= self.num_threads <= 1024, f"num_threads is {self.num_threads}; it must be from 1 to 1024")

    @property
    def keeps_case(self) -> bool:
        return NORMALIZATIONS[self.normalization].cased if self.cased is None else self.cased


class Sample(NamedTuple):
    """Different lines drawn from a corpus, each with the same chance, and how much there was to draw from.

    SentencePiece begins with all that comes again, also beyond the ends of lines: where the same lines do, over and
    over, it would search a few kilobytes for minutes. So a line counts once, however often it comes.
    """

    lines: list[str]
    num_lines: int
    num_bytes: int


def sample_lines(documents: Iterable[str], config: VocabularyConfig) -> Sample:
    """At most `config.num_lines` lines of a corpus, which is read once and may be larger than memory: those of the
    smallest hashes, which another seed makes others."""
    key = str(config.seed).encode()
    kept: dict[bytes, str] = {}
    highest, most = b"\xff" * 9, config.num_lines + max(config.num_lines // 8, 1000)
    num_lines = num_bytes = 0
    for line in (line for document in documents for line in cut_lines(document)):
        text = line.encode(errors="replace")
        num_lines += 1
        num_bytes += len(text)
        digest = hashlib.blake2b(text, digest_size=8, key=key).digest()
        if digest < highest:
            kept[digest] = line
        if len(kept) > most:
            kept = keep_smallest(kept, config.num_lines)
            highest = max(kept)
    return Sample(list(keep_smallest(kept, config.num_lines).values()), num_lines, num_bytes)


def keep_smallest(kept: dict[bytes, str], number: int) -> dict[bytes, str]:
    """In their order."""
    smallest = set(sorted(kept)[:number])
    return {digest: line for digest, line in kept.items() if digest in smallest}


def cut_lines(document: str) -> Iterator[str]:
    """The lines of a document that have text; a long one in parts, cut at a space where there is one."""
    # SentencePiece passes over a line that holds a zero, its own end of a string.
    for line in document.replace("\0", " ").split("\n"):
        start = 0
        while len(line) - start > LONGEST_LINE:
            space = line.rfind(" ", start + LONGEST_LINE // 2, start + LONGEST_LINE)
            end = space if space > 0 else start + LONGEST_LINE
            yield from filter(None, [line[start:end].strip()])
            start = end
        yield from filter(None, [line[start:].strip()])


def train_unigram(lines: list[str], config: VocabularyConfig) -> bytes:
    """A SentencePiece model, as the bytes of its file."""
    from sentencepiece import SentencePieceTrainer

    require(lines, "there is no text to learn a vocabulary from; name files that have some")
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = write_rules(character_map(config.normalization, cased=config.keeps_case), Path(folder, "rules.tsv"))
        train = partial(
            SentencePieceTrainer.Train,
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="unigram",
            vocab_size=config.size,
            character_coverage=config.character_coverage,
            required_chars=ALWAYS_KNOWN,
            normalization_rule_tsv=str(rules),
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIAL_PIECES[2:]),
            num_threads=config.num_threads,
            minloglevel=2,
        )
        try:
            run_interruptibly(train)
        except RuntimeError as error:
            raise explain(error, config) from None
    # The model names the file that its rules came from. A message of protobuf continued by another takes its values, so
    # this one's empty name makes two trainings equal; the rules themselves stay.
    return change_scores(bytes(load_model(model.getvalue() + EMPTY_RULES_NAME).serialized_model_proto()), round_score)


def run_interruptibly(work: Callable[[], object]) -> None:
    """Does work that is all in another language, and heeds no interrupt, beside a thread that does."""
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if failures:
        raise failures[0]


def round_score(piece: str, score: float) -> float:
    """To a multiple of 2^-10: sums are then exact in single precision, up to a thousand pieces and more.

    So two ways to cut a word that are equally good are equal everywhere, in SentencePiece and in tokenizers, in a word
    and in a sentence; else each would choose by its own rounding.
    """
    return round(score / SCORE_UNIT) * SCORE_UNIT


def write_rules(changes: Mapping[str, str], file: Path) -> Path:
    """A map of characters as SentencePiece reads it: code points in hexadecimal, before a tab and after it."""
    rows = ("\t".join(" ".join(f"{ord(part):X}" for part in side) for side in change) for change in changes.items())
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def explain(error: RuntimeError, config: VocabularyConfig) -> UserError:
    """What SentencePiece says of a size that its text cannot give, in a sentence."""
    message = str(error)
    if found := re.search(r"too high .* <= (\d+)", message):
        return UserError(f"size is {config.size}, and the text gives at most {found[1]} pieces; lower it or add text")
    if found := re.search(r"required_chars. \d+ vs (\d+)", message):
        return UserError(
            f"size is {config.size} and the text's characters alone need {found[1]}; raise it, or lower the share of "
            f"characters that become pieces, --coverage {config.character_coverage:g}: for Chinese to 0.9995"
        )
    if "seed_sentencepieces.empty()" in message:
        return UserError(f"normalization {config.normalization!r} leaves nothing of the text; look at what is in it")
    return UserError(f"SentencePiece learns nothing from this text ({message}); look at what is in it")
