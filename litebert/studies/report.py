"""Studies and runs as one page that needs nothing else: tables beside the paper's, figures, commands, environment."""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litebert.config import UserError, from_dict, read_config, read_json, require
from litebert.finetuning.results import scores_by_split
from litebert.finetuning.seeds import find_seeds
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.data import describe_data, find_changed
from litebert.studies.catalogue import STUDIES
from litebert.studies.layers import Layers
from litebert.studies.page import fold, make_page, to_code, to_figure, to_table
from litebert.studies.pictures import draw_layers, draw_sizes
from litebert.studies.plan import PLAN, Plan, read_plan
from litebert.studies.questions import LAYER_SEQUENCES, Questions
from litebert.studies.results import (
    Comparison,
    Result,
    compare_with_paper,
    count_verdicts,
    find_baselines,
    read_results,
    show,
    tabulate,
)
from litebert.studies.study import MEASURES, Study
from litebert.training.curves import Run, XAxis
from litebert.training.drawing import name_runs
from litebert.training.metrics import Line, companion_key, read_metrics
from litebert.training.plots import draw_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = ("masked_token_loss", "masked_token_accuracy", "sop_accuracy", "pair_accuracy")
LAYERS_CAPTION = "What each layer does to its input, on held-out text."
LEAST_SPREAD = 1.02
"""Draw the figure over parameters only if the largest model has at least this many times the parameters of the
smallest: heads alone make less."""


def make_report(folders: Sequence[Path], title: str) -> str:
    """The page: a section for each study, and one for all plain runs."""
    studies = [folder for folder in folders if (folder / PLAN).exists()]
    runs = [run for folder in folders if folder not in studies for run in find_seeds(folder) or [folder]]
    for folder in runs:
        require(
            (folder / "metrics.jsonl").exists(),
            f"{folder} is neither a run nor a study; name a folder with a metrics.jsonl or a plan.json",
        )
    sections = {name: study_section(folder) for name, folder in zip(name_runs(studies), studies, strict=True)}
    if runs:
        sections["runs"] = runs_section(runs)
    return make_page(title, sections)


def study_section(folder: Path) -> str:
    plan, results = read_plan(folder), read_results(folder)
    require(results, f"{folder} has no results yet; go on with the study")
    name = folder.resolve().name
    require(name in STUDIES, f"{folder} is no study; the folder of one has its name, such as {next(iter(STUDIES))}")
    study = STUDIES[name]
    known = {item.name for item in fields(PretrainConfig)}
    base = from_dict(PretrainConfig, {name: value for name, value in plan.settings.items() if name in known})
    variants = study.variants(base)
    compared = compare_with_paper(study, variants, results)
    verdict = f"The paper: {study.finding} Here: {count_verdicts(variants, compared)}."
    parts = [
        f"<h2>{html.escape(study.name)} <small>{html.escape(study.source)}</small></h2>",
        f"<p>{html.escape(study.question)}</p>",
        f'<p class="soft">{html.escape(verdict)}</p>',
        to_table(tabulate(study, variants, results), "Means over seeds, with 95 % intervals where there are several."),
        *describe_baselines(study.measures, {result.run: result.measures for result in results}),
        *(fold(f"pairs that the paper orders: {len(compared)}", compared_table(compared)) if compared else []),
        *study_figures(study, results, folder.parent),
        *fold("how it was made", describe_origin(plan, folder.parent / results[0].run)),
    ]
    return "\n".join(parts)


