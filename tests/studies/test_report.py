import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from litebert.config import UserError, read_json, write_json
from litebert.studies.report import LAYERS_CAPTION, make_report
from litebert.studies.results import read_results

EMPTY = {"meta", "br", "link"}


class Checker(HTMLParser):
    """Sees that every element is closed, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check(page: str) -> str:
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    return "".join(checker.text)


def test_the_page_has_every_variant_with_its_figures_and_needs_no_other_file(done: Path) -> None:
    page = make_report([done / "layers"], "A <title>")
    text = check(page)
    assert "A <title>" in text and "Figure 1" in text and "litebert study layers" in text
    for result in read_results(done / "layers"):
        assert result.variant in text and f"{result.parameters:,}" in text
    assert page.count("<svg") == 3  # curves, sizes, layers
    assert not re.search(r'(src|href)="(?!#)', page.replace('xlink:href="#', 'href="#'))
    assert len(page) < 1_000_000


def test_ink_follows_the_page_so_that_it_can_be_dark(done: Path) -> None:
    page = make_report([done / "layers"], "title")
    assert "prefers-color-scheme: dark" in page and "#000000" not in page and "currentColor" in page


def test_plain_runs_are_on_it_too(done: Path) -> None:
    runs = sorted((done / "runs").iterdir())
    text = check(make_report(runs, "title"))
    assert all(run.name in text for run in runs)


def write_run(folder: Path, **measured: float) -> Path:
    folder.mkdir()
    for name in ("config", "environment"):
        write_json(folder / f"{name}.json", {})
    (folder / "metrics.jsonl").write_text(json.dumps({"kind": "evaluation", "step": 9, **measured}) + "\n")
    return folder


def test_baselines_are_those_of_all_runs_or_named_by_run(tmp_path: Path) -> None:
    values = {"masked_token_loss": 5.0, "sop_accuracy": 0.6, "sop_shallow": 0.7, "sop_majority": 0.5}
    same = [write_run(tmp_path / name, **values) for name in ("first", "second")]
    assert "sentence order: shallow baseline 70.0 %, majority 50.0 %." in check(make_report(same, "title"))
    other = write_run(tmp_path / "third", **values | {"sop_shallow": 0.8})
    text = check(make_report([*same, other], "title"))
    assert "sentence order of first, second: shallow baseline 70.0 %" in text
    assert "sentence order of third: shallow baseline 80.0 %" in text


def test_layers_of_plain_runs_are_measured_where_their_corpus_is(done: Path, tmp_path: Path) -> None:
    run = shutil.copytree(sorted((done / "runs").iterdir())[0], tmp_path / "run")
    assert LAYERS_CAPTION in make_report([run], "title")
    config = read_json(run / "config.json")
    write_json(run / "config.json", config | {"corpus": str(tmp_path / "moved")})
    assert LAYERS_CAPTION not in make_report([run], "title")


def test_fine_tuning_is_on_it_by_seed_with_its_scores(tmp_path: Path) -> None:
    for seed, accuracy in enumerate((51.25, 62.5)):
        run = tmp_path / "sst2" / f"seed-{seed}"
        run.mkdir(parents=True)
        write_json(run / "config.json", {"task": "sst2", "init": "my-albert", "scratch": seed == 1})
        write_json(run / "environment.json", {})
        write_json(run / "scores.json", {"step": 9, "files": {"dev": "x"}, "dev": {"accuracy": accuracy}})
        lines = [{"kind": "train", "step": 9, "loss": 0.5}, {"kind": "evaluation", "step": 9, "dev_accuracy": accuracy}]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = check(make_report([tmp_path / "sst2"], "title"))
    assert "sst2: in training, and on dev." in text and "dev accuracy" in text
    assert "seed-0" in text and "my-albert" in text and "51.2" in text
    assert "seed-1" in text and "random weights" in text and "62.5" in text
    for damaged in ({}, {"step": 9, "dev": {"accuracy": "x"}}):
        write_json(run / "scores.json", damaged)
        with pytest.raises(UserError, match=r"seed-1/scores.json is not what litebert finetune writes"):
            make_report([tmp_path / "sst2"], "title")
    (run / "scores.json").unlink()
    with pytest.raises(UserError, match=r"seed-1 has no scores.json; go on with the run"):
        make_report([tmp_path / "sst2"], "title")


def test_folders_of_one_name_are_told_apart(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "other")
    page = make_report([done / "layers", tmp_path / "other" / "layers"], "title")
    assert page.count("<section") == 2 and f'id="{done.name}/layers"' in page and 'id="other/layers"' in page


def test_what_is_neither_a_study_nor_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is neither a run nor a study"):
        make_report([tmp_path], "title")


def test_the_same_results_give_the_same_page(done: Path) -> None:
    assert make_report([done / "layers"], "title") == make_report([done / "layers"], "title")
