import json
import logging
import shutil
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import litebert
from litebert.config import UserError
from litebert.corpus.loader import open_mixture
from litebert.corpus.masking import MaskingConfig
from litebert.corpus.pairs import PairConfig
from litebert.models.folder import read_model, write_model
from litebert.models.heads import HeadConfig
from litebert.models.model import Model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.held_out import HeldOut
from litebert.pretraining.preparation import describe_run, make_model, prepare
from litebert.pretraining.run import carry_out, pretrain
from litebert.training.loop import LoopConfig
from litebert.training.metrics import read_metrics
from litebert.training.optimizer import OptimizerConfig
from litebert.training.parallel import Ranks
from tests.corpus.made import WORDS, build_text_corpus, write_text_corpus

SMALL = ("hidden_size=32", "num_heads=2", "feed_forward_size=64", "embedding_size=16", "num_layers=3")


@pytest.fixture
def config(corpus_folder: Path) -> PretrainConfig:
    return PretrainConfig(
        preset="albert-nano",
        encoder=SMALL,
        corpus=str(corpus_folder),
        num_sequences=8,
        steps=12,
        learning_rate=3e-3,
        pairs=PairConfig(length=32, windows="paragraph"),
        optimizer=OptimizerConfig(optimizer="adamw"),
        loop=LoopConfig(log_every=4, evaluate_every=6),
        evaluation_sequences=40,
    )


def lines_of(run: Path, *, without: tuple[str, ...] = ("seconds", "tokens_per_second", "share_of_peak")) -> list[dict]:
    """What a run measured, without what a clock says."""
    return [{key: value for key, value in line.items() if key not in without} for line in read_metrics(run)]


