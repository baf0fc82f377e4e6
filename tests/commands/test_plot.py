import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.commands.calls import refuse, run


def write_run(folder: Path, *lines: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    train = [{"kind": "train", "step": step, "loss": 9 / step, "learning_rate": 0.1} for step in range(1, 11)]
    score = {"kind": "evaluation", "step": 10, "accuracy": 0.9}
    content = [json.dumps(line) + "\n" for line in lines or [*train, score]]
    (folder / "metrics.jsonl").write_text("".join(content))
    return folder


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "one")
    write_run(tmp_path / "two")
    return tmp_path


def test_one_runs_curves_are_put_into_its_folder(capsys: pytest.CaptureFixture[str], workplace: Path) -> None:
    assert run(capsys, "plot", "one") == "one/curves.png: 1 run, 21 points\n"
    with Image.open(workplace / "one" / "curves.png") as picture:
        picture.load()
        assert picture.format == "PNG" and picture.width > 1000


def test_several_runs_curves_are_put_here_or_where_they_are_wanted(
    capsys: pytest.CaptureFixture[str], workplace: Path
) -> None:
    assert run(capsys, "plot", "one", "two") == "curves.png: 2 runs, 42 points\n"
    said = run(
        capsys, "plot", "one", "two", "--keys", "loss", "--smooth", "5", "--names", "α", "β", "--out", "new/a.svg"
    )
    assert said == "new/a.svg: 2 runs, 20 points\n"
    assert "<svg" in (workplace / "new" / "a.svg").read_text() and (workplace / "curves.png").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "RUN is missing; name the folder of a training run"),
        (("nowhere",), "nowhere does not exist; give the folder of a training run"),
        (("empty",), "empty has no metrics.jsonl; give the folder of a training run"),
        (("begun",), "begun/metrics.jsonl has no whole line; wait until the run has written its first line"),
        (("quiet",), "the runs have measured nothing yet"),
        (("damaged",), "line 2 of damaged/metrics.jsonl is damaged ('oops'); delete it or restore the file"),
        (("one", "--keys", "los"), "no run has measured 'los' (did you mean 'loss'?)"),
        (("one", "--keys", "zzz"), "no run has measured 'zzz' (known: accuracy, learning_rate, loss)"),
        (("one", "two", "./one"), "one is given twice; name each run once"),
        (("one", "two", "--names", "a"), "--names has 1 name for 2 runs; give one for each"),
        (("one", "two", "--names", "a", "a"), "--names are a, a; give each run another"),
        (("one", "--x", "tokens"), "the metrics of one have no 'tokens'; draw them without --x tokens"),
        (("one", "--x", "hours"), "see litebert plot --help"),
        (("one", "--smooth", "-0.5"), "--smooth is -0.5; give a share below 1 or a whole number of points"),
        (("one", "--smooth", "2.5"), "--smooth is 2.5"),
        (("one", "--smooth", "nan"), "--smooth is nan"),
        (("one", "--smooth", "inf"), "--smooth is inf"),
        (("one", "--out", "a.jpg"), "a.jpg is no name of a picture; let it end in .png, .pdf or .svg"),
        (("one", "--out", "curves"), "curves is no name of a picture"),
        (("one", "--out", "one/metrics.jsonl/a.png"), "one/metrics.jsonl/a.png cannot be written"),
        (("one", "--out", "folder.png"), "folder.png cannot be written"),
    ],
)
def test_a_users_mistake_is_one_sentence(
    capsys: pytest.CaptureFixture[str], workplace: Path, arguments: tuple[str, ...], said: str
) -> None:
    (workplace / "empty").mkdir()
    (workplace / "folder.png").mkdir()
    (write_run(workplace / "begun") / "metrics.jsonl").write_bytes(b"")
    write_run(workplace / "quiet", {"kind": "event", "step": 0, "message": "begins"})
    (write_run(workplace / "damaged") / "metrics.jsonl").write_bytes(b'{"kind": "train", "step": 1}\noops\n')
    assert said in refuse(capsys, "plot", *arguments)
    assert not list(workplace.glob("**/curves*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(capsys: pytest.CaptureFixture[str], workplace: Path) -> None:
    (workplace / "one").chmod(0o500)
    assert "one/curves.png cannot be written: you have no permission" in refuse(capsys, "plot", "one")


def test_drawing_needs_no_screen_and_does_not_wait_for_torch(workplace: Path) -> None:
    program = (
        "import sys; from litebert.__main__ import main; main(['plot', 'one']);"
        "sys.exit('torch' in sys.modules or 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=no_screen())
    assert done.returncode == 0 and not done.stderr


def no_screen() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
