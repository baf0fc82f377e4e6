"""A trained vocabulary as a folder that Hugging Face opens: spiece.model, tokenizer.json, tokenizer_config.json.

transformers would rebuild ALBERT's pipeline from spiece.model alone, with its own cleaning. tokenizer.json describes
ours instead: the same scores, and the same map of characters, byte for byte, as in the SentencePiece model.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litebert.config import require
from litebert.files import write_file
from litebert.text.normalize import NORMALIZATIONS, WORD_START
from litebert.text.spiece import load_model, read_character_map
from litebert.text.unigram import SPECIAL_PIECES, VocabularyConfig
from litebert.text.vocabulary import OUR_KEY, VOCABULARY_FILES

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.normalizers import Normalizer


def require_free(folder: Path, overwrite: bool) -> None:
    """Refuses a folder that has a vocabulary, unless it is to be overwritten."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    problem = "closed to you" if existing.is_dir() else "a file"
    require(
        existing.is_dir() and os.access(existing, os.W_OK),
        f"{folder} cannot be written: {existing} is {problem}; choose another folder",
    )
    found = [name for name in VOCABULARY_FILES if (folder / name).exists()]
    require(
        overwrite or not found,
        f"{folder} has a vocabulary already ({', '.join(found)}); choose another folder, or use --overwrite",
    )


def write_vocabulary(model: bytes, config: VocabularyConfig, folder: Path) -> None:
    """Writes each file whole or not at all, and leaves none of another vocabulary beside them."""
    files = {
        "spiece.model": model,
        "tokenizer.json": make_tokenizer(model, config).to_str(pretty=True).encode(),
        "tokenizer_config.json": json.dumps(describe(config), indent=2).encode() + b"\n",
    }
    for name, content in files.items():
        write_file(folder / name, content)
    for name in set(VOCABULARY_FILES) - set(files):
        (folder / name).unlink(missing_ok=True)


def describe(config: VocabularyConfig) -> dict[str, Any]:
    """What transformers needs beside tokenizer.json. Unless the inputs are named, it leaves out the segments."""
    pad, unknown, cls, sep, mask = SPECIAL_PIECES
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "pad_token": pad,
        "unk_token": unknown,
        "cls_token": cls,
        "sep_token": sep,
        "mask_token": mask,
        "do_lower_case": not config.keeps_case,
        "clean_up_tokenization_spaces": False,
        OUR_KEY: {"normalization": config.normalization, "cased": config.keeps_case},
    }


def make_tokenizer(model: bytes, config: VocabularyConfig) -> "Tokenizer":
    """The pipeline of a SentencePiece model, for the library tokenizers."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    processor = load_model(model)
    scores = [(processor.IdToPiece(index), processor.GetScore(index)) for index in range(processor.GetPieceSize())]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=processor.unk_id()))
    tokenizer.normalizer = normalizers.Sequence(list(list_normalizers(model, config)))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(WORD_START, prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(WORD_START, prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False) for piece in SPECIAL_PIECES])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(piece, processor.PieceToId(piece)) for piece in ("[CLS]", "[SEP]")],
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
