"""Fine-tuning runs whose predictions are combined."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from litebert.config import read_json, require
from litebert.files import write_json_file
from litebert.finetuning.preparation import describe_examples
from litebert.finetuning.task_model import TaskModel, draw, open_finetuned
from litebert.folders import require_place
from litebert.tasks.ensemble import Chosen, choose_members, combine, try_members
from litebert.tasks.task import Predictions
from litebert.training.drawing import name_runs


class Ensemble(NamedTuple):
    """What came of it."""

    split: str
    metric: str
    singles: dict[str, float]
    """The score of each run alone."""
    members: tuple[str, ...]
    scores: tuple[float, ...]
    """With the first member, with the first two, and so on; with all at once where none was chosen."""
    threshold: float | None
    """The no-answer threshold chosen on dev."""
    reached: dict[str, dict[str, float]]
    """All scores of each split whose answers are known."""
    files: list[Path]

    @property
    def gain(self) -> float:
        """Over the best single run."""
        return self.scores[-1] - max(self.singles.values())


class Run(NamedTuple):
    """A finished run, by the files that it wrote."""

    folder: Path
    scores: Mapping[str, Any]
    data: Mapping[str, Any]
    """What its examples were."""

    def read(self, task_model: TaskModel, split: str) -> Predictions:
        return task_model.task.read_predictions(self.folder / self.scores["files"][split])


def combine_runs(folders: Sequence[Path], data: str, out: Path, *, choose: bool = True) -> Ensemble:
    """Chooses members on dev, or takes all, and writes what they say together of every split they have predicted."""
    require(len(folders) > 1, f"runs to combine: {len(folders)}; name at least two")
    runs = {name: open_run(folder) for name, folder in zip(name_runs(folders), folders, strict=True)}
    tasks = sorted({run.scores["task"] for run in runs.values()})
    require(len(tasks) == 1, f"the runs are of the tasks {', '.join(tasks)}; combine runs of one")
    check_place(out)
    task_model = open_finetuned(folders[0] / "model", data)
    split, metric = task_model.task.splits["dev"][0], task_model.task.metric
    predicted = {name: run.read(task_model, split) for name, run in runs.items()}
    examples = find_examples(task_model, data, split, runs)
    if choose:
        chosen = choose_members(task_model.task, examples, predicted, task_model.question)
    else:
        chosen = try_members(task_model.task, examples, predicted, task_model.question)
    singles = {name: run.scores[split][metric] for name, run in runs.items()}
    reached, files = write_predictions(task_model, data, out, [runs[name] for name in chosen.members], chosen)
    result = Ensemble(split, metric, singles, chosen.members, chosen.scores, chosen.threshold, reached, files)
    written = result._asdict() | {"files": [str(file.relative_to(out)) for file in files], "gain": result.gain}
    write_json_file(out / "scores.json", written)
    return result


def check_place(out: Path) -> None:
    """Refuses a folder with other scores than an ensemble's, which may be made again."""
    require_place(out, "--out")
    scores = read_json(out / "scores.json") if (out / "scores.json").exists() else {}
    require("members" in scores or not scores, f"{out} has a scores.json of no ensemble; choose another --out")


def find_examples(task_model: TaskModel, data: str, split: str, runs: Mapping[str, Run]) -> Sequence[Any]:
    """The examples of dev that all runs have predicted; ids alone would not tell other data apart."""
    first = next(iter(runs.values()))
    for name, run in runs.items():
        require(
            run.data[split] == first.data[split],
            f"{name} was evaluated on other examples of {split} than {next(iter(runs))}; combine runs on the same",
        )
    examples = draw(task_model.task.read(data, split), first.data[split]["examples"])
    require(
        describe_examples(examples) == first.data[split],
        f"{split} of {data} is not what the runs were evaluated on; give the data they learned from",
    )
    return examples


def open_run(folder: Path) -> Run:
    file = folder / "scores.json"
    require(file.is_file(), f"{folder} has no scores.json; name a run of litebert finetune that is done")
    scores = read_json(file)
    is_run = "files" in scores and "task" in scores and (folder / "data.json").is_file()
    require(is_run, f"{folder} is no single run of litebert finetune; name one, or one of its seeds")
    return Run(folder, scores, read_json(folder / "data.json"))


def write_predictions(
    task_model: TaskModel, data: str, out: Path, members: Sequence[Run], chosen: Chosen
) -> tuple[dict[str, dict[str, float]], list[Path]]:
    """Of each split that all members have predicted; with the scores of those whose answers are known."""
    out.mkdir(parents=True, exist_ok=True)
    reached, files = {}, []
    for split in members[0].scores["files"]:
        if all(split in run.scores["files"] for run in members):
            combined = combine(task_model.question, [run.read(task_model, split) for run in members])
            decided = task_model.task.decide(combined, chosen.threshold)
            examples = [example for example in task_model.task.read(data, split) if example.id in decided]
            files += task_model.task.write_predictions(out, split, examples, decided)
            if task_model.task.is_labelled(examples):
                reached[split] = task_model.task.score(examples, decided)
    return reached, files
