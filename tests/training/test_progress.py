import pytest

from litebert.training import progress
from litebert.training.progress import Clock, show_seconds


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
