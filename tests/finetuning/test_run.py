import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sklearn.metrics import accuracy_score, f1_score

from litebert.commands.finetune import print_scores
from litebert.config import UserError
from litebert.finetuning.config import FinetuneConfig
from litebert.finetuning.preparation import Prepared, describe_run, prepare
from litebert.finetuning.run import carry_out, make_selection, make_training, read_test
from litebert.finetuning.task_model import open_finetuned
from litebert.models.folder import read_model, write_model
from litebert.models.heads import HeadConfig
from litebert.models.model import Model
from litebert.tasks.task import Limits, Sample
from litebert.training.checkpoint import load_checkpoint
from litebert.training.loop import LoopConfig, Outcome
from litebert.training.parallel import Ranks
from tests.finetuning.made import (
    CONFIG,
    NAMES,
    SIZES,
    VOCABULARY,
    Finished,
    lines_of,
    make_config,
    read_file,
    run_to_end,
    weights_of,
    write_data,
    write_start,
)

ROOT = Path(__file__).parents[2]
Make = Callable[[str], Finished]


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def all_files(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("kind", "score", "least"),
    [
        ("label", "accuracy", 100.0),
        ("number", "pearson", 99.0),
        ("several", "exact", 100.0),
        ("tags", "f1", 100.0),
        ("choice", "accuracy", 100.0),
        ("squad1", "exact", 100.0),
        ("squad2", "exact", 100.0),
        ("sst2", "accuracy", 100.0),
    ],
)
def test_a_tiny_model_learns_what_words_decide(finished: Make, kind: str, score: str, least: float) -> None:
    _, run, scores = finished(kind)
    assert scores["dev"][score] >= least and scores["stuck"] is None
    if kind != "sst2":
        assert scores["test"][score] >= least - 5, "nor did it learn dev by heart"
    assert scores == read_file(run, "scores.json")
    best = read_file(run, "best.json")
    assert best == {"step": scores["step"], "score": scores["dev"][scores["metric"]], "stuck": None}


def test_the_scores_are_those_of_the_predictions_that_lie_beside_them(finished: Make) -> None:
    config, run, scores = finished("label")
    predicted = {row["id"]: row["prediction"] for row in read_rows(run / scores["files"]["test"])}
    gold = [row["label"] for row in read_rows(Path(config.data, "test.jsonl"))]
    answers = [predicted[str(number)] for number in range(len(gold))]
    assert len(predicted) == SIZES["test"]
    assert scores["test"]["accuracy"] == pytest.approx(100 * accuracy_score(gold, answers))
    assert scores["test"]["f1"] == pytest.approx(100 * f1_score(gold, answers, pos_label="yes"))


def test_a_run_leaves_files_that_tell_of_it(finished: Make) -> None:
    _, run, scores = finished("sst2")
    kinds = [(line["kind"], line["step"]) for line in lines_of(run)]
    steps = [("train", step) for step in range(10, 61, 10)] + [("evaluation", step) for step in (20, 40, 60)]
    assert sorted(kinds) == sorted(steps)
    assert [line["dev_accuracy"] for line in lines_of(run) if line["kind"] == "evaluation"][-1] <= 100
    assert read_file(run, "data.json")["train"]["examples"] == SIZES["train"]
    assert read_file(run, "environment.json")["torch"] == torch.__version__
    assert read_file(run, "model/task.json")["task"] == "sst2"
    assert (run / "confusion.png").read_bytes().startswith(b"\x89PNG")
    card = (run / "model" / "README.md").read_text()
    assert "pipeline_tag: text-classification" in card and "| dev | accuracy | 100.00 |" in card
    assert f"the model of step {scores['step']} was best on dev" in card
    assert card.endswith("Those on dev are a little too high, since dev chose the step.\n")
    assert (run / "predictions" / "SST-2.tsv").read_text().startswith("index\tprediction\n100\t")


