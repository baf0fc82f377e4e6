"""A model folder is a Hugging Face folder: `config.json`, `model.safetensors`, and the vocabulary beside them.

What is written here, `AutoModel.from_pretrained` opens; what the hub has for ALBERT and BERT, and Google's TensorFlow
checkpoints, `read_model` opens. What transformers cannot express is written as `model_type: litebert`, which it refuses
by name. No pickle is ever written.
"""

import os
import pickle
import re
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from litebert.config import UserError, override, read_json, require, write_json
from litebert.files import explain, open_file
from litebert.folders import GOOGLE_CONFIGS, WEIGHTS, find_google_config
from litebert.models import tensorflow
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import POOLED_KINDS, HeadConfig, make_head, make_pooler
from litebert.models.hub_config import (
    check_one_classifier,
    choose_family,
    find_family,
    logger,
    read_encoder_config,
    read_head_configs,
    warn_of_dropout,
    warn_of_traps,
    write_config,
)
from litebert.models.model import Model
from litebert.models.names import BUFFERS, TIED, Family, from_folder, name_tensors, to_folder

GIVE_A_MODEL = (
    "give a model folder or the prefix of a TensorFlow checkpoint; litebert convert PRESET FOLDER makes one of a preset"
)
PROJECTION = "albert.encoder.embedding_hidden_mapping_in"


def read_model(path: str | Path, heads: Iterable[HeadConfig] | None = None, **changes: Any) -> Model:
    """Opens a folder, with the heads it holds or with those asked for; what it lacks of them is made new, and said so.

    The model comes in evaluation mode, as from transformers; call `train()` before training it.
    `changes` go to the encoder's config, for folders known to be wrong: `read_model(path, activation="gelu_tanh")`.
    """
    model, made = complete_model(path, heads, **changes)
    for part in made:
        logger.warning("%s has no %s that fits; it is made new, with random weights", path, part)
    return model


def complete_model(
    path: str | Path, heads: Iterable[HeadConfig] | None = None, **changes: Any
) -> tuple[Model, list[str]]:
    """Opens a folder as `read_model` does, and returns the names of the parts that were made new instead of warning."""
    stored = read_stored(Path(path))
    family, config, tensors, held = understand(stored, changes)
    wanted = held if heads is None else list(heads)

    model = make_skeleton(config, held, pooler=has_pooler(tensors))
    names = name_tensors(family, config, model.state_dict(), stored.config.get("inner_group_num", 1))
    check_tensors(stored.path, tensors, to_folder(model.state_dict(), names))
    state, made = from_folder(tensors, names), dict[str, nn.Module]()
    if wanted != held:
        model = make_skeleton(config, wanted, pooler="pooler.weight" in state)
        made = make_missing(model, held, state)
    new = {f"{part}.{name}": tensor for part, module in made.items() for name, tensor in module.state_dict().items()}
    merged = state | new
    model.load_state_dict({name: merged[name] for name in model.state_dict()}, assign=True)
    return model.eval(), list(made)


def understand(
    stored: "Stored", changes: Mapping[str, Any]
) -> tuple[Family, EncoderConfig, dict[str, Tensor], list[HeadConfig]]:
    """Whose folder it is, its encoder, its tensors and its heads; an error about any of them names the folder."""
    try:
        family = find_family(stored.config, stored.tensors)
        config = override(read_encoder_config(stored.config, family, by_google=stored.by_google), changes)
        warn_of_traps(stored.path, family, config)
        tensors = tidy(stored, family, config)
        return family, config, tensors, read_head_configs(stored.config, family, tensors)
    except UserError as error:
        raise UserError(f"{stored.path} cannot be opened: {error}") from None


