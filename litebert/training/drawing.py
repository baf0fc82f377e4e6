"""What all pictures have in common: colours, the names of runs, and how a picture is written."""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from litebert.config import require
from litebert.files import local_path, write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")
# Okabe and Ito's, which people of every kind of colour vision tell apart; without their yellow, too pale for a line.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "#666666"
INK = "#333333"
GRID = "#E6E6E6"


def make_figure(width: float, height: float) -> "Figure":
    """An empty picture of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=130)


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Writes a picture whole or not at all, of the kind that its name says."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=image_kind(path))
    write_file(path, drawn.getvalue())


def image_kind(path: str | Path) -> str:
    suffix = Path(path).suffix.lower()
    require(suffix in SUFFIXES, f"{path} is no name of a picture; let it end in {', '.join(SUFFIXES[:-1])} or .svg")
    return suffix.removeprefix(".")


def name_runs(folders: Sequence[str | Path]) -> list[str]:
    """The folders' names, with as many of their parents as tell them apart."""
    parts = [Path(os.path.normpath(local_path(folder).absolute())).parts for folder in folders]
    for place, folder in enumerate(folders):
        require(parts[place] not in parts[:place], f"{folder} is given twice; name each run once")

    def shortest(own: tuple[str, ...]) -> str:
        sizes = range(1, len(own) + 1)
        return next("/".join(own[-n:]) for n in sizes if sum(other[-n:] == own[-n:] for other in parts) == 1)

    return [shortest(own) for own in parts]


def choose_colors(number: int) -> list[str]:
    if number <= len(COLORS):
        return list(COLORS[:number])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](share)) for share in np.linspace(0, 0.9, number)]
