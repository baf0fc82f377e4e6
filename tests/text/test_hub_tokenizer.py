import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import transformers
from sentencepiece import SentencePieceProcessor

from litebert.config import UserError
from litebert.text.hub_tokenizer import copy_for_hub, require_free, write_vocabulary
from litebert.text.spiece import change_scores
from litebert.text.unigram import VocabularyConfig, sample_lines, train_unigram
from litebert.text.vocabulary import copy_vocabulary, open_vocabulary

MARKED = ["™\ufe0f x", "x\ufe0f y", "a\u20dd b", "हिन्दी", "e\u0301 \U0001d16d n"]
"""Signs upon letters, some of which are combining characters and some not."""


def count_differing(folder: Path, lines: Sequence[str]) -> int:
    """How many lines transformers, or SentencePiece given the whole line, cuts otherwise than we do."""
    vocabulary = open_vocabulary(folder)
    peer = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    bare = SentencePieceProcessor(model_file=str(folder / "spiece.model")).encode(list(lines))
    tokens, counts = vocabulary.encode_many(lines)
    rows = [row.tolist() for row in np.split(tokens, counts.cumsum()[:-1])]
    theirs = [found.ids for found in peer.encode_batch_fast(lines, add_special_tokens=False)]
    return sum(row != one or row != two for row, one, two in zip(rows, theirs, bare, strict=True))


@pytest.mark.parametrize("normalization", ["albert", "bert", "xlnet", "none"])
def test_transformers_gives_our_ids(make_folder: Callable[..., Path], topics: list[str], normalization: str) -> None:
    cased = None if normalization == "xlnet" else False
    lines = [line for document in topics for line in document.split("\n")]
    assert count_differing(make_folder(normalization, cased), lines[:4000] + lines[-5:]) == 0


def test_transformers_gives_our_ids_on_a_hundred_thousand_lines_of_english_and_chinese(
    real_lines: Callable[[str, int], list[str]], tmp_path: Path
) -> None:
    lines = real_lines("wiki_en.txt.gz", 50_000) + real_lines("wiki_zh.txt.gz", 50_000)
    config = VocabularyConfig(size=10_000, num_lines=6000)
    write_vocabulary(train_unigram(sample_lines(lines, config).lines, config), config, tmp_path)
    assert len(lines) == 100_000
    assert count_differing(tmp_path, lines) == 0


@pytest.mark.parametrize("config", [None, {"model_type": "albert", "architectures": ["AlbertForPreTraining"]}])
def test_transformers_gives_pairs_segments_and_marks(
    make_folder: Callable[..., Path], tmp_path: Path, config: dict[str, object] | None
) -> None:
    vocabulary = open_vocabulary(make_folder())
    copy_vocabulary(make_folder(), tmp_path)
    if config:
        (tmp_path / "config.json").write_text(json.dumps(config))
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    pair = peer("A function", "returns [MASK].")
    first, second = vocabulary.encode("a function"), vocabulary.encode("returns [MASK].")
    assert pair.input_ids == vocabulary.add_special(first, second) and 4 in pair.input_ids
    assert pair.token_type_ids == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert pair.attention_mask == [1] * len(pair.input_ids)
    assert (peer.pad_token_id, peer.unk_token_id, peer.cls_token_id, peer.sep_token_id) == (0, 1, 2, 3)
    assert peer.mask_token_id == 4 and len(peer) == vocabulary.size
    assert peer.decode(first) == vocabulary.decode(first) == "a function"


@pytest.mark.parametrize(
    "text", ["", "   ", "[MASK]", "a[MASK]b", "<pad>", "▁", "x\u0301", "\r\n", "¨", "中", "''", "\0"]
)
def test_odd_texts_have_our_ids_too(make_folder: Callable[..., Path], text: str) -> None:
    for normalization in ("albert", "xlnet"):
        peer = transformers.AutoTokenizer.from_pretrained(make_folder(normalization))
        if text != "<pad>":
            assert peer(text, add_special_tokens=False).input_ids == open_vocabulary(make_folder(normalization)).encode(
                text
            )


def test_what_transformers_saves_again_has_our_ids(make_folder: Callable[..., Path], tmp_path: Path) -> None:
    transformers.AutoTokenizer.from_pretrained(make_folder()).save_pretrained(tmp_path)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "The quick function returns a café."
    assert again(text, add_special_tokens=False).input_ids == open_vocabulary(make_folder()).encode(text)
    assert open_vocabulary(tmp_path).encode(text) == open_vocabulary(make_folder()).encode(text)


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "酒", "店", "很", "好", "good", "##s", "hotel", ",", "."]


