"""What a pre-training run is made of before its first step: corpora, a model, a stream of batches, a schedule."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from litebert.config import read_json, require
from litebert.corpus.index import count_held_out, find_lack
from litebert.corpus.loader import open_mixture
from litebert.corpus.pairs import Pairs
from litebert.corpus.shards import Corpus, find_indexes
from litebert.models.encoder import EncoderConfig
from litebert.models.folder import read_model
from litebert.models.model import Model
from litebert.presets import change_encoder, find_preset, read_changes
from litebert.pretraining.config import (
    PretrainConfig,
    Stage,
    agree_with,
    check_encoder,
    check_stages,
    count_sequences,
    describe_stages,
    list_heads,
    make_schedule,
    plan_stages,
    settle,
)
from litebert.pretraining.data import describe_data, refuse_changed
from litebert.pretraining.held_out import HeldOut
from litebert.pretraining.pace import measure_pace
from litebert.pretraining.stream import Stream
from litebert.text.vocabulary import find_file, open_vocabulary
from litebert.training.costs import count_parameters
from litebert.training.loop import Training
from litebert.training.losses import Pretraining
from litebert.training.parallel import Ranks
from litebert.training.process import prepare_process
from litebert.training.run_folder import read_begun
from litebert.training.schedule import scale_from_paper
from litebert.training.timing import peak_of

logger = logging.getLogger(__name__)

FEW_PAIRS = 0.25
"""The share of sequences with two segments below which a corpus is hardly one of pairs."""


class Prepared(NamedTuple):
    """A run that is ready to start."""

    config: PretrainConfig
    """With nothing left to be derived."""
    training: Training
    stages: list[Stage]
    pairs: list[Pairs]
    """Of each corpus, at the run's full length."""
    data: dict[str, Any]
    """What the corpora are."""


def prepare(config: PretrainConfig, run: Path, ranks: Ranks) -> Prepared:
    """Opens and checks everything, and decides what the config leaves open; writes nothing."""
    prepare_process()
    before = read_begun(run, PretrainConfig, "preset", ranks)
    if before is not None:
        config = agree_with(config, before, str(run))
    corpora, weights = open_mixture(config.corpora)
    data = describe_data(corpora, weights)
    if before is not None:
        refuse_changed(data, read_json(run / "data.json"), run, "--run")
    pairs = [Pairs(corpus, config.pairs, config.seed) for corpus in corpora]
    check_pairs(pairs)
    model = make_model(config, corpora[0])
    stream = make_stream(config, model, corpora, weights, ranks)
    training = make_training(config, model, stream, open_held_out(config, corpora, weights), ranks)
    if config.steps is None and config.minutes is not None:
        if ranks.is_first:
            logger.info("timing some steps and an evaluation, to see how many fit into %g minutes", config.minutes)
        config = replace(config, steps=measure_pace(config, training, ranks).fit(60 * config.minutes))
        stream = make_stream(config, model, corpora, weights, ranks)
        training = replace(training, schedule=make_schedule(config), **connect(stream))
    config = settle(config, training.schedule)
    return Prepared(config, training, list(stream.stages), pairs, data)


def make_model(config: PretrainConfig, corpus: Corpus) -> Model:
    """A new model for the corpus's vocabulary, or that of a folder, with the heads that the objective needs."""
    torch.manual_seed(config.seed)
    heads = list_heads(config.pairs)
    check_vocab_size(config)
    if config.init is not None:
        model = read_init(config.init, config, corpus, heads=heads)
    else:
        model = Model(choose_encoder(config, corpus), heads)
    check_encoder(config, model.config)
    model.encoder.checkpointing = config.checkpointing
    if model.pooler is not None:
        # Without a pair head nothing is learned from the pooled output, and ranks would wait for its gradient.
        model.pooler.requires_grad_(config.pairs.has_pairs)
    return model


def find_encoder(config: PretrainConfig, corpus: Corpus | None) -> EncoderConfig:
    """The encoder of the model that a run would train."""
    if corpus is not None:
        check_vocab_size(config)
    if config.init is not None:
        encoder = read_init(config.init, config, corpus).config
    else:
        encoder = choose_encoder(config, corpus)
    check_encoder(config, encoder)
    return encoder


def read_init(init: str, config: PretrainConfig, corpus: Corpus | None, **asked: Any) -> Model:
    """The model to go on from."""
    model = read_model(init, **asked, **read_changes(config.encoder))
    if corpus is not None:
        check_vocabulary(Path(init), model, corpus)
    return model


def choose_encoder(config: PretrainConfig, corpus: Corpus | None) -> EncoderConfig:
    """The preset's, for the corpus's vocabulary, with the changes that were asked for."""
    preset = find_preset(config.preset)
    size = preset.vocab_size if corpus is None else corpus.vocabulary.size
    return change_encoder(replace(preset, vocab_size=size), config.encoder)


def check_vocab_size(config: PretrainConfig) -> None:
    require(
        "vocab_size" not in read_changes(config.encoder),
        "vocab_size is the corpus's; build the corpus with another vocabulary to change it",
    )


def check_vocabulary(folder: Path, model: Model, corpus: Corpus) -> None:
    size = corpus.vocabulary.size
    require(
        model.config.vocab_size == size,
        f"{folder} has {model.config.vocab_size} pieces and {corpus.path} {size}; build the corpus with the "
        "model's vocabulary",
    )
    if folder.is_dir() and find_file(folder) is not None:
        require(
            open_vocabulary(folder).fingerprint == corpus.vocabulary.fingerprint,
            f"{folder} and {corpus.path} have different vocabularies; build the corpus with the model's",
        )


