"""Studies and runs as one page that needs nothing else: tables beside the paper's, figures, commands, environment."""

import html
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from litebert.config import from_dict, read_json, require
from litebert.finetuning.results import find_score
from litebert.finetuning.seeds import find_seeds
from litebert.pretraining.config import PretrainConfig
from litebert.studies.catalogue import STUDIES
from litebert.studies.finetuned import Tuned, find_finetuning, finetuning_section, open_tuned
from litebert.studies.page import fold, make_page, to_code, to_figure, to_list, to_paragraph, to_table
from litebert.studies.pictures import LAYERS_CAPTION, draw_curves, draw_layers, draw_sizes
from litebert.studies.plan import PLAN, Plan, read_plan
from litebert.studies.pretrained import (
    Pretrained,
    find_pair_rows,
    find_pretraining,
    name_texts,
    open_pretrained,
    pretraining_section,
)
from litebert.studies.results import (
    Comparison,
    Result,
    compare_with_paper,
    count_verdicts,
    explain_columns,
    part_columns,
    read_results,
    show,
    tabulate,
)
from litebert.studies.study import MEASURES, Study, explain_measures
from litebert.training.curves import Run, XAxis
from litebert.training.drawing import name_runs
from litebert.training.metrics import read_metrics

LEAST_SPREAD = 1.02
"""Draw the figure over parameters only if the largest model has at least this many times the parameters of the
smallest: heads alone make less."""

ENOUGH_SEEDS = 5
"""Below which intervals are wide."""


def make_report(folders: Sequence[Path], title: str) -> str:
    """The page: what was found, a section for each study, and one for plain runs of each kind."""
    studies = [folder for folder in folders if (folder / PLAN).exists()]
    runs = [folder for folder in folders if folder not in studies]
    for folder in (single for run in runs for single in find_seeds(run) or [run]):
        require(
            (folder / "metrics.jsonl").exists(),
            f"{folder} is neither a run nor a study; name a folder with a metrics.jsonl or a plan.json",
        )
    made = {name: study_section(folder) for name, folder in zip(name_runs(studies), studies, strict=True)}
    sections, findings = {name: text for name, (text, _) in made.items()}, [found for _, found in made.values()]
    names = dict(zip(runs, name_runs(runs), strict=True))
    tuned = [open_tuned(name, folder) for folder, name in names.items() if is_tuned(folder)]
    pretrained = [open_pretrained(name, folder) for folder, name in names.items() if not is_tuned(folder)]
    if pretrained:
        findings += find_pretraining(pretrained)
        sections["pre-training"] = pretraining_section(pretrained)
    if tuned:
        findings += find_finetuning(tuned)
        sections["fine-tuning"] = finetuning_section(tuned)
    if runs:
        making = (fold(f"how {name} was made", describe_making(folder)) for folder, name in names.items())
        sections["what next"] = "\n".join(["<h2>What next</h2>", describe_next(pretrained, tuned), *making])
    return make_page(title, findings, sections)


def is_tuned(folder: Path) -> bool:
    return "task" in read_json((find_seeds(folder) or [folder])[0] / "config.json")


def study_section(folder: Path) -> tuple[str, str]:
    """Its part of the page, and what was found in a sentence."""
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
    cost, own, *paper = part_columns(tabulate(study, variants, results))
    below = [{"": name, **row} for name, row in find_pair_rows(study.measures, results[0].measures).items()]
    text = name_texts(plan.settings.get("data", {}))
    parts = [
        f"<h2>{html.escape(study.name)} <small>{html.escape(study.source)}</small></h2>",
        to_paragraph(study.question),
        to_paragraph(verdict, soft=True),
        to_table(cost, f"What was trained{f', on {text}' if text else ''}."),
        to_table(own, "What came out on held-out documents: means over seeds, with 95 % intervals.", below),
        *(to_table(rows, "What the paper has.") for rows in paper),
        to_list([*explain_columns(study, variants), *explain_measures(study.measures)], soft=True),
        *([fold(f"pairs that the paper orders: {len(compared)}", compared_table(compared))] if compared else []),
        *study_figures(study, results, folder.parent),
        *describe_more(plan, results),
        fold("how it was made", describe_origin(plan, folder.parent / results[0].run)),
    ]
    return "\n".join(parts), f"{name}: {verdict}"


def describe_more(plan: Plan, results: Sequence[Result]) -> list[str]:
    """How to come to narrower intervals, by the command that began the study."""
    seeds = len({result.seed for result in results})
    if not plan.commands:
        return []
    command = re.sub(r" --seeds[ =]\d+", "", plan.commands[0])
    said = f"With {'one seed' if seeds == 1 else f'{seeds} seeds'} little can be told from chance. For more:"
    return [to_paragraph(said), to_code(f"{command} --seeds {max(3, seeds + 2)}")] if seeds < ENOUGH_SEEDS else []


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


def describe_next(pretrained: Sequence[Pretrained], tuned: Sequence[Tuned]) -> str:
    """The commands that one may type next, as they stand."""
    commands = {}
    for run in [run for run in pretrained if run.encoder is not None][:1]:
        model = shlex.quote(str(run.folder / "model"))
        commands["Let a model fill in a blank"] = f'litebert fill-mask {model} "A text with a [MASK] in it."'
        commands["Fine-tune it for a task of your own, a folder with train.csv and dev.csv"] = (
            f"litebert finetune --data FOLDER --first TEXT --label LABEL --init {model} --run my-task --seeds 3"
        )
    if same := [run for run in tuned if run.task == tuned[0].task]:
        best = max((run.best for run in same), key=lambda seed: find_score(seed.scores))
        model = shlex.quote(str(best.folder / "model"))
        commands["Let the model that was best on dev label a file"] = (
            f"litebert predict --model {model} --data FILE --out predicted"
        )
    return "".join(to_paragraph(f"{what}:") + to_code(command) for what, command in commands.items())


def describe_making(run: Path) -> str:
    """Of several seeds, how the first was made."""
    folder = (find_seeds(run) or [run])[0]
    described = {part: read_json(folder / f"{part}.json") for part in ("config", "environment")}
    return to_code(json.dumps(described, indent=1, ensure_ascii=False))


def describe_origin(plan: Plan, run: Path) -> str:
    environment = read_json(run / "environment.json") if (run / "environment.json").exists() else {}
    described = {"settings": plan.settings, "steps": plan.steps, "environment": environment}
    commands = "\n".join(plan.commands)
    return to_code(f"{commands}\n\n{json.dumps(described, indent=1, ensure_ascii=False)}".strip())
