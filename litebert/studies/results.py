"""What came out of the runs of a study, and what may be concluded from it.

Runs differ by chance. With several seeds each number has an interval, and so has the difference between two variants,
taken seed by seed, since runs of one seed see the same sequences. A difference within its interval is a tie, and a
single seed tells nothing.
"""

import dataclasses
import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from litebert.config import from_dict, read_json
from litebert.files import write_json_file
from litebert.studies.layers import Layers
from litebert.studies.plan import read_plan
from litebert.studies.study import MEASURES, Study, Variant, head, is_better, show_value
from litebert.training.intervals import Estimate, estimate
from litebert.training.metrics import BASELINES, companion_key

COST = ("parameters", "steps", "minutes", "tokens/s", "seeds")
"""The columns of a table that say what runs took."""
ROUNDING = 1e-9
"""Margins below it are those of equal differences."""
Verdict = Literal["agrees", "disagrees", "tie", "one seed", "no number"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came out of one variant and seed."""

    variant: str
    seed: int
    plan: str
    """The name of the plan that it is a part of."""
    run: str
    """Its folder, within that of the studies."""
    steps: int
    parameters: int
    tokens: int
    minutes: float
    tokens_per_second: float
    measures: dict[str, float]
    scores: dict[str, float] = field(default_factory=dict)
    """Of the tasks that it was fine-tuned for."""
    layers: Layers | None = None


def slug(name: str) -> str:
    """A variant's name as a part of a file's."""
    return re.sub(r"[^a-z0-9=]+", "-", name.lower()).strip("-")


def write_result(folder: Path, result: Result) -> None:
    write_json_file(folder / "results" / f"{slug(result.variant)}-seed-{result.seed}.json", dataclasses.asdict(result))


def read_results(folder: Path) -> list[Result]:
    """What is there of a study as it is planned, in the order of its plan."""
    plan = read_plan(folder)
    order = {name: place for place, name in enumerate(plan.steps)}
    results = [read_result(path) for path in sorted((folder / "results").glob("*.json"))]
    found = [result for result in results if result.plan == plan.name]
    return sorted(found, key=lambda result: (order[result.variant], result.seed))


def read_result(path: Path) -> Result:
    content = read_json(path)
    layers = content.pop("layers", None)
    result = from_dict(Result, content)
    return replace(result, layers=Layers(**layers) if layers else None)


def gather(results: Sequence[Result], measure: str) -> dict[str, dict[int, float]]:
    """A measure, a task's score, or the mean of the tasks that all were fine-tuned for, by variant and seed."""
    tasks = set.intersection(*(set(result.scores) for result in results)) if results else set()
    found: dict[str, dict[int, float]] = {}
    for result in results:
        value = result.scores.get(measure, result.measures.get(measure))
        if measure == "downstream" and tasks:
            value = statistics.fmean(result.scores[task] for task in tasks)
        if value is not None:
            found.setdefault(result.variant, {})[result.seed] = value
    return found


class Comparison(NamedTuple):
    """Two variants, the one that the paper finds better first."""

    better: str
    worse: str
    measure: str
    difference: Estimate
    """Ours, of the first from the second."""
    paper_measure: str
    paper_difference: float
    verdict: Verdict


def compare_with_paper(study: Study, variants: Sequence[Variant], results: Sequence[Result]) -> list[Comparison]:
    """Every pair of variants that the paper tells apart, by each measure that it gives for both.

    Its averages over tasks stand beside our own where models were fine-tuned, else beside what decides the study.
    """
    paper_measures = list(dict.fromkeys(name for variant in variants for name in variant.paper))
    compared = []
    for paper_measure in paper_measures:
        has_own = bool(gather(results, paper_measure))
        if not has_own and len(paper_measures) > 1:
            continue
        measure = paper_measure if has_own else study.measures[0]
        values = gather(results, measure)
        for first, second in itertools.combinations(variants, 2):
            figures = first.paper.get(paper_measure), second.paper.get(paper_measure)
            if None in figures or not {first.name, second.name} <= set(values):
                continue
            gap = figures[0] - figures[1]  # type: ignore[operator]
            better, worse = (first.name, second.name) if gap > 0 else (second.name, first.name)
            if gap and (values[better].keys() & values[worse].keys()):
                difference = pair_difference(values[better], values[worse])
                verdict = judge(measure, difference)
                compared.append(Comparison(better, worse, measure, difference, paper_measure, abs(gap), verdict))
    return compared


def pair_difference(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate:
    """Of the seeds that both have."""
    return estimate([first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())])


def judge(measure: str, difference: Estimate) -> Verdict:
    """Whether ours has the paper's order, for a difference of the paper's better variant from the other.

    Differences that are all the same, as accuracies on few examples can be, say nothing of their spread: a tie.
    """
    if not math.isfinite(difference.mean):  # a run diverged
        return "no number"
    if difference.margin is None:
        return "one seed"
    if abs(difference.mean) <= difference.margin or difference.margin < ROUNDING:
        return "tie"
    return "agrees" if is_better(measure, difference.mean, 0.0) else "disagrees"


def count_verdicts(variants: Sequence[Variant], compared: Sequence[Comparison]) -> str:
    """In words: how many orders are the paper's."""
    if not any(variant.paper for variant in variants):
        return "the paper has no figures for these"
    if not compared:
        return "not enough results yet: no seed has both variants of a pair that the paper orders"
    counts = Counter(comparison.verdict for comparison in compared)
    if counts["one seed"] == len(compared):
        return "one seed cannot show an order; run again with --seeds 3"
    said = (
        f"{len(compared)} {'pair is' if len(compared) == 1 else 'pairs are'} ordered by the paper: "
        f"{counts['agrees']} in agreement, {counts['tie']} tied, {counts['disagrees']} reversed"
    )
    said += f", {counts['one seed']} with one seed alone" if counts["one seed"] else ""
    return said + (f", {counts['no number']} with a run that came to no number" if counts["no number"] else "")


def tabulate(study: Study, variants: Sequence[Variant], results: Sequence[Result]) -> list[dict[str, Any]]:
    """A row for each variant: what it cost, what it reached, how far that is from the first, and what the paper has."""
    tasks = list(dict.fromkeys(task for result in results for task in result.scores))
    measures = [*study.measures, *tasks, *(["downstream"] if len(tasks) > 1 else [])]
    values = {measure: gather(results, measure) for measure in measures}
    paper_measures = list(dict.fromkeys(name for variant in variants for name in variant.paper))
    first = variants[0].name
    rows = []
    for variant in variants:
        own = [result for result in results if result.variant == variant.name]
        if not own:
            continue
        row: dict[str, Any] = {
            "": variant.name,
            "parameters": own[0].parameters,
            "steps": own[0].steps,
            "minutes": f"{statistics.median(result.minutes for result in own):.1f}",
            "tokens/s": round(statistics.median(result.tokens_per_second for result in own)),
            "seeds": len(own),
        }
        for measure in measures:
            found = list(values[measure].get(variant.name, {}).values())
            row[head(measure)] = show(measure, estimate(found)) if found else "-"
            if measure == study.measures[0]:
                row[f"difference from {first}"] = compare_with_first(measure, values[measure], first, variant.name)
        for measure in paper_measures:
            row[f"paper: {head(measure)}"] = f"{variant.paper[measure]:.1f}" if measure in variant.paper else "-"
        rows.append(row)
    return rows


def part_columns(rows: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """The table in three, since it is wider than a terminal or a page: what runs took, what came out, and what the
    paper has, if anything."""
    name, *others = rows[0]
    cost = [column for column in others if column in COST]
    paper = [column for column in others if column.startswith("paper: ")]
    own = [column for column in others if column not in (*cost, *paper)]
    return [[{column: row[column] for column in (name, *part)} for row in rows] for part in (cost, own, paper) if part]


def compare_with_first(measure: str, values: Mapping[str, Mapping[int, float]], first: str, name: str) -> str:
    """The difference from the first variant, seed by seed; with a word where that is none."""
    if name == first or not values.get(first, {}).keys() & values.get(name, {}).keys():
        return "-"
    difference = pair_difference(values[name], values[first])
    verdict = judge(measure, difference)
    return show(measure, difference) + (f" ({verdict})" if verdict in ("tie", "one seed", "no number") else "")


def show(measure: str, found: Estimate) -> str:
    """With its interval, where there is one."""
    margin = "" if found.margin is None else f" ± {show_value(measure, found.margin)}"
    return show_value(measure, found.mean) + margin


def explain_columns(study: Study, variants: Sequence[Variant]) -> list[str]:
    """A sentence on each column whose heading does not say all."""
    told = [
        f"difference from {variants[0].name}: in {MEASURES[study.measures[0]]}, taken seed by seed. One within its 95 "
        "% interval is a tie; one seed tells no difference from chance."
    ]
    if any(variant.paper for variant in variants):
        told.append(
            "paper: its own figures, of far larger models; downstream is its average over SQuAD 1.1 and 2.0, MNLI, "
            "SST-2 and RACE."
        )
    return told


def find_baselines(measures: Iterable[str], values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """What a shallow model and the majority class have of each pair task, which needs no pre-training."""
    return {
        measure: {name: values[companion_key(measure, key)] for key, name in BASELINES.items()}
        for measure in measures
        if companion_key(measure, "shallow") in values
    }
