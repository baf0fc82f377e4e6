"""LAMB against a plain transcription of its rule, one number after the other."""

import math

import pytest
import torch

from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.training.lamb import Lamb
from litebert.training.optimizer import OptimizerConfig, group_parameters, make_optimizer

CONFIG = EncoderConfig(
    vocab_size=31, embedding_size=8, hidden_size=16, num_layers=2, num_heads=2, feed_forward_size=32, num_positions=20
)


def transcribe(
    weights: list[float],
    gradients: list[list[float]],
    rates: list[float],
    *,
    decay: float,
    adapt: bool,
    correct: bool = False,
) -> list[float]:
    """The rule as ALBERT's released code has it, in Python's own numbers."""
    means, squares = [0.0] * len(weights), [0.0] * len(weights)
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        means = [0.9 * m + 0.1 * g for m, g in zip(means, gradient, strict=True)]
        squares = [0.999 * v + 0.001 * g * g for v, g in zip(squares, gradient, strict=True)]
        first, second = (1 - 0.9**step, 1 - 0.999**step) if correct else (1.0, 1.0)
        updates = [
            m / first / (math.sqrt(v / second) + 1e-6) + decay * w
            for m, v, w in zip(means, squares, weights, strict=True)
        ]
        size, length = (math.sqrt(sum(x * x for x in values)) for values in (weights, updates))
        ratio = size / length if adapt and size > 0 and length > 0 else 1.0
        weights = [w - rate * ratio * u for w, u in zip(weights, updates, strict=True)]
    return weights


@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize(("decay", "adapt"), [(0.01, True), (0.0, False), (0.1, False)])
def test_fifty_steps_equal_a_plain_transcription_of_the_rule(decay: float, adapt: bool, correct: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4), (7,), (2, 2)]
    start = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    gradients = [[torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes] for _ in range(50)]
    rates = [0.02 * (1 - step / 50) for step in range(50)]
    parameters = [tensor.clone().requires_grad_() for tensor in start]
    optimizer = Lamb(parameters, lr=0.0, weight_decay=decay, adapt=adapt, bias_correction=correct)
    for step in range(50):
        for parameter, gradient in zip(parameters, gradients[step], strict=True):
            parameter.grad = gradient.clone()
        optimizer.param_groups[0]["lr"] = rates[step]
        optimizer.step()
    for number, parameter in enumerate(parameters):
        expected = transcribe(
            start[number].flatten().tolist(),
            [gradient[number].flatten().tolist() for gradient in gradients],
            rates,
            decay=decay,
            adapt=adapt,
            correct=correct,
        )
        assert parameter.flatten().tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("weight", "gradient"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_tensor_or_an_update_of_nothing_has_a_ratio_of_one(weight: float, gradient: float) -> None:
    parameter = torch.full((4,), weight, requires_grad=True)
    parameter.grad = torch.full((4,), gradient)
    Lamb([parameter], lr=0.5, weight_decay=0.0).step()
    update = gradient * 0.1 / (math.sqrt(gradient * gradient * 0.001) + 1e-6)
    torch.testing.assert_close(parameter.detach(), torch.full((4,), weight - 0.5 * update))


def test_matrices_in_one_tensor_have_a_ratio_each() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor([1.0, 1.0, 9.0]).repeat_interleave(2)[:, None]  # of values the gradients are larger
    fused = torch.randn(6, 4, generator=generator).requires_grad_()
    apart = [part.detach().clone().requires_grad_() for part in fused.chunk(3)]
    optimizers = Lamb([fused], lr=0.02, parts=3), Lamb(apart, lr=0.02)
    for _ in range(50):
        fused.grad = sizes * torch.randn(6, 4, generator=generator)
        for part, gradient in zip(apart, fused.grad.chunk(3), strict=True):
            part.grad = gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(fused.detach(), torch.cat(apart).detach(), rtol=0, atol=1e-6)


def test_queries_keys_and_values_have_a_ratio_each() -> None:
    model = Model(CONFIG, PRETRAINING)
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = make_optimizer(model, OptimizerConfig()).param_groups
    in_parts = [names[parameter] for group in groups if group["parts"] == 3 for parameter in group["params"]]
    assert in_parts == ["encoder.attentions.0.query_key_value.weight"]


def test_a_shared_block_counts_as_one_tensor_however_many_layers_use_it() -> None:
    groups = group_parameters(Model(CONFIG, PRETRAINING), OptimizerConfig())
    shapes = [tuple(parameter.shape) for group in groups for parameter in group["params"]]
    assert shapes.count((32, 16)) == 1, "the feed-forward matrix of both layers"


def test_biases_and_layer_normalisations_neither_decay_nor_adapt() -> None:
    model = Model(CONFIG, PRETRAINING)
    *matrices, vectors = group_parameters(model, OptimizerConfig())
    names = {parameter: name for name, parameter in model.named_parameters()}
    excluded = {names[parameter] for parameter in vectors["params"]}
    assert excluded == {name for name in names.values() if "norm" in name or "bias" in name}
    assert (vectors["weight_decay"], vectors["adapt"]) == (0.0, False)
    assert all((group["weight_decay"], group["adapt"]) == (0.01, True) for group in matrices)


def test_adamw_decays_the_same_tensors() -> None:
    optimizer = make_optimizer(Model(CONFIG, PRETRAINING), OptimizerConfig(optimizer="adamw"))
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]
    assert {parameter.ndim for parameter in optimizer.param_groups[1]["params"]} == {1}
