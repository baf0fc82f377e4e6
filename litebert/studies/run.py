"""A study as it is carried out: steps are settled once, runs are made or found, and each is asked the same questions.

runs/             pre-training runs, named by what decides what they learn, so that studies share them
finetuned/        what was fine-tuned from them
STUDY/plan.json   the steps of each variant
STUDY/results/    what came out, a file for each variant and seed

Everything that is there already is used again, so a study that was stopped goes on, one that was done can be given more
seeds, and parts of it can be done on several machines that share the folder.
"""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from litebert.config import refuse_changes
from litebert.corpus.loader import open_mixture
from litebert.finetuning.run import finetune
from litebert.models.folder import read_model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.held_out import HeldOut
from litebert.pretraining.run import Pace, measure_pace, open_held_out, prepare, pretrain
from litebert.recipes import finetune_small
from litebert.studies.config import StudyConfig, slug
from litebert.studies.layers import Layers, measure_layers
from litebert.studies.results import Result, read_plan, read_result, read_results, write_plan, write_result
from litebert.studies.study import Study, Variant, identify
from litebert.training.costs import count_parameters
from litebert.training.evaluation import measure
from litebert.training.metrics import read_lines, read_metrics
from litebert.training.parallel import Ranks

TIMED_STEPS = 10_000
"""The length of the run whose steps are timed; stages are shares of it."""
LAYER_BATCHES = 8


