"""What a folder is, and that nothing of another kind is written there."""

from pathlib import Path

import pytest

from litebert.config import UserError
from litebert.folders import Kind, find_google_config, require_place


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("checkpoints", "run"),
        ("environment.json", "run"),
        ("seed-0", "run"),
        ("plan.json", "study"),
        ("model.safetensors", "model"),
        ("pytorch_model.bin", "model"),
        ("model.safetensors.index.json", "model"),
        ("index.json", "corpus"),
        ("index-1-of-2.json", "corpus"),
        ("spiece.model", "vocabulary"),
        ("vocab.txt", "vocabulary"),
    ],
)
def test_a_folder_is_known_by_what_lies_in_it(tmp_path: Path, name: str, kind: Kind) -> None:
    (tmp_path / name).touch()
    require_place(tmp_path, "--out", kind)
    with pytest.raises(UserError) as told:
        require_place(tmp_path, "--out")
    assert str(told.value) == f"{tmp_path} is the folder of a {kind} ({name} is there); choose another --out"


def test_a_model_with_its_vocabulary_is_a_model(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "model.safetensors"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="folder of a model"):
        require_place(tmp_path, "--out")


def test_what_is_of_no_kind_may_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "index-of-books.json").touch()
    require_place(tmp_path, "--out")
    require_place(tmp_path / "new", "--out")


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ("albert_config.json", "model.ckpt-best"),
        ("albert_config.json", "."),
        ("assets/albert_config.json", "."),
        ("assets/albert_config.json", "variables"),
        ("assets/bert_config.json", "variables/variables"),
    ],
)
def test_googles_config_is_found_from_a_checkpoints_folder_and_from_its_prefix(
    tmp_path: Path, config: str, asked: str
) -> None:
    for folder in ("assets", "variables"):
        (tmp_path / folder).mkdir()
    assert find_google_config(tmp_path / asked) is None
    (tmp_path / config).touch()
    assert find_google_config(tmp_path / asked) == tmp_path / config
