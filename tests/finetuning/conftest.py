import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.finetuning.made import Finished, finish, write_start


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder to begin with."""
    return write_start(tmp_path_factory.mktemp("model") / "start")


@pytest.fixture(scope="session")
def finished(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Finished]:
    """A run that has learned each kind of data; tests do not change it."""
    folder = tmp_path_factory.mktemp("finished")
    return functools.cache(lambda kind: finish(kind, folder / kind, start))
