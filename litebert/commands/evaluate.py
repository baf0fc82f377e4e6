"""Score a fine-tuned model folder on a split of a task's data.

Example:
    litebert evaluate --task sst2 --data glue/SST-2 --model runs/sst2/model
    litebert evaluate --data reviews --model runs/stars/model --split test --out scored
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    model: Path
    """A fine-tuned model folder."""
    data: str
    """The folder of the task's files, or a single file."""
    task: str | None = None
    """The task; by default the one that the model was fine-tuned for."""
    split: str | None = None
    """The part of the data to score, such as dev or test. By default dev, all of it where there are several; test where
    a task has no dev."""
    threshold: float | None = None
    """For questions that may have no answer: give none where its score is above the best answer's by more than this. By
    default the model's own threshold, or the best for dev."""
    examples: int | None = None
    """Evaluate on this many examples, drawn at random but always the same, instead of all."""
    out: Path | None = None
    """Write the predictions to this folder."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    from litebert.config import require
    from litebert.display import print_json, print_table
    from litebert.finetuning.task_model import open_finetuned
    from litebert.folders import require_place
    from litebert.training.process import prepare_process

    require(options.examples is None or options.examples > 0, f"--examples is {options.examples}; give at least 1")
    if options.out is not None:
        require_place(options.out, "--out")
    prepare_process()
    task_model = open_finetuned(options.model, options.data, options.task).with_threshold(options.threshold)
    scores = {}
    for name in task_model.choose_splits(options.data, options.split, "dev", "test"):
        split = task_model.read(options.data, name, options.examples)
        require(
            task_model.task.is_labelled(split.examples),
            f"{name} of {options.data} has no labels to score by; use litebert predict",
        )
        has_none = task_model.stored.threshold is None
        result = task_model.evaluate(split, fits_threshold=has_none and name in task_model.task.splits["dev"])
        scores[name] = result.scores | ({} if result.threshold is None else {"threshold": result.threshold})
        for note in () if options.json else split.encoded.notes:
            print(f"{name}: {note}")
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            named = task_model.name_predictions(options.data, name)
            task_model.task.write_predictions(options.out, named, split.examples, result.predictions)
    if options.json:
        print_json(scores)
        return
    print_table(
        [
            {"split": name, "score": score, "": value}
            for name, values in scores.items()
            for score, value in values.items()
        ]
    )
