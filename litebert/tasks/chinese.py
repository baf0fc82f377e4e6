"""Chinese benchmarks: reviews for or against (ChnSentiCorp), and questions about a paragraph, of CMRC 2018 (Cui et al.
2019) and DRCD (Shao et al. 2018), which is in traditional script.

The questions are laid out as SQuAD 1.1 and scored as CMRC's script does it, by characters. Its first score is the mean
of the share of exact answers and F1.
"""

from functools import partial

from litebert.tasks.answer_scores import score_cmrc
from litebert.tasks.classes import ClassTask
from litebert.tasks.scores import accuracy
from litebert.tasks.squad import SpanTask
from litebert.tasks.task import Task
from litebert.tasks.text import TextColumns, read_texts

CMRC_FILES = {split: f"cmrc2018_{split}" for split in ("train", "dev", "test", "trial")}
DRCD_FILES = {"train": "DRCD_training", "dev": "DRCD_dev", "test": "DRCD_test"}

TASKS: dict[str, Task] = {
    "chnsenticorp": ClassTask(
        name="chnsenticorp",
        metric="accuracy",
        read_split=partial(read_texts, TextColumns(first="text_a")),
        compare=lambda gold, predicted, labels: {"accuracy": accuracy(gold, predicted)},
        labels=("0", "1"),
    ),
    "cmrc2018": SpanTask("cmrc2018", CMRC_FILES, score_cmrc, metric="average"),
    "drcd": SpanTask("drcd", DRCD_FILES, score_cmrc, metric="average"),
}
