"""litebert evaluate, called as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.commands.calls import refuse, run
from tests.finetuning.made import Finished, finish, write_start

Printed = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_start(tmp_path_factory.mktemp("command") / "start")


@pytest.fixture(scope="module")
def done(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return finish("sst2", tmp_path_factory.mktemp("command"), start, steps=4)


def test_a_model_is_scored_as_its_run_scored_it(capsys: Printed, done: Finished) -> None:
    model = done.run / "model"
    assert json.loads(run(capsys, "evaluate", "--model", model, "--data", done.config.data, "--json")) == {
        "dev": done.scores["dev"]
    }
    said = run(capsys, "evaluate", "--task", "sst2", "--model", model, "--data", done.config.data)
    assert ["dev", "accuracy", f"{done.scores['dev']['accuracy']:.4g}"] in [row.split() for row in said.splitlines()]


def test_a_threshold_is_told_with_the_scores_and_predictions_are_written(
    capsys: Printed, start: Path, tmp_path: Path
) -> None:
    _, folder, scores = finish("squad2", tmp_path, start, steps=4)
    said = run(capsys, "evaluate", "--model", folder / "model", "--data", tmp_path / "data", "--json",
               "--out", tmp_path / "out")  # fmt: skip
    found = json.loads(said)["dev"]
    assert found.pop("threshold") == json.loads((folder / "model" / "task.json").read_text())["threshold"]
    assert found == scores["dev"]
    for name in ("dev_predictions.json", "dev_nbest_predictions.json", "dev_null_odds.json"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / "predictions" / name).read_bytes()


def test_a_file_or_a_part_of_it_can_be_asked_about(capsys: Printed, done: Finished) -> None:
    call = ["evaluate", "--model", done.run / "model", "--json"]
    whole = run(capsys, *call, "--data", Path(done.config.data, "dev.tsv"))
    assert json.loads(whole) == {"dev": done.scores["dev"]}
    part = json.loads(run(capsys, *call, "--data", done.config.data, "--examples", "4"))
    assert part["dev"]["accuracy"] in (0.0, 25.0, 50.0, 75.0, 100.0)
    train = json.loads(run(capsys, *call, "--data", done.config.data, "--split", "train"))
    assert train.keys() == {"train"}


def test_a_model_for_three_way_inference_can_be_asked_about_the_diagnostic_set(
    capsys: Printed, done: Finished, tmp_path: Path
) -> None:
    (tmp_path / "diagnostic-full.tsv").write_text("Premise\tHypothesis\tLabel\nit is\tit is\tentailment\n")
    call = ("evaluate", "--task", "ax", "--model", done.run / "model", "--data", tmp_path / "diagnostic-full.tsv")
    # This one is not such a model, but the only split that there is was looked for.
    assert "has labels ('0', '1'); ax needs ('contradiction', 'entailment', 'neutral')" in refuse(capsys, *call)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--split", "test"], "test of {data} has no labels to score by; use litebert predict"),
        (["--split", "tests"], "sst2 has no split 'tests'; name one of train, dev, test"),
        (["--task", "race"], "the head of {model} has kind 'classes'; race needs 'choice'"),
        (["--task", "rte"], "has labels ('0', '1'); rte needs ('entailment', 'not_entailment')"),
        (["--task", "sst3"], "there is no task 'sst3'"),
        (["--out", "{model}"], "{model} is the folder of a model (model.safetensors is there); choose another --out"),
        (["--examples", "0"], "--examples is 0; give at least 1"),
        (["--data", "nowhere"], "nowhere does not exist; correct the path"),
        (["--model", "nowhere"], "nowhere does not exist"),
    ],
)
def test_a_users_mistake_is_told_in_a_sentence(capsys: Printed, done: Finished, more: list[str], said: str) -> None:
    model, data = done.run / "model", done.config.data
    found = refuse(capsys, "evaluate", "--model", model, "--data", data, *(word.format(model=model) for word in more))
    assert said.format(model=model, data=data) in found


def test_a_model_that_was_not_fine_tuned_is_refused(
    capsys: Printed, start: Path, done: Finished, tmp_path: Path
) -> None:
    said = refuse(capsys, "evaluate", "--model", start, "--data", done.config.data, "--task", "sst2")
    assert f"{start} has no head for a task (its heads: masked_token, pair); give a folder that litebert" in said
    foreign = shutil.copytree(done.run / "model", tmp_path / "foreign")
    (foreign / "task.json").unlink()
    said = refuse(capsys, "evaluate", "--model", foreign, "--data", done.config.data)
    assert f"{foreign} does not say what it was fine-tuned for; name its --task" in said
    named = ("evaluate", "--model", foreign, "--data", done.config.data, "--task", "sst2", "--json")
    assert json.loads(run(capsys, *named))["dev"] == done.scores["dev"]
