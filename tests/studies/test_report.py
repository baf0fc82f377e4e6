import json
import math
import re
import shutil
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from litebert.config import UserError, read_json, write_json
from litebert.corpus.shards import open_corpus
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.run import pretrain
from litebert.studies.finetuned import merge_seeds, open_tuned
from litebert.studies.pictures import LAYERS_CAPTION
from litebert.studies.plan import read_plan
from litebert.studies.report import make_report
from litebert.studies.results import read_results
from litebert.training.metrics import read_metrics
from litebert.training.parallel import Ranks

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


def test_a_study_is_told_with_its_text_its_baselines_and_how_to_go_on(done: Path) -> None:
    page, (result, *_) = make_report([done / "layers"], "title"), read_results(done / "layers")
    assert find_row(page, "counting words, without pre-training")[-1] == f"{100 * result.measures['sop_shallow']:.1f}"
    assert find_row(page, "always the commoner answer")[-1] == f"{100 * result.measures['sop_majority']:.1f}"
    corpus = open_corpus(read_plan(done / "layers").settings["data"]["corpora"][0]["path"])
    text = check(page)
    assert f"on {corpus.num_tokens:,} tokens of {corpus.num_documents:,} documents in {corpus.path}" in text
    assert "With 2 seeds little can be told from chance" in text and "litebert study layers --seeds 4" in text


def test_ink_follows_the_page_so_that_it_can_be_dark(done: Path) -> None:
    page = make_report([done / "layers"], "title")
    assert "prefers-color-scheme: dark" in page and "#000000" not in page and "currentColor" in page


def test_plain_runs_are_on_it_too(done: Path) -> None:
    runs = sorted((done / "runs").iterdir())
    text = check(make_report(runs, "title"))
    assert all(run.name in text for run in runs)


def write_run(folder: Path, **measured: float) -> Path:
    folder.mkdir()
    write_json(folder / "config.json", {"pairs": {"objective": "sop"}})
    write_json(folder / "environment.json", {})
    (folder / "metrics.jsonl").write_text(json.dumps({"kind": "evaluation", "step": 9, **measured}) + "\n")
    return folder


def read_tables(page: str) -> list[list[list[str]]]:
    """The cells of each table, row by row."""
    tables = [re.findall(r"<tr>(.*?)</tr>", table) for table in re.findall(r"<table.*?</table>", page, re.DOTALL)]
    return [[re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table] for table in tables]


def find_row(page: str, name: str) -> list[str]:
    """The cells of the only row that begins so."""
    (row,) = [row for table in read_tables(page) for row in table if row[0] == name]
    return row[1:]


def test_baselines_are_those_of_all_runs_or_named_by_run(tmp_path: Path) -> None:
    values = {"masked_token_loss": 5.0, "sop_accuracy": 0.6, "sop_low": 0.5, "sop_high": 0.65, "sop_shallow": 0.7}
    values["sop_majority"] = 0.5
    same = [write_run(tmp_path / name, **values) for name in ("first", "second")]
    page = make_report(same, "title")
    assert find_row(page, "counting words, without pre-training") == ["-", "-", "70.0"]
    assert find_row(page, "always the commoner answer") == ["-", "-", "50.0"]
    assert "without pre-training, 70.0: below it." in check(page)
    above = write_run(tmp_path / "above", **values | {"sop_accuracy": 0.71, "sop_low": 0.69})
    assert "without pre-training, 70.0: none surely above it." in check(make_report([*same, above], "title"))
    other = write_run(tmp_path / "third", **values | {"sop_shallow": 0.4})
    page = make_report([*same, other], "title")
    assert find_row(page, "counting words, without pre-training (first, second)") == ["-", "-", "70.0"]
    assert find_row(page, "counting words, without pre-training (third)") == ["-", "-", "40.0"]
    assert "without pre-training, 40.0: third surely above it." in check(make_report([other], "title"))


def test_a_reader_of_the_page_alone_learns_what_was_trained_and_what_came_out(
    base: PretrainConfig, tmp_path: Path
) -> None:
    folders = []
    for sharing in ("all", "none"):
        folders.append(tmp_path / sharing)
        pretrain(replace(base, encoder=(*base.encoder, f"sharing={sharing}")), folders[-1], Ranks())
    page = make_report(folders, "title")
    parameters = [
        sum(tensor.size for tensor in load_file(folder / "model" / "model.safetensors").values()) for folder in folders
    ]
    assert find_row(page, "parameters") == [f"{number:,}" for number in parameters]
    assert find_row(page, "weights of layers") == ["one block for all layers", "each layer has its own"]
    assert find_row(page, "steps") == ["6, each of 8 sequences of up to 32 tokens"], "what is alike is told once"
    train, dev = open_corpus(base.corpus), open_corpus(base.corpus, "dev")
    assert find_row(page, "text") == [
        f"{train.num_tokens:,} tokens of {train.num_documents:,} documents in {base.corpus}"
    ]
    assert re.fullmatch(r"\d+ s", find_row(page, "time")[0])
    last = [[line for line in read_metrics(folder) if line["kind"] == "evaluation"][-1] for folder in folders]
    columns = read_tables(page)[1][0][1:]
    for folder, values in zip(folders, last, strict=True):
        told = dict(zip(columns, find_row(page, folder.name), strict=True))
        assert told["masked-token loss (nats)"] == f"{values['masked_token_loss']:.3f}"
        low, high = 100 * values["sop_low"], 100 * values["sop_high"]
        assert told["sentence order (%)"] == f"{100 * values['sop_accuracy']:.1f} [{low:.1f}, {high:.1f}]"
    tokens, held_out = (np.concatenate([shard.tokens for shard in corpus.shards]).tolist() for corpus in (train, dev))
    counts, total = Counter(tokens), len(tokens) + train.vocabulary.size
    loss = -sum(math.log((counts[token] + 1) / total) for token in held_out) / len(held_out)
    found = 100 * held_out.count(counts.most_common(1)[0][0]) / len(held_out)
    assert find_row(page, "word frequencies alone")[1:3] == [f"{loss:.3f}", f"{found:.1f}"]
    text = check(page)
    assert f"all ({parameters[0]:,} parameters, " in text and "Each was trained once" in text
    assert f"litebert fill-mask {folders[0]}/model" in text


