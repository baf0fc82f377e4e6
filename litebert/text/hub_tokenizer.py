"""A vocabulary as a folder that Hugging Face opens: spiece.model or vocab.txt, tokenizer.json, tokenizer_config.json.

transformers would rebuild ALBERT's pipeline from spiece.model alone, with its own cleaning, and takes an ALBERT's
vocab.txt for nothing. tokenizer.json describes ours instead: the same scores, and the same map of characters, byte for
byte, as in the SentencePiece model.
"""

import itertools
import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litebert.config import require
from litebert.files import explain, write_file
from litebert.folders import VOCABULARY_FILES, require_place
from litebert.text.engines import Engine, SentencePieceEngine, TokenizersEngine
from litebert.text.normalize import NORMALIZATIONS, WORD_START, normalize_albert
from litebert.text.spiece import load_model, read_character_map
from litebert.text.unigram import SPECIAL_PIECES, VocabularyConfig
from litebert.text.vocabulary import (
    FILE_NAMES,
    MADE_KEY,
    OUR_KEY,
    copy_vocabulary,
    find_file,
    open_vocabulary,
    read_settings,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.normalizers import Normalizer


def require_free(folder: Path, overwrite: bool) -> None:
    """Refuses a folder that has a vocabulary, unless it is to be overwritten."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    with explain(folder, "written"):
        if not existing.is_dir():
            raise NotADirectoryError
        if not os.access(existing, os.W_OK):
            raise PermissionError
    require_place(folder, "--out", "vocabulary")
    found = [name for name in VOCABULARY_FILES if (folder / name).exists()]
    require(
        overwrite or not found,
        f"{folder} has a vocabulary already ({', '.join(found)}); choose another folder, or use --overwrite",
    )


def write_vocabulary(model: bytes, config: VocabularyConfig, folder: Path) -> None:
    """Writes each file whole or not at all, and leaves none of another vocabulary beside them."""
    files = {
        "spiece.model": model,
        "tokenizer.json": make_tokenizer(model, list_normalizers(model, config)).to_str(pretty=True).encode(),
        "tokenizer_config.json": encode_settings(
            describe(SPECIAL_PIECES)
            | {
                "do_lower_case": not config.keeps_case,
                OUR_KEY: {"normalization": config.normalization, "cased": config.keeps_case},
            }
        ),
    }
    for name, content in files.items():
        write_file(folder / name, content)
    for name in set(VOCABULARY_FILES) - set(files):
        (folder / name).unlink(missing_ok=True)


def copy_for_hub(source: Path, target: Path) -> list[str]:
    """Copies a vocabulary to a model's folder, and says under which names.

    One of Google's, or a vocab.txt, which come alone, is given a tokenizer.json, so that transformers has our ids.
    """
    names = copy_vocabulary(source, target)
    deciding = source if source.is_file() else find_file(source)
    if deciding is None or "tokenizer.json" in names:
        return names
    vocabulary = open_vocabulary(source)  # the target may have been given a tokenizer.json before
    special = [vocabulary.pieces[index] for index in vocabulary.special]
    tokenizer = describe_pipeline(vocabulary.engine, special)
    if tokenizer is None:
        return names
    settings = read_settings(target) | describe(special) | {MADE_KEY: FILE_NAMES[deciding.suffix]}
    # The settings first: they say that the other file still decides.
    write_file(target / "tokenizer_config.json", encode_settings(settings))
    write_file(target / "tokenizer.json", tokenizer.to_str(pretty=True).encode())
    return sorted({*names, "tokenizer.json", "tokenizer_config.json"})


def describe_pipeline(engine: Engine, special: Sequence[str]) -> "Tokenizer | None":
    """What an engine does, for the library tokenizers; nothing for XLNet's, whose marks stand elsewhere."""
    from tokenizers import Tokenizer

    if isinstance(engine, TokenizersEngine):
        return add_marks(Tokenizer.from_str(engine.tokenizer.to_str()), special)
    assert isinstance(engine, SentencePieceEngine)
    prepare: Any = engine.prepare
    if prepare is None or prepare.func is not normalize_albert:
        return None
    model = bytes(engine.processor.serialized_model_proto())
    return make_tokenizer(model, list_google_normalizers(model, lower_case=prepare.keywords["lower_case"]))


def encode_settings(settings: dict[str, Any]) -> bytes:
    return json.dumps(settings, indent=2).encode() + b"\n"


def describe(special: Iterable[str]) -> dict[str, Any]:
    """What transformers needs beside tokenizer.json. Unless the inputs are named, it leaves out the segments."""
    pad, unknown, cls, sep, mask = special
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "pad_token": pad,
        "unk_token": unknown,
        "cls_token": cls,
        "sep_token": sep,
        "mask_token": mask,
        "clean_up_tokenization_spaces": False,
    }


