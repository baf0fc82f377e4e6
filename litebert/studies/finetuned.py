"""Fine-tuning runs on a page: what was trained for what, over all seeds, beside those who have read no text."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from litebert.config import read_json, require
from litebert.finetuning.results import EXAMPLES, MAJORITY, find_score, scores_by_split
from litebert.finetuning.seeds import find_seeds, summarize
from litebert.finetuning.task_file import read_task_file
from litebert.models.folder import read_model
from litebert.studies.page import fold, to_facts, to_figure, to_list, to_table
from litebert.studies.pretrained import describe_machine, find_seconds
from litebert.tasks.text import KINDS
from litebert.training.curves import Run, find_keys, find_scores
from litebert.training.metrics import Line, companion_key, read_metrics
from litebert.training.plots import draw_runs
from litebert.training.progress import show_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES_OF_HUNDRED = ("pearson", "spearman", "matthews")
"""Scores that are told as a hundred times what they are."""
NUM_SHOWN = 12
"""Labels."""
MOST_FREQUENT = "always the most frequent label"


class Seed(NamedTuple):
    """One run."""

    folder: Path
    config: Mapping[str, Any]
    scores: Mapping[str, Any]
    metrics: Sequence[Line]

    @property
    def seconds(self) -> float | None:
        return find_seconds(self.metrics)


class Tuned(NamedTuple):
    """A run, or several that differ in their seeds alone."""

    name: str
    seeds: Sequence[Seed]

    @property
    def config(self) -> Mapping[str, Any]:
        return self.seeds[0].config

    @property
    def task(self) -> tuple[str, str]:
        """What may be compared: the task and its data."""
        return self.config["task"], self.config.get("data", "")

    @property
    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        return summarize([seed.scores for seed in self.seeds])

    @property
    def majority(self) -> Mapping[str, Mapping[str, float]]:
        """What one who has read no text has of each split; runs of an older version do not tell."""
        return self.seeds[0].scores.get(MAJORITY, {})

    @property
    def best(self) -> Seed:
        """The seed that was best on dev."""
        return max(self.seeds, key=lambda seed: find_score(seed.scores))


def open_tuned(name: str, folder: Path) -> Tuned:
    return Tuned(name, [open_seed(seed) for seed in find_seeds(folder) or [folder]])


def open_seed(folder: Path) -> Seed:
    require((folder / "scores.json").exists(), f"{folder} has no scores.json; go on with the run, or leave it out")
    scores = read_json(folder / "scores.json")
    numbers = [value for part in scores_by_split(scores).values() for value in part.values()]
    require(
        "step" in scores and "metric" in scores and all(isinstance(value, int | float) for value in numbers),
        f"{folder / 'scores.json'} is not what litebert finetune writes; go on with the run, to write it again",
    )
    return Seed(folder, read_json(folder / "config.json"), scores, read_metrics(folder))


def finetuning_section(runs: Sequence[Tuned]) -> str:
    tasks: dict[tuple[str, str], list[Tuned]] = {}
    for run in runs:
        tasks.setdefault(run.task, []).append(run)
    parts = ["<h2>Fine-tuning</h2>"]
    for found in tasks.values():
        parts += describe_task(found)
    return "\n".join(parts)


def describe_task(runs: Sequence[Tuned]) -> list[str]:
    """The runs of one task: what was trained, what came out, and how it went."""
    has_seeds = any(len(run.seeds) > 1 for run in runs)
    about = "The median of all seeds [lowest to highest]" if has_seeds else "Of one seed"
    caption = f"{about}; of each run the model that was best on dev."
    return [
        "<h3>What was trained</h3>",
        to_facts({run.name: dict(list_facts(run)) for run in runs}),
        "<h3>What came out</h3>",
        to_table([show_scores(run) for run in runs], caption, list_floor(runs)),
        to_list(list_warnings(runs)),
        *([fold("each seed", to_table([row for run in runs for row in list_seeds(run)]))] if has_seeds else []),
        to_figure(draw_tuning(runs), f"{name_task(runs[0])}: in training, and on dev." + BAND * has_seeds),
    ]


BAND = " A line is the median of the seeds, the band about it reaches from the lowest to the highest."


def list_facts(run: Tuned) -> Iterator[tuple[str, Any]]:
    """What was trained for what, how and for how long, as far as the folders tell."""
    config, first = run.config, run.seeds[0]
    yield "task", name_task(run)
    stored = read_task_file(first.folder / "model")
    if stored is not None and stored.labels:
        yield "labels", ", ".join(stored.labels[:NUM_SHOWN]) + " ..." * (len(stored.labels) > NUM_SHOWN)
    yield "begun with", f"random weights, in the shape of {config['init']}" if config["scratch"] else config["init"]
    if (first.folder / "model").exists():
        yield "parameters", sum(parameter.numel() for parameter in read_model(first.folder / "model").parameters())
    data = read_json(first.folder / "data.json") if (first.folder / "data.json").exists() else {}
    if "train" in data:
        sizes = {"train": data["train"]["examples"], **first.scores.get(EXAMPLES, {})}
        yield "examples", ", ".join(f"{size:,} in {split}" for split, size in sizes.items())
    if "num_examples" in config and "steps" in first.scores:
        length = config.get("limits", {}).get("length")
        yield "steps", f"{first.scores['steps']:,}, each of {config['num_examples']} examples of up to {length} tokens"
        yield "learning rate", f"{first.scores['learning_rate']:.3g}"
    yield "seeds", len(run.seeds)
    seconds = [seed.seconds for seed in run.seeds if seed.seconds is not None]
    if seconds:
        yield "time", show_seconds(statistics.median(seconds)) + (" each" if len(run.seeds) > 1 else "")
    if (first.folder / "environment.json").exists():
        yield from describe_machine(read_json(first.folder / "environment.json"))


def name_task(run: Tuned) -> str:
    """The benchmark; or, of a user's own data, which column was to be told from which."""
    task, data = run.task
    columns = run.config.get("columns")
    if task != "text" or not columns:
        return task
    target = next((columns[kind] for kind in KINDS if columns[kind]), "label")
    return f"{target} of {columns['first']} in {data}"


