"""What a run writes of itself: a line of `metrics.jsonl` for each measurement, and the same numbers for TensorBoard."""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from litebert.config import UserError, require
from litebert.files import explain, local_path, open_file, replace_file

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FILE = "metrics.jsonl"
TENSORBOARD = "tensorboard"
SO_FAR = ("tokens", "sequences", "seconds")
"""What every line tells of the run up to it."""
NAMES = {
    "masked_token_loss": "masked-token loss",
    "masked_token_accuracy": "masked tokens",
    "sop_accuracy": "sentence order",
    "sop_document_accuracy": "sentence order in ordinary windows",
    "sop_paragraph_accuracy": "sentence order within paragraphs",
    "nsp_accuracy": "next sentence",
}
"""What is measured of held-out documents, as people read it. All are shares but the loss."""
BASELINES = {"shallow": "shallow baseline", "majority": "majority"}
"""What stands beside the accuracy of a question of pairs, and needs no pre-training."""

Line = dict[str, Any]


def companion_key(key: str, companion: str) -> str:
    """Where it is written what stands beside an accuracy: its interval and its baselines."""
    return f"{key.removesuffix('_accuracy')}_{companion}"


class MetricsWriter:
    """Appends to the metrics of a run.

    Opening it forgets what was written after the checkpoint of `from_step`, since the run writes that again: however
    often a run is killed, each step stands in the file once. A run from step 0 has no checkpoint, and begins anew.
    """

    def __init__(self, run: Path, *, from_step: int = 0) -> None:
        path = run / FILE
        keep_lines(path, from_step)
        with explain(path, "written"):
            self.file = path.open("ab")
        self.run, self.from_step = run, from_step

    @cached_property
    def tensorboard(self) -> "SummaryWriter":
        """Opened with the first line: a run that is done, and asked for again, has none to add."""
        from torch.utils.tensorboard import SummaryWriter

        # TensorBoard hides what earlier events say of this step and of later ones.
        return SummaryWriter(str(self.run / TENSORBOARD), purge_step=self.from_step + 1 if self.from_step else 0)

    def write(self, kind: str, step: int, **values: float | str | None) -> None:
        """Adds a line, at once on disk; a value that is None was not measured, and is left out."""
        measured = {key: value for key, value in values.items() if value is not None}
        with explain(self.run / FILE, "written"):
            self.file.write(to_json({"kind": kind, "step": step, **measured}))
            self.file.flush()
            for key, value in measured.items():
                add = self.tensorboard.add_text if isinstance(value, str) else self.tensorboard.add_scalar
                add(f"{kind}/{key}", value, step)
            self.tensorboard.flush()

    def close(self) -> None:
        self.file.close()
        if "tensorboard" in vars(self):
            self.tensorboard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_metrics(run: str | Path) -> list[Line]:
    """The lines of a run, which may still be writing them."""
    folder = local_path(run)
    require(folder.exists(), f"{run} does not exist; give the folder of a training run")
    require((folder / FILE).is_file(), f"{run} has no {FILE}; give the folder of a training run")
    lines = list(read_lines(folder / FILE))
    require(lines, f"{folder / FILE} has no whole line; wait until the run has written its first line")
    return lines


def keep_lines(path: Path, last_step: int) -> None:
    """Rewrites a file so that it ends with the lines of `last_step`."""
    lines = list(read_lines(path)) if path.exists() else []
    with replace_file(path) as file:
        file.writelines(to_json(line) for line in lines if line["step"] <= last_step and last_step > 0)


def read_lines(path: Path) -> Iterator[Line]:
    with open_file(path) as file:
        for number, text in enumerate(file, start=1):
            line = parse_line(text)
            if line is not None:
                yield line
            elif text.endswith(b"\n"):  # what does not end so is the last line, and was cut off while it was written
                raise UserError(f"line {number} of {path} is damaged ({shorten(text)}); delete it or restore the file")


def parse_line(text: bytes) -> Line | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):  # neither JSON nor UTF-8
        return None
    is_whole = isinstance(line, dict) and isinstance(line.get("kind"), str) and isinstance(line.get("step"), int)
    return line if is_whole and not any(map(is_huge, line.values())) else None


def is_huge(value: object) -> bool:
    """Whether it is a whole number that nobody has counted, nor can draw."""
    return isinstance(value, int) and abs(value) >= 1 << 63


def to_json(line: Line) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def shorten(text: bytes, size: int = 40) -> str:
    shown = text.decode(errors="replace").strip()
    return repr(shown if len(shown) <= size else shown[:size] + "…")
