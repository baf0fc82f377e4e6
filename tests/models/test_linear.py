import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.models import linear
from litebert.models.encoder import Checkpointing, Encoder, EncoderConfig
from litebert.models.layers import FeedForward
from litebert.models.linear import Linear, OneDNNProduct


@pytest.fixture
def every_product_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(linear, "SMALLEST_PRODUCT", 1)
    monkeypatch.setattr(linear, "prefers_onednn", lambda: True)
    monkeypatch.setattr(linear, "is_limited", True)


def make_layers(bias: bool = True) -> tuple[Linear, nn.Linear]:
    torch.manual_seed(0)
    ours, plain = Linear(48, 80, bias=bias), nn.Linear(48, 80, bias=bias)
    plain.load_state_dict(ours.state_dict())
    return ours, plain


def run(layer: nn.Module, values: Tensor) -> list[Tensor]:
    """The output and the gradients of the input and of every parameter."""
    values = values.clone().requires_grad_()
    output = layer(values)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), [values, *layer.parameters()])]


@pytest.mark.usefixtures("every_product_is_large")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_tokens", [1, 7, 130])
def test_a_product_of_onednn_has_the_values_and_gradients_of_torch(num_tokens: int, bias: bool) -> None:
    ours, plain = make_layers(bias)
    values = torch.randn(num_tokens, 48)
    assert type(ours(values.requires_grad_()).grad_fn).__name__ == f"{OneDNNProduct.__name__}Backward"
    for mine, theirs in zip(run(ours, values.detach()), run(plain, values.detach()), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_product_is_large")
def test_a_slice_of_other_values_is_multiplied_as_it_lies() -> None:
    ours, plain = make_layers()
    wide = torch.randn(20, 96)
    torch.testing.assert_close(ours(wide[3:, 48:]), plain(wide[3:, 48:]), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_product_is_large")
def test_a_frozen_weight_gets_no_gradient_and_lets_it_through() -> None:
    ours, plain = make_layers()
    for layer in (ours, plain):
        layer.weight.requires_grad_(False)
    grads = []
    for layer in (ours, plain):
        values = torch.ones(5, 48, requires_grad=True)
        layer(values).sum().backward()
        assert layer.weight.grad is None
        grads.append(values.grad)
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_product_is_large")
@pytest.mark.parametrize("shape", [(4, 6, 48), (48,)])
def test_what_is_not_packed_is_left_to_torch(shape: tuple[int, ...]) -> None:
    ours, plain = make_layers()
    values = torch.randn(shape)
    assert torch.equal(ours(values), plain(values))


@pytest.mark.usefixtures("every_product_is_large")
def test_autocast_keeps_its_type() -> None:
    ours, _ = make_layers()
    with torch.autocast("cpu", torch.bfloat16):
        assert ours(torch.randn(8, 48)).dtype == torch.bfloat16


def test_small_products_are_torch_s_own_on_any_machine() -> None:
    ours, plain = make_layers()
    values = torch.randn(9, 48)
    assert torch.equal(ours(values), plain(values))


PROGRAM = """
import torch
from litebert.models import linear
linear.SMALLEST_PRODUCT, linear.prefers_onednn = 1, lambda: True
linear.limit_onednn()
layer = linear.Linear(1536, 384)
def grow(lengths):
    for length in lengths:
        layer(torch.ones(length, 1536)).sum().backward()
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) / 1024
before = grow(range(1000, 1040))
print(grow(range(1040, 1140)) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc to read the memory from")
@pytest.mark.usefixtures("every_product_is_large")
def test_kernels_of_shapes_that_are_gone_are_forgotten() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 40, "MiB after a hundred new shapes"


def test_without_limits_products_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "SMALLEST_PRODUCT", 1)
    monkeypatch.setattr(linear, "prefers_onednn", lambda: True)
    monkeypatch.setattr(linear, "is_limited", False)
    layer, _ = make_layers()
    assert "Addmm" in type(layer(torch.randn(7, 48)).grad_fn).__name__


def make_encoder(sharing: str) -> Encoder:
    torch.manual_seed(0)
    return Encoder(
        EncoderConfig(
            vocab_size=50,
            embedding_size=8,
            hidden_size=16,
            num_layers=3,
            num_heads=2,
            feed_forward_size=64,
            sharing=sharing,
            initializer_range=0.2,
        )
    )


def differentiate(encoder: Encoder) -> list[Tensor]:
    """The hidden states and the gradient of every parameter."""
    token_ids_T = torch.arange(30) % 50
    hidden_TD = encoder(
        Batch(lengths=(12, 18), token_ids_T=token_ids_T, segment_ids_T=torch.zeros_like(token_ids_T))
    ).hidden_TD
    encoder.zero_grad()
    (hidden_TD * torch.randn(hidden_TD.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    return [
        hidden_TD.detach(),
        *(parameter.grad.clone() for parameter in encoder.parameters() if parameter.grad is not None),
    ]


@pytest.mark.usefixtures("every_product_is_large")
@pytest.mark.parametrize("checkpointing", ["nothing", "activations", "layers"])
@pytest.mark.parametrize("sharing", ["all", "ffn", "0,1,1", "none"])
def test_a_matrix_by_columns_gives_what_it_gives_by_rows(
    sharing: str, checkpointing: Checkpointing, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = make_encoder(sharing)
    encoder.checkpointing = checkpointing
    by_columns = differentiate(encoder)
    monkeypatch.setattr(FeedForward, "lay_by_columns", lambda *_: None)
    by_rows = differentiate(encoder)
    for mine, theirs, shape in zip(
        by_columns, by_rows, [(30, 16), *(p.shape for p in encoder.parameters())], strict=True
    ):
        assert mine.shape == shape and mine.is_contiguous()
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_product_is_large")
def test_a_matrix_is_laid_out_where_layers_share_it_and_gradients_follow() -> None:
    hidden_TD, encoder = torch.zeros(30, 16), make_encoder("0,1,1")
    laid_out = encoder.lay_by_columns(hidden_TD)
    assert list(laid_out) == [1] and laid_out[1] is not None and laid_out[1].t().is_contiguous()
    assert torch.equal(laid_out[1], encoder.get_parameter("feed_forwards.1.down.weight"))
    encoder.num_layers = 2
    assert encoder.lay_by_columns(hidden_TD) == {}
    with torch.no_grad():
        assert make_encoder("all").lay_by_columns(hidden_TD) == {0: None}
