"""Where the words of Chinese text begin, for masking whole words."""

import functools
import itertools
import logging
import warnings
from typing import Any

from litebert.config import UserError


def word_starts(text: str) -> list[int]:
    """The offsets, in characters, at which the words of a text begin; space belongs to no word."""
    words = list(load_jieba().cut(text))
    starts = itertools.accumulate(map(len, words), initial=0)
    return [start for start, word in zip(starts, words, strict=False) if not word.isspace()]


@functools.cache
def load_jieba() -> Any:
    """jieba with its dictionary, loaded once and without a word about it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own syntax, in newer Pythons
            import jieba
    except ImportError:
        raise UserError("Chinese words need the package jieba; pip install jieba brings it") from None
    jieba.setLogLevel(logging.WARNING)
    return jieba
