"""What a folder is, told by the files in it: nothing is written among those of another kind."""

import re
from pathlib import Path
from typing import Literal

from litebert.config import require

Kind = Literal["run", "study", "model", "corpus", "vocabulary"]

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
GOOGLE_CONFIGS = ("albert_config.json", "bert_config.json")
INDEX_NAME = re.compile(r"index(-\d+-of-\d+)?\.json")
VOCABULARY_FILES = (
    "spiece.model",
    "tokenizer.json",
    "vocab.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
MARKS: dict[Kind, re.Pattern[str]] = {
    "run": re.compile(r"checkpoints|environment\.json|seed-\d+"),
    "study": re.compile(r"plan\.json"),
    "model": re.compile(rf"({'|'.join(map(re.escape, WEIGHTS))})(\.index\.json)?"),
    "corpus": INDEX_NAME,
    "vocabulary": re.compile("|".join(map(re.escape, VOCABULARY_FILES))),
}
"""The names that tell each kind. Models and corpora have their vocabulary beside them, so it comes last."""


def require_place(folder: Path, option: str, *allowed: Kind) -> None:
    """Refuses a folder of a kind that is not allowed; it need not exist."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    for kind, mark in MARKS.items():
        found = next(filter(mark.fullmatch, names), None)
        require(
            found is None or kind in allowed,
            f"{folder} is the folder of a {kind} ({found} is there); choose another {option}",
        )


def find_google_config(path: Path) -> Path | None:
    """That of a TensorFlow checkpoint, which is named by its folder, or by its own prefix there.

    Modules of TensorFlow's hub have the checkpoint in `variables` and the config in `assets` beside it.
    """
    folder = path if path.is_dir() else path.parent
    places = (folder, folder / "assets", folder.parent / "assets")
    files = (place / name for place in places for name in GOOGLE_CONFIGS)
    return next((file for file in files if file.is_file()), None)
