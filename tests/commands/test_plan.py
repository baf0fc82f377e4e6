"""litebert plan, called as a user calls it."""

import json
from pathlib import Path
from typing import Any

import pytest

from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.presets import find_preset
from litebert.pretraining import places
from tests.commands.calls import refuse, run

Printed = pytest.CaptureFixture[str]
CLUSTER = ("--preset", "albert-base", "--num-sequences", "4096", "--devices", "64", "--kind", "a100-40")


def plan(capsys: Printed, *arguments: str) -> dict[str, Any]:
    return json.loads(run(capsys, "plan", *arguments, "--json"))


def test_it_prints_memory_time_and_what_is_assumed(capsys: Printed) -> None:
    printed = run(capsys, "plan", *CLUSTER)
    for words in ("ASSUMED", "64 x a100-40", "activations", "dollars", "days", "fewer than BERT-large", "fsdp"):
        assert words in printed


def test_json_has_the_numbers(capsys: Printed) -> None:
    planned = plan(capsys, *CLUSTER, "--price", "2")
    model = Model(find_preset("albert-base"), PRETRAINING)
    assert planned["parameters"]["all"] == sum(parameter.numel() for parameter in model.parameters())
    whole = planned["run"]
    assert whole["steps"] == 125_000 and whole["sequences"] == 512_000_000
    assert whole["dollars"] == pytest.approx(2 * 64 * whole["hours"])
    assert whole["hours"] == pytest.approx(125_000 * planned["step"]["seconds"] / 3600)


def test_albert_large_exchanges_18_times_fewer_bytes_than_bert_large(capsys: Printed) -> None:
    planned = plan(capsys, "--preset", "albert-large", "--kind", "h100", "--devices", "8")
    assert round(planned["exchange"]["fewer_than_bert_large"]) in (18, 19)


def test_a_batch_that_does_not_fit_comes_with_the_largest_that_does(capsys: Printed) -> None:
    arguments = ("--preset", "albert-base", "--num-sequences", "4096", "--kind", "t4")
    row = plan(capsys, *arguments)["memory"]["by_checkpointing"]["nothing"]
    largest = row["largest_micro_sequences"]
    assert not row["fits"] and largest > 0

    def fits(number: int) -> bool:
        planned = plan(capsys, *arguments, "--micro-sequences", str(number))
        return planned["memory"]["by_checkpointing"]["nothing"]["fits"]

    assert fits(largest) and not fits(largest + 1)


def test_shallow_and_short_stages_cost_less(capsys: Printed) -> None:
    arguments = ("--preset", "albert-base", "--num-sequences", "4096", "--kind", "h100")
    full, deeper = plan(capsys, *arguments), plan(capsys, *arguments, "--depths", "3", "12@0.5")
    shorter = plan(capsys, *arguments, "--lengths", "128", "512@0.9")
    # Half of the steps have a quarter of the layers.
    assert deeper["run"]["flops"] / full["run"]["flops"] == pytest.approx(5 / 8, rel=0.05)
    assert shorter["run"]["flops"] < full["run"]["flops"]
    assert [stage["length"] for stage in shorter["stages"]] == [128, 512]


def test_stages_begin_at_steps_of_the_planned_run(capsys: Printed) -> None:
    arguments = ("--preset", "albert-nano", "--minutes", "10", "--lengths", "64", "128@0.6", "--kind", "a100-40")
    planned = plan(capsys, *arguments)
    first, second = planned["stages"]
    assert first["first_step"] == 0 and second["first_step"] == pytest.approx(0.6 * planned["run"]["steps"], abs=1)


def test_stages_that_have_no_step_in_a_short_run_are_left_out(capsys: Printed) -> None:
    arguments = ("--preset", "albert-xxlarge", "--depths", "3", "6@0.25", "12@0.5", "--kind", "t4")
    planned = plan(capsys, *arguments, "--minutes", "0.5")
    (stage,) = planned["stages"]
    assert planned["run"]["steps"] == 1
    assert (stage["first_step"], stage["num_layers"], stage["share"]) == (0, 12, 1)
    assert planned["run"]["flops"] == stage["flops"]
    longer = plan(capsys, *arguments, "--minutes", "10000")
    ends = [(stage["first_step"], stage["end_step"]) for stage in longer["stages"]]
    steps = longer["run"]["steps"]
    assert ends == [(0, -(-steps // 4)), (-(-steps // 4), -(-steps // 2)), (-(-steps // 2), steps)]
    assert 60 * longer["run"]["hours"] == pytest.approx(10000, rel=0.02)


def test_a_device_has_no_more_sequences_at_once_than_its_share(capsys: Printed) -> None:
    planned = plan(capsys, *CLUSTER, "--micro-sequences", "4096")
    assert planned["memory"]["micro_sequences"] == 4096 // 64


def test_this_machine_is_measured_and_nothing_is_written(
    capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("num_layers=1", "hidden_size=16", "num_heads=1", "feed_forward_size=16", "vocab_size=100")
    printed = run(
        capsys, "plan", "--preset", "albert-nano", "--encoder", *small, "--num-sequences", "2", "--steps", "10"
    )
    assert "measured on steps of 2 sequences" in printed and "this machine" in printed
    assert "none; between several devices" in printed and " 0 MB" not in printed, "one device sends nothing"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_step_takes_as_long_as_the_batches_that_were_timed(
    seed: int, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the lengths of the first sequences of a sample are."""
    monkeypatch.setattr(places, "time_work", lambda config, encoder, source, number, layers: number / 12)
    made = plan(capsys, "--preset", "albert-nano", "--short-share", "0.9", "--seed", str(seed))
    assert made["step"]["seconds"] == pytest.approx(1.0)


def test_impossible_plans_are_refused_in_a_sentence(capsys: Printed, tmp_path: Path) -> None:
    assert "'a1000'" in refuse(capsys, "plan", "--kind", "a1000")
    assert ": --devices is 0;" in refuse(capsys, "plan", "--devices", "0")
    assert "make --num-sequences a multiple of 3" in refuse(capsys, "plan", "--kind", "h100", "--devices", "3")
    assert "bf16" in refuse(capsys, "plan", "--kind", "t4", "--precision", "bf16")
    assert ": --price is -1.0;" in refuse(capsys, "plan", "--kind", "t4", "--price", "-1")
    assert ": --price is inf;" in refuse(capsys, "plan", "--kind", "t4", "--price", "inf")
    missing = tmp_path / "missing"
    assert str(missing) in refuse(capsys, "plan", "--kind", "h100", "--corpus", missing)
    assert "there is no preset" in refuse(capsys, "plan", "--preset", "albert-bass")