def model_bytes(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def test_a_run_leaves_a_model_that_opens_and_files_that_tell_of_it(config: PretrainConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    outcome = pretrain(config, run, Ranks())
    assert outcome == (12, None, 0)
    model, vocabulary = litebert.open_model(run / "model")
    assert vocabulary.size == model.config.vocab_size and set(model.heads) == {"masked_token", "pair"}
    kinds = [(line["kind"], line["step"]) for line in read_metrics(run)]
    assert kinds == [("train", 4), ("evaluation", 6), ("train", 8), ("train", 12), ("evaluation", 12)]
    evaluation = read_metrics(run)[-1]
    for task in ("sop", "sop_document", "nsp"):
        assert evaluation[f"{task}_low"] <= evaluation[f"{task}_accuracy"] <= evaluation[f"{task}_high"]
        assert {f"{task}_shallow", f"{task}_majority"} <= evaluation.keys()
    stored = json.loads((run / "config.json").read_text())
    assert stored["steps"] == 12 and stored["warmup_steps"] >= 1
    assert json.loads((run / "environment.json").read_text())["torch"] == torch.__version__


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"masking": MaskingConfig(hardness=1.0)},
        {"depths": ("1", "3@0.5"), "lengths": ("16", "32@0.25"), "masking": MaskingConfig(rate=0.3, final_rate=0.15)},
        {"encoder": (*SMALL, "hidden_dropout=0.1", "attention_dropout=0.1")},
    ],
    ids=["plain", "hard tokens", "growing", "dropout"],
)
def test_a_run_that_was_killed_goes_on_bit_for_bit(
    config: PretrainConfig, tmp_path: Path, changes: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litebert.pretraining.stream.REFRESH_STEPS", 4)
    config = replace(config, **changes, steps=16, loop=LoopConfig(log_every=3, save_every=5, evaluate_every=8))
    pretrain(config, tmp_path / "straight", Ranks())
    run = tmp_path / "killed"
    prepared = prepare(config, run, Ranks())
    begin_step = prepared.training.begin_step

    def die(model: Model, step: int) -> str | None:
        if step == 13:
            raise InterruptedError
        return begin_step(model, step)

    prepared.training.begin_step = die
    with pytest.raises(InterruptedError):
        carry_out(prepared, run, Ranks())
    assert pretrain(config, run, Ranks()).step == 16
    assert lines_of(run) == lines_of(tmp_path / "straight")
    assert model_bytes(run) == model_bytes(tmp_path / "straight")


def test_another_seed_gives_another_model(config: PretrainConfig, tmp_path: Path) -> None:
    for seed in (0, 1):
        pretrain(replace(config, seed=seed, evaluation_sequences=0), tmp_path / str(seed), Ranks())
    assert model_bytes(tmp_path / "0") != model_bytes(tmp_path / "1")


def test_a_run_is_not_gone_on_with_under_another_config_or_corpus(config: PretrainConfig, tmp_path: Path) -> None:
    folder = write_text_corpus(tmp_path / "corpus")
    config = replace(config, corpus=str(folder), evaluation_sequences=0)
    run = tmp_path / "run"
    pretrain(config, run, Ranks())
    before = model_bytes(run)
    with pytest.raises(UserError, match="--learning-rate 0.1 instead of --learning-rate 0.003"):
        pretrain(replace(config, learning_rate=0.1), run, Ranks())
    shutil.rmtree(folder)
    write_text_corpus(folder, seed=1)
    with pytest.raises(UserError, match="corpus has been built anew since .*run began; restore what was there"):
        pretrain(config, run, Ranks())
    assert model_bytes(run) == before


def test_a_run_of_an_earlier_version_is_gone_on_with(config: PretrainConfig, tmp_path: Path) -> None:
    """Which wrote corpora as they are mixed."""
    pretrain(replace(config, evaluation_sequences=0), tmp_path, Ranks())
    data = json.loads((tmp_path / "data.json").read_text())
    (corpus,) = data["corpora"]
    assert (corpus["path"], corpus.pop("weight")) == (config.corpus, 1.0)
    corpus["path"] += "=1"
    (tmp_path / "data.json").write_text(json.dumps(data))
    assert prepare(replace(config, evaluation_sequences=0), tmp_path, Ranks()).config.steps == 12


def test_a_run_names_its_corpora_and_weights_only_of_a_mixture(config: PretrainConfig, tmp_path: Path) -> None:
    assert describe_run(prepare(config, tmp_path, Ranks()))["corpus"].endswith(f" documents in {config.corpus}")
    mixed = replace(config, corpus=None, mix=(f"{config.corpus}=0.5", f"{config.corpus}=0.25"))
    said = describe_run(prepare(mixed, tmp_path, Ranks()))["corpus"]
    assert said.endswith(f"{config.corpus}=0.5, {config.corpus}=0.25")


def test_the_depth_grows_with_the_run_and_is_told(config: PretrainConfig, tmp_path: Path) -> None:
    config = replace(config, depths=("1", "2@0.25", "3@0.5"), lengths=("16", "32@0.5"), evaluation_sequences=0)
    prepared = prepare(config, tmp_path / "run", Ranks())
    depths: list[int] = []
    begin_step = prepared.training.begin_step

    def watch(model: Model, step: int) -> str | None:
        said = begin_step(model, step)
        depths.append(model.encoder.num_layers)
        return said

    prepared.training.begin_step = watch
    carry_out(prepared, tmp_path / "run", Ranks())
    assert depths == [1] * 3 + [2] * 3 + [3] * 6
    events = [line["message"] for line in read_metrics(tmp_path / "run") if line["kind"] == "event"]
    assert events == ["from 1 to 2 layers", "from 2 to 3 layers, from 16 to 32 tokens a sequence"]
    batches = prepared.training.batches(0)
    longest = [max(next(batches).lengths) for _ in range(12)]
    assert max(longest[:6]) <= 16 < max(longest[6:])


def test_a_run_that_stops_while_it_grows_leaves_the_depth_that_it_has_reached(
    config: PretrainConfig, tmp_path: Path
) -> None:
    prepared = prepare(replace(config, depths=("1", "3@0.5")), tmp_path / "run", Ranks())
    stopping = replace(prepared.training, is_finished=lambda step: step == 4)
    carry_out(prepared._replace(training=stopping), tmp_path / "run", Ranks())
    assert read_model(tmp_path / "run" / "model").config.num_layers == 1


def test_lines_of_one_sentence_have_no_pairs_within_paragraphs(
    config: PretrainConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = ["\n".join(f"{WORDS[(d + n) % 14]} {WORDS[d % 14]}." for n in range(9)) for d in range(60)]
    corpus = str(build_text_corpus(tmp_path / "lines", "\n\n".join(documents)))
    with pytest.raises(
        UserError, match="only 0.0 % of the sequences cut from .* have two sentences: .* --windows document"
    ):
        prepare(replace(config, corpus=corpus), tmp_path / "run", Ranks())
    prepare(replace(config, corpus=corpus, pairs=PairConfig(length=32)), tmp_path / "run", Ranks())
    assert "little is learned" not in caplog.text
    more = "\nThe fox sees a big dog. The old bird hears it.\n\n"
    corpus = str(build_text_corpus(tmp_path / "few", more.join(documents)))
    prepare(replace(config, corpus=corpus), tmp_path / "run", Ranks())
    assert "little is learned of sop pairs there; give --windows document" in caplog.text


def test_the_minutes_become_steps_that_are_kept(config: PretrainConfig, tmp_path: Path) -> None:
    config = replace(config, steps=None, minutes=0.01, evaluation_sequences=0)
    outcome = pretrain(config, tmp_path / "run", Ranks())
    assert 1 <= outcome.step < 10_000
    assert prepare(config, tmp_path / "run", Ranks()).config.steps == outcome.step


def test_a_run_goes_on_from_a_folder_whose_missing_heads_are_made_new_and_said(
    config: PretrainConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pretrain(replace(config, pairs=PairConfig(objective="none", length=32)), tmp_path / "first", Ranks())
    start = read_model(tmp_path / "first" / "model")
    assert set(start.heads) == {"masked_token"}
    with caplog.at_level(logging.WARNING):
        model = make_model(replace(config, init=str(tmp_path / "first" / "model")), open_mixture(config.corpora)[0][0])
    assert "has no heads.pair that fits; it is made new" in caplog.text
    assert torch.equal(model.encoder.embedding.words.weight, start.encoder.embedding.words.weight)
    pretrain(replace(config, init=str(tmp_path / "first" / "model"), steps=2), tmp_path / "second", Ranks())
    assert set(read_model(tmp_path / "second" / "model").heads) == {"masked_token", "pair"}


def test_a_model_with_another_vocabulary_is_not_gone_on_from(config: PretrainConfig, tmp_path: Path) -> None:
    write_model(Model(replace(make_model(config, open_mixture(config.corpora)[0][0]).config, vocab_size=50)), tmp_path)
    with pytest.raises(UserError, match="has 50 pieces and .* 20; build the corpus with the model's vocabulary"):
        prepare(replace(config, init=str(tmp_path)), tmp_path / "run", Ranks())
    assert not (tmp_path / "run").exists()


def test_a_corpus_without_held_out_documents_is_not_evaluated_and_says_so(
    config: PretrainConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_text_corpus(tmp_path / "corpus", num_documents=1)
    config = replace(config, corpus=str(folder))
    with caplog.at_level(logging.WARNING):
        pretrain(config, tmp_path / "run", Ranks())
    (said,) = caplog.messages
    assert said == (
        f"nothing is evaluated: {folder} has one document, and nothing to hold out; "
        "build another of more text, or with other --documents"
    )
    assert {line["kind"] for line in read_metrics(tmp_path / "run")} == {"train"}


def test_corpora_are_mixed(config: PretrainConfig, corpus_folder: Path, tmp_path: Path) -> None:
    mixed = replace(config, corpus=None, mix=(f"{corpus_folder}=0.5", f"{corpus_folder}=0.5"))
    assert pretrain(mixed, tmp_path / "run", Ranks()).step == 12


@pytest.mark.parametrize("objective", ["sop", "nsp", "three-way", "none"])
def test_every_objective_is_asked_of_sentence_order_and_of_random_partners(
    config: PretrainConfig, corpus_folder: Path, objective: Any
) -> None:
    pairs = replace(config.pairs, objective=objective)
    (train,), weights = open_mixture(config.corpora)
    (held_out,), _ = open_mixture(config.corpora, "dev")
    model = make_model(replace(config, pairs=pairs), train)
    asked = HeldOut([train], [held_out], weights, pairs=pairs, masking=MaskingConfig(), num_sequences=40)
    values = asked.measure(model)
    assert {"sop_accuracy", "nsp_accuracy", "sop_document_accuracy", "masked_token_loss"} <= values.keys()
    assert values == asked.measure(model), "the same questions every time"


def test_a_model_that_always_says_in_order_is_right_as_often_as_that_is_so(config: PretrainConfig) -> None:
    (train,), weights = open_mixture(config.corpora)
    (held_out,), _ = open_mixture(config.corpora, "dev")
    model = make_model(config, train)
    asked = HeldOut([train], [held_out], weights, pairs=config.pairs, masking=MaskingConfig(), num_sequences=40)
    labels = asked.tasks["sop"].labels
    head = model.heads["pair"].output
    torch.nn.init.zeros_(head.weight)
    with torch.no_grad():
        head.bias.copy_(torch.tensor([1.0, 0.0]))
    labelled = labels[labels >= 0]
    assert asked.measure(model)["sop_accuracy"] == pytest.approx(float(np.mean(labelled == 0)))


def test_without_a_pair_head_the_pooler_is_left_alone(config: PretrainConfig) -> None:
    (train,), _ = open_mixture(config.corpora)
    model = make_model(replace(config, pairs=replace(config.pairs, objective="none")), train)
    assert model.pooler is not None and not model.pooler.weight.requires_grad
    assert model.head_configs == {"masked_token": HeadConfig(kind="masked_token")}


def test_sequences_longer_than_the_model_are_refused(config: PretrainConfig, tmp_path: Path) -> None:
    config = replace(config, encoder=(*SMALL, "num_positions=16"))
    with pytest.raises(UserError, match="length is 32; the model has 16 positions"):
        prepare(config, tmp_path / "run", Ranks())


def test_what_only_saves_memory_may_change_when_a_run_goes_on(config: PretrainConfig, tmp_path: Path) -> None:
    config = replace(config, evaluation_sequences=0, loop=LoopConfig(save_every=5))
    straight, run = tmp_path / "straight", tmp_path / "run"
    pretrain(config, straight, Ranks())
    prepared = prepare(config, run, Ranks())
    prepared.training.begin_step = lambda model, step: signal.raise_signal(signal.SIGTERM) if step == 6 else None
    assert carry_out(prepared, run, Ranks()).step == 6
    resumed = prepare(replace(config, checkpointing="layers", loop=LoopConfig(micro_sequences=4)), run, Ranks())
    assert resumed.training.model.encoder.checkpointing == "layers"
    assert carry_out(resumed, run, Ranks()).step == 12
    ours, theirs = (read_model(folder / "model").state_dict() for folder in (run, straight))
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-3, atol=1e-4)


def test_every_stage_is_checked_before_the_first_one_runs(config: PretrainConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="length is 4; a sequence needs at least 8 tokens"):
        prepare(replace(config, lengths=("16", "4@0.5", "32@0.8")), tmp_path / "run", Ranks())


def test_checkpoints_without_a_config_are_not_written_over(config: PretrainConfig, tmp_path: Path) -> None:
    pretrain(replace(config, evaluation_sequences=0), tmp_path / "run", Ranks())
    (tmp_path / "run" / "config.json").unlink()
    with pytest.raises(UserError, match="has checkpoints.* but no config.json, so it is no run; restore it"):
        prepare(config, tmp_path / "run", Ranks())


def test_batches_grow_in_stages(config: PretrainConfig, tmp_path: Path) -> None:
    prepared = prepare(replace(config, batches=("2", "8@0.5"), evaluation_sequences=0), tmp_path / "run", Ranks())
    batches = prepared.training.batches(0)
    assert [next(batches).num_sequences for _ in range(12)] == [2] * 6 + [8] * 6
    said = [prepared.training.begin_step(prepared.training.model, step) for step in range(12)]
    assert said == [None] * 6 + ["from 64 to 256 tokens a step"] + [None] * 5
    assert next(prepared.training.batches(12)).num_sequences == 8, "whoever times steps may go on"
    resumed = prepared.training.batches(7)
    expected = prepared.training.batches(0)
    assert next(resumed).token_ids_T.tolist() == [next(expected) for _ in range(8)][-1].token_ids_T.tolist()


def test_a_model_of_one_segment_is_evaluated_without_pairs(config: PretrainConfig, tmp_path: Path) -> None:
    pairs = replace(config.pairs, objective="none")
    pretrain(replace(config, encoder=(*SMALL, "num_segments=1"), pairs=pairs), tmp_path / "run", Ranks())
    evaluation = read_metrics(tmp_path / "run")[-1]
    assert evaluation["masked_token_loss"] > 0 and not any(name.startswith(("sop", "nsp")) for name in evaluation)
