"""A study as it is carried out: steps are settled once, runs are made or found, and each is asked the same questions.

runs/             pre-training runs, named by what decides what they learn, so that studies share them
finetuned/        what was fine-tuned from them
STUDY/plan.json   the steps of each variant
STUDY/results/    what came out, a file for each variant and seed

Everything that is there already is used again, so a study that was stopped goes on, one that was done can be given more
seeds, and parts of it can be done on several machines that share the folder.
"""

import statistics
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from litebert.config import require
from litebert.finetuning.evaluation import find_score
from litebert.finetuning.run import finetune
from litebert.models.folder import read_model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.run import pretrain
from litebert.recipes import find_finetuning
from litebert.studies.config import StudyConfig
from litebert.studies.plan import Plan, settle_plan
from litebert.studies.questions import Questions
from litebert.studies.results import Result, read_results, slug, write_result
from litebert.studies.study import Study, Variant, identify
from litebert.tasks.registry import find_task
from litebert.tasks.text import TextColumns
from litebert.training.costs import count_parameters
from litebert.training.lock import hold
from litebert.training.loop import Outcome
from litebert.training.metrics import read_metrics
from litebert.training.parallel import Ranks


class StoppedError(Exception):
    """A run was stopped by a signal; the study stops with it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class Job(NamedTuple):
    variant: Variant
    seed: int


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
    check_tasks(config)
    tell(f"{study.name}: {study.question}")
    if base.encoder:
        tell(f"--encoder {' '.join(base.encoder)} holds for every model of which the study says nothing else")
    plan = settle_plan(study, variants, questions, config, out, ranks, command)
    tell("steps: " + ", ".join(f"{name} {number:,}" for name, number in plan.steps.items()))
    jobs = list(take_part(list_jobs(variants, base.seed, config.seeds), config.place))
    found = {(result.variant, result.seed): result for result in read_results(out / study.name)}
    ranks.agree_on(len(found), "results")  # none writes before all have looked
    for number, job in enumerate(jobs, start=1):
        result = found.get((job.variant.name, job.seed))
        is_known = result is not None and set(config.task_folders) <= set(result.scores)
        tell(f"{number} of {len(jobs)}: {job.variant.name}, seed {job.seed}{': done before' if is_known else ''}")
        if is_known:
            continue
        run, settings = find_run(job, variants, plan.steps, out)
        with hold(run, ranks, wait=tell):  # another study may have the same run
            outcome = pretrain(settings, run, ranks)  # of a run that is done it only writes the model again
        check_outcome(outcome)
        done = result.scores if result is not None else {}
        scores = finetune_all(run, job.seed, config, out, ranks, tell, done)
        result = result or ask(job, settings, run.relative_to(out), plan, questions, out, study.has_layers)
        result = replace(result, scores={**result.scores, **scores})
        ranks.do_first(partial(write_result, out / study.name, result))
    return read_results(out / study.name)


def check_outcome(outcome: Outcome) -> None:
    if outcome.stopped_by is not None:
        raise StoppedError(outcome.stopped_by)


def check_tasks(config: StudyConfig) -> None:
    """Refuses tasks that cannot be read before anything is trained for them."""
    for name, folder in config.task_folders.items():
        task = find_task(name, TextColumns(), folder)
        for split in (task.splits["train"][:1], task.splits["dev"][:1]):
            require(split, f"{name} has no data to learn from; choose another task")
            task.read(folder, split[0])


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


def find_run(job: Job, variants: Sequence[Variant], steps: Mapping[str, int], out: Path) -> tuple[Path, PretrainConfig]:
    """The folder of a job's run and its settings; runs of the same settings have one folder, whatever asked for them.

    They are evaluated afterwards, all in the same way, and not on the way.
    """
    variant = job.variant
    settings = replace(variant.settings, steps=steps[variant.name], minutes=None, seed=job.seed, evaluation_sequences=0)
    before = None
    if variant.after is not None:
        previous = next(other for other in variants if other.name == variant.after)
        before, _ = find_run(Job(previous, job.seed), variants, steps, out)
        settings = replace(settings, init=str((before / "model").resolve()))
    digest = identify(settings.fixed | {"init": before.name if before else None})
    found = sorted((out / "runs").glob(f"*-{digest}"))
    return (found[0] if found else out / "runs" / f"{slug(variant.name)}-{digest}"), settings


def ask(
    job: Job, settings: PretrainConfig, run: Path, plan: Plan, questions: Questions, out: Path, with_layers: bool
) -> Result:
    model = out / run / "model"
    encoder = read_model(model).config
    lines = read_metrics(out / run)
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return Result(
        variant=job.variant.name,
        seed=job.seed,
        plan=plan.name,
        run=str(run),
        steps=lines[-1]["step"],
        parameters=sum(count_parameters(encoder, settings.pairs.num_pair_classes).values()),
        tokens=max(int(line.get("tokens", 0)) for line in lines),
        minutes=max(float(line.get("seconds", 0)) for line in lines) / 60,
        tokens_per_second=statistics.median(speeds) if speeds else 0.0,
        measures=questions.measure(model, settings.pairs),
        layers=questions.measure_layers(model) if with_layers else None,
    )


def finetune_all(
    run: Path,
    seed: int,
    config: StudyConfig,
    out: Path,
    ranks: Ranks,
    tell: Callable[[str], None],
    done: Container[str],
) -> dict[str, float]:
    """The score of each task that is not done, its best on dev, as a share; by the recipe that suits the model."""
    scores = {}
    for name, data in config.task_folders.items():
        if name in done:
            continue
        init = str((run / "model").resolve())
        settings = replace(
            find_finetuning(name, init),
            data=data,
            init=init,
            seed=seed,
            epochs=config.finetune_epochs,
            steps=None,
            warmup_steps=None,
            train_examples=config.finetune_examples,
        )
        decisive = {key: value for key, value in settings.fixed.items() if key != "init"}  # which the run's name tells
        folder = out / "finetuned" / run.name / f"{name}-{identify(decisive)}"
        with hold(folder, ranks, wait=tell):
            outcome, found = finetune(settings, folder, ranks)
        check_outcome(outcome)
        if ranks.is_first:  # which alone has scored it
            scores[name] = find_score(found) / 100
    return scores
