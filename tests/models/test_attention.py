import pytest
import torch
from torch import Tensor

from litebert.models import attention
from litebert.models.attention import PackedAttention, attend, make_attention_maps

LENGTHS = [(1,), (7, 7, 7), (9, 5, 5, 1), (130, 40, 40)]


def run(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The contexts of two heads of 16, and the gradients of what they were made of."""
    draw = torch.Generator().manual_seed(0)
    projected_TX = torch.randn(sum(lengths), 96, generator=draw, requires_grad=True)
    context_TD = attend(projected_TX, lengths, num_heads=2)
    weights_TD = torch.randn(context_TD.shape, generator=draw)
    return context_TD, torch.autograd.grad((context_TD * weights_TD).sum(), projected_TX)[0]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_kernels_in_place_give_the_values_and_gradients_of_torch(
    lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place = run(lengths)
    assert type(in_place[0].grad_fn).__name__ == f"{PackedAttention.__name__}Backward"
    monkeypatch.setattr(attention, "can_use_kernels", lambda values: False)
    for mine, plain in zip(in_place, run(lengths), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_context_is_the_values_weighted_by_the_attention_map(lengths: tuple[int, ...]) -> None:
    projected_TX = torch.randn(sum(lengths), 96)
    maps = make_attention_maps(projected_TX, lengths, num_heads=2)
    sequences = projected_TX.split(lengths)
    contexts = [
        (map_HLL @ sequence[:, 64:].view(-1, 2, 16).transpose(0, 1)).transpose(0, 1).flatten(1)
        for map_HLL, sequence in zip(maps, sequences, strict=True)
    ]
    torch.testing.assert_close(attend(projected_TX, lengths, num_heads=2), torch.cat(contexts), rtol=1e-5, atol=1e-5)


def test_who_asks_torch_for_a_kernel_gets_it() -> None:
    projected_TX = torch.randn(8, 96, requires_grad=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert type(attend(projected_TX, (8,), 2).grad_fn).__name__ != f"{PackedAttention.__name__}Backward"
    with torch.autocast("cpu", torch.bfloat16):
        assert type(attend(projected_TX, (8,), 2).grad_fn).__name__ != f"{PackedAttention.__name__}Backward"


def test_dropout_and_half_precision_are_left_to_torch() -> None:
    projected_TX = torch.randn(8, 96, requires_grad=True)
    for context_TD in (
        attend(projected_TX, (8,), 2, dropout=0.5),
        attend(projected_TX.bfloat16(), (8,), 2),
        attend(projected_TX.double(), (8,), 2),
    ):
        assert type(context_TD.grad_fn).__name__ != f"{PackedAttention.__name__}Backward"
