from pathlib import Path

import pytest

from tests.corpus.made import write_text_corpus


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of real files, with held-out documents."""
    return write_text_corpus(tmp_path_factory.mktemp("pretraining") / "corpus")
