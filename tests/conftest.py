import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# A shell lets its background jobs ignore interrupts, and all that they start; tests interrupt some of it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))


@pytest.fixture(autouse=True)
def keep_small_numbers() -> Iterator[None]:
    """Runs let the processor take numbers next to nothing for 0; tests that come after them count on those."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def data() -> Path:
    """Real corpora, benchmarks and weights; never a part of the project."""
    folder = os.environ.get("LITEBERT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("LITEBERT_DATA does not name a folder with real data")
    return Path(folder)


@pytest.fixture(scope="session")
def visited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where `make demo` has been, and there is text and data."""
    from tests.made import make_workplace

    folder = tmp_path_factory.mktemp("visited")
    make_workplace(folder)
    return folder


@pytest.fixture
def workplace(visited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of that folder, to work in."""
    shutil.copytree(visited, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
