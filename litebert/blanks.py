"""The blanks of a text, filled in by a model's masked-token head."""

from dataclasses import replace
from typing import NamedTuple

import torch

from litebert.batch import Batch
from litebert.models.model import Model, require_finite
from litebert.text.vocabulary import Vocabulary


class Candidate(NamedTuple):
    piece: str
    probability: float


class Filled(NamedTuple):
    """What a model makes of a text: candidates for each blank, the best first, and the text with those in it."""

    candidates: list[list[Candidate]]
    text: str


def fill_blanks(model: Model, vocabulary: Vocabulary, token_ids: list[int], top: int = 5) -> Filled:
    """Each mask of a text, which is given as ids without [CLS] and [SEP], is seen with the others still hidden."""
    marked = vocabulary.add_special(token_ids)
    places = [place for place, token in enumerate(marked) if token == vocabulary.special.mask]
    batch = replace(Batch.pack([marked]), predicted_positions_P=torch.tensor(places))
    with torch.inference_mode():
        logits_PV = model(batch).logits["masked_token"][:, : vocabulary.size]
    best = require_finite(logits_PV).softmax(dim=-1).topk(min(top, vocabulary.size))
    candidates = [
        [Candidate(vocabulary.piece(token), share) for share, token in zip(*row, strict=True)]
        for row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    for place, row in zip(places, best.indices.tolist(), strict=True):
        marked[place] = row[0]
    return Filled(candidates, vocabulary.decode(marked[1:-1]))
