"""Make one page of studies and runs: what was trained and for how long, results beside baselines and the paper, curves.

Example:
    litebert report studies/sharing studies/sentence --out report.html
    litebert report runs/albert runs/bert runs/sst2
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class Options:
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER...")]
    """Folders of studies, as litebert study leaves them, and of runs of pre-training or fine-tuning, also with several
    seeds."""
    out: Path = Path("report.html")
    """The page to write; it needs no other file."""
    title: str = "LiteBERT: report"
    """The page's heading."""


def run(options: Options) -> None:
    from litebert.config import require
    from litebert.files import require_suffix, write_file
    from litebert.studies.report import make_report

    require(options.folders, "FOLDER is missing; name the folder of a study or a run")
    for folder in options.folders:
        require(folder.is_dir(), f"{folder} is no folder; name that of a study or a run")
    require_suffix(options.out, ".html")
    page = make_report(options.folders, options.title).encode()
    write_file(options.out, page)
    print(f"{options.out}: {len(page) / 1e3:,.0f} kB, complete in itself; open it in a browser")