def test_a_threshold_that_dev_chose_stays_with_the_model(finished: Make) -> None:
    config, run, _ = finished("squad2")
    threshold = read_file(run, "model/task.json")["threshold"]
    odds = read_file(run, "predictions/dev_null_odds.json")
    answers = read_file(run, "predictions/dev_predictions.json")
    assert {key for key, odd in odds.items() if odd > threshold} == {key for key, text in answers.items() if not text}
    assert {key for key, text in answers.items() if not text} == {f"question-{n}" for n in range(0, SIZES["dev"], 3)}
    # A split that is asked about alone is decided by it too, whatever would suit that split.
    task_model = open_finetuned(run / "model", config.data)
    assert task_model.evaluate(task_model.read(config.data, "test")).threshold == threshold


AUTO_CLASSES = {
    "label": transformers.AutoModelForSequenceClassification,
    "number": transformers.AutoModelForSequenceClassification,
    "several": transformers.AutoModelForSequenceClassification,
    "tags": transformers.AutoModelForTokenClassification,
    "choice": transformers.AutoModelForMultipleChoice,
    "squad1": transformers.AutoModelForQuestionAnswering,
}
LABELS = {"label": ["no", "yes"], "several": ["good", "loud"], "tags": ["B-NAME", "O"]}


@pytest.mark.parametrize("kind", AUTO_CLASSES)
def test_transformers_opens_the_model_and_says_the_same(finished: Make, kind: str) -> None:
    _, run, _ = finished(kind)
    theirs, report = AUTO_CLASSES[kind].from_pretrained(run / "model", output_loading_info=True)
    assert type(theirs).__name__ == read_file(run, "model/config.json")["architectures"][0]
    assert not report["missing_keys"] and not report["unexpected_keys"]
    if kind in LABELS:
        assert list(theirs.config.id2label.values()) == LABELS[kind]
    ids, mask, segments = make_padded(rows=8)
    with torch.no_grad():
        ours = read_model(run / "model")(ids, mask, segments).logits
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
        if kind == "choice":
            inputs = {name: tensor.view(2, 4, -1) for name, tensor in inputs.items()}
        said = theirs.eval()(**inputs)
    expected = torch.stack([said.start_logits, said.end_logits], dim=-1) if kind == "squad1" else said.logits
    (found,) = ours.values()
    if found.ndim == 3:  # what is said of padding is nobody's
        found, expected = found[mask.bool()], expected[mask.bool()]
    torch.testing.assert_close(found, expected.view_as(found), atol=1e-4, rtol=0)


