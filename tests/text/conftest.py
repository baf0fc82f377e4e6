import gzip
import itertools
import pydoc_data.topics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from litebert.text.hub_tokenizer import write_vocabulary
from litebert.text.unigram import VocabularyConfig, sample_lines, train_unigram
from litebert.text.vocabulary import Vocabulary

# Text that no Python installation has.
OTHER_SCRIPTS = [
    "春天来了，小河里的冰都化了，孩子们在河边放风筝。",
    "他说：“明天上午九点，我们在图书馆门口见面。”",
    "Ein Bär fährt über die Brücke nach Köln, où il mange des crêpes à la crème.",
    "Ο Σωκράτης έλεγε ότι ξέρει ένα πράγμα. Москва стоит на реке. 서울은 한국의 수도이다.",
    "ﬁne ½ cup of Ｔｅａ № 5, ``quoted'' and ''again``, 👍🏽 at 25 °C…",
]


@pytest.fixture(scope="session")
def topics() -> list[str]:
    """The Python language reference, and a little of other scripts."""
    return [*pydoc_data.topics.topics.values(), *OTHER_SCRIPTS * 20]


@pytest.fixture(scope="session")
def make_folder(topics: list[str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Trains a small vocabulary, once for each normalisation and case."""
    folders: dict[tuple[str, bool | None], Path] = {}

    def make(normalization: str = "albert", cased: bool | None = None) -> Path:
        key = normalization, cased
        if key not in folders:
            config = VocabularyConfig(size=1000, normalization=normalization, cased=cased, num_lines=1500)
            model = train_unigram(sample_lines(topics, config).lines + OTHER_SCRIPTS, config)
            folders[key] = tmp_path_factory.mktemp("vocabulary")
            write_vocabulary(model, config, folders[key])
        return folders[key]

    return make


@pytest.fixture
def real_lines(data: Path) -> Callable[[str, int], list[str]]:
    def read(name: str, number: int) -> list[str]:
        with gzip.open(data / "text" / name, "rt", encoding="utf-8") as file:
            return list(itertools.islice(filter(None, map(str.strip, file)), number))

    return read


@pytest.fixture
def is_tie() -> Callable[[Vocabulary, str, list[int], list[int]], bool]:
    """Whether two ways to cut a text are equally good, as far as the 32 bits of SentencePiece's sums can tell."""

    def check(vocabulary: Vocabulary, text: str, first: list[int], second: list[int]) -> bool:
        score = vocabulary.engine.processor.GetScore
        one, two = (sum(map(score, ids)) for ids in (first, second))
        worst = min(map(score, range(vocabulary.size))) - 10  # what SentencePiece counts for an unknown character
        largest = abs(one) + (len(text) * abs(worst) if vocabulary.special.unknown in first else 0)
        rounding = len(first) ** 0.5 * float(np.spacing(np.float32(largest)))
        return vocabulary.decode(first) == vocabulary.decode(second) and abs(one - two) <= rounding

    return check
