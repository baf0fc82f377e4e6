"""What suits a task and a model in fine-tuning, against the paper's table."""

import json
from pathlib import Path

import pytest

from litebert.config import UserError
from litebert.finetuning.config import FinetuneConfig
from litebert.models.encoder import EncoderConfig
from litebert.models.folder import read_model, write_model
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.recipes import find_finetuning

# ALBERT's appendix, Table 14: rate, batch, dropout of the model and of the classifier, steps, warm-up, length.
TABLE = {
    "cola": (1e-5, 16, 0.0, 0.1, 5336, 320, 512),
    "stsb": (2e-5, 16, 0.0, 0.1, 3598, 214, 512),
    "sst2": (1e-5, 32, 0.0, 0.1, 20935, 1256, 512),
    "mnli": (3e-5, 128, 0.0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0.0, 0.1, 33112, 1986, 512),
    "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512),
    "mrpc": (2e-5, 32, 0.0, 0.1, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250, 512),
    "squad1": (5e-5, 48, 0.0, 0.1, 3649, 365, 384),
    "squad2": (3e-5, 48, 0.0, 0.1, 8144, 814, 512),
    "race": (2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
}
RACE_V2 = (1e-5, 32, 0.0, 0.1, 12000, 1000, 512)
GOOGLE = Path(__file__).parent / "models" / "data" / "tensorflow_albert"


def row_of(config: FinetuneConfig) -> tuple[float, ...]:
    assert config.steps is not None and config.warmup_steps is not None
    return (
        config.learning_rate,
        config.num_examples,
        config.dropout,
        config.classifier_dropout,
        config.steps,
        config.warmup_steps,
        config.limits.length,
    )


@pytest.mark.parametrize("task", TABLE)
def test_every_row_of_the_papers_table_is_a_recipe(task: str) -> None:
    config = find_finetuning(task, recipe="paper-v1")
    assert (config.task, config.recipe) == (task, "paper-v1")
    assert row_of(config) == TABLE[task]
    assert (config.optimizer.optimizer, config.optimizer.layer_decay, config.optimizer.pooler_rate) == ("adamw", 1, 1)


@pytest.mark.parametrize("task", TABLE)
def test_for_version_2_race_alone_differs(task: str) -> None:
    config = find_finetuning(task, recipe="paper-v2")
    assert row_of(config) == (RACE_V2 if task == "race" else TABLE[task])
    assert find_finetuning(task) == config, "it is the recipe of an unknown model"


@pytest.mark.parametrize("part", ["race-middle", "race-high"])
def test_parts_of_race_are_like_race(part: str) -> None:
    assert row_of(find_finetuning(part, recipe="paper-v1")) == TABLE["race"]
    assert row_of(find_finetuning(part, recipe="paper-v2")) == RACE_V2


def test_tasks_that_the_paper_lacks_take_epochs_and_leave_the_models_dropout() -> None:
    for task in ("text", "cmrc2018"):
        config = find_finetuning(task, recipe="paper-v1")
        assert config.steps is None and config.warmup_steps is None and config.dropout is None
        assert (config.epochs, config.learning_rate) == (3, 2e-5)


def write_folder(folder: Path, **changes: object) -> str:
    """A model folder as `litebert pretrain` leaves it; the width of its config can be another."""
    model = Model(EncoderConfig(
        vocab_size=31, embedding_size=8, hidden_size=16, num_layers=2, num_heads=2, feed_forward_size=32,
        sharing=str(changes.pop("sharing", "all")),
    ), PRETRAINING)  # fmt: skip
    write_model(model, folder)
    content = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(content))
    return str(folder)


@pytest.mark.parametrize("sharing", ["all", "none", "attention"])
@pytest.mark.parametrize("task", ["sst2", "squad2", "race", "text"])
def test_a_narrow_model_gets_the_recipe_for_small_models(tmp_path: Path, sharing: str, task: str) -> None:
    narrow = write_folder(tmp_path, sharing=sharing)
    config = find_finetuning(task, narrow)
    assert (config.recipe, config.task) == ("laptop", task)
    assert config.learning_rate > max(row[0] for row in TABLE.values()) and config.steps is None


def test_a_narrow_model_of_google_gets_the_recipe_for_small_models() -> None:
    for init in (GOOGLE, GOOGLE / "model.ckpt-best", GOOGLE / "model.ckpt-best.index"):
        assert find_finetuning("rte", str(init)).recipe == "laptop"


def test_a_wide_model_gets_the_papers_recipe(tmp_path: Path) -> None:
    wide = write_folder(tmp_path, hidden_size=768)
    assert find_finetuning("rte", wide) == find_finetuning("rte", recipe="paper-v2")


def test_a_recipe_that_is_named_suits_any_model(tmp_path: Path) -> None:
    narrow = write_folder(tmp_path)
    assert row_of(find_finetuning("rte", narrow, "paper-v1")) == TABLE["rte"]
    assert find_finetuning("rte", recipe="laptop").recipe == "laptop"
    with pytest.raises(UserError, match="there is no recipe 'paper_v1'.*'paper-v1'"):
        find_finetuning("rte", recipe="paper_v1")


@pytest.mark.parametrize(
    "changes", [{"hidden_size": "16"}, {"hidden_size": None}, {"hidden_size": [16]}, {"litebert": 1}]
)
def test_a_config_that_cannot_be_meant_is_left_to_those_who_open_the_model(tmp_path: Path, changes: dict) -> None:
    init = write_folder(tmp_path, **changes)
    assert find_finetuning("text", init).recipe == ("laptop" if "litebert" in changes else "paper-v2")
    with pytest.raises(UserError, match="config.json says"):
        read_model(init)
