from pathlib import Path

import pytest

from litebert.training import progress
from litebert.training.progress import Clock, describe, show_seconds, watch_run


def test_the_time_left_follows_from_work_and_not_from_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten cheap steps took ten seconds; ten that are three times as dear are left."""
    now = 100.0
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now)
    clock = Clock(20, lambda step: min(step, 10) + 3 * max(0, step - 10))
    clock.note(0)
    assert clock.left(0) == ""
    now = 110.0
    assert clock.left(10) == "30 s left"
    now = 125.0
    assert clock.left(15) == "15 s left"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(9.6, "10 s"), (61, "1 min 01 s"), (3_600, "1 h 00 min"), (90_000, "1 d 1 h")]
)
def test_times_are_shown_as_people_say_them(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown


def test_an_evaluation_is_said_in_words() -> None:
    def asked(name: str, share: float, shallow: float) -> dict[str, float]:
        bounds = {f"{name}_low": share - 0.1, f"{name}_high": share + 0.1}
        return {f"{name}_accuracy": share, **bounds, f"{name}_shallow": shallow, f"{name}_majority": 0.5}

    tokens = {"masked_token_loss": 5.3471, "masked_token_accuracy": 0.196, "tokens": 10, "seconds": 2.0}
    assert describe("evaluation", tokens) == "held out: masked-token loss 5.347, masked tokens 19.6%"
    pairs = asked("nsp", 0.57, 0.61) | asked("sop", 0.646, 0.684) | asked("sop_document", 0.477, 0.504)
    assert describe("evaluation", tokens | pairs).split(", ")[2:] == [
        "pairs (sentence order) 64.6% [55 to 75] (shallow baseline 68%)",
        "pairs (sentence order in ordinary windows) 47.7% [38 to 58] (50%)",
        "pairs (next sentence) 57.0% [47 to 67] (61%)",
    ]
    assert describe("evaluation", tokens | asked("nsp", 0.57, 0.61)).endswith("[47 to 67] (shallow baseline 61%)")
    assert describe("evaluation", {"dev_accuracy": 63.176, "seconds": 2.0}) == "dev accuracy 63.18"


def test_a_run_that_goes_on_says_from_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (0, 1200):
        with watch_run(tmp_path, step, 3000):
            pass
    assert capsys.readouterr().err == "    1,200/3,000  from the checkpoint of this step on\n"
    assert (tmp_path / "metrics.jsonl").read_text() == ""
