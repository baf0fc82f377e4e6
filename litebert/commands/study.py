"""Repeat one of the paper's experiments: pre-train the models it compares, and set the results beside its tables.

Example:
    litebert study --list
    litebert study sharing --corpus my-corpus --budget 20m
    litebert study sentence --corpus my-corpus --budget 1h --seeds 3 --tasks rte=glue/RTE sst2=glue/SST-2
    litebert study sharing --preset albert-base --corpus my-corpus --steps 125000 --part 1/4
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from litebert.pretraining.config import PretrainConfig
from litebert.studies.config import StudyConfig

if TYPE_CHECKING:
    from litebert.studies.results import Result
    from litebert.studies.study import Study


@dataclass(frozen=True, kw_only=True)
class Options:
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = ""
    """The study; --list shows all of them."""
    list: bool = False
    """List what each study asks and which models it trains, and stop."""
    out: Path = Path("studies")
    """Where runs and results are kept. Whatever is there already is used again."""
    how: StudyConfig = field(default_factory=StudyConfig)
    settings: PretrainConfig = field(default_factory=PretrainConfig)
    json: bool = False
    """Print JSON instead of tables."""


def find_default(arguments: list[str]) -> Options:
    from litebert.beginnings import read_given
    from litebert.recipes import find_study_settings

    return Options(settings=find_study_settings(read_given(arguments).get("--preset", "albert-nano")))


def run(options: Options) -> None:
    import sys

    from litebert.config import nearest, require
    from litebert.folders import require_place
    from litebert.studies.catalogue import STUDIES
    from litebert.studies.run import StoppedError, carry_out
    from litebert.training.environment import name_command
    from litebert.training.parallel import join_ranks
    from litebert.training.signals import end_stopped

    if options.list:
        print_list(options)
        return
    require(options.name, "NAME is missing; litebert study --list has the names of all studies")
    require(options.name in STUDIES, f"there is no study {options.name!r}{nearest(options.name, STUDIES)}")
    require(
        options.settings.minutes is None,
        f"--minutes is {options.settings.minutes}; say with --budget how long all may take",
    )
    require_place(options.out, "--out")
    study = STUDIES[options.name]
    with join_ranks() as ranks:
        try:
            results = carry_out(
                study,
                options.settings,
                options.how,
                options.out,
                ranks,
                command=name_command(sys.argv),
                tell=ranks.tell,
            )
        except StoppedError as stopped:
            end_stopped(stopped.signal_number, "", ranks)
            return
        if ranks.is_first:
            print_results(study, results, options)


def print_list(options: Options) -> None:
    from dataclasses import replace

    from litebert.display import print_json
    from litebert.recipes import find_study_settings
    from litebert.studies.catalogue import STUDIES

    base = replace(find_study_settings("albert-nano"), mix=("first=0.5", "second=0.5"))
    rows = [
        {
            "study": study.name,
            "source": study.source,
            "question": study.question,
            "finding": study.finding,
            "runs": [variant.name for variant in study.variants(base)],
        }
        for study in STUDIES.values()
    ]
    if options.json:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['study']:<11}{row['question']}")
        print(f"{'':11}{row['source']}: {row['finding']}")
        print(f"{'':11}{len(row['runs'])} runs of {base.preset} for each seed: {'; '.join(row['runs'])}\n")
    print("A budget, 20m unless it is given, is shared by all runs of a study.")


def print_results(study: "Study", results: "list[Result]", options: Options) -> None:
    import dataclasses

    from litebert.display import print_json, print_table
    from litebert.studies.results import (
        compare_with_paper,
        count_verdicts,
        explain_columns,
        find_baselines,
        part_columns,
        tabulate,
    )
    from litebert.studies.study import MEASURES

    variants = study.variants(options.settings)
    compared = compare_with_paper(study, variants, results)
    if options.json:
        content: dict[str, Any] = {
            "study": study.name,
            "results": [dataclasses.asdict(result) for result in results],
            "compared": [comparison._asdict() for comparison in compared],
        }
        print_json(content)
        return
    if not results:
        print(f"this part of {study.name} had nothing to do")
        return
    print(study.question)
    for rows in part_columns(tabulate(study, variants, results)):
        print_table(rows)
    for measure, baselines in find_baselines(study.measures, results[0].measures).items():
        told = ", ".join(f"{name} {100 * value:.1f}" for name, value in baselines.items())
        print(f"{MEASURES[measure]}: {told}")
    print("\n".join(explain_columns(study, variants)))
    print(f"{study.source}: {study.finding}")
    print(count_verdicts(variants, compared))
    print(f"next: litebert report {options.out / study.name}")
