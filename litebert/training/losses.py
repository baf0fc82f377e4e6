"""What training minimises."""

import torch.nn.functional as F
from torch import Tensor

from litebert.batch import Batch
from litebert.models.heads import Model


def pretraining_loss(model: Model, batch: Batch) -> Tensor:
    """ALBERT's: masked tokens plus, where the model has a pair head, the order of the segments, unweighted."""
    features = model.encode(batch)
    loss = F.cross_entropy(model.heads["masked_token"](features), batch.predicted_ids_P)
    if "pair" in model.heads:
        loss = loss + F.cross_entropy(model.heads["pair"](features), batch.pair_labels_B)
    return loss
