import pytest

from litebert.training.timing import average


def test_what_many_steps_wait_for_counts_and_what_delays_one_does_not() -> None:
    usual = [0.010] * 9 + [0.040]
    assert average(usual * 20) == pytest.approx(0.013, rel=0.05)
    assert average([*usual * 20, 5.0]) == pytest.approx(0.013, rel=0.05)
    assert average([0.010, 0.012, 3.0]) == pytest.approx(0.011)
