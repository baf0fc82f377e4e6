"""Score any system's predictions with a task's official measures; no model is needed.

Example:
    litebert score --task squad2 --gold dev-v2.0.json --predictions predictions.json
    litebert score --task mrpc --gold glue/MRPC/dev.tsv --predictions MRPC.tsv
    litebert score --task text --gold reviews/test.csv --label stars --predictions predicted/test-predictions.jsonl
"""

from dataclasses import dataclass, field
from pathlib import Path

from litebert.tasks.text import TextColumns


@dataclass(frozen=True, kw_only=True)
class Options:
    task: str
    """A benchmark, such as sst2, squad2 or race; text is data of your own."""
    gold: str
    """What is right: the file, or the folder of the task's files."""
    predictions: Path
    """The predictions, in the official format or in LiteBERT's."""
    split: str | None = None
    """The part of the folder; by default the first of dev, or of test where a task has no dev."""
    columns: TextColumns = field(default_factory=TextColumns)
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Options) -> None:
    import sys

    from litebert.display import print_json, print_table
    from litebert.tasks.classes import ClassTask
    from litebert.tasks.registry import find_task

    def say(remark: str) -> None:
        print(remark, file=sys.stderr if options.json else sys.stdout)

    task = find_task(options.task, options.columns, options.gold)
    examples = task.read(options.gold, options.split or (*task.splits["dev"], *task.splits["test"])[0])
    predictions = task.read_predictions(options.predictions)
    scores = task.score(examples, predictions)
    known = sum(example.id in predictions for example in examples)
    if known < len(examples):
        say(f"{len(examples) - known:,} of {len(examples):,} examples have no prediction and count as wrong")
    surplus = len(predictions) - known
    if surplus:
        say(f"{surplus:,} of {len(predictions):,} predictions are of no example there, and count for nothing")
    if isinstance(task, ClassTask) and task.kind == "classes" and "macro_f1" in scores:
        said = {predictions[example.id].answer for example in examples if example.id in predictions}
        strange = sorted(said - {example.label for example in examples})
        if strange:
            say(f"no example has the label {strange[0]!r}, which was predicted; macro F1 counts it as a class")
    if options.json:
        print_json(scores)
        return
    print_table([{"score": name, "": value} for name, value in scores.items()])
