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
from litebert.finetuning.config import FinetuneConfig
from litebert.finetuning.results import find_score
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


class Undertaking(NamedTuple):
    """A study that is being carried out: all that a job of it needs."""

    study: Study
    variants: list[Variant]
    questions: Questions
    plan: Plan
    config: StudyConfig
    out: Path
    ranks: Ranks
    tell: Callable[[str], None]


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
    do_jobs(Undertaking(study, variants, questions, plan, config, out, ranks, tell))
    return read_results(out / study.name)


def do_jobs(work: Undertaking) -> None:
    """Writes a result for each job of this part that has none yet, or none of every task."""
    folder, config = work.out / work.study.name, work.config
    jobs = list(take_part(list_jobs(work.variants, work.questions.base.seed, config.seeds), config.place))
    found = {(result.variant, result.seed): result for result in read_results(folder)}
    work.ranks.agree_on(len(found), "results")  # none writes before all have looked
    for number, job in enumerate(jobs, start=1):
        before = found.get((job.variant.name, job.seed))
        is_known = before is not None and set(config.task_folders) <= set(before.scores)
        work.tell(f"{number} of {len(jobs)}: {job.variant.name}, seed {job.seed}{': done before' if is_known else ''}")
        if not is_known:
            result = do_job(job, before, work)
            work.ranks.do_first(partial(write_result, folder, result))


def do_job(job: Job, before: Result | None, work: Undertaking) -> Result:
    """Makes the run, or finds it made, and asks of its model what has not been asked before."""
    run, settings = find_run(job, work.variants, work.plan.steps, work.out)
    with hold(run, work.ranks, wait=work.tell):  # another study may have the same run
        outcome = pretrain(settings, run, work.ranks)  # of a run that is done it only writes the model again
    check_outcome(outcome)
    scores = finetune_all(run, job.seed, before.scores if before is not None else {}, work)
    result = before or make_result(job, settings, run, work)
    return replace(result, scores={**result.scores, **scores})


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


def make_result(job: Job, settings: PretrainConfig, run: Path, work: Undertaking) -> Result:
    """What a run cost, and what its model says."""
    model = run / "model"
    encoder = read_model(model).config
    lines = read_metrics(run)
    speeds = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return Result(
        variant=job.variant.name,
        seed=job.seed,
        plan=work.plan.name,
        run=str(run.relative_to(work.out)),
        steps=lines[-1]["step"],
        parameters=sum(count_parameters(encoder, settings.pairs.num_pair_classes).values()),
        tokens=max(int(line.get("tokens", 0)) for line in lines),
        minutes=max(float(line.get("seconds", 0)) for line in lines) / 60,
        tokens_per_second=statistics.median(speeds) if speeds else 0.0,
        measures=work.questions.measure(model, settings.pairs),
        layers=work.questions.measure_layers(model) if work.study.has_layers else None,
    )


def finetune_all(run: Path, seed: int, done: Container[str], work: Undertaking) -> dict[str, float]:
    """The score of each task that is not done, its best on dev, as a share."""
    scores = {}
    for name, data in work.config.task_folders.items():
        if name in done:
            continue
        settings = choose_finetuning(name, data, run, seed, work.config)
        decisive = {key: value for key, value in settings.fixed.items() if key != "init"}  # which the run's name tells
        folder = work.out / "finetuned" / run.name / f"{name}-{identify(decisive)}"
        with hold(folder, work.ranks, wait=work.tell):
            outcome, found = finetune(settings, folder, work.ranks)
        check_outcome(outcome)
        if work.ranks.is_first:  # which alone has scored it
            scores[name] = find_score(found) / 100
    return scores


def choose_finetuning(task: str, data: str, run: Path, seed: int, config: StudyConfig) -> FinetuneConfig:
    """The recipe that suits the model, for the epochs and the examples of the study."""
    init = str((run / "model").resolve())
    return replace(
        find_finetuning(task, init),
        data=data,
        init=init,
        seed=seed,
        epochs=config.finetune_epochs,
        steps=None,
        warmup_steps=None,
        train_examples=config.finetune_examples,
    )
