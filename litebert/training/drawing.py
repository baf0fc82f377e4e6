"""What all pictures have in common: colours, letters, the names of runs, and how a picture is written."""

import io
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from litebert.config import require
from litebert.files import local_path, write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

SUFFIXES = (".png", ".pdf", ".svg")
# Okabe and Ito's, which people of every kind of colour vision tell apart; without their yellow, too pale for a line.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "#666666"
INK = "#333333"
GRID = "#E6E6E6"
CHINESE_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans GB", "Heiti SC", "Microsoft YaHei", "SimHei", "Noto Sans CJK JP",
    "Noto Sans CJK TC", "Droid Sans Fallback", "Arial Unicode MS",
)  # fmt: skip
"""Those of Linux, macOS and Windows, for the letters that matplotlib's own font lacks."""


def make_figure(width: float, height: float) -> "Figure":
    """An empty picture of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=130)


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Writes a picture whole or not at all, of the kind that its name says."""
    drawn = io.BytesIO()
    add_fonts(figure)
    with quietly_drawn() as unknown:
        figure.savefig(drawn, format=image_kind(path))
    if unknown:
        logger.warning("%s has boxes for letters that no font here has; install one, such as Noto Sans CJK", path)
    write_file(path, drawn.getvalue())


def add_fonts(figure: "Figure") -> None:
    """Lets names be Chinese where a font for them is installed."""
    from matplotlib.font_manager import get_font_names
    from matplotlib.text import Text

    installed = {*get_font_names()}
    fonts = [name for name in CHINESE_FONTS if name in installed]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_fontfamily([*text.get_fontfamily(), *fonts])


@contextmanager
def quietly_drawn() -> Iterator[list[str]]:
    """Keeps those of matplotlib's warnings from the user that he can do nothing about; hands over the letters that it
    does not know."""
    unknown: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield unknown
    for warning in warned:
        message = str(warning.message)
        if "missing from" in message:
            unknown.append(message)
        elif "constrained_layout not applied" not in message:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


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
