import math
from dataclasses import replace
from pathlib import Path

import pytest

from litebert.config import UserError
from litebert.pretraining.config import PretrainConfig
from litebert.studies.layers import Layers
from litebert.studies.plan import Plan, begin_plan, read_plan, write_plan
from litebert.studies.results import (
    Result,
    compare_with_paper,
    count_verdicts,
    explain_columns,
    find_baselines,
    judge,
    pair_difference,
    part_columns,
    read_results,
    tabulate,
    write_result,
)
from litebert.studies.study import Study, Variant
from litebert.training.intervals import estimate

SETTINGS = PretrainConfig()


def vary(_: PretrainConfig) -> list[Variant]:
    return [
        Variant(name="first", settings=SETTINGS, paper={"downstream": 80.0}),
        Variant(name="second", settings=SETTINGS, paper={"downstream": 82.0}),
        Variant(name="third", settings=SETTINGS),
    ]


STUDY = Study(name="made", question="Which?", source="Table 0", finding="The second.", vary=vary)


def make(variant: str, seed: int, loss: float, **more: object) -> Result:
    content = {
        "variant": variant, "seed": seed, "plan": "plan", "run": f"runs/{variant}", "steps": 9, "parameters": 1000,
        "tokens": 90, "minutes": 1.0, "tokens_per_second": 5.0,
        "measures": {"masked_token_loss": loss, "sop_accuracy": 0.6, "sop_shallow": 0.7, "sop_majority": 0.5},
    }  # fmt: skip
    return Result(**(content | more))  # type: ignore[arg-type]


def test_differences_are_taken_seed_by_seed() -> None:
    """Both vary by a whole unit from seed to seed, and differ by a tenth in every one."""
    first, second = {0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.1, 1: 2.1, 2: 3.1, 3: 9.0}
    assert pair_difference(first, second) == pytest.approx((-0.1, 0), abs=1e-9)


def test_a_difference_within_its_interval_is_a_tie_and_one_seed_is_nothing() -> None:
    assert judge("masked_token_loss", estimate([-1.0, 1.1])) == "tie"
    assert judge("masked_token_loss", estimate([-1.0])) == "one seed"
    assert judge("masked_token_loss", estimate([-1.0, -1.1, -1.05])) == "agrees"
    assert judge("sop_accuracy", estimate([-1.0, -1.1, -1.05])) == "disagrees"
    assert judge("sop_accuracy", estimate([0.25, 0.25])) == "tie"  # no spread is no proof


def test_nothing_is_said_of_runs_that_came_to_no_number() -> None:
    found = estimate([1.0, float("nan"), 2.0])
    assert math.isnan(found.mean) and judge("masked_token_loss", found) == "no number"


@pytest.mark.parametrize(("losses", "verdict"), [((4.0, 4.15), "agrees"), ((6.0, 6.15), "disagrees"), ((4, 6), "tie")])
def test_the_order_of_a_pair_is_held_against_the_paper_s(losses: tuple[float, float], verdict: str) -> None:
    results = [make("first", seed, 5.0 + seed / 10) for seed in (0, 1)]
    results += [make("second", seed, loss) for seed, loss in enumerate(losses)]
    (compared,) = compare_with_paper(STUDY, vary(SETTINGS), results)
    assert (compared.better, compared.worse, compared.paper_difference) == ("second", "first", 2.0)
    assert compared.measure == "masked_token_loss" and compared.verdict == verdict


def test_fine_tuned_models_stand_beside_the_paper_s_averages() -> None:
    results = [make("first", seed, 1.0, scores={"rte": 0.5, "sst2": 0.7}) for seed in (0, 1)]
    results += [make("second", seed, 9.0, scores={"rte": 0.6, "sst2": 0.8 + seed / 100}) for seed in (0, 1)]
    (compared,) = compare_with_paper(STUDY, vary(SETTINGS), results)
    assert compared.measure == "downstream" and compared.verdict == "agrees"
    rows = tabulate(STUDY, vary(SETTINGS), results)
    assert rows[0]["rte (%)"] == "50.0 ± 0.0" and rows[0]["downstream (%)"] == "60.0 ± 0.0"


def test_only_tasks_that_all_were_fine_tuned_for_are_averaged() -> None:
    results = [make("first", seed, 1.0, scores={"rte": 0.5}) for seed in (0, 1)]
    results += [make("second", seed, 9.0, scores={"rte": 0.4 + seed / 100, "sst2": 0.9}) for seed in (0, 1)]
    (compared,) = compare_with_paper(STUDY, vary(SETTINGS), results)
    assert compared.measure == "downstream" and compared.difference.mean == pytest.approx(-0.095)


