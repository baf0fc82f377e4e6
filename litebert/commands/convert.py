"""Write a model folder that Hugging Face opens, from another folder, a TensorFlow checkpoint, or a preset.

SRC is a model folder (safetensors or an old pytorch_model.bin), the folder or prefix of one of Google's TensorFlow
checkpoints, or the name of a preset, for a model with random weights and the two pre-training heads. Vocabulary files
beside the source are copied.

Examples:
    litebert convert albert_base/model.ckpt-best my-albert
    litebert convert albert-nano my-nano --seed 1
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

if TYPE_CHECKING:
    from litebert.models.model import Model


@dataclass(frozen=True, kw_only=True)
class Options:
    src: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SRC")]
    """A model folder, a TensorFlow checkpoint, or a preset."""
    dst: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DST")]
    """The folder to write; it must not hold a model yet."""
    activation: Literal["gelu_tanh", "gelu_erf", "relu", "tanh", "linear"] | None = None
    """Use this activation instead of the one in the source's config: version 1 configs say erf, which their weights
    were not trained with."""
    num_heads: int | None = None
    """Use this number of attention heads instead of the one in the source's config, which is disputed for xlarge."""
    seed: int = 0
    """Seed of a preset's random weights."""


def run(options: Options) -> None:
    from litebert.config import check_seed, require
    from litebert.folders import require_place
    from litebert.models.folder import find_folder, read_model, write_model
    from litebert.models.tensorflow import find_checkpoint
    from litebert.text.hub_tokenizer import copy_for_hub

    require_place(options.dst, "DST")
    require(not (options.dst / "config.json").exists(), f"{options.dst} has a config.json already; choose another DST")
    check_seed(options.seed)
    source = Path(options.src)
    is_model = source.exists() or find_checkpoint(source) is not None
    model = read_model(source, **find_changes(options)) if is_model else make_preset(options)
    write_model(model, options.dst)
    copied = copy_for_hub(find_folder(source), options.dst) if is_model else []
    heads = ", ".join(model.head_configs) or "none"
    print(f"{options.dst}: {sum(p.numel() for p in model.parameters()):,} parameters; heads: {heads}", end="; ")
    print("vocabulary: " + (", ".join(copied) or "none found beside the source"))


def make_preset(options: Options) -> "Model":
    import torch

    from litebert.config import nearest, override, require
    from litebert.models.heads import PRETRAINING
    from litebert.models.model import Model
    from litebert.presets import PRESETS, find_preset, is_preset

    known = nearest(options.src.replace("_", "-"), PRESETS)
    require(is_preset(options.src), f"{options.src} is no folder, no checkpoint and no preset{known}; correct it")
    torch.manual_seed(options.seed)
    return Model(override(find_preset(options.src), find_changes(options)), PRETRAINING)


def find_changes(options: Options) -> dict[str, Any]:
    """What is to replace the source's own config."""
    given = {"activation": options.activation, "num_heads": options.num_heads}
    return {name: value for name, value in given.items() if value is not None}
