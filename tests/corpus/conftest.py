from collections.abc import Callable
from pathlib import Path

import pytest

from litebert.corpus.shards import Corpus
from tests.corpus.made import random_shape, write_corpus


@pytest.fixture
def make_corpus(tmp_path: Path) -> Callable[..., Corpus]:
    counter = iter(range(1000))
    return lambda shape, **options: write_corpus(tmp_path / f"corpus{next(counter)}", shape, **options)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Four hundred documents in three shards."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), random_shape(400), num_shards=3)