def make_padded(rows: int) -> torch.Tensor:
    """Ids, mask and segments."""
    draw = torch.Generator().manual_seed(0)
    ids, mask, segments = torch.zeros(3, rows, 20, dtype=torch.long)
    for row, length in enumerate(torch.randint(6, 20, (rows,), generator=draw).tolist()):
        ids[row, :length] = torch.randint(5, len(VOCABULARY), (length,), generator=draw)
        mask[row, :length] = 1
        segments[row, length // 2 : length] = 1
    return torch.stack([ids, mask, segments])


class Ending(list[Sample]):
    """Samples at one of which something happens, when it is asked for the so many-th time."""

    def __init__(self, samples: Any, happens: Callable[[], None], after: int) -> None:
        super().__init__(samples)
        self.happens, self.left = happens, after

    def __getitem__(self, place: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.happens()
        return super().__getitem__(place)


def die() -> None:
    raise InterruptedError


def end_at(prepared: Prepared, step: int, happens: Callable[[], None]) -> Prepared:
    """The run, to which something happens while it makes the batch of a step."""
    after = step * prepared.config.num_examples + 1
    return prepared._replace(samples=Ending(prepared.samples, happens, after))


KILLED = {
    "label": {"encoder": ("hidden_dropout=0.1", "attention_dropout=0.1"), "classifier_dropout": 0.1},
    "squad2": {},
}


@pytest.mark.parametrize("kind", KILLED)
def test_a_run_that_was_killed_goes_on_bit_for_bit(tmp_path: Path, start: Path, kind: str) -> None:
    loop = LoopConfig(log_every=3, evaluate_every=4, save_every=5, keep=1)
    config = make_config(kind, write_data(kind, tmp_path / "data"), start, steps=18, loop=loop, **KILLED[kind])
    straight, run = tmp_path / "straight", tmp_path / "killed"
    expected = run_to_end(config, straight)
    with pytest.raises(InterruptedError):
        carry_out(end_at(prepare(config, run, Ranks()), 13, die), run, Ranks())
    assert not (run / "scores.json").exists()
    stopped = end_at(prepare(config, run, Ranks()), 16 - 10, lambda: signal.raise_signal(signal.SIGTERM))
    assert carry_out(stopped, run, Ranks()) == (Outcome(16, signal.SIGTERM, 0), {})
    assert run_to_end(config, run) == expected
    assert lines_of(run) == lines_of(straight)
    for name in ("best.json", "scores.json", "model/task.json", "model/README.md", *expected["files"].values()):
        assert (run / name).read_bytes() == (straight / name).read_bytes(), name
    assert weights_of(run) == weights_of(straight)
    ours, theirs = (load_checkpoint(folder / "checkpoints") for folder in (run, straight))
    assert ours is not None and theirs is not None and ours.tensors.keys() == theirs.tensors.keys()
    assert all(torch.equal(ours.tensors[name], theirs.tensors[name]) for name in ours.tensors)


def test_a_run_is_not_gone_on_with_under_another_config_or_with_other_data(tmp_path: Path, start: Path) -> None:
    data, run = write_data("label", tmp_path / "data"), tmp_path / "run"
    config = make_config("label", data, start, steps=4)
    run_to_end(config, run)
    before = all_files(run)
    with pytest.raises(
        UserError,
        match="another config .now --learning-rate 0.02 instead of --learning-rate 0.01.; give the same to go on",
    ):
        run_to_end(replace(config, learning_rate=0.02), run)
    with pytest.raises(UserError, match="--task sst2 instead of --task text"):
        run_to_end(replace(config, task="sst2"), run)
    write_data("label", data, seed=1, splits=("dev",))
    with pytest.raises(UserError, match="the data of .*run have changed since it began; restore them"):
        run_to_end(config, run)
    assert all_files(run) == before
    write_data("label", data)
    moved = replace(config, data=str(shutil.copytree(data, tmp_path / "elsewhere")))
    assert run_to_end(moved, run)["steps"] == 4, "where the same data lie does not matter"


def test_a_run_of_another_kind_is_not_written_over(tmp_path: Path, start: Path) -> None:
    config = make_config("label", write_data("label", tmp_path / "data"), start)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text('{"preset": "albert-nano"}')
    with pytest.raises(UserError, match="is a run of another kind; start a new --run"):
        prepare(config, tmp_path / "run", Ranks())
    (tmp_path / "run" / "config.json").unlink()
    (tmp_path / "run" / "checkpoints").mkdir()
    with pytest.raises(UserError, match="has checkpoints but no config.json"):
        prepare(config, tmp_path / "run", Ranks())


def test_a_run_that_gets_no_better_is_stopped_and_stays_so(
    tmp_path: Path, start: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, run = write_data("tags", tmp_path / "data"), tmp_path / "run"
    loop = LoopConfig(evaluate_every=5, keep=1)
    config = make_config("tags", data, start, steps=80, patience=2, loop=loop)
    scores = run_to_end(config, run)
    best = scores["step"]
    assert scores["steps"] == best + 10 < 80
    assert f"stopped after {best + 10} of 80 steps: best on dev at step {best}" in caplog.text
    evaluations = [line["dev_f1"] for line in lines_of(run)]
    assert evaluations[-3] > max(evaluations[:-3], default=-1) and evaluations[-3] >= max(evaluations[-2:])
    kept = ("metrics.jsonl", "best.json", "scores.json", "model/model.safetensors", "checkpoints/latest")
    before = all_files(run)
    assert run_to_end(config, run) == scores
    after = all_files(run)
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert after.keys() == before.keys(), "nor is there a second file for TensorBoard"


def test_the_weights_are_the_folders_unless_they_are_to_be_random(tmp_path: Path, start: Path) -> None:
    config = make_config("label", write_data("label", tmp_path / "data"), start)
    stored = read_model(start).encoder.state_dict()
    models = [prepare(replace(config, **changes), tmp_path / "run", Ranks()).task_model.model
              for changes in ({}, {"scratch": True}, {"scratch": True, "seed": 1}, {"seed": 1})]  # fmt: skip
    words = [model.encoder.embedding.words.weight for model in models]
    for name, tensor in models[0].encoder.state_dict().items():
        assert torch.equal(tensor, stored[name])
    assert not torch.equal(words[1], words[0]) and not torch.equal(words[1], words[2])
    assert torch.equal(words[3], words[0])
    heads = [model.heads["classes"].output.weight for model in models]
    assert not torch.equal(heads[3], heads[0]), "a new head is the seed's"
    assert models[1].config == models[0].config


@pytest.mark.parametrize(
    ("freeze", "frozen"),
    [
        ("embedding", ("encoder.embedding.",)),
        ("encoder", ("encoder.",)),
        ("1", ("encoder.embedding.", "encoder.attentions.0.", "encoder.feed_forwards.0.", "encoder.norms.0.")),
    ],
)
def test_what_is_frozen_is_the_same_to_the_last_bit(tmp_path: Path, freeze: str, frozen: tuple[str, ...]) -> None:
    unshared = write_start(tmp_path / "start", sharing="none")
    config = make_config("label", write_data("label", tmp_path / "data"), unshared, steps=5, freeze=freeze)
    run_to_end(config, tmp_path / "run")
    before, after = (read_model(folder).state_dict() for folder in (unshared, tmp_path / "run" / "model"))
    for name, tensor in after.items():
        if name in before:
            assert torch.equal(tensor, before[name]) == name.startswith(frozen), name


def test_layers_whose_weights_are_shared_are_not_frozen_apart(tmp_path: Path, start: Path) -> None:
    config = make_config("label", write_data("label", tmp_path / "data"), start)
    with pytest.raises(UserError, match="freeze is 1, but layers above share the weights of these"):
        prepare(replace(config, freeze="1"), tmp_path / "run", Ranks())
    with pytest.raises(UserError, match="freeze is 3; the model has 2 layers"):
        prepare(replace(config, freeze="3"), tmp_path / "run", Ranks())
    assert "2 layers" not in str(describe_run(prepare(replace(config, freeze="2"), tmp_path / "run", Ranks())))


def test_a_model_that_was_fine_tuned_for_the_same_labels_keeps_its_head(
    finished: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, run, _ = finished("label")
    same = prepare(replace(config, init=str(run / "model")), tmp_path / "run", Ranks())
    for name, tensor in read_model(run / "model").state_dict().items():
        assert torch.equal(same.task_model.model.state_dict()[name], tensor)
    assert describe_run(same)["head"] == f"goes on as it is; {run}/model was fine-tuned for text"
    scratch = prepare(replace(config, init=str(run / "model"), scratch=True), tmp_path / "run", Ranks())
    other = make_config("several", write_data("several", tmp_path / "data"), run / "model")
    with caplog.at_level(logging.WARNING):
        for prepared in (scratch, prepare(other, tmp_path / "run", Ranks())):
            assert describe_run(prepared)["head"] == f"new, with random weights; {run}/model was fine-tuned for text"
    assert not caplog.text, "a new head is the rule, and no reason to warn"


def test_a_model_that_was_only_pre_trained_gets_a_new_head(tmp_path: Path, start: Path) -> None:
    prepared = prepare(make_config("label", write_data("label", tmp_path / "data"), start), tmp_path / "run", Ranks())
    assert describe_run(prepared)["head"] == "new, with random weights"
    bare = tmp_path / "bare"
    shutil.copytree(start, bare)
    write_model(Model(read_model(start).config, [HeadConfig(kind="masked_token")], pooler=False), bare)
    prepared = prepare(replace(prepared.config, init=str(bare)), tmp_path / "run", Ranks())
    assert describe_run(prepared)["head"].endswith("; the folder has no pooler, so that is new too")


def write_stubborn(folder: Path) -> Path:
    """A model that says no to everything."""
    model = Model(CONFIG, [HeadConfig(kind="classes", num_classes=2, labels=("no", "yes"))])
    with torch.no_grad():
        model.heads["classes"].output.weight.zero_()
        model.heads["classes"].output.bias.copy_(torch.tensor([5.0, 0.0]))
    write_model(model, folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return folder


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run that was told to try again, and never learned anything."""
    folder = tmp_path_factory.mktemp("stuck")
    stubborn = write_stubborn(folder / "start")
    loop = LoopConfig(log_every=1, evaluate_every=2, keep=1)
    config = make_config(
        "label", write_data("label", folder / "data"), stubborn, steps=6, warmup_steps=0, learning_rate=9e-9, loop=loop,
        retry_if_stuck=True, optimizer=replace(make_config("label", folder, stubborn).optimizer, weight_decay=0.0),
    )  # fmt: skip
    return Finished(config, folder / "run", run_to_end(config, folder / "run"))


def test_a_run_that_is_stuck_is_tried_four_times_each_with_a_third_of_the_rate(stuck: Finished) -> None:
    _, run, scores = stuck
    assert scores["stuck"] == "all 24 dev examples are given the label 'no'" and scores["attempts"] == 4
    assert sorted(path.name for path in run.glob("*stuck-*")) == ["stuck-1", "stuck-2", "stuck-3"]
    folders = [run / "stuck-1", run / "stuck-2", run / "stuck-3", run]
    rates = [lines_of(folder)[0]["learning_rate"] for folder in folders]
    np.testing.assert_allclose(rates, [9e-9, 3e-9, 1e-9, 1e-9 / 3])
    assert scores["learning_rate"] == pytest.approx(1e-9 / 3)
    # The first three end where it is seen; the last has nothing after it, and goes on to its end.
    assert [lines_of(folder)[-1]["step"] for folder in folders] == [2, 2, 2, 6]
    for folder in folders:
        assert (folder / "model" / "model.safetensors").exists() and (folder / "checkpoints").is_dir()


def test_a_stuck_run_that_is_called_again_is_not_tried_again(stuck: Finished) -> None:
    before = all_files(stuck.run)
    assert run_to_end(stuck.config, stuck.run) == stuck.scores
    after = all_files(stuck.run)
    assert sorted(path.name for path in stuck.run.glob("*stuck-*")) == ["stuck-1", "stuck-2", "stuck-3"]
    for name in ("scores.json", "metrics.jsonl", "best.json", "model/model.safetensors"):
        assert after[name] == before[name]


def test_a_stuck_run_ends_with_what_was_not_learned_and_not_with_what_to_do_next(
    stuck: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    print_scores([stuck.scores], [stuck.run], as_json=False)
    last = capsys.readouterr().out.splitlines()[-1]
    said = "but it has learned nothing but one answer: all 24 dev examples are given the label 'no'"
    assert last == f"{stuck.run}/model is the best on dev, {said}"


def test_an_attempt_that_was_killed_when_it_was_seen_to_be_stuck_is_set_aside(stuck: Finished, tmp_path: Path) -> None:
    run = shutil.copytree(stuck.run, tmp_path / "run")
    # As if the process had ended before the third attempt was moved, while the third was.
    for path in list(run.iterdir()):
        if path.name not in ("config.json", "data.json", "environment.json", "stuck-1", "stuck-2", "stuck-3"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.move(run / "stuck-3" / "checkpoints", run / "checkpoints")
    (run / "stuck-3").rename(run / ".stuck-3")
    for path in list((run / ".stuck-3").iterdir()):
        path.rename(run / path.name)
    (run / ".stuck-3" / "checkpoints").mkdir()
    (run / ".stuck-3" / "checkpoints" / "left").touch()
    assert run_to_end(stuck.config, run) == stuck.scores
    assert sorted(path.name for path in run.glob("*stuck-*")) == ["stuck-1", "stuck-2", "stuck-3"]
    assert lines_of(run / "stuck-3") == lines_of(stuck.run / "stuck-3")


def test_without_being_told_so_a_stuck_run_is_not_tried_again_but_says_so(
    stuck: Finished, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        scores = run_to_end(replace(stuck.config, retry_if_stuck=False), tmp_path / "run")
    assert scores["attempts"] == 1 and scores["steps"] == 6
    assert scores["stuck"] == "all 24 dev examples are given the label 'no'"
    said = [line for line in caplog.messages if "the model has learned nothing else. Try more steps" in line]
    assert len(said) == 1, "once, not at every evaluation"


def test_fewer_examples_are_the_same_for_every_seed_and_told(tmp_path: Path, start: Path) -> None:
    config = make_config("label", write_data("label", tmp_path / "data"), start, train_examples=20, dev_examples=7)
    prepared, again, other = (prepare(replace(config, seed=seed), tmp_path / "run", Ranks()) for seed in (0, 0, 1))
    assert len(prepared.samples) == 20 and len(prepared.dev[0].examples) == 7
    assert prepared.data == again.data == other.data
    said = describe_run(prepared)
    assert said["data"] == "20 to learn from, 7 in dev"
    counts = [sum(sample.label == label for sample in prepared.samples) for label in (0, 1)]
    assert said["labels"] == f"no {counts[0] / 20:.1%}, yes {counts[1] / 20:.1%}"


def test_labels_are_those_of_all_examples_also_where_few_are_drawn(tmp_path: Path, start: Path) -> None:
    data = write_data("label", tmp_path / "data")
    for name in ("train", "dev"):
        with (data / f"{name}.jsonl").open("a") as file:
            file.write('{"text": "the old house", "label": "rare"}\n')
    prepared = prepare(make_config("label", data, start, train_examples=4), tmp_path / "run", Ranks())
    assert prepared.task_model.question.labels == ("no", "rare", "yes") and len(prepared.samples) == 4


def test_a_model_is_not_fine_tuned_into_its_own_folder(tmp_path: Path, start: Path) -> None:
    shutil.copytree(start, tmp_path / "mine" / "model")
    data = write_data("label", tmp_path / "data")
    before = weights_of(tmp_path / "mine")
    with pytest.raises(UserError, match=r"mine has model but no config.json, so it is no run; restore it, or start a"):
        run_to_end(make_config("label", data, tmp_path / "mine" / "model"), tmp_path / "mine")
    assert weights_of(tmp_path / "mine") == before


def test_a_slash_behind_a_folder_makes_no_other_run(tmp_path: Path, start: Path) -> None:
    config = make_config("label", write_data("label", tmp_path / "data"), start, steps=1)
    run_to_end(config, tmp_path / "run")
    run_to_end(replace(config, init=f"{start}/"), tmp_path / "run")


def test_the_order_of_the_examples_is_the_seeds(tmp_path: Path, start: Path) -> None:
    config = make_config("label", write_data("label", tmp_path / "data"), start)
    batches = []
    for seed in (0, 0, 1):
        prepared = prepare(replace(config, seed=seed), tmp_path / "run", Ranks())
        training = make_training(prepared, make_selection(prepared, tmp_path / "run", Ranks()), Ranks())
        batches.append(next(training.batches(0)).token_ids_T.tolist())
    assert batches[0] == batches[1] != batches[2]


def test_steps_follow_from_epochs_and_a_tenth_of_them_warms_up(tmp_path: Path, start: Path) -> None:
    config = make_config("choice", write_data("choice", tmp_path / "data"), start, steps=None, epochs=2.5)
    schedule = prepare(config, tmp_path / "run", Ranks()).schedule
    assert (schedule.steps, schedule.warmup_steps) == (30, 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learning_rate": -1.0}, "learning_rate is -1.0; it must be positive and finite"),
        ({"warmup_steps": -3}, "warmup_steps is -3; it must be at least 0"),
        ({"warmup_steps": 9, "steps": 8}, "warmup_steps is 9; it must be from 0 to the number of steps, 8"),
    ],
)
def test_a_rate_that_no_schedule_has_is_refused_before_any_data_are_read(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        FinetuneConfig(**changes)


def test_a_test_that_is_not_there_is_told_and_an_error_of_ours_is_not_hidden(
    finished: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    config, run, _ = finished("label")
    task_model = open_finetuned(run / "model", config.data)
    alone = replace(config, data=str(write_data("label", tmp_path, splits=("train", "dev"))))
    with caplog.at_level(logging.WARNING):
        assert read_test(task_model, alone) == []
    assert "there are no predictions for test" in caplog.text
    monkeypatch.setattr("litebert.tasks.classes.check_labelled", lambda _: int("no number"))
    with pytest.raises(ValueError, match="invalid literal"):
        read_test(task_model, config)


class Lone(Ranks):
    """The first of two ranks, as far as it can be it alone."""

    def __init__(self) -> None:
        super().__init__(num_ranks=2)

    def agree_on(self, number: int, what: str) -> None: ...

    def agree_whether(self, is_seen: bool, what: object) -> None: ...


def test_labels_with_the_names_of_placeholders_keep_them(tmp_path: Path, start: Path) -> None:
    data = write_data("label", tmp_path / "data")
    for file in data.iterdir():
        renamed = file.read_text().replace('"yes"', '"LABEL_0"').replace('"no"', '"LABEL_1"')
        file.write_text(renamed)
    scores = run_to_end(make_config("label", data, start), tmp_path / "run")
    assert scores["dev"]["accuracy"] > 90


def test_what_cannot_be_learned_from_is_refused_before_anything_is_written(tmp_path: Path, start: Path) -> None:
    data, run = write_data("squad1", tmp_path / "data"), tmp_path / "run"
    config = make_config("squad1", data, start)
    with pytest.raises(UserError, match="length is 64; the model has 48 positions"):
        prepare(replace(config, limits=Limits(length=64)), run, Ranks())
    lost = (data / "train-v1.1.json").read_text()
    for name in NAMES:
        lost = lost.replace(f'"text": "{name}"', '"text": "nowhere"')
    (data / "train-v1.1.json").write_text(lost)
    with pytest.raises(UserError, match="nothing can be learned from the 96 examples of .*; mend them"):
        prepare(config, run, Ranks())
    for one in (str(data / "dev-v1.1.json"), f"file://{data}/dev-v1.1.json"):
        with pytest.raises(UserError, match="dev-v1.1.json is one file for train and dev; give the folder that holds"):
            prepare(replace(config, data=one), run, Ranks())
    with pytest.raises(
        UserError, match="a step has 5 examples and there are 2 devices; make num_examples a multiple of 2"
    ):
        prepare(replace(config, num_examples=5), run, Lone())
    with pytest.raises(UserError, match="ax is a test alone; fine-tune for a task that has data"):
        prepare(replace(config, task="ax"), run, Ranks())
    choice = make_config("choice", write_data("choice", tmp_path / "choice"), start, loop=LoopConfig(micro_sequences=6))
    with pytest.raises(UserError, match="micro_sequences is 6; it must be a multiple of the 4 options"):
        carry_out(prepare(choice, run, Ranks()), run, Ranks())
    assert not (run / "checkpoints").exists()


def test_a_step_in_pieces_is_the_same_step(tmp_path: Path, start: Path) -> None:
    data = write_data("choice", tmp_path / "data")
    losses = []
    for micro in (None, 8):
        loop = LoopConfig(log_every=1, evaluate_every=0, micro_sequences=micro)
        run_to_end(make_config("choice", data, start, steps=6, loop=loop), tmp_path / str(micro))
        losses.append([line["loss"] for line in lines_of(tmp_path / str(micro)) if line["kind"] == "train"])
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_have_the_losses_of_one_and_leave_the_same_model(parallel: str, tmp_path: Path, start: Path) -> None:
    data = write_data("choice", tmp_path / "data", splits=("train", "dev"))
    arguments = ["finetune", "--task", "race", "--data", str(data), "--init", str(start), "--length", "32",
                 "--num-examples", "8", "--steps", "8", "--learning-rate", "0.01", "--log-every", "1",
                 "--evaluate-every", "4", "--classifier-dropout", "0", "--parallel", parallel,
                 "--patience", "9"]  # fmt: skip
    ranks = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "litebert"]
    done = subprocess.run(
        [*ranks, "--", *arguments, "--run", str(tmp_path / "two")],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    config = replace(make_config("choice", data, start), recipe="laptop", steps=8, epochs=2.0)
    config = replace(config, loop=LoopConfig(log_every=1, evaluate_every=4, keep=1))
    run_to_end(config, tmp_path / "one")
    one, two = (lines_of(tmp_path / name) for name in ("one", "two"))
    assert [line["step"] for line in one] == [line["step"] for line in two]
    for ours, theirs in zip(two, one, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    assert read_file(tmp_path / "two", "best.json") == read_file(tmp_path / "one", "best.json")
    weights = [read_model(tmp_path / name / "model").state_dict() for name in ("one", "two")]
    for name, tensor in weights[0].items():
        if name == "heads.choice.output.bias":  # is added to every option, and so is moved by rounding alone
            continue
        torch.testing.assert_close(weights[1][name], tensor, atol=1e-4, rtol=1e-3)
