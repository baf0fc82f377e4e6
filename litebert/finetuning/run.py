"""A fine-tuning run: a model folder, a task's data and a config become a run folder.

config.json        all that was asked for; accepted back by --config
data.json          what the examples were, so that a run never goes on with others
environment.json   versions and hardware
metrics.jsonl      what was measured, a line each; tensorboard/ holds the same
checkpoints/       where to go on from
best.json          the step of the best model so far, its score, and whether it has learned one answer alone
stuck.json         at which step it was seen that nothing was learned, if so
model/             that model, with its task and a card
predictions/       what it says of dev, and of test where that is there
scores.json        how good that is
stuck-1/ ...       attempts that learned nothing, where the run was told to try again
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from litebert.config import UserError
from litebert.files import write_json_file
from litebert.finetuning.card import write_card
from litebert.finetuning.config import FinetuneConfig
from litebert.finetuning.majority import predict_majority
from litebert.finetuning.pictures import draw_pictures
from litebert.finetuning.preparation import Prepared, prepare
from litebert.finetuning.results import EXAMPLES, MAJORITY
from litebert.finetuning.selection import Selection
from litebert.finetuning.stream import Stream
from litebert.finetuning.stuck import MOST_ATTEMPTS, count_stuck, set_aside
from litebert.finetuning.task_file import write_task_file
from litebert.finetuning.task_model import Evaluated, Split, TaskModel, open_finetuned
from litebert.models.folder import find_folder
from litebert.text.hub_tokenizer import copy_for_hub
from litebert.training.answer_losses import Answering
from litebert.training.loop import Outcome, Training, train
from litebert.training.parallel import Ranks
from litebert.training.progress import watch_run
from litebert.training.run_folder import write_description, write_weights
from litebert.training.timing import peak_of

logger = logging.getLogger(__name__)


def finetune(config: FinetuneConfig, run: Path, ranks: Ranks) -> tuple[Outcome, dict[str, Any]]:
    """Starts a run, or goes on with it, until it is done or stopped; its scores are empty where it was stopped."""
    return carry_out(prepare(config, run, ranks), run, ranks)


def carry_out(prepared: Prepared, run: Path, ranks: Ranks) -> tuple[Outcome, dict[str, Any]]:
    ranks.do_first(lambda: write_description(run, prepared.config, prepared.data, ranks))
    selection = make_selection(prepared, run, ranks)
    training, steps = make_training(prepared, selection, ranks), prepared.schedule.steps
    outcome = train(training, run / "checkpoints", ranks=ranks, watch=lambda step: watch_run(run, step, steps))
    if outcome.stopped_by is not None:
        return outcome, {}
    if selection.must_retry(outcome.step):
        ranks.do_first(lambda: set_aside(run))
        return finetune(prepared.config, run, ranks)
    scores: dict[str, Any] = {}
    if ranks.is_first:
        if outcome.step < steps:
            best = (selection.read_best() or {}).get("step")
            logger.warning("stopped after %d of %d steps: best on dev at step %s", outcome.step, steps, best)
        scores = finish(prepared, run, outcome, selection)
    return outcome, scores


def make_selection(prepared: Prepared, run: Path, ranks: Ranks) -> Selection:
    config, schedule = prepared.config, prepared.schedule

    def keep(weights: Mapping[str, Tensor], result: Evaluated) -> None:
        write_weights(prepared.task_model.model, weights, run / "model")
        copy_for_hub(find_folder(Path(config.init)), run / "model")
        write_task_file(run / "model", replace(prepared.task_model.stored, threshold=result.threshold))

    return Selection(
        task_model=prepared.task_model,
        dev=prepared.dev,
        folder=run,
        keep=keep,
        steps=schedule.steps,
        warmup_steps=schedule.warmup_steps,
        evaluate_every=config.loop.evaluation_interval(schedule.steps),
        patience=config.patience,
        retries=config.retry_if_stuck,
        stops_if_stuck=config.retry_if_stuck and count_stuck(run) < MOST_ATTEMPTS - 1,
        ranks=ranks,
    )


def make_training(prepared: Prepared, selection: Selection, ranks: Ranks) -> Training:
    config, question = prepared.config, prepared.task_model.question
    stream = Stream(
        prepared.samples,
        num_examples=config.num_examples,
        num_choices=question.num_choices,
        seed=config.seed,
        ranks=ranks,
    )
    return Training(
        model=prepared.task_model.model,
        objective=Answering(question.head, question.num_choices),
        optimizer=config.optimizer,
        schedule=prepared.schedule,
        loop=config.loop,
        batches=stream.batches,
        evaluate=selection.evaluate,
        is_finished=selection.is_finished,
        seed=config.seed,
        peak=peak_of(ranks, config.loop.precision),
    )


def finish(prepared: Prepared, run: Path, outcome: Outcome, selection: Selection) -> dict[str, Any]:
    """Asks the best model about dev, and about test where that is there; writes all that people look at."""
    config = prepared.config
    device = next(prepared.task_model.model.parameters()).device
    task_model = open_finetuned(run / "model", config.data, config.task, device=device)
    scores = describe_outcome(prepared, run, outcome, selection)
    (run / "predictions").mkdir(exist_ok=True)
    for split in (*prepared.dev, *read_test(task_model, config)):
        result = task_model.evaluate(split)
        written = task_model.task.write_predictions(run / "predictions", split.name, split.examples, result.predictions)
        scores[EXAMPLES][split.name] = len(split.examples)
        scores["files"][split.name] = str(written[0].relative_to(run))
        if result.scores:
            scores[split.name] = result.scores
            if guesses := predict_majority(task_model.question, split.examples):
                scores[MAJORITY][split.name] = task_model.task.score(split.examples, guesses)
        if split is prepared.dev[0]:
            draw_pictures(run, task_model.question, split.examples, result.predictions)
    write_json_file(run / "scores.json", scores)
    write_card(run / "model", config, task_model.model, scores, prepared.num_questions)
    return scores


def describe_outcome(prepared: Prepared, run: Path, outcome: Outcome, selection: Selection) -> dict[str, Any]:
    """What scores.json says beside the scores."""
    return {
        "task": prepared.config.task,
        "metric": prepared.task_model.task.metric,
        "step": (selection.read_best() or {}).get("step"),
        "steps": outcome.step,
        "learning_rate": prepared.schedule.learning_rate,
        "seed": prepared.config.seed,
        "stuck": selection.find_stuck(outcome.step),
        "attempts": count_stuck(run) + 1,
        "notes": prepared.notes,
        "files": {},
        MAJORITY: {},
        EXAMPLES: {},
    }


def read_test(task_model: TaskModel, config: FinetuneConfig) -> list[Split]:
    """The splits of test, where their files are there; none for a run that was told to evaluate on a part of dev."""
    found: list[Split] = []
    if config.dev_examples is not None:
        return found
    for name in task_model.task.splits.get("test", ()):
        try:
            found.append(task_model.read(config.data, name))
        except UserError as error:
            logger.warning("there are no predictions for %s: %s", name, error)
    return found