def write_model(model: Model, path: str | Path) -> None:
    """Writes a folder that `AutoModel.from_pretrained` opens; files already there are replaced whole or not at all."""
    family = choose_family(model)
    if family != "litebert":
        check_one_classifier(model.head_configs)
    warn_of_dropout(family, model.config)
    content = write_config(model, family)
    names = name_tensors(family, model.config, model.state_dict(), content.get("inner_group_num", 1))
    tensors = to_folder(model.state_dict(), names)
    if family == "albert" and not model.config.projection:
        # transformers' ALBERT always projects: an identity changes nothing.
        tensors[f"{PROJECTION}.weight"] = torch.eye(model.config.hidden_size)
        tensors[f"{PROJECTION}.bias"] = torch.zeros(model.config.hidden_size)
    path = Path(path)
    with explain(path, "written"):
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path, prefix=".writing-") as unfinished:
            save_weights(tensors, Path(unfinished, "model.safetensors"))
            write_json(Path(unfinished, "config.json"), content)
            for name in ("model.safetensors", "config.json"):
                Path(unfinished, name).replace(path / name)


def save_weights(tensors: dict[str, Tensor], file: Path) -> None:
    try:
        save_file(tensors, file, metadata={"format": "pt"})
    except safetensors.SafetensorError as error:  # the system's, such as of a full disk, in words
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(int(number[1]) if number else 0, str(error)) from None
    open_to_others(file)


def open_to_others(file: Path) -> None:
    """Gives a file that safetensors made for its owner alone the mode that other new files have."""
    os.umask(mask := os.umask(0))
    file.chmod(0o666 & ~mask)


def find_folder(path: Path) -> Path:
    """Where the files beside a model's weights lie: the folder itself, or that of a TensorFlow checkpoint."""
    checkpoint = None if path.is_dir() else tensorflow.find_checkpoint(path)
    if checkpoint is not None:
        return checkpoint.parent
    problem = "is not a folder" if path.exists() else "does not exist"
    require(path.is_dir(), f"{path} {problem}; {GIVE_A_MODEL}")
    return path


class Stored(NamedTuple):
    """What a folder holds, before it is understood."""

    path: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    by_google: bool


def read_stored(path: Path) -> Stored:
    checkpoint = None if (path / "config.json").is_file() else tensorflow.find_checkpoint(path)
    if checkpoint is not None:
        tensors = tensorflow.huggingface_names(tensorflow.read_checkpoint(checkpoint))
        return Stored(checkpoint, read_google_config(checkpoint), tensors, by_google=True)
    require(
        (find_folder(path) / "config.json").exists(),
        f"{path} has neither a config.json nor a checkpoint of TensorFlow; name the folder of a model",
    )
    return Stored(path, read_json(path / "config.json"), read_weights(path), by_google=False)


def read_google_config(checkpoint: Path) -> dict[str, Any]:
    found = find_google_config(checkpoint)
    if found is None:
        raise UserError(f"{checkpoint} has no {' or '.join(GOOGLE_CONFIGS)} beside it; put the model's there")
    return read_json(found)