def make_tokenizer(model: bytes, preparation: "Iterable[Normalizer]") -> "Tokenizer":
    """The pipeline of a SentencePiece model with ALBERT's marks, for the library tokenizers."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    processor = load_model(model)
    scores = [(processor.IdToPiece(index), processor.GetScore(index)) for index in range(processor.GetPieceSize())]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=processor.unk_id()))
    tokenizer.normalizer = normalizers.Sequence(list(preparation))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(WORD_START, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(WORD_START, prepend_scheme="always")
    return add_marks(tokenizer, SPECIAL_PIECES)


def add_marks(tokenizer: "Tokenizer", special: Sequence[str]) -> "Tokenizer":
    """Tells a pipeline which pieces are marks, and where they stand: [CLS] first [SEP] second [SEP]."""
    from tokenizers import AddedToken, processors

    tokenizer.add_special_tokens([AddedToken(piece, normalized=False) for piece in special])
    _, _, cls, sep, _ = special
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(piece, tokenizer.token_to_id(piece)) for piece in (cls, sep)],
    )
    return tokenizer


def list_normalizers(model: bytes, config: VocabularyConfig) -> "Iterator[Normalizer]":
    """The model's map, and around it what tokenizers' reading of the map leaves out, and what SentencePiece does with
    spaces. One difference remains: a sign that no map changes, upon a short character that one does, such as an Indic
    vowel upon an accented Latin letter, is lost."""
    from tokenizers import Regex, normalizers

    # tokenizers looks up no pair of characters that are written apart.
    for pair, target in NORMALIZATIONS[config.normalization].pairs.items():
        yield normalizers.Replace(pair, target)
    # It takes a letter and the accent upon it for one, and a capital's entry in the map would take the accent along.
    if not config.keeps_case:
        yield normalizers.Lowercase()
    yield normalizers.Precompiled(read_character_map(model))
    yield normalizers.Replace(Regex(" {2,}"), " ")
    yield normalizers.Strip()


def list_combining() -> str:
    """All combining characters, as a class of a regular expression."""
    numbers = [number for number in range(sys.maxunicode + 1) if unicodedata.combining(chr(number))]
    # Neighbours differ from their places in the list by the same number.
    runs = [
        [number for _, number in run]
        for _, run in itertools.groupby(enumerate(numbers), lambda item: item[1] - item[0])
    ]
    return "[" + "".join(f"\\x{{{run[0]:x}}}-\\x{{{run[-1]:x}}}" for run in runs) + "]"


def list_google_normalizers(model: bytes, *, lower_case: bool) -> "Iterator[Normalizer]":
    """Google's preparation for ALBERT, as `normalize_albert` has it, and the model's map behind it."""
    from tokenizers import Regex, normalizers

    yield normalizers.Replace(Regex(r"\s+"), " ")
    yield normalizers.NFKD()
    yield normalizers.Replace(Regex(list_combining()), "")  # its own StripAccents removes other marks as well
    if lower_case:
        yield normalizers.Lowercase()
    yield normalizers.Precompiled(read_character_map(model))
    yield normalizers.Replace(Regex(" {2,}"), " ")
    yield normalizers.Strip()
