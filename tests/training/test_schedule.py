import pytest

from litebert.config import UserError
from litebert.training.schedule import Ramp, ScheduleConfig, scale_from_paper


def test_the_papers_schedule_rises_to_its_peak_and_falls_to_nothing() -> None:
    config = ScheduleConfig(steps=125_000, learning_rate=0.00176, warmup_steps=3125)
    assert config.rate(0) == pytest.approx(0.00176 / 3125)
    assert config.rate(3124) == config.rate(3125) == 0.00176
    assert config.rate(3125 + (125_000 - 3125) // 2) == pytest.approx(0.00088, rel=1e-4)
    assert 0 < config.rate(124_999) < 2e-8


def test_googles_schedule_counts_the_fall_from_step_0_and_drops_where_the_rise_ends() -> None:
    config = ScheduleConfig(steps=125_000, learning_rate=0.00176, warmup_steps=3125, schedule="google")
    assert config.rate(0) == 0
    assert config.rate(3124) == pytest.approx(0.00176 * 3124 / 3125)
    assert config.rate(3125) == pytest.approx(0.00176 * (1 - 0.025))


def test_a_power_bends_the_fall() -> None:
    config = ScheduleConfig(steps=100, learning_rate=1.0, warmup_steps=0, power=2.0)
    assert [config.rate(step) for step in (0, 50, 90)] == pytest.approx([1.0, 0.25, 0.01])


def test_another_batch_scales_from_the_papers_by_rule() -> None:
    assert scale_from_paper(4096) == (0.00176, 3125, 125_000)
    rate, warmup, steps = scale_from_paper(256)
    assert rate == pytest.approx(0.00176 / 4)
    assert (warmup, steps) == (3125, 2_000_000)


def test_a_shorter_run_warms_up_for_the_same_share() -> None:
    assert scale_from_paper(4096, steps=1000).warmup_steps == 25
    assert scale_from_paper(16, steps=1).warmup_steps == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"steps": 10**12}, "steps is 1000000000000; it must be at most 1,000,000,000"),
        ({"warmup_steps": 101}, "warmup_steps is 101; it must be from 0 to the number of steps, 100"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; it must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"power": 0.0}, "power is 0.0"),
        ({"schedule": "cosine"}, "must be one of 'paper', 'google'"),
    ],
)
def test_an_impossible_schedule_is_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        ScheduleConfig(**{"steps": 100, "learning_rate": 1e-3, "warmup_steps": 10} | changes)


def test_a_ramp_grows_at_its_shares_of_the_steps() -> None:
    ramp = Ramp("depths", ("3", "6@0.25", "12@0.5"), 12)
    assert ramp.starts(1000) == [0, 250, 500]
    assert [ramp.at(step, 1000) for step in (0, 249, 250, 499, 500, 999)] == [3, 3, 6, 6, 12, 12]
    assert Ramp("depths", (), 12).at(0, 10) == 12
    assert Ramp("depths", ("3", "12@0.9"), 12).at(2, 3) == 12, "the last stage is not left out of a short run"


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (("3", "x@0.5"), "write it as 2 4@0.35"),
        (("3@0.1", "12@0.5"), "its first stage begins at once"),
        (("3", "6@0.5", "12@0.5"), "at rising shares below 1"),
        (("3", "12@1"), "at rising shares below 1"),
        (("3", "6@0.5"), "it must end at 12"),
        (("24", "12@0.5"), "never be above it"),
        (("0", "12@0.5"), "every stage must be at least 1"),
    ],
)
def test_an_impossible_ramp_is_refused(stages: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Ramp("depths", stages, 12)
