"""What a study begins with: the steps of its runs, settled once, and all else that decides what comes out of it."""

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from litebert.config import UserError, from_dict, plain_path, read_json, refuse_changes, require
from litebert.files import write_json_file
from litebert.pretraining.config import PretrainConfig, make_schedule
from litebert.pretraining.data import describe_data, refuse_changed
from litebert.pretraining.pace import Pace, measure_pace
from litebert.pretraining.preparation import prepare
from litebert.studies.config import StudyConfig
from litebert.studies.questions import Questions
from litebert.studies.study import Study, Variant, identify
from litebert.training.lock import hold
from litebert.training.parallel import Ranks

logger = logging.getLogger(__name__)

TIMED_STEPS = 10_000
"""The length of the run whose steps are timed; stages are shares of it."""
TIMED_ROUNDS = 3
"""How often variants are timed by turns. What else a machine does makes steps slower and never faster, so the fastest
count."""
PLAN = "plan.json"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What was decided when a study began."""

    commands: tuple[str, ...]
    """Those that began it and that added to it."""
    settings: dict[str, Any]
    """All that decides what comes out, but for the steps and the tasks."""
    steps: dict[str, int]
    """Of each variant."""
    tasks: dict[str, str]
    """That models are fine-tuned for, with their folders; more may be added."""
    budget: str = ""
    """That the steps follow from, unless they were given."""

    @property
    def name(self) -> str:
        """Tells it from others, whatever its tasks are."""
        return identify({"settings": self.settings, "steps": self.steps})


def settle_plan(
    study: Study,
    variants: Sequence[Variant],
    questions: Questions,
    config: StudyConfig,
    out: Path,
    ranks: Ranks,
    command: str,
) -> Plan:
    """How many steps each variant takes: as written when the study began, as given, or as fits the budget.

    All that decides what comes out is written with them, and is refused when it is another later; tasks may be added.
    """
    folder = out / study.name
    settings = describe_settings(questions, config)
    has_begun = (folder / PLAN).exists()
    ranks.agree_whether(has_begun, folder / PLAN)
    begun = None
    if not has_begun:
        steps = choose_steps(study, variants, questions.base, config, out, ranks)
        budget = config.budget if questions.base.steps is None else ""
        begun = Plan(commands=(), settings=settings, steps=steps, tasks={}, budget=budget)
    with hold(folder, ranks, wait=lambda _: None):  # other parts of the study may write to it too
        if begun is not None:
            ranks.do_first(partial(begin_plan, folder, begun))
        plan = read_plan(folder)
        check_plan(plan, settings, variants, config, folder)
        plan = add_to_plan(plan, command, config)
        ranks.do_first(partial(write_plan, folder, plan))
    return plan


def add_to_plan(plan: Plan, command: str, config: StudyConfig) -> Plan:
    """The plan with a command that goes on with it, and its tasks."""
    commands = (*plan.commands, *((command,) if command and command not in plan.commands else ()))
    return replace(plan, commands=commands, tasks=plan.tasks | config.task_folders)


def describe_settings(questions: Questions, config: StudyConfig) -> dict[str, Any]:
    """All that decides what comes out, but for the steps and the tasks, as JSON has it."""
    base = questions.base
    settings = base.fixed | {
        "evaluation_sequences": base.evaluation_sequences,
        "data": describe_data(questions.corpora, questions.weights),
        "finetune_epochs": config.finetune_epochs,
        "finetune_examples": config.finetune_examples,
    }
    return json.loads(json.dumps(settings))


def check_plan(
    plan: Plan, settings: Mapping[str, Any], variants: Sequence[Variant], config: StudyConfig, folder: Path
) -> None:
    """Refuses to go on with a study that was begun otherwise; tasks may be added."""
    stored = {name: value for name, value in plan.settings.items() if name != "data"}
    refuse_changes(settings, stored, folder, kind="study", option="--out")
    refuse_changed(settings["data"], plan.settings.get("data", {}), folder, "--out")
    for task, data in config.task_folders.items():
        before = plan.tasks.get(task, data)
        require(
            plain_path(data) == plain_path(before),
            f"{folder} was fine-tuned for {task} from {before}, not from {data}; give the same folder, or a new --out",
        )
    require(
        set(plan.steps) == {variant.name for variant in variants},
        f"{folder} was begun with other variants, by another version; start a new --out",
    )
    require(
        not plan.budget or replace(config, budget=plan.budget).seconds == config.seconds,
        f"the budget is {config.budget}; {folder} was begun with {plan.budget}, from which its steps follow: "
        "give that, or start a new --out",
    )


def choose_steps(
    study: Study, variants: Sequence[Variant], base: PretrainConfig, config: StudyConfig, out: Path, ranks: Ranks
) -> dict[str, int]:
    """The steps of each variant, as given or as fits the budget; refused where a schedule does not fit them."""
    if base.steps is not None:
        steps = {variant.name: base.steps for variant in variants}
    else:
        if ranks.is_first:
            logger.info("timing some steps of all %d models, to see how many fit into %s", len(variants), config.budget)
        rounds = [{v.name: time_variant(v, out, ranks) for v in variants} for _ in range(TIMED_ROUNDS)]
        paces = {variant.name: min(paces[variant.name] for paces in rounds) for variant in variants}
        steps = share_out(paces, config.seconds / config.seeds, equal_time=study.equal == "minutes")
    for variant in variants:
        make_schedule(replace(variant.settings, steps=steps[variant.name]))
    return steps


def share_out(paces: Mapping[str, Pace], seconds: float, *, equal_time: bool) -> dict[str, int]:
    """The steps of each variant, so that all together take so many seconds."""
    if equal_time:
        return {name: pace.fit(seconds / len(paces)) for name, pace in paces.items()}
    together = Pace(sum(pace.step for pace in paces.values()), sum(pace.evaluations for pace in paces.values()))
    return dict.fromkeys(paces, together.fit(seconds))


def time_variant(variant: Variant, out: Path, ranks: Ranks) -> Pace:
    settings = replace(variant.settings, init=None, steps=TIMED_STEPS, minutes=None, evaluation_sequences=0)
    prepared = prepare(settings, out / "runs" / ".timed", ranks)
    return measure_pace(prepared.config, prepared.training, ranks)


def begin_plan(folder: Path, plan: Plan) -> None:
    """Writes a plan, unless another part of the study, that began at the same time, was first."""
    if not (folder / PLAN).exists():
        write_plan(folder, plan)


def write_plan(folder: Path, plan: Plan) -> None:
    write_json_file(folder / PLAN, dataclasses.asdict(plan))


def read_plan(folder: Path) -> Plan:
    try:
        return from_dict(Plan, read_json(folder / PLAN))
    except UserError as error:
        raise UserError(f"{folder / PLAN} is no plan of a study ({error}); restore it, or start a new --out") from None
