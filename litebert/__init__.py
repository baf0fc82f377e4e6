"""LiteBERT: ALBERT, complete and fast.

    model, vocabulary = litebert.open_model("path/to/folder")
    token_ids = vocabulary.add_special(vocabulary.encode("Two lines open a model."))
    output = model(litebert.batch.Batch.pack([token_ids]))

`import litebert` is quick: torch is imported when a model is first opened.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litebert.models.heads import HeadConfig
    from litebert.models.model import Model
    from litebert.text.vocabulary import Vocabulary

__version__ = "0.1.0"


def open_model(
    path: str | Path, heads: "Sequence[HeadConfig] | None" = None, **changes: Any
) -> "tuple[Model, Vocabulary]":
    """Opens a model folder as a `torch.nn.Module` with its vocabulary, for a training loop of your own.

    The model takes a packed `Batch`, or padded `input_ids, attention_mask, token_type_ids`. It has the folder's heads,
    or those that are given, made new where the folder lacks them. `changes` are to the encoder's config, for folders
    known to be wrong: `open_model(path, activation="gelu_tanh")`.
    """
    from litebert.models.folder import find_folder, read_model
    from litebert.text.vocabulary import open_vocabulary

    vocabulary = open_vocabulary(find_folder(Path(path)))
    model = read_model(path, heads=heads, **changes)
    vocabulary.check_rows(model.config.vocab_size, path)
    return model, vocabulary