def describe_baselines(measures: Iterable[str], evaluations: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each measure; where runs have other corpora and so other baselines, one for each, with their names."""
    told: dict[str, dict[str, list[str]]] = {}
    for name, values in evaluations.items():
        for measure, baselines in find_baselines(measures, values).items():
            text = ", ".join(f"{baseline} {100 * value:.1f} %" for baseline, value in baselines.items())
            told.setdefault(measure, {}).setdefault(text, []).append(name)
    return [
        f'<p class="soft">{html.escape(MEASURES[measure])}'
        f"{html.escape(' of ' + ', '.join(names) if len(texts) > 1 else '')}: {text}.</p>"
        for measure, texts in told.items()
        for text, names in texts.items()
    ]


def compared_table(compared: Sequence[Comparison]) -> str:
    rows = [
        {
            "better in the paper": comparison.better,
            "than": comparison.worse,
            "by": f"{comparison.paper_difference:.1f} ({MEASURES[comparison.paper_measure]})",
            "ours": f"{show(comparison.measure, comparison.difference)} ({MEASURES.get(comparison.measure)})",
            "": comparison.verdict,
        }
        for comparison in compared
    ]
    return to_table(rows)


def study_figures(study: Study, results: Sequence[Result], out: Path) -> list[str]:
    """Curves of the first seed, the measure that decides over parameters, and layers where they were measured."""
    first = [result for result in results if result.seed == results[0].seed]
    runs = [Run(result.variant, read_metrics(out / result.run)) for result in first]
    x: XAxis = "minutes" if study.equal == "minutes" else "step"
    found = [to_figure(draw_curves(runs, x), f"In training, seed {results[0].seed}.")]
    sizes = [result.parameters for result in results]
    if max(sizes) > LEAST_SPREAD * min(sizes):
        found.append(to_figure(draw_sizes(results, study.measures[0]), "Held out, over the number of parameters."))
    layers = {result.variant: result.layers for result in first if result.layers is not None}
    if layers:
        found.append(to_figure(draw_layers(layers), LAYERS_CAPTION))
    return found


def runs_section(folders: Sequence[Path]) -> str:
    names = dict(zip(folders, name_runs(folders), strict=True))
    tuned = {folder: name for folder, name in names.items() if "task" in read_json(folder / "config.json")}
    pretrained = {folder: name for folder, name in names.items() if folder not in tuned}
    parts = []
    if pretrained:
        parts += ["<h2>Pre-training</h2>", *describe_pretraining(pretrained)]
    if tuned:
        parts += ["<h2>Fine-tuning</h2>", *describe_finetuning(tuned)]
    for folder, name in names.items():
        described = {part: read_json(folder / f"{part}.json") for part in ("config", "environment")}
        parts += fold(f"how {name} was made", to_code(json.dumps(described, indent=1, ensure_ascii=False)))
    return "\n".join(parts)


def describe_pretraining(names: Mapping[Path, str]) -> list[str]:
    """What was last measured, curves, and layers where the run is done and its corpus still there."""
    runs = [Run(name, read_metrics(folder)) for folder, name in names.items()]
    rows = [{"": run.name, **last_values(run.metrics)} for run in runs]
    layers = {name: measured for folder, name in names.items() if (measured := find_layers(folder)) is not None}
    return [
        to_table(rows, "As last evaluated on held-out documents, with 95 % intervals."),
        *describe_baselines(MEASURES, {run.name: last_evaluation(run.metrics) for run in runs}),
        to_figure(draw_curves(runs, "step"), "Training and, where it was evaluated, held-out documents."),
        *([to_figure(draw_layers(layers), LAYERS_CAPTION)] if layers else []),
    ]


def find_layers(run: Path) -> Layers | None:
    if not (run / "model").exists():
        return None
    try:
        config = read_config(PretrainConfig, run / "config.json")
        questions = Questions(replace(config, evaluation_sequences=LAYER_SEQUENCES))
        if find_changed(describe_data(questions.corpora, questions.weights), read_json(run / "data.json")):
            return None
        return questions.measure_layers(run / "model")
    except UserError:  # the corpus is elsewhere, or the run of another version
        return None


def describe_finetuning(names: Mapping[Path, str]) -> list[str]:
    """The scores of each, and what it was begun with."""
    rows = []
    for folder, name in names.items():
        config = read_json(folder / "config.json")
        require((folder / "scores.json").exists(), f"{folder} has no scores.json; go on with the run, or leave it out")
        scores = read_json(folder / "scores.json")
        require(
            "step" in scores
            and all(
                isinstance(value, int | float) for part in scores_by_split(scores).values() for value in part.values()
            ),
            f"{folder / 'scores.json'} is not what litebert finetune writes; go on with the run, to write it again",
        )
        found = {
            f"{split} {metric.replace('_', ' ')}": f"{value:.1f}"
            for split, values in scores_by_split(scores).items()
            for metric, value in values.items()
        }
        begun = "random weights" if config["scratch"] else config["init"]
        rows.append({"": name, "task": config["task"], "begun with": begun, "best at step": scores["step"], **found})
    curves: dict[str, list[Run]] = {}
    for row, folder in zip(rows, names, strict=True):
        curves.setdefault(row["task"], []).append(Run(row[""], read_metrics(folder)))
    return [
        to_table(rows, "Scores of each run's best model on dev; shares are in per cent."),
        *(to_figure(draw_tuning(runs), f"{task}: in training, and on dev.") for task, runs in curves.items()),
    ]


def draw_tuning(runs: Sequence[Run]) -> "Figure":
    known = dict.fromkeys(key for run in runs for line in run.metrics for key in line)
    return draw_runs(runs, x="step", keys=[key for key in known if key == "loss" or key.startswith("dev")])


def last_evaluation(lines: Sequence[Line]) -> Line:
    """What was last held out, or how far a run has come without it."""
    return next((line for line in reversed(lines) if line["kind"] == "evaluation"), {"step": lines[-1]["step"]})


def last_values(lines: Sequence[Line]) -> dict[str, str]:
    """The scores of the last evaluation, as people read them."""
    last = last_evaluation(lines)
    shown = {"steps": f"{last['step']:,}"}
    for key, value in last.items():
        if key.endswith("loss"):
            shown[f"{MEASURES.get(key, key)} (nats)"] = f"{value:.3f}"
        elif key in MEASURES:
            ends = [companion_key(key, end) for end in ("low", "high")]
            bounds = [f"{100 * last[end]:.1f}" for end in ends if end in last]
            shown[f"{MEASURES[key]} (%)"] = f"{100 * value:.1f}" + (f" [{', '.join(bounds)}]" if bounds else "")
    return shown


def draw_curves(runs: Sequence[Run], x: XAxis) -> "Figure":
    known = {key for run in runs for line in run.metrics for key in line}
    return draw_runs(runs, x=x, keys=[key for key in CURVES if key in known])


def describe_origin(plan: Plan, run: Path) -> str:
    environment = read_json(run / "environment.json") if (run / "environment.json").exists() else {}
    described = {"settings": plan.settings, "steps": plan.steps, "environment": environment}
    commands = "\n".join(plan.commands)
    return to_code(f"{commands}\n\n{json.dumps(described, indent=1, ensure_ascii=False)}".strip())