def test_layers_of_plain_runs_are_measured_where_their_corpus_is(done: Path, tmp_path: Path) -> None:
    run = shutil.copytree(sorted((done / "runs").iterdir())[0], tmp_path / "run")
    assert LAYERS_CAPTION in make_report([run], "title")
    config = read_json(run / "config.json")
    write_json(run / "config.json", config | {"corpus": str(tmp_path / "moved")})
    assert LAYERS_CAPTION not in make_report([run], "title")


def write_tuned(folder: Path, scores: dict[int, float], *, scratch: bool = False) -> Path:
    """A run of several seeds, which reached these scores on dev."""
    for seed, accuracy in scores.items():
        run = folder / f"seed-{seed}"
        run.mkdir(parents=True)
        write_json(run / "config.json", {"task": "sst2", "data": "SST-2", "init": "my-albert", "scratch": scratch})
        write_json(run / "environment.json", {})
        content = {"step": 9, "metric": "accuracy", "files": {"dev": "x"}, "majority": {"dev": {"accuracy": 50.9}}}
        write_json(run / "scores.json", content | {"dev": {"accuracy": accuracy}})
        lines = [
            {"kind": "train", "step": 9, "loss": 0.5, "seconds": 60 + seed},
            {"kind": "evaluation", "step": 9, "dev_accuracy": accuracy},
        ]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_fine_tuning_is_on_it_with_the_median_of_its_seeds_and_each_of_them(tmp_path: Path) -> None:
    runs = [
        write_tuned(tmp_path / "sst2", {0: 61.25, 1: 70.5, 2: 62.5}),
        write_tuned(tmp_path / "random", {0: 51.25, 1: 60.0}, scratch=True),
    ]
    page = make_report(runs, "title")
    assert read_tables(page)[1] == [
        ["", "dev accuracy (%)"],
        ["sst2", "62.5 [61.2 to 70.5]"],
        ["random", "55.6 [51.2 to 60.0]"],
        ["always the most frequent label", "50.9"],
    ]
    assert find_row(page, "begun with") == ["my-albert", "random weights, in the shape of my-albert"]
    assert find_row(page, "seeds") == ["3", "2"] and find_row(page, "time") == ["1 min 01 s each", "1 min 00 s each"]
    assert find_row(page, "sst2/seed-1") == ["9", "70.5"] and find_row(page, "random/seed-0") == ["9", "51.2"]
    text = check(page)
    assert "sst2: in training, and on dev." in text
    assert "Every seed of sst2 is above every seed of random." in text
    assert f"litebert predict --model {tmp_path}/sst2/seed-1/model" in text
    overlapping = write_tuned(tmp_path / "third", {0: 60.0, 1: 99.0})
    assert "The seeds of the two best overlap." in check(make_report([runs[0], overlapping], "title"))
    one = [write_tuned(tmp_path / name, {0: 60.0}) for name in ("one", "two")]
    assert "One seed of each: a difference may be chance." in check(make_report(one, "title"))


def test_scores_that_are_missing_or_damaged_are_named(tmp_path: Path) -> None:
    run = write_tuned(tmp_path / "sst2", {0: 51.25, 1: 62.5}) / "seed-1"
    for damaged in ({}, {"step": 9, "metric": "accuracy", "dev": {"accuracy": "x"}}):
        write_json(run / "scores.json", damaged)
        with pytest.raises(UserError, match=r"seed-1/scores.json is not what litebert finetune writes"):
            make_report([tmp_path / "sst2"], "title")
    (run / "scores.json").unlink()
    with pytest.raises(UserError, match=r"seed-1 has no scores.json; go on with the run"):
        make_report([tmp_path / "sst2"], "title")


def test_seeds_are_drawn_as_their_median_in_a_band_beside_the_most_frequent_label(tmp_path: Path) -> None:
    (merged,) = [
        line
        for line in merge_seeds(open_tuned("sst2", write_tuned(tmp_path / "sst2", {0: 61.0, 1: 70.0, 2: 62.0})))
        if line["kind"] == "evaluation"
    ]
    assert merged["dev_accuracy"] == 62.0 and merged["dev_majority"] == 50.9
    assert (merged["dev_low"], merged["dev_high"]) == (61.0, 70.0)


def test_folders_of_one_name_are_told_apart(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "other")
    page = make_report([done / "layers", tmp_path / "other" / "layers"], "title")
    assert page.count("<section") == 2 and f'id="{done.name}/layers"' in page and 'id="other/layers"' in page


def test_what_is_neither_a_study_nor_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is neither a run nor a study"):
        make_report([tmp_path], "title")


def test_the_same_results_give_the_same_page(done: Path) -> None:
    assert make_report([done / "layers"], "title") == make_report([done / "layers"], "title")