def head(split: str, score: str) -> str:
    """A score with its unit, above a column."""
    unit = "" if score == "rmse" else " (× 100)" if score in SHARES_OF_HUNDRED else " (%)"
    return f"{split} {score.replace('_', ' ')}{unit}"


def show_scores(run: Tuned) -> dict[str, Any]:
    found = {
        head(split, score): show_spread(values) if len(run.seeds) > 1 else f"{values['median']:.1f}"
        for split, scores in run.summary.items()
        for score, values in scores.items()
    }
    return {"": run.name, **found}


def show_spread(values: Mapping[str, float]) -> str:
    return f"{values['median']:.1f} [{values['lowest']:.1f} to {values['highest']:.1f}]"


def list_floor(runs: Sequence[Tuned]) -> list[dict[str, str]]:
    """What one has who has read no text."""
    found = runs[0].majority
    row = {head(split, score): f"{value:.1f}" for split, scores in found.items() for score, value in scores.items()}
    return [{"": MOST_FREQUENT, **row}] if row else []


def list_seeds(run: Tuned) -> Iterator[dict[str, Any]]:
    for seed in run.seeds:
        scores = {
            head(split, score): f"{value:.1f}"
            for split, values in scores_by_split(seed.scores).items()
            for score, value in values.items()
        }
        name = f"{run.name}/{seed.folder.name}" if len(run.seeds) > 1 else run.name
        yield {"": name, "best at step": seed.scores["step"], **scores}


def list_warnings(runs: Sequence[Tuned]) -> Iterator[str]:
    for run in runs:
        for seed in run.seeds:
            if said := seed.scores.get("stuck"):
                yield f"{run.name}, {seed.folder.name} learned nothing: {said}."


def draw_tuning(runs: Sequence[Tuned]) -> "Figure":
    merged = [Run(run.name, merge_seeds(run)) for run in runs]
    scores = [key for key in find_scores(find_keys(merged, ("evaluation",))) if key.startswith("dev")]
    return draw_runs(merged, x="step", keys=[*(["loss"] if find_keys(merged, ("train",)) else []), *scores])


def merge_seeds(run: Tuned) -> list[Line]:
    """The median of all seeds at each step that all have measured; of scores with the lowest and the highest, and with
    what needs no text."""
    lines = [{(line["kind"], line["step"]): line for line in seed.metrics} for seed in run.seeds]
    return [
        merge_lines([seed[place] for seed in lines], run.majority)
        for place in lines[0]
        if all(place in seed for seed in lines)
    ]


def merge_lines(lines: Sequence[Line], majority: Mapping[str, Mapping[str, float]]) -> Line:
    first = lines[0]
    floors = {f"{split}_{score}": value for split, scores in majority.items() for score, value in scores.items()}
    merged: Line = {"kind": first["kind"], "step": first["step"]}
    for key, value in first.items():
        if key in merged or isinstance(value, str) or not all(key in line for line in lines):
            continue
        values = [line[key] for line in lines]
        merged[key] = statistics.median(values)
        if first["kind"] == "evaluation" and len(values) > 1:
            merged[companion_key(key, "low")], merged[companion_key(key, "high")] = min(values), max(values)
        if key in floors:
            merged[companion_key(key, "majority")] = floors[key]
    return merged


def find_finetuning(runs: Sequence[Tuned]) -> Iterator[str]:
    """What is to be known of each task, in a sentence."""
    for task in dict.fromkeys(run.task for run in runs):
        yield compare_runs([run for run in runs if run.task == task])


def compare_runs(runs: Sequence[Tuned]) -> str:
    """By the score that decides, on test where that is scored; the best first."""
    score = runs[0].seeds[0].scores["metric"]
    split = list(runs[0].summary)[-1]
    found = {run.name: run.summary.get(split, {}).get(score) for run in runs}
    ranked = sorted(((n, s) for n, s in found.items() if s is not None), key=lambda pair: -pair[1]["median"])
    several = all(len(run.seeds) > 1 for run in runs)
    values = ", ".join(f"{name} {show_spread(s) if several else format(s['median'], '.1f')}" for name, s in ranked)
    spread = ", median of the seeds [lowest to highest]" * several
    said = f"Fine-tuned for {name_task(runs[0])}, {head(split, score)}{spread}: {values}"
    if score in runs[0].majority.get(split, {}):
        said += f"; {MOST_FREQUENT}, {runs[0].majority[split][score]:.1f}"
    if len(ranked) < 2:
        return f"{said}."
    (best, first), (next_best, second) = ranked[:2]
    if not several:
        return f"{said}. One seed of each: a difference may be chance."
    apart = first["lowest"] > second["highest"]
    verdict = (
        f"Every seed of {best} is above every seed of {next_best}" if apart else "The seeds of the two best overlap"
    )
    return f"{said}. {verdict}."
