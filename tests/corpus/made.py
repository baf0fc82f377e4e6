"""Corpora made for tests, whose tokens tell where they come from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from litebert.corpus.build import BuildConfig, build_corpus
from litebert.corpus.index import Block, Index, Statistics
from litebert.corpus.shards import Corpus, ShardWriter, open_corpus
from litebert.text.documents import find_sources
from litebert.text.vocabulary import open_vocabulary

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NUM_SENTENCES = 50
"""The most sentences of a document: a token's id tells its document and sentence."""

Shape = Sequence[Sequence[int]]
"""The token counts of each sentence of each document."""


def origin(token: int) -> tuple[int, int]:
    """The document and the sentence that a token of a made corpus comes from."""
    return divmod((token - len(MARKS)) // 3, NUM_SENTENCES)


def write_corpus(folder: Path, shape: Shape, num_shards: int = 1, paragraph: int = 2) -> Corpus:
    """A corpus whose tokens are 3 (50 document + sentence) + 5 and 0, 1 or 2; the middle ones continue a word."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = [f"##{n}" if n % 3 == 1 else str(n) for n in range(3 * NUM_SENTENCES * len(shape))]
    (folder / "vocab.txt").write_text("\n".join([*MARKS, *pieces]) + "\n")
    random = np.random.default_rng(0)
    numbers = np.array_split(np.arange(len(shape)), num_shards)
    entries, statistics = [], Statistics()
    for shard, documents in enumerate(numbers):
        writer = ShardWriter("train")
        for document in documents.tolist():
            lengths = np.array(shape[document], np.uint32)
            sentences = 3 * (NUM_SENTENCES * document + np.arange(len(lengths))) + len(MARKS)
            tokens = np.repeat(sentences, lengths) + random.integers(0, 3, lengths.sum())
            paragraphs = np.diff([*range(0, len(lengths), paragraph), len(lengths)]).astype(np.uint32)
            block = Block(tokens.astype(np.uint32), lengths, paragraphs, np.array([len(lengths)], np.uint32))
            writer.add(block)
            statistics.count(block, unknown=1)
        entries.append(writer.write(str(folder), f"train-{shard:05}.bin"))
    vocabulary = open_vocabulary(folder)
    index = Index(
        vocabulary=vocabulary.fingerprint,
        vocab_size=vocabulary.size,
        token_type="uint32",
        config={},
        sources={},
        part=(1, 1),
        shards=tuple(entries),
        statistics=statistics,
        complete=True,
        resume=(1, 0),
    )
    (folder / "index.json").write_text(index.to_text())
    return open_corpus(folder)


def random_shape(num_documents: int, seed: int = 0, longest: int = 60) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [
        random.integers(1, longest, min(NUM_SENTENCES, random.geometric(0.08))).tolist() for _ in range(num_documents)
    ]


WORDS = ["the", "a", "fox", "dog", "bird", "rain", "wind", "house", "sees", "hears", "finds", "likes", "big", "old"]


def write_text_corpus(folder: Path, num_documents: int = 60, seed: int = 0) -> Path:
    """A corpus built from text, a tenth of it held out: sentences in which every word tells something of the next."""
    random = np.random.default_rng(seed)
    documents = []
    for _ in range(num_documents):
        starts = random.integers(0, len(WORDS), random.integers(4, 20))
        sentences = [
            " ".join(WORDS[(start + 3 * place) % len(WORDS)] for place in range(random.integers(4, 9)))
            for start in starts
        ]
        documents.append(
            "\n".join(
                f"{first.capitalize()}. {second.capitalize()}."
                for first, second in zip(sentences[::2], sentences[1::2], strict=False)
            )
        )
    return build_text_corpus(folder, "\n\n".join(documents) + "\n")


def build_text_corpus(folder: Path, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text, vocabulary = folder.with_suffix(".txt"), folder.with_suffix(".vocab")
    text.write_text(content)
    vocabulary.mkdir(exist_ok=True)
    (vocabulary / "vocab.txt").write_text("\n".join([*MARKS, ".", *WORDS]) + "\n")
    build_corpus(find_sources([str(text)]), vocabulary, str(folder), BuildConfig(dev_share=0.2), num_workers=1)
    return folder
