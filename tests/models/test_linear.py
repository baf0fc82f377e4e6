import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.models import encoder as encoder_module
from litebert.models import linear
from litebert.models.encoder import Activation, Checkpointing, Encoder, EncoderConfig
from litebert.models.linear import OPERATORS, Linear, OneDNNProduct, Pack, Packs, project


@pytest.fixture
def every_product_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    if not (torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS)):
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


def make_encoder(sharing: str, activation: Activation = "gelu_tanh") -> Encoder:
    torch.manual_seed(0)
    return Encoder(
        EncoderConfig(
            vocab_size=50,
            embedding_size=8,
            hidden_size=16,
            num_layers=5,
            num_heads=2,
            feed_forward_size=64,
            sharing=sharing,
            activation=activation,
            initializer_range=0.2,
        )
    )


def differentiate(encoder: Encoder, positions_R: Tensor | None = None) -> list[Tensor]:
    """The hidden states, of all tokens or of some, and the gradient of every parameter."""
    token_ids_T = torch.arange(30) % 50
    batch = Batch(lengths=(12, 18), token_ids_T=token_ids_T, segment_ids_T=torch.zeros_like(token_ids_T))
    hidden_TD = encoder(batch).hidden_TD if positions_R is None else encoder.read(batch, positions_R)
    encoder.zero_grad()
    (hidden_TD * torch.randn(hidden_TD.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    return [
        hidden_TD.detach(),
        *(parameter.grad.clone() for parameter in encoder.parameters() if parameter.grad is not None),
    ]


@pytest.mark.usefixtures("every_product_is_large")
@pytest.mark.parametrize("checkpointing", ["nothing", "activations", "layers"])
@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu_erf"])
@pytest.mark.parametrize("sharing", ["all", "ffn", "attention", "0,1,1,1,1", "none"])
def test_packed_matrices_give_what_plain_ones_give(
    sharing: str, activation: Activation, checkpointing: Checkpointing, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = make_encoder(sharing, activation)
    encoder.checkpointing = checkpointing
    packed = differentiate(encoder)
    monkeypatch.setattr(linear, "prefers_onednn", lambda: False)
    plain = differentiate(encoder)
    for mine, theirs, shape in zip(packed, plain, [(30, 16), *(p.shape for p in encoder.parameters())], strict=True):
        assert mine.shape == shape and mine.is_contiguous()
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_product_is_large")
def test_tokens_that_are_read_alone_get_the_same_from_packed_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, positions_R = make_encoder("all"), torch.tensor([29, 0, 12, 5])
    packed = differentiate(encoder, positions_R)
    monkeypatch.setattr(linear, "prefers_onednn", lambda: False)
    for mine, theirs in zip(packed, differentiate(encoder, positions_R), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_product_is_large")
def test_matrices_are_packed_where_many_layers_share_them() -> None:
    def find(encoder: Encoder) -> list[tuple[bool, bool]]:
        return [(packs.attention is not None, packs.feed_forward is not None) for packs in encoder.share_packs(30)]

    assert find(make_encoder("all")) == [(True, True)] * 5
    assert find(make_encoder("attention")) == [(True, False)] * 5
    assert find(make_encoder("0,1,1,1,1")) == [(False, False), *[(True, True)] * 4]
    shallow = make_encoder("all")
    shallow.num_layers = 3
    assert find(shallow) == [(False, False)] * 3


@pytest.mark.usefixtures("every_product_is_large")
def test_a_matrix_is_packed_once_for_each_way_however_many_layers_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(encoder_module, "Pack", lambda: made.append(Pack()) or made[-1])  # type: ignore[func-returns-value]
    differentiate(make_encoder("all"))
    assert [set(pack.laid_out) for pack in made] == [{"forward", "back"}] * 4


@pytest.mark.usefixtures("every_product_is_large")
def test_where_memory_is_used_again_a_matrix_is_not_taken_for_another() -> None:
    """As under FSDP, which frees gathered weights after their layer: another layer's may come to lie where they did."""
    packs, values = Packs(Pack), torch.randn(9, 48)
    first, second = (make_layers()[0] for _ in range(2))
    project(first, values, packs)
    second.weight.data = first.weight.data.mul_(2)
    expected = F.linear(values, second.weight, second.bias)
    torch.testing.assert_close(project(second, values, packs), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_product_is_large")
@pytest.mark.parametrize("sharing", ["all", "ffn"])
def test_packed_matrices_give_the_same_bits_as_plain_ones_of_the_same_library(
    sharing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = differentiate(make_encoder(sharing))
    monkeypatch.setattr(encoder_module, "SHARED_BY_MANY", 100)
    plain = differentiate(make_encoder(sharing))
    assert torch.equal(packed[0], plain[0])
    for mine, theirs in zip(packed, plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("every_product_is_large")
def test_packs_are_let_go_of_though_the_loss_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Pack]] = []

    def make() -> Pack:
        pack = Pack()
        made.append(weakref.ref(pack))
        return pack

    monkeypatch.setattr(encoder_module, "Pack", make)
    token_ids_T = torch.arange(30)
    batch = Batch(lengths=(12, 18), token_ids_T=token_ids_T, segment_ids_T=torch.zeros_like(token_ids_T))
    loss = make_encoder("all")(batch).hidden_TD.square().sum()
    assert len(made) == 4 and all(pack() is not None for pack in made)
    loss.backward()
    gc.collect()
    assert loss.grad_fn is not None and all(pack() is None for pack in made)


@pytest.mark.usefixtures("every_product_is_large")
def test_whatever_hangs_on_a_layer_is_called_beside_packs() -> None:
    called, (layer, _) = [], make_layers()
    packs, values = Packs(Pack), torch.randn(9, 48, requires_grad=True)
    handle = layer.register_full_backward_hook(lambda *_: called.append("backward"))
    project(layer, values, packs).sum().backward()
    handle.remove()
    layer.forward = lambda values: called.append("forward") or values  # type: ignore[func-returns-value, method-assign]
    project(layer, values, packs)
    assert called == ["backward", "forward"] and not packs


@pytest.mark.usefixtures("every_product_is_large")
def test_a_compiled_encoder_asks_nothing_of_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> bool:
        raise AssertionError("asked while compiling")

    monkeypatch.setattr(linear, "prefers_onednn", refuse)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert all(packs == (None, None) for packs in make_encoder("all").share_packs(30))


def test_small_products_are_not_packed_on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "prefers_onednn", lambda: True)
    monkeypatch.setattr(linear, "is_limited", True)
    assert all(packs == (None, None) for packs in make_encoder("all").share_packs(30))
