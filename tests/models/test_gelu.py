"""GELU's tanh form against torch's own, in double precision."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from litebert.models import gelu
from litebert.models.gelu import GELULinear
from litebert.models.layers import FeedForward


def compute(values: Tensor, weight: Tensor, bias: Tensor, ours: bool) -> list[Tensor]:
    """The output, and the gradients of everything."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (values, weight, bias)]
    output = GELULinear.apply(*leaves, None) if ours else F.linear(F.gelu(leaves[0], approximate="tanh"), *leaves[1:])
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output.dtype)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), leaves)]


@pytest.mark.parametrize("num_tokens", [1, 7, 300])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_values_and_gradients_are_torchs(num_tokens: int, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gelu, "BLOCK_SIZE", 1000)  # so that blocks end inside rows
    torch.manual_seed(0)
    made = scale * torch.randn(num_tokens, 48), torch.randn(32, 48) / 7, torch.randn(32)
    exact = compute(*(tensor.double() for tensor in made), ours=False)
    for mine, theirs, truth in zip(compute(*made, ours=True), compute(*made, ours=False), exact, strict=True):
        size = truth.abs().max()
        ours, torchs = ((numbers.double() - truth).abs().max() / size for numbers in (mine, theirs))
        assert ours < max(4 * torchs, 1e-6)


def test_far_from_zero_it_is_the_number_itself_or_nothing() -> None:
    values = torch.tensor([[-1e4, -50.0, -20.0, 0.0, 20.0, 50.0, 1e4]], requires_grad=True)
    activated = GELULinear.apply(values, torch.eye(7), torch.zeros(7), None)
    assert activated.tolist() == [[0, 0, 0, 0, 20, 50, 1e4]]
    activated.sum().backward()
    assert values.grad is not None and values.grad.tolist() == [[0, 0, 0, 0.5, 1, 1, 1]]


def test_a_feed_forward_network_keeps_no_activated_values() -> None:
    network, saved = FeedForward(16, 64, "gelu_tanh"), []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(torch.randn(10, 16, requires_grad=True))
    assert saved.count((10, 64)) == 1


def test_frozen_weights_get_no_gradient_and_let_it_through() -> None:
    network = FeedForward(16, 64, "gelu_tanh")
    network.down.requires_grad_(False)
    values = torch.randn(3, 16, requires_grad=True)
    network(values).sum().backward()
    assert network.down.weight.grad is None and values.grad is not None and network.up.weight.grad is not None