def check_pairs(pairs: Sequence[Pairs]) -> None:
    """Refuses to learn from pairs where there are none, and warns where there are few."""
    config = pairs[0].config
    if not config.has_pairs:
        return
    shares = {made.corpus.path: made.paired_share() for made in pairs}
    fewest = min(shares, key=shares.__getitem__)
    what = f"only {100 * shares[fewest]:.1f} % of the sequences cut from {fewest} have two sentences"
    advice = "give --windows document" if config.windows == "paragraph" else "build it of longer documents"
    require(any(shares.values()), f"{what}: there are no pairs to learn from; {advice}, or --objective none")
    if shares[fewest] < FEW_PAIRS:
        logger.warning("%s: little is learned of %s pairs there; %s", what, config.objective, advice)


def make_stream(
    config: PretrainConfig, model: Model, corpora: Sequence[Corpus], weights: Sequence[float], ranks: Ranks
) -> Stream:
    stages = plan_stages(config, model.config.num_layers, make_schedule(config).steps)
    check_stages(stages, config.pairs, ranks.num_ranks)
    masking = config.masking
    if masking.final_rate is not None and not masking.rate_sequences:
        masking = replace(masking, rate_sequences=count_sequences(stages))
    return Stream(corpora, weights, stages=stages, pairs=config.pairs, masking=masking, seed=config.seed, ranks=ranks)


def make_training(
    config: PretrainConfig, model: Model, stream: Stream, held_out: HeldOut | None, ranks: Ranks
) -> Training:
    return Training(
        model=model,
        objective=Pretraining(),
        optimizer=config.optimizer,
        schedule=make_schedule(config),
        loop=config.loop,
        evaluate=None if held_out is None else lambda trained, step: held_out.measure(trained),
        seed=config.seed,
        peak=peak_of(ranks, config.loop.precision),
        **connect(stream),
    )


def connect(stream: Stream) -> dict[str, Any]:
    """What a training asks of its stream."""
    return {
        "batches": stream.batches,
        "begin_step": stream.begin_step,
        "observe": stream.observe,
        "extras": stream.hard_tokens.tensors if stream.hard_tokens is not None else {},
        "before_saving": stream.before_saving,
        "after_loading": stream.after_loading,
    }


def open_held_out(config: PretrainConfig, corpora: Sequence[Corpus], weights: Sequence[float]) -> HeldOut | None:
    """The held-out documents of the corpora; a run on corpora one of which has none is not evaluated.

    What there is too little of is said, of the corpus that has the fewest.
    """
    if config.evaluation_sequences == 0:
        return None
    found = {corpus.path: find_indexes(corpus.path) for corpus in corpora}
    fewest = min(found, key=lambda path: count_held_out(found[path]))
    lack, has_some = find_lack(found[fewest]), count_held_out(found[fewest]) > 0
    held_out = make_held_out(config, corpora, weights) if has_some else None
    if lack is not None:
        logger.warning("%s%s %s", "" if has_some else "nothing is evaluated: ", fewest, lack)
    return held_out


def make_held_out(config: PretrainConfig, corpora: Sequence[Corpus], weights: Sequence[float]) -> HeldOut:
    held_out, _ = open_mixture(config.corpora, "dev")
    return HeldOut(
        corpora,
        held_out,
        weights,
        pairs=config.pairs,
        masking=config.masking,
        num_sequences=config.evaluation_sequences,
    )


def describe_run(prepared: Prepared) -> dict[str, str]:
    """What a run will do, in words, and from where each number comes that was not given."""
    config, schedule, encoder = prepared.config, prepared.training.schedule, prepared.training.model.config
    sequences = count_sequences(prepared.stages)
    corpora, epoch = [pairs.corpus for pairs in prepared.pairs], sum(map(len, prepared.pairs))
    rule = scale_from_paper(config.num_sequences, schedule.steps)
    parameters = sum(count_parameters(encoder, config.pairs.num_pair_classes).values())
    grown = describe_stages((s.first_step, s.length, s.num_sequences, s.num_layers) for s in prepared.stages)
    described = {
        "model": f"{config.init or config.preset}: {parameters:,} parameters, "
        f"{encoder.num_layers} layers, {encoder.hidden_size} wide, {encoder.vocab_size:,} pieces",
        "corpus": f"{sum(corpus.num_tokens for corpus in corpora):,} tokens of "
        f"{sum(corpus.num_documents for corpus in corpora):,} documents in {', '.join(config.mix) or config.corpus}",
        "steps": f"{schedule.steps:,} of {config.num_sequences:,} sequences of up to {config.pairs.length} tokens"
        f"{', in the end' if len(prepared.stages) > 1 else ''}: {sequences / epoch:.2f} epochs",
        "rate": f"{schedule.learning_rate:.3g} after {schedule.warmup_steps:,} steps of warm-up; the paper's, scaled "
        f"to this batch, is {rule.learning_rate:.3g} after {rule.warmup_steps:,}",
        "rule": f"{config.optimizer.optimizer}, {config.pairs.objective}, seed {config.seed}",
    }
    return described | ({"stages": grown} if len(prepared.stages) > 1 else {})
