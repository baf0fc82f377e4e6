import logging
import sys

import pytest

from litebert.config import UserError
from litebert.text import words
from litebert.text.words import word_starts


def cut(text: str) -> list[str]:
    starts = word_starts(text)
    return [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def test_words_of_several_characters_begin_once() -> None:
    assert cut("我来到北京清华大学") == ["我", "来到", "北京", "清华大学"]


def test_space_and_other_scripts_keep_their_places() -> None:
    assert cut("  LiteBERT 读 中文。 ") == ["LiteBERT", "读", "中文", "。"]
    assert word_starts("  LiteBERT 读")[0] == 2


def test_a_text_without_words_has_no_starts() -> None:
    assert word_starts("") == word_starts(" \n\u3000") == []


def test_jieba_says_nothing(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    words.load_jieba.cache_clear()
    with caplog.at_level(logging.DEBUG):
        words.load_jieba().Tokenizer().initialize()
    assert capfd.readouterr() == ("", "") and not caplog.records


def test_without_jieba_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    words.load_jieba.cache_clear()
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(UserError, match=r"need the package jieba; pip install jieba brings it"):
        word_starts("中文")