def test_a_table_has_a_row_for_each_variant_that_was_run() -> None:
    rows = tabulate(STUDY, vary(SETTINGS), [make("first", 0, 5.0), make("third", 0, 4.0), make("third", 1, 4.2)])
    assert [row[""] for row in rows] == ["first", "third"]
    name = "masked-token loss (nats)"
    assert rows[0][name] == "5.000" and rows[1][name].startswith("4.100 ± ")
    assert [row["paper: downstream (%)"] for row in rows] == ["80.0", "-"]
    assert rows[0]["masked tokens (%)"] == "-" and rows[0]["minutes"] == "1.0"
    assert [row["difference from first"] for row in rows] == ["-", "-1.000 (one seed)"]


def test_a_wide_table_is_parted_into_cost_results_and_the_papers() -> None:
    rows = tabulate(STUDY, vary(SETTINGS), [make("first", 0, 5.0), make("second", 0, 4.0)])
    cost, own, paper = part_columns(rows)
    assert [*cost[0]] == ["", "parameters", "steps", "minutes", "tokens/s", "seeds"]
    assert [*paper[1].items()] == [("", "second"), ("paper: downstream (%)", "82.0")]
    assert {**cost[1], **own[1], **paper[1]} == rows[1], "nothing is lost"
    assert len(part_columns([{"": "third", "steps": 9, "masked tokens (%)": "1"}])) == 2, "the paper may have none"


def test_the_columns_that_need_it_are_explained() -> None:
    difference, paper = explain_columns(STUDY, vary(SETTINGS))
    assert difference.startswith("difference from first: in masked-token loss, taken seed by seed")
    assert paper.startswith("paper: its own figures")
    assert len(explain_columns(STUDY, [Variant(name="third", settings=SETTINGS)])) == 1, "the paper has none of it"


def test_each_variant_is_held_against_the_first_seed_by_seed() -> None:
    losses = {"first": (5.0, 6.0, 5.5), "second": (4.0, 5.1, 4.55), "third": (5.3, 5.7, 5.6)}
    results = [make(name, seed, loss) for name, row in losses.items() for seed, loss in enumerate(row)]
    shown = [row["difference from first"] for row in tabulate(STUDY, vary(SETTINGS), results)]
    assert shown[:2] == ["-", "-0.950 ± 0.124"] and shown[2].startswith("0.033 ± ") and shown[2].endswith(" (tie)")


def test_equal_differences_say_nothing_of_their_spread() -> None:
    losses = {"first": (0.3, 0.2, 0.8), "second": (0.2, 0.1, 0.7)}
    results = [make(name, seed, loss) for name, row in losses.items() for seed, loss in enumerate(row)]
    (compared,) = compare_with_paper(STUDY, vary(SETTINGS), results)
    assert compared.difference.margin != 0 and compared.verdict == "tie"


def test_verdicts_are_counted_in_words() -> None:
    def count(results: list[Result]) -> str:
        return count_verdicts(vary(SETTINGS), compare_with_paper(STUDY, vary(SETTINGS), results))

    one = [make("first", 0, 5.0), make("second", 0, 4.0)]
    assert "one seed cannot show an order" in count(one)
    both = [*one, make("first", 1, 5.15), make("second", 1, 4.1)]
    assert count(both) == "1 pair is ordered by the paper: 1 in agreement, 0 tied, 0 reversed"
    assert count([]) == "not enough results yet: no seed has both variants of a pair that the paper orders"
    assert count_verdicts([Variant(name="third", settings=SETTINGS)], []) == "the paper has no figures for these"


def test_accuracies_of_pairs_stand_beside_what_needs_no_model() -> None:
    assert find_baselines(STUDY.measures, make("first", 0, 5.0).measures) == {
        "sop_accuracy": {"shallow baseline": 0.7, "majority": 0.5}
    }


PLANNED = Plan(commands=("litebert study made",), settings={"seed": 0}, steps={"first": 9, "second": 9}, tasks={})


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    layers = Layers(distances=[1.0, 2.0], angles=[3.0, 4.0], num_tokens=5)
    result = make("first", 3, 5.0, layers=layers, plan=PLANNED.name)
    write_plan(tmp_path, PLANNED)
    write_result(tmp_path, result)
    assert read_results(tmp_path) == [result]


def test_results_of_another_plan_are_not_taken_for_this_one_s(tmp_path: Path) -> None:
    write_plan(tmp_path, PLANNED)
    write_result(tmp_path, make("first", 0, 5.0, plan=PLANNED.name))
    write_result(tmp_path, make("second", 0, 5.0, plan=replace(PLANNED, settings={"seed": 1}).name))
    write_result(tmp_path, make("gone", 0, 5.0, plan="older"))
    assert [result.variant for result in read_results(tmp_path)] == ["first"]
    assert replace(PLANNED, tasks={"rte": "RTE"}).name == PLANNED.name


def test_of_parts_that_begin_together_the_first_one_s_plan_stands(tmp_path: Path) -> None:
    begin_plan(tmp_path, PLANNED)
    begin_plan(tmp_path, replace(PLANNED, steps={"first": 1, "second": 1}))
    assert read_plan(tmp_path) == PLANNED and [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_what_is_no_plan_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UserError, match="plan.json is no plan of a study .Plan lacks commands"):
        read_plan(tmp_path)
