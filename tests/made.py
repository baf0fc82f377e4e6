"""A small workplace with everything that commands are given: text, a vocabulary, a corpus, models, benchmarks."""

import gzip
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from litebert.corpus.build import BuildConfig, build_corpus
from litebert.models.folder import write_model
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.presets import albert_nano
from litebert.text.documents import find_sources
from litebert.text.hub_tokenizer import write_vocabulary
from litebert.text.unigram import VocabularyConfig, train_unigram
from litebert.text.vocabulary import copy_vocabulary

ROOT = Path(__file__).parents[1]


def draw_sentences(words: list[str], space: str, stop: str, number: int) -> list[str]:
    """Sentences of random words, enough of them for a vocabulary of thousands of pieces."""
    random = np.random.default_rng(0)
    letters = list("".join(words))
    made = [*words, *("".join(random.choice(letters, random.integers(3, 9))) for _ in range(2 * number))]
    return [space.join(random.choice(made, 12)).capitalize() + stop for _ in range(number)]


ENGLISH = draw_sentences(["return", "a", "new", "object", "for", "each", "name", "in", "the", "list"], " ", ".", 5000)
CHINESE = draw_sentences(["我们", "喜欢", "自然", "语言", "处理", "北京", "天气", "很好"], "", "。", 5000)


def write_text(folder: Path, sentences: list[str]) -> None:
    folder.mkdir()
    documents = (" ".join(sentences[start : start + 8]) for start in range(0, len(sentences), 8))
    (folder / "text.txt").write_text("\n\n".join(documents), encoding="utf-8")


def make_workplace(folder: Path) -> None:
    """A folder where `make demo` has been, one of Google's archives was unpacked, and there is text."""
    write_text(folder / "books", ENGLISH)
    write_text(folder / "zhongwen", CHINESE)
    (folder / "wiki.jsonl.gz").write_bytes(gzip.compress(json.dumps({"text": " ".join(ENGLISH[:100])}).encode()))
    shutil.copytree(ROOT / "tests" / "models" / "data" / "tensorflow_albert", folder / "albert_base")
    demo, config = folder / "demo", VocabularyConfig(size=200)
    write_vocabulary(train_unigram(ENGLISH[:500], config), config, demo / "vocab")
    build_corpus(find_sources([folder / "books"]), demo / "vocab", demo / "corpus", BuildConfig(), num_workers=0)
    shutil.copy(folder / "books" / "text.txt", demo / "text.txt")
    torch.manual_seed(0)
    write_model(Model(replace(albert_nano(), vocab_size=config.size), PRETRAINING), demo / "albert" / "model")
    copy_vocabulary(demo / "vocab", demo / "albert" / "model")
    shutil.copytree(demo / "albert" / "model", folder / "my-model")
    write_tasks(folder)


def write_tasks(folder: Path) -> None:
    """Data of the tasks that the pages name, in the layouts of their makers."""
    labels = ["01"[number % 2] for number in range(40)]
    english, chinese = list(zip(ENGLISH, labels, strict=False)), list(zip(labels, CHINESE, strict=False))
    reviews = [(text, label, f"{label}.5", "food|place" if label == "1" else "food") for text, label in english]
    for split in ("train", "dev"):
        write_rows(folder / "glue" / "SST-2" / f"{split}.tsv", "\t", ("sentence", "label"), english)
    unlabelled = [(str(number), text) for number, (text, _) in enumerate(english)]
    write_rows(folder / "glue" / "SST-2" / "test.tsv", "\t", ("index", "sentence"), unlabelled)
    for split in ("train", "dev", "test"):
        write_rows(folder / "chnsenticorp" / f"{split}.tsv", "\t", ("label", "text_a"), chinese)
        write_rows(folder / "reviews" / f"{split}.csv", ",", ("review", "stars", "helpful", "topics"), reviews)
        write_rows(folder / "demo" / "kinds" / f"{split}.csv", ",", ("docstring", "kind"), english)
        write_rows(folder / "names" / f"{split}.tsv", "\t", ("words", "tags"), 8 * [("a new list", "O B-X I-X")])
    question = {"id": "1", "question": "What?", "answers": [{"text": "new", "answer_start": 2}], "is_impossible": False}
    squad = {"version": "v2.0", "data": [{"paragraphs": [{"context": "A new list.", "qas": [question]}]}]}
    (folder / "squad").mkdir()
    (folder / "squad" / "dev-v2.0.json").write_text(json.dumps(squad))
    (folder / "predictions.json").write_text(json.dumps({"1": "new"}))


def write_rows(path: Path, separator: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{separator.join(row)}\n" for row in [header, *rows]), encoding="utf-8")