def read_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of a folder, whole or in shards, safetensors first."""
    for name in WEIGHTS:
        index = path / f"{name}.index.json"
        if (path / name).is_file():
            return read_tensors(path / name)
        if index.is_file():
            files: Any = read_json(index).get("weight_map")
            require(
                isinstance(files, dict) and all(isinstance(file, str) for file in files.values()),
                f"{index} does not say in its weight_map which file each tensor is in; fetch it again",
            )
            shards = sorted(set(files.values()))
            return {key: tensor for shard in shards for key, tensor in read_tensors(path / shard).items()}
    run = f"; this is a run's folder: name {path}/model" if (path / "model" / "config.json").exists() else ""
    raise UserError(f"{path} has no weights; it needs a {' or a '.join(WEIGHTS)}{run}")


def read_tensors(file: Path) -> dict[str, Tensor]:
    """One file's tensors; a pickle only as far as it holds nothing but tensors."""
    require(file.is_file(), f"{file} is missing, though the folder's index names it; copy it there")
    open_file(file).close()  # torch would not say why it cannot be read
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other pickles, which it then refuses
            tensors = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # with advice to trust it
        raise UserError(
            f"{file} is no pickle of tensors alone, as torch.save writes it; fetch it again, or save the weights as "
            "safetensors"
        ) from None
    except (safetensors.SafetensorError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{file} cannot be read ({reason}); it is damaged or no weights file: fetch it again") from None
    require(
        isinstance(tensors, dict) and all(isinstance(tensor, Tensor) for tensor in tensors.values()),
        f"{file} does not hold tensors by name; it is no weights file: fetch it again",
    )
    return dict(tensors)


def tidy(stored: Stored, family: Family, config: EncoderConfig) -> dict[str, Tensor]:
    """A folder's tensors under the names that transformers writes today, without copies and buffers."""
    if family == "litebert":
        return stored.tensors
    tensors = {}
    for name, tensor in stored.tensors.items():
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        # A folder of the bare encoder has its names without the prefix.
        if name.split(".")[0] in ("embeddings", "encoder", "pooler"):
            name = f"{family}.{name}"
        if not name.endswith(BUFFERS):
            require(tensor.is_floating_point(), f"{name} is {tensor.dtype}; only plain floats are read")
            tensors[name] = tensor.float()
    for copy, original in TIED.items():
        if (copied := tensors.pop(copy, None)) is not None:
            same = original not in tensors or torch.equal(copied, tensors[original])
            require(same, f"{copy} differs from {original}; LiteBERT's masked-token head ties the two")
    if family == "albert" and not config.projection:
        drop_identity(tensors)
    return tensors


def drop_identity(tensors: dict[str, Tensor]) -> None:
    """Takes out the projection that `write_model` put in; training in transformers may have moved it since."""
    weight, bias = (tensors.pop(f"{PROJECTION}.{leaf}", None) for leaf in ("weight", "bias"))
    if weight is not None and bias is not None:
        unmoved = torch.equal(weight, torch.eye(len(weight))) and not bias.any()
        require(unmoved, f"{PROJECTION} is no identity; open it with projection=True")


def has_pooler(tensors: Mapping[str, Tensor]) -> bool:
    return any(name.startswith(("albert.pooler.", "bert.pooler.", "pooler.")) for name in tensors)


def make_skeleton(config: EncoderConfig, heads: list[HeadConfig], *, pooler: bool) -> Model:
    """A model without memory for its weights, to be filled."""
    with torch.device("meta"):
        return Model(config, heads, pooler=pooler or any(head.kind in POOLED_KINDS for head in heads))


def check_tensors(path: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuses a file whose tensors are not just those that its config asks for."""
    misshapen = [
        f"{name} {tuple(tensors[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape != tensor.shape
    ]
    problems = {
        "lacks": [name for name in expected if name not in tensors],
        "has besides": [name for name in tensors if name not in expected],
        "has misshapen": misshapen,
    }
    said = "; ".join(f"it {what} {enumerate_names(names)}" for what, names in problems.items() if names)
    require(not said, f"{path} does not fit its config: {said}")
    wrong = [name for name in expected if not tensors[name].isfinite().all()]
    require(not wrong, f"{path} has weights that are no numbers, or infinite: {enumerate_names(wrong)}; fetch it again")


def enumerate_names(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def make_missing(model: Model, held: list[HeadConfig], state: Mapping[str, Tensor]) -> dict[str, nn.Module]:
    """The parts of `model` that a folder does not hold, with new weights: other heads, or the same of other classes."""
    classes = {head.kind: (head.num_classes, head.labels) for head in held}
    made: dict[str, nn.Module] = {
        f"heads.{kind}": make_head(model.config, head)
        for kind, head in model.head_configs.items()
        if classes.get(kind) != (head.num_classes, head.labels)
    }
    if model.pooler is not None and "pooler.weight" not in state:
        made["pooler"] = make_pooler(model.config)
    return made