class StoppedError(Exception):
    """A run was stopped by a signal; the study stops with it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Job(NamedTuple):
    variant: Variant
    seed: int

    @property
    def file_name(self) -> str:
        return f"{slug(self.variant.name)}-seed-{self.seed}.json"


def carry_out(
    study: Study,
    base: PretrainConfig,
    config: StudyConfig,
    out: Path,
    ranks: Ranks,
    *,
    command: str = "",
    tell: Callable[[str], None] = lambda message: None,
) -> list[Result]:
    """Does what is left to be done of a study, or of a part of it, and returns the results that are there by then.

    The `command` that asked for it is written down with the plan; `tell` is told what happens.
    """
    variants, questions = study.variants(base), Questions(base)
    tell(f"{study.name}: {study.question}")
    steps = settle_plan(study, variants, base, config, out, ranks, command)["steps"]
    tell("steps: " + ", ".join(f"{name} {number:,}" for name, number in steps.items()))
    folder = out / study.name / "results"
    jobs = list(take_part(list_jobs(variants, base.seed, config.seeds), config.place))
    found = {job.file_name: read_result(folder / job.file_name) for job in jobs if (folder / job.file_name).exists()}
    ranks.agree_on(len(found), "results")  # none writes before all have looked
    for number, job in enumerate(jobs, start=1):
        result = found.get(job.file_name)
        is_known = result is not None and set(config.task_names) <= set(result.scores)
        tell(f"{number} of {len(jobs)}: {job.variant.name}, seed {job.seed}{': done before' if is_known else ''}")
        if is_known:
            continue
        run, settings = find_run(job, variants, steps, out)
        make_run(run, settings, ranks)
        scores = finetune_all(run, job.seed, config, out, ranks)
        result = result or ask(job, settings, run.relative_to(out), questions, out, study.has_layers)
        result = replace(result, scores={**result.scores, **scores})
        ranks.do_first(partial(write_result, folder / job.file_name, result))
    return read_results(out / study.name)


def list_jobs(variants: Sequence[Variant], first_seed: int, seeds: int) -> list[list[Job]]:
    """All jobs, seed by seed, so that one that is stopped leaves seeds that are whole; those in one list depend on
    each other."""
    chains: list[list[Job]] = []
    for seed in range(first_seed, first_seed + seeds):
        ends: dict[str, list[Job]] = {}
        for variant in variants:
            chain = ends.pop(variant.after, []) if variant.after else []
            if not chain:
                chains.append(chain)
            chain.append(Job(variant, seed))
            ends[variant.name] = chain
    return chains


def take_part(chains: Sequence[list[Job]], place: tuple[int, int]) -> Iterator[Job]:
    number, total = place
    for chain in chains[number - 1 :: total]:
        yield from chain


def settle_plan(
    study: Study,
    variants: Sequence[Variant],
    base: PretrainConfig,
    config: StudyConfig,
    out: Path,
    ranks: Ranks,
    command: str,
) -> dict[str, Any]:
    """How many steps each variant takes: as written when the study began, as given, or as fits the budget."""
    folder = out / study.name
    settings = json.loads(json.dumps(base.fixed)) | {"variants": [variant.name for variant in variants]}
    has_begun = (folder / "plan.json").exists()
    ranks.agree_on(int(has_begun), "a plan.json, 0 or 1,")
    if has_begun:
        plan = read_plan(folder)
        refuse_changes(settings, plan["settings"], folder)
        return plan
    if base.steps is not None:
        steps = dict.fromkeys(settings["variants"], base.steps)
    else:
        paces = {variant.name: time_variant(variant, out, ranks) for variant in variants}
        steps = share_out(paces, config.seconds / config.seeds, equal_time=study.equal == "minutes")
    plan = {"command": command, "settings": settings, "steps": steps}
    ranks.do_first(lambda: write_plan(folder, plan))
    return plan


def share_out(paces: Mapping[str, Pace], seconds: float, *, equal_time: bool) -> dict[str, int]:
    """The steps of each variant, so that all together take so many seconds."""
    if equal_time:
        return {name: pace.fit(seconds / len(paces)) for name, pace in paces.items()}
    together = Pace(sum(pace.step for pace in paces.values()), sum(pace.evaluations for pace in paces.values()))
    return dict.fromkeys(paces, together.fit(seconds))


def time_variant(variant: Variant, out: Path, ranks: Ranks) -> Pace:
    settings = replace(variant.settings, steps=TIMED_STEPS, minutes=None, evaluation_sequences=0)
    prepared = prepare(settings, out / "runs" / ".timed", ranks)
    return measure_pace(prepared.config, prepared.training, ranks)


def find_run(job: Job, variants: Sequence[Variant], steps: Mapping[str, int], out: Path) -> tuple[Path, PretrainConfig]:
    """The folder of a job's run and its settings; runs of the same settings have one folder, whatever asked for them.

    They are evaluated afterwards, all in the same way, and not on the way.
    """
    variant = job.variant
    settings = replace(variant.settings, steps=steps[variant.name], minutes=None, seed=job.seed, evaluation_sequences=0)
    if variant.after is not None:
        before = next(other for other in variants if other.name == variant.after)
        begin, _ = find_run(Job(before, job.seed), variants, steps, out)
        settings = replace(settings, init=str(begin / "model"))
    digest = identify(settings)
    found = sorted((out / "runs").glob(f"*-{digest}"))
    return (found[0] if found else out / "runs" / f"{slug(variant.name)}-{digest}"), settings


def make_run(run: Path, settings: PretrainConfig, ranks: Ranks) -> None:
    """Pre-trains, unless the run has taken its steps and left a model."""
    assert settings.steps is not None
    metrics = run / "metrics.jsonl"
    has_model = (run / "model" / "config.json").exists() and metrics.exists()
    is_done = has_model and any(line["step"] >= settings.steps for line in read_lines(metrics))
    ranks.agree_on(int(is_done), "a run that is done, 0 or 1,")
    if not is_done:
        outcome = pretrain(settings, run, ranks)
        if outcome.stopped_by is not None:
            raise StoppedError(outcome.stopped_by)


class Questions:
    """What every model of a study is asked: about the same documents, and with the same masks."""

    def __init__(self, base: PretrainConfig) -> None:
        self.base = base
        self.corpora, self.weights = open_mixture(base.corpora)
        self.opened: dict[str, HeldOut | None] = {}

    def open(self, objective: str) -> HeldOut | None:
        if objective not in self.opened:
            pairs = replace(self.base.pairs, objective=objective)  # type: ignore[arg-type]
            self.opened[objective] = open_held_out(replace(self.base, pairs=pairs), self.corpora, self.weights)
        return self.opened[objective]

    def measure(self, folder: Path, objective: str) -> dict[str, float]:
        """Masked tokens are asked about in the pairs of the common settings, also of a model that learned on others."""
        held_out, common = self.open(objective), self.open(self.base.pairs.objective)
        if held_out is None or common is None:
            return {}
        model = read_model(folder)
        values = held_out.measure(model)
        if held_out is not common:
            measured = measure(model, common.own.batches())
            values["masked_token_loss"] = measured.masked_token_loss
            values["masked_token_accuracy"] = measured.masked_token_accuracy
        return values

    def measure_layers(self, folder: Path) -> Layers | None:
        common = self.open(self.base.pairs.objective)
        if common is None:
            return None
        return measure_layers(read_model(folder), common.own.loader.one_epoch(LAYER_BATCHES * 32))


def ask(job: Job, settings: PretrainConfig, run: Path, questions: Questions, out: Path, with_layers: bool) -> Result:
    model = out / run / "model"
    encoder = read_model(model).config
    lines = read_metrics(out / run)
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return Result(
        variant=job.variant.name,
        seed=job.seed,
        run=str(run),
        steps=lines[-1]["step"],
        parameters=sum(count_parameters(encoder, settings.pairs.num_pair_classes).values()),
        tokens=max(int(line.get("tokens", 0)) for line in lines),
        minutes=max(float(line.get("seconds", 0)) for line in lines) / 60,
        tokens_per_second=statistics.median(speeds) if speeds else 0.0,
        measures=questions.measure(model, settings.pairs.objective),
        layers=questions.measure_layers(model) if with_layers else None,
    )


def finetune_all(run: Path, seed: int, config: StudyConfig, out: Path, ranks: Ranks) -> dict[str, float]:
    """The score of each task, its best on dev, as a share."""
    scores = {}
    for task in config.tasks:
        name, _, data = task.partition("=")
        settings = replace(
            finetune_small(name),
            data=data,
            init=str(run / "model"),
            seed=seed,
            epochs=config.finetune_epochs,
            train_examples=config.finetune_examples,
        )
        outcome, found = finetune(settings, out / "finetuned" / run.name / name, ranks)
        if outcome.stopped_by is not None:
            raise StoppedError(outcome.stopped_by)
        if ranks.is_first:  # which alone has scored it
            splits = [values for key, values in found.items() if isinstance(values, Mapping) and key != "files"]
            scores[name] = splits[0][found["metric"]] / 100
    return scores
