"""Documents -> blocks of tokens: the work of one worker process."""

import gc
import multiprocessing
import os
import signal
import threading
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from litebert.corpus.index import Block, Split
from litebert.text.plain_stops import split_document_sentences
from litebert.text.vocabulary import Vocabulary, open_vocabulary
from litebert.text.words import word_starts

Words = Literal["pieces", "jieba"]


class Documents(NamedTuple):
    """Some of one split, as they travel to a worker: in UTF-8, with blank lines between them."""

    text: bytes
    number: int


class DocumentEncoder:
    """Splits documents into sentences and encodes them."""

    def __init__(self, vocabulary: Vocabulary, words: Words) -> None:
        self.vocabulary = vocabulary
        self.words = words

    def encode(self, documents: dict[Split, Documents]) -> dict[Split, Block]:
        """The documents of each split as a block."""
        return {
            split: self.encode_text(some.text.decode("utf-8", "surrogatepass")) for split, some in documents.items()
        }

    def encode_text(self, text: str) -> Block:
        """Sentences without tokens are dropped, and with them paragraphs and documents of nothing else."""
        sentences = split_document_sentences(text)
        if self.words == "jieba":
            tokens, lengths, starts = self.encode_words(sentences.texts)
        else:
            (tokens, lengths), starts = self.vocabulary.encode_many(sentences.texts), None
        num_kept = np.concatenate([[0], np.cumsum(lengths > 0)])
        return Block(
            tokens=tokens,
            sentence_lengths=keep_sizes(lengths),
            paragraph_sizes=keep_sizes(np.diff(num_kept[sentences.paragraph_ends], prepend=0)),
            document_sizes=keep_sizes(np.diff(num_kept[sentences.document_ends], prepend=0)),
            word_starts=starts,
        )

    def encode_words(self, sentences: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]:
        """The tokens, how many each sentence has, and whether a word of jieba's begins at each."""
        token_type = self.vocabulary.encode_many([])[0].dtype
        # Arrays: in lists, a document as long as may be would take a hundred bytes a token.
        tokens, lengths, starts = array("I"), array("Q"), array("B")
        for sentence in sentences:
            ids, begins, _ = self.vocabulary.encode_spans(sentence)
            word_begins = set(word_starts(sentence))
            tokens.extend(ids)
            lengths.append(len(ids))
            # A space's mark and the letter behind it begin at one place, and are of one word.
            starts.extend(begin in word_begins and begin != before for before, begin in pairwise([None, *begins]))
        return np.array(tokens, token_type), np.array(lengths, np.int64), np.array(starts, np.bool_)


def keep_sizes(sizes: NDArray[Any]) -> NDArray[np.uint32]:
    return sizes[sizes > 0].astype(np.uint32)


# A worker process has one encoder, made when it starts.
encoder: DocumentEncoder | None = None


def start_worker(vocabulary_path: str | Path, words: Words) -> None:
    global encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one tells it when to stop
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # every core has a worker already
    gc.disable()  # a block makes no cycles, and its many lists would be searched for them again and again
    threading.Thread(target=leave_with_parent, daemon=True).start()
    encoder = DocumentEncoder(open_vocabulary(vocabulary_path), words)


def leave_with_parent() -> None:
    """Ends this process when the one that started it is killed, which can no longer say so."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def encode_in_worker(documents: dict[Split, Documents]) -> dict[Split, Block]:
    assert encoder is not None
    return encoder.encode(documents)