def check_ids_of_an_albert(folder: Path, source: Path, lines: Sequence[str]) -> None:
    """Beside an ALBERT, where transformers would choose a tokenizer by the kind of the model."""
    (folder / "config.json").write_text('{"model_type": "albert"}')
    ours, peer = open_vocabulary(source), transformers.AutoTokenizer.from_pretrained(folder)
    assert open_vocabulary(folder).fingerprint == ours.fingerprint
    for line in lines:
        first, second = ours.encode(line), ours.encode("good [MASK]")
        assert peer(line, "good [MASK]").input_ids == ours.add_special(first, second)
    assert set(peer(lines[0], "good").token_type_ids) == {0, 1}


def test_a_vocab_txt_beside_an_albert_is_given_a_tokenizer_json(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    names = ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]
    assert copy_for_hub(tmp_path, tmp_path / "model") == names
    check_ids_of_an_albert(tmp_path / "model", tmp_path, ["酒店很好", "Good hotels, GOODS.", "另", ""])
    assert copy_for_hub(tmp_path / "model", tmp_path / "again") == names
    check_ids_of_an_albert(tmp_path / "again", tmp_path, ["酒店很好"])


def test_a_vocabulary_that_is_copied_again_is_still_the_same(tmp_path: Path) -> None:
    """As at each better model of a run, from a folder that says how its vocab.txt is read."""
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    for _ in range(2):
        copy_for_hub(tmp_path, tmp_path / "model")
        check_ids_of_an_albert(tmp_path / "model", tmp_path, ["酒店很好", "Good goods."])


def test_a_model_as_google_publishes_it_is_given_a_tokenizer_json(
    make_folder: Callable[..., Path], topics: list[str], tmp_path: Path
) -> None:
    model = change_scores((make_folder() / "spiece.model").read_bytes(), lambda _, score: score * 1.01)
    (tmp_path / "30k-clean.model").write_bytes(model)
    assert copy_for_hub(tmp_path, tmp_path / "model") == ["spiece.model", "tokenizer.json", "tokenizer_config.json"]
    lines = [line for document in topics for line in document.split("\n")]
    check_ids_of_an_albert(tmp_path / "model", tmp_path, [*lines[:500], "CAFÉ  \t crème", "ﬁne ½", *MARKED])


def test_googles_vocabularies_have_our_ids_in_transformers(
    data: Path, real_lines: Callable[[str, int], list[str]], tmp_path: Path
) -> None:
    lines = real_lines("wiki_en.txt.gz", 1000) + real_lines("wiki_zh.txt.gz", 1000)
    for name in ("albert-en-30k-clean.model", "albert-zh-bert-vocab.txt"):
        copy_for_hub(data / "vocab" / name, tmp_path / name)
        check_ids_of_an_albert(tmp_path / name, data / "vocab" / name, [*lines, *(MARKED if "model" in name else ())])


def test_our_own_model_needs_no_preparation(make_folder: Callable[..., Path]) -> None:
    vocabulary = open_vocabulary(make_folder())
    assert vocabulary.engine.prepare is None
    assert vocabulary.encode("CAFÉ") == vocabulary.encode("cafe")
    settings = json.loads((make_folder("xlnet") / "tokenizer_config.json").read_text())
    assert settings["litebert"] == {"normalization": "xlnet", "cased": True} and settings["do_lower_case"] is False


def test_a_vocabulary_is_overwritten_only_when_told_to_and_leaves_nothing_of_the_other(
    make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    require_free(tmp_path / "new" / "folder", overwrite=False)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="cannot be written: a file stands where a folder is wanted; choose"):
        require_free(tmp_path / "file" / "folder", overwrite=False)
    (tmp_path / "file").unlink()
    (tmp_path / "vocab.txt").write_text("[PAD]")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"has a vocabulary already \(vocab.txt\); choose another folder, or use"):
        require_free(tmp_path, overwrite=False)
    require_free(tmp_path, overwrite=True)
    write_vocabulary((make_folder() / "spiece.model").read_bytes(), VocabularyConfig(size=1000), tmp_path)
    names = ["notes.txt", "spiece.model", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    assert open_vocabulary(tmp_path).fingerprint == open_vocabulary(make_folder()).fingerprint
