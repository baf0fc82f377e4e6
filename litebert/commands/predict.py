"""Let a fine-tuned model answer for a text, or for data whose labels need not be known.

Example:
    litebert predict --model runs/sst2/model --text "a film of rare charm"
    litebert predict --model runs/stars/model --data new-reviews.csv --out predicted
    litebert predict --model runs/squad2/model --data squad --split dev --out predicted
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    model: Path
    """A fine-tuned model folder."""
    text: str | None = None
    """A text to classify; the answer is printed."""
    second: str | None = None
    """The second text, if the task has two."""
    data: str | None = None
    """A file, or the folder of the task's files, instead of a text."""
    task: str | None = None
    """The task; by default the one that the model was fine-tuned for."""
    split: str | None = None
    """The part of the folder to predict; by default all of test."""
    threshold: float | None = None
    """For questions that may have no answer: give none where its score is above the best answer's by more than this. By
    default the model's own threshold."""
    out: Path | None = None
    """The folder to write predictions to. Those of your own data are named after the file or the split, those of
    benchmarks as their leaderboards want."""
    zip: bool = False
    """For GLUE: also pack the files of this folder for the leaderboard."""
    json: bool = False
    """Print the answer to a text as JSON."""


def run(options: Options) -> None:
    from litebert.config import require
    from litebert.finetuning.task_model import open_finetuned
    from litebert.folders import require_place
    from litebert.training.process import prepare_process

    require(
        (options.text is None) != (options.data is None),
        f"there is {'nothing' if options.text is None else 'both a text and data'} to predict; give --text or --data",
    )
    if options.text is not None:
        for name in ("split", "out", "zip"):
            require(not getattr(options, name), f"--{name} goes with --data; what is said of a text is printed")
        require(options.threshold is None, "--threshold goes with --data: a text alone always has an answer")
        answer_text(options)
        return
    require(not options.json, "--json goes with --text; the predictions of --data are written to files")
    require(options.second is None, "--second goes with --text; the second texts of --data are a column of it")
    require(options.out, "there is no place for the predictions; name a folder with --out")
    assert options.data is not None and options.out is not None
    require_place(options.out, "--out")
    prepare_process()
    task_model = open_finetuned(options.model, options.data, options.task).with_threshold(options.threshold)
    for name in task_model.choose_splits(options.data, options.split, "test"):
        split = task_model.read(options.data, name, forgets=True)
        for note in split.encoded.notes:
            print(f"{name}: {note}")
        options.out.mkdir(parents=True, exist_ok=True)
        predictions = task_model.evaluate(split).predictions
        named = task_model.name_predictions(options.data, name)
        files = task_model.task.write_predictions(options.out, named, split.examples, predictions)
        print(f"{len(predictions):,} predictions in {', '.join(map(str, files))}")
    if options.zip:
        pack_submission(options.out)


def pack_submission(folder: Path) -> None:
    from litebert.tasks.glue import find_missing, zip_submission

    files = sorted(folder.glob("*.tsv"))
    missing = find_missing(files)
    print(f"{zip_submission(folder, files)}" + (f" (without {', '.join(missing)})" if missing else ""))


def answer_text(options: Options) -> None:
    from litebert.config import require
    from litebert.display import print_json, print_table
    from litebert.finetuning.task_model import open_finetuned
    from litebert.tasks.classes import ClassTask, TextExample

    task_model = open_finetuned(options.model, "", options.task)
    require(
        isinstance(task_model.task, ClassTask),
        f"{options.model} does not classify texts; give --data with its examples",
    )
    assert options.text is not None and isinstance(task_model.task, ClassTask)
    require(options.text.strip(), "--text is empty; give some")
    wants = "two texts; give the second with --second" if task_model.task.has_second else "one text; leave --second out"
    require(task_model.task.has_second == (options.second is not None), f"{options.model} was fine-tuned for {wants}")
    examples = [TextExample("0", "--text", options.text, options.second)]
    split = task_model.encode("text", examples)
    for note in () if options.json else split.encoded.notes:
        print(note)
    prediction = task_model.evaluate(split).predictions["0"]
    shares = zip(task_model.question.labels, prediction.probabilities, strict=bool(task_model.question.labels))
    ranked = {label: float(share) for label, share in sorted(shares, key=lambda pair: -pair[1])}
    if options.json:
        probabilities = {"probabilities": ranked} if ranked else {}
        print_json({"answer": prediction.answer, **probabilities, "notes": list(split.encoded.notes)})
    elif ranked:
        print_table([{"label": label, "probability": share} for label, share in ranked.items()])
    else:
        print(f"{prediction.answer:.4f}")
