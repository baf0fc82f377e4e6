"""What a pre-trained model makes of documents that it has not seen."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from litebert.batch import NO_LABEL, Batch
from litebert.config import require
from litebert.models.heads import MaskedTokenHead, Model
from litebert.training.losses import masked_token_loss

Question = Literal["sop", "nsp"]
# The classes of a three-way pair head (0 in order, 1 swapped, 2 random) that each question is about.
QUESTION_CLASSES: dict[Question, tuple[int, int]] = {"sop": (0, 1), "nsp": (0, 2)}
TAIL = 0.025
"""What a 95 % interval leaves out at either side."""


class Interval(NamedTuple):
    """A measured share, and between which bounds it would be found on other documents, 19 times of 20."""

    value: float
    low: float
    high: float


def interval_by_document(correct_B: ArrayLike, documents_B: ArrayLike) -> Interval:
    """The share that is correct. Windows of one document go together: documents are what is counted, not windows.

    One document says nothing of others, so its interval is everything.
    """
    from scipy.special import stdtrit  # slow to import

    correct_B, (_, documents_B) = np.asarray(correct_B, float), np.unique(np.asarray(documents_B), return_inverse=True)
    require(
        len(correct_B) == len(documents_B),
        f"there are {len(correct_B)} answers and the documents of {len(documents_B)}; give each answer its document",
    )
    num_documents = int(documents_B.max(initial=-1)) + 1
    value = float(correct_B.mean()) if len(correct_B) else float("nan")
    if num_documents < 2:
        return Interval(value, 0.0, 1.0)
    if value in (0.0, 1.0):
        # Without any spread the formula below would claim certainty. If each document is all right or all wrong, as
        # many of them are an exact binomial experiment, with this bound.
        margin = 1 - TAIL ** (1 / num_documents)
    else:
        residuals = np.bincount(documents_B, correct_B - value)
        variance = num_documents / (num_documents - 1) * np.square(residuals).sum() / len(correct_B) ** 2
        # Student's quantile, not the normal one: held-out documents can be as few as a handful of novels.
        margin = float(stdtrit(num_documents - 1, 1 - TAIL) * np.sqrt(variance))
    return Interval(value, max(0.0, value - margin), min(1.0, value + margin))


class Measured(NamedTuple):
    """What a model says of held-out sequences; on the CPU, in the order they came in."""

    masked_token_loss: float
    """Mean over all predicted positions, whatever batch they came in."""
    masked_token_accuracy: float
    num_predicted: int
    pair_loss: float
    """Mean over the pairs that have a label; nan where none has, or the model has no pair head."""
    pair_logits_BC: Tensor | None
    pair_labels_B: Tensor
    """`NO_LABEL` where a sequence has none."""
    pooled_BD: Tensor | None


class Answers(NamedTuple):
    """What a model says of one batch."""

    losses_P: Tensor
    num_found_X: Tensor
    """How many of its tokens were found."""
    pair_logits_BC: Tensor | None
    pair_labels_B: Tensor
    pooled_BD: Tensor | None


def measure(model: Model, batches: Iterable[Batch], *, keep_pooled: bool = False) -> Measured:
    """Asks the model's pre-training heads about every batch; `keep_pooled` keeps what `fit_probe` wants."""
    require("masked_token" in model.heads, "the model has no masked-token head to measure; add one")
    require(not keep_pooled or model.pooler is not None, "the model has no pooler; pooled outputs cannot be kept")
    device = next(model.parameters()).device
    with evaluating(model):
        answers = [answer(model, batch.to(device), keep_pooled) for batch in batches]
    require(answers, "there is no batch to measure the model on; give it some held-out documents")
    losses_P, num_found_X, pair_logits_BC, pair_labels_B, pooled_BD = map(join, zip(*answers, strict=True))
    assert losses_P is not None and num_found_X is not None and pair_labels_B is not None
    pair_loss = float("nan")
    if pair_logits_BC is not None:
        pair_loss = float(F.cross_entropy(pair_logits_BC.double(), pair_labels_B, ignore_index=NO_LABEL))
    return Measured(
        masked_token_loss=float(losses_P.double().mean()),
        masked_token_accuracy=float(num_found_X.sum().double() / len(losses_P)),
        num_predicted=len(losses_P),
        pair_loss=pair_loss,
        pair_logits_BC=pair_logits_BC,
        pair_labels_B=pair_labels_B,
        pooled_BD=pooled_BD,
    )


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Without dropout, for as long as it lasts; parts that were frozen by hand stay as they were."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def join(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    """The answers to all batches; none where the model gives none."""
    present = [part for part in parts if part is not None]
    return torch.cat(present) if present else None


@torch.inference_mode()
def answer(model: Model, batch: Batch, keep_pooled: bool) -> Answers:
    features = model.encode(batch)
    tokens = masked_token_loss(cast(MaskedTokenHead, model.heads["masked_token"]), features)
    assert tokens.losses is not None and tokens.num_right is not None
    labels_B = torch.full((batch.num_sequences,), NO_LABEL) if batch.pair_labels_B is None else batch.pair_labels_B
    return Answers(
        losses_P=tokens.losses.cpu(),
        num_found_X=tokens.num_right[None].cpu(),
        pair_logits_BC=model.heads["pair"](features).float().cpu() if "pair" in model.heads else None,
        pair_labels_B=labels_B.cpu(),
        pooled_BD=features.pooled_BD.float().cpu() if keep_pooled and features.pooled_BD is not None else None,
    )


def restrict_logits(logits_BC: Tensor, question: Question) -> Tensor:
    """What a pair head says when it is asked one question only: in order or not.

    A three-way head is not asked of its third class. A head of two classes has but one answer, whatever the question.
    """
    return logits_BC[:, QUESTION_CLASSES[question]] if logits_BC.shape[1] == 3 else logits_BC


class Probe(NamedTuple):
    """A logistic regression: what can be read off frozen features by a plane."""

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
