from pathlib import Path

import pytest

from litebert.corpus.pairs import PairConfig
from litebert.pretraining.config import PretrainConfig
from litebert.studies.catalogue import STUDIES
from litebert.studies.config import StudyConfig
from litebert.studies.run import carry_out
from litebert.training.loop import LoopConfig
from litebert.training.optimizer import OptimizerConfig
from litebert.training.parallel import Ranks
from tests.corpus.made import write_text_corpus


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> PretrainConfig:
    """What the runs of a small study have in common."""
    return PretrainConfig(
        preset="albert-nano",
        encoder=("hidden_size=32", "num_heads=2", "feed_forward_size=64", "embedding_size=16"),
        corpus=str(write_text_corpus(tmp_path_factory.mktemp("studies") / "corpus")),
        num_sequences=8,
        steps=6,
        learning_rate=3e-3,
        pairs=PairConfig(length=32, windows="paragraph"),
        optimizer=OptimizerConfig(optimizer="adamw"),
        loop=LoopConfig(log_every=2),
        evaluation_sequences=40,
    )


@pytest.fixture(scope="session")
def done(base: PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study of two variants and two seeds; tests do not change it."""
    out = tmp_path_factory.mktemp("done")
    carry_out(STUDIES["layers"], base, StudyConfig(seeds=2), out, Ranks(), command="litebert study layers")
    return out
