"""A pre-training run: corpora and a config become a run folder.

config.json        all that was asked for and what followed from it; accepted back by --config
data.json          what the corpora were, so that a run never goes on with others
environment.json   versions and hardware
metrics.jsonl      what was measured, a line each; tensorboard/ holds the same
checkpoints/       where to go on from
model/             the model folder
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from torch import Tensor

from litebert.corpus.shards import fetch_vocabulary
from litebert.pretraining.config import PretrainConfig, count_work
from litebert.pretraining.preparation import Prepared, prepare
from litebert.text.hub_tokenizer import copy_for_hub
from litebert.training.loop import Outcome, train
from litebert.training.parallel import Ranks, gather_weights
from litebert.training.progress import watch_run
from litebert.training.run_folder import write_description, write_weights


def pretrain(config: PretrainConfig, run: Path, ranks: Ranks) -> Outcome:
    """Starts a run, or goes on with it, until it is done or stopped; writes its model either way."""
    prepared = prepare(config, run, ranks)
    return carry_out(prepared, run, ranks)


def carry_out(prepared: Prepared, run: Path, ranks: Ranks) -> Outcome:
    training, steps = prepared.training, prepared.training.schedule.steps
    ranks.do_first(lambda: write_description(run, prepared.config, prepared.data, ranks))
    work = partial(count_work, prepared.stages)
    outcome = train(training, run / "checkpoints", ranks=ranks, watch=lambda step: watch_run(run, step, steps, work))
    weights = gather_weights(training.model)
    ranks.do_first(lambda: write_result(prepared, weights, run / "model"))
    return outcome


def write_result(prepared: Prepared, weights: Mapping[str, Tensor], folder: Path) -> None:
    """The model folder, with the vocabulary."""
    write_weights(prepared.training.model, weights, folder)
    copy_for_hub(fetch_vocabulary(prepared.pairs[0].corpus.path), folder)
