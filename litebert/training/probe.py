"""A linear probe: what can be read off frozen features by a plane."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from litebert.batch import NO_LABEL
from litebert.config import require


class Probe(NamedTuple):
    """A logistic regression."""

    classes_C: Tensor
    """The label of each class."""
    mean_D: Tensor
    scale_D: Tensor
    weight_DC: Tensor
    bias_C: Tensor

    def score(self, features_BD: Tensor) -> Tensor:
        return (features_BD.double() - self.mean_D) / self.scale_D @ self.weight_DC + self.bias_C

    def predict(self, features_BD: Tensor) -> Tensor:
        """The label of each row."""
        return self.classes_C[self.score(features_BD).argmax(dim=1)]


# A probe may be fitted to what was made without gradients, and by a caller who wants none.
@torch.inference_mode(False)
@torch.enable_grad()
def fit_probe(features_BD: Tensor, labels_B: Tensor, *, l2: float = 1.0, max_steps: int = 1000) -> Probe:
    """The multinomial logistic regression of labels on standardised features. Nothing in it is random.

    Minimises the summed cross-entropy plus half of `l2` times the squared weights; rows without a label are left out.
    """
    labelled_B = labels_B != NO_LABEL
    require(labelled_B.any(), "no row has a label; a probe needs some to be fitted to")
    features_BD = features_BD.double()[labelled_B]
    classes_C, targets_B = torch.unique(labels_B[labelled_B], return_inverse=True)
    mean_D, spread_D = features_BD.mean(dim=0), features_BD.std(dim=0, correction=0)
    # What varies by no more than rounding is constant: divided by its spread it would be noise as large as a feature.
    scale_D = torch.where(spread_D > 1e-6 * mean_D.abs(), spread_D, 1.0)
    weight_DC = features_BD.new_zeros(features_BD.shape[1], len(classes_C), requires_grad=True)
    bias_C = features_BD.new_zeros(len(classes_C), requires_grad=True)
    probe = Probe(classes_C, mean_D, scale_D, weight_DC, bias_C)
    optimizer = torch.optim.LBFGS(
        [weight_DC, bias_C], max_iter=max_steps, tolerance_grad=1e-8, tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(probe.score(features_BD), targets_B)
        loss = loss + l2 / 2 / len(targets_B) * weight_DC.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return probe._replace(weight_DC=weight_DC.detach(), bias_C=bias_C.detach())
