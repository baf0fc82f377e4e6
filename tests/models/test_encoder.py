import math
import shutil
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from litebert.batch import Batch
from litebert.config import UserError
from litebert.models.encoder import Checkpointing, Encoder, EncoderConfig
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.training.losses import Pretraining, mean_loss

CONFIG = EncoderConfig(
    vocab_size=61, embedding_size=16, hidden_size=32, num_layers=3, num_heads=4, feed_forward_size=64, num_positions=40,
    initializer_range=0.2,
)  # fmt: skip


def make_sequences(lengths: list[int], seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(5, 61, (length,), generator=generator).tolist() for length in lengths]


def make_model(config: EncoderConfig = CONFIG, seed: int = 0) -> Model:
    torch.manual_seed(seed)
    return Model(config, PRETRAINING)


def plain_forward(encoder: Encoder, token_ids_BL: Tensor, mask_BL: Tensor) -> Tensor:
    """The same encoder written out on a padded batch: masked scores, no packing, no fused kernel."""
    table, config = encoder.embedding, encoder.config
    positions_L = torch.arange(token_ids_BL.shape[1])
    hidden = table.words(token_ids_BL) + table.positions(positions_L) + table.segments(torch.zeros_like(token_ids_BL))
    hidden = table.projection(table.norm(hidden))
    bias = (1 - mask_BL[:, None, None].float()) * -10000
    for attention, feed_forward, block in encoder.depths:
        layer, norms = encoder.attentions[attention], encoder.norms[block]
        heads = [
            part.unflatten(-1, (config.num_heads, -1)).transpose(1, 2)
            for part in layer.query_key_value(hidden).chunk(3, dim=-1)
        ]
        scores = heads[0] @ heads[1].mT / math.sqrt(config.hidden_size // config.num_heads) + bias
        context = (scores.softmax(-1) @ heads[2]).transpose(1, 2).flatten(2)
        hidden = norms.attention(hidden + layer.output(context))
        hidden = norms.feed_forward(hidden + encoder.feed_forwards[feed_forward](hidden))
    return hidden


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_packed_equals_padded_equals_one_by_one_in_forward_and_in_gradients(lengths: list[int], seed: int) -> None:
    sequences = make_sequences(lengths, seed)
    encoder = make_model(seed=seed).encoder
    weights_TD = torch.randn(sum(lengths), CONFIG.hidden_size, generator=torch.Generator().manual_seed(seed))
    batch = Batch.pack(sequences)

    def run(hidden_TD: Tensor) -> tuple[Tensor, list[Tensor]]:
        used = [p for name, p in encoder.named_parameters()]
        gradients = torch.autograd.grad((hidden_TD * weights_TD).sum(), used)
        return hidden_TD.detach(), list(gradients)

    padded_ids, mask = batch.pad(batch.token_ids_T), batch.pad(torch.ones_like(batch.token_ids_T))
    packed = run(encoder(batch).hidden_TD)
    padded = run(plain_forward(encoder, padded_ids, mask)[mask.bool()])
    single = run(torch.cat([encoder(Batch.pack([sequence])).hidden_TD for sequence in sequences]))
    for other in (padded, single):
        torch.testing.assert_close(packed[0], other[0], rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(packed[1], other[1], strict=True):
            scale = max(1.0, float(theirs.abs().max()))
            torch.testing.assert_close(ours / scale, theirs / scale, rtol=1e-5, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    sharing=st.sampled_from(["all", "none", "ffn"]),
    checkpointing=st.sampled_from(["nothing", "activations", "layers"]),
    seed=st.integers(0, 99),
)
def test_reading_some_tokens_gives_their_numbers_of_all_in_forward_and_in_gradients(
    lengths: list[int], sharing: str, checkpointing: Checkpointing, seed: int
) -> None:
    encoder = make_model(replace(CONFIG, sharing=sharing), seed).encoder.train()
    encoder.checkpointing = checkpointing
    batch, generator = Batch.pack(make_sequences(lengths, seed)), torch.Generator().manual_seed(seed)
    # In any order, some of them twice, and of some sequences none.
    num_read = int(torch.randint(1, 30, (), generator=generator))
    positions_R = torch.randint(sum(lengths), (num_read,), generator=generator)
    weights_RD = torch.randn(len(positions_R), CONFIG.hidden_size, generator=generator)
    read_RD, whole_RD = encoder.read(batch, positions_R), encoder(batch).hidden_TD[positions_R]
    torch.testing.assert_close(read_RD, whole_RD, rtol=1e-5, atol=1e-5)
    parameters = list(encoder.parameters())
    ours, theirs = (
        torch.autograd.grad((hidden_RD * weights_RD).sum(), parameters) for hidden_RD in (read_RD, whole_RD)
    )
    for our, their in zip(ours, theirs, strict=True):
        scale = max(1.0, float(their.abs().max()))
        torch.testing.assert_close(our / scale, their / scale, rtol=1e-5, atol=1e-5)


def test_reading_in_16_bits_and_with_dropout_of_attention() -> None:
    batch, positions_R = Batch.pack(make_sequences([12, 7, 12])), torch.tensor([0, 3, 12, 19, 30])
    encoder = make_model().encoder
    with torch.autocast("cpu", torch.bfloat16):
        read_RD, whole_RD = encoder.read(batch, positions_R), encoder(batch).hidden_TD[positions_R]
    torch.testing.assert_close(read_RD, whole_RD, rtol=0.05, atol=0.05)
    dropping = make_model(replace(CONFIG, attention_dropout=0.5)).encoder.train()
    assert not torch.equal(dropping.read(batch, positions_R), dropping.read(batch, positions_R))
    dropping.eval()
    torch.testing.assert_close(dropping.read(batch, positions_R), dropping(batch).hidden_TD[positions_R])


def test_a_padded_call_gives_the_packed_numbers_by_row_and_column() -> None:
    model = make_model().eval()
    batch = Batch.pack(make_sequences([3, 9, 5]))
    mask = batch.pad(torch.ones_like(batch.token_ids_T), width=12)  # wider than the longest, as with max_length padding
    packed, padded = model(batch, keep_depths=True), model(batch.pad(batch.token_ids_T, 12), mask, keep_depths=True)
    assert padded.hidden.shape == (3, 12, 32)
    assert torch.equal(batch.pad(packed.hidden, 12), padded.hidden)
    assert torch.equal(batch.pad(packed.logits["masked_token"], 12), padded.logits["masked_token"])
    assert torch.equal(packed.logits["pair"], padded.logits["pair"])
    assert torch.equal(batch.pad(packed.depths[2], 12), padded.depths[2])
    assert not padded.hidden[mask == 0].any()


def test_depths_are_all_there_and_in_the_order_of_the_batch() -> None:
    encoder = make_model().encoder
    sequences = make_sequences([2, 7, 4])
    encoded = encoder(Batch.pack(sequences), keep_depths=True, keep_attention_maps=True)
    assert encoded.depths is not None and encoded.attention_maps is not None
    assert len(encoded.depths) == CONFIG.num_layers + 1 and len(encoded.attention_maps) == CONFIG.num_layers
    assert torch.equal(encoded.depths[-1], encoded.hidden_TD)
    alone = encoder(Batch.pack([sequences[1]]), keep_depths=True, keep_attention_maps=True)
    for depth in range(CONFIG.num_layers):
        torch.testing.assert_close(encoded.depths[depth][2:9], alone.depths[depth], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(encoded.attention_maps[depth][1], alone.attention_maps[depth][0])
        for length, attention_HLL in zip((2, 7, 4), encoded.attention_maps[depth], strict=True):
            assert attention_HLL.shape == (CONFIG.num_heads, length, length)
            torch.testing.assert_close(attention_HLL.sum(-1), torch.ones(CONFIG.num_heads, length))


def test_attention_maps_are_those_that_attention_uses() -> None:
    encoder = make_model(replace(CONFIG, num_layers=1)).encoder
    batch = Batch.pack(make_sequences([6]))
    attention = encoder.attentions[0]
    maps: list[Tensor] = []
    hidden_TD = encoder.embedding(batch)
    output_TD = attention(hidden_TD, batch.lengths, maps)
    value_HLK = attention.query_key_value(hidden_TD).chunk(3, dim=-1)[2].unflatten(-1, (4, -1)).transpose(0, 1)
    by_hand_TD = attention.output((maps[0] @ value_HLK).transpose(0, 1).flatten(1))
    torch.testing.assert_close(output_TD, by_hand_TD, rtol=1e-5, atol=1e-5)


def loss_and_gradients(model: Model, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    loss = mean_loss(Pretraining(), model, batch)
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def make_training_batch(lengths: list[int]) -> Batch:
    batch = Batch.pack(make_sequences(lengths))
    positions_P = torch.arange(0, batch.num_tokens, 3)
    return replace(
        batch,
        predicted_positions_P=positions_P,
        predicted_ids_P=batch.token_ids_T[positions_P],
        pair_labels_B=torch.arange(len(lengths)) % 2,
    )


@pytest.mark.parametrize(("checkpointing", "share"), [("activations", 0.8), ("layers", 0.3)])
def test_checkpointing_changes_memory_and_nothing_else(checkpointing: str, share: float) -> None:
    config = replace(CONFIG, feed_forward_size=256, activation="gelu_erf")
    model, batch = make_model(config).train(), make_training_batch([9, 9, 4])
    kept = loss_and_gradients(model, batch)
    saved = count_saved_bytes(model, batch)
    model.encoder.checkpointing = checkpointing
    again = loss_and_gradients(model, batch)
    assert torch.equal(kept[0], again[0])
    for name in kept[1]:
        torch.testing.assert_close(kept[1][name], again[1][name])
    assert count_saved_bytes(model, batch) < saved * share


def count_saved_bytes(model: Model, batch: Batch) -> int:
    sizes = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model.encoder(batch)
    return sum(sizes)


def test_bfloat16_autocast_trains_and_stays_near() -> None:
    model, batch = make_model(replace(CONFIG, initializer_range=0.05)), make_training_batch([9, 9, 4])
    exact = loss_and_gradients(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = loss_and_gradients(model, batch)
    assert rough[0] != exact[0]
    torch.testing.assert_close(rough[0].float(), exact[0], rtol=0.02, atol=0.02)
    for name, gradient in rough[1].items():
        assert gradient.isfinite().all(), name


@pytest.mark.skipif(
    not Path(sysconfig.get_paths()["include"], "Python.h").exists()
    or not any(map(shutil.which, ("c++", "g++", "clang++"))),
    reason="torch.compile needs a C++ compiler and Python's C headers",
)
def test_it_compiles_and_gives_the_same_numbers_for_changing_lengths() -> None:
    model = make_model().eval()
    compiled = torch.compile(model)
    for lengths in ([5, 3], [8, 8, 2]):
        batch = Batch.pack(make_sequences(lengths))
        torch.testing.assert_close(
            compiled(batch).logits["masked_token"], model(batch).logits["masked_token"], rtol=1e-5, atol=1e-5
        )


def test_dropout_is_in_training_alone() -> None:
    batch = Batch.pack(make_sequences([12, 7]))
    for changes in ({"hidden_dropout": 0.5}, {"attention_dropout": 0.5}):
        model = make_model(replace(CONFIG, **changes))
        assert not torch.equal(model.train().encoder(batch).hidden_TD, model.encoder(batch).hidden_TD)
        assert torch.equal(model.eval().encoder(batch).hidden_TD, model.encoder(batch).hidden_TD)
    quiet = make_model().train()
    assert torch.equal(quiet.encoder(batch).hidden_TD, quiet.encoder(batch).hidden_TD)


def test_hidden_dropout_follows_the_embedding_in_its_own_width() -> None:
    model = make_model(replace(CONFIG, hidden_dropout=0.5)).train()
    seen = []
    model.encoder.embedding.projection.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.encoder(Batch.pack(make_sequences([20])))
    assert seen[0].shape == (20, 16) and 0.3 < (seen[0] == 0).float().mean() < 0.7


def test_hidden_dropout_follows_attention() -> None:
    model = make_model(replace(CONFIG, num_layers=1, hidden_dropout=0.5)).train()
    seen = []
    model.encoder.attentions[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.encoder.norms[0].attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.encoder(Batch.pack(make_sequences([20])))
    assert 0.3 < (seen[0] == seen[1]).float().mean() < 0.7


def test_hidden_dropout_also_follows_the_feed_forward_network() -> None:
    """transformers' ALBERT leaves this one out; Google's code has it."""
    model = make_model(replace(CONFIG, num_layers=1, hidden_dropout=0.5)).train()
    seen = []
    model.encoder.norms[0].feed_forward.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.encoder.norms[0].attention.register_forward_hook(lambda _, __, output: seen.append(output))
    model.encoder(Batch.pack(make_sequences([20])))
    attended, summed = seen
    assert 0.3 < (attended == summed).float().mean() < 0.7


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_layers": 0}, "num_layers is 0; it must be at least 1"),
        ({"num_layers": 10**9}, "num_layers is 1000000000; it must be at most 4,096"),
        ({"num_positions": 1 << 40}, "num_positions is 1099511627776; it must be at most 268,435,456"),
    ],
)
def test_sizes_that_no_machine_holds_are_refused_at_once(changes: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        replace(CONFIG, **changes)


def test_a_sequence_longer_than_the_positions_is_refused() -> None:
    with pytest.raises(UserError, match="a sequence has 41 tokens; the model has 40 positions"):
        make_model().encoder(Batch.pack(make_sequences([41])))


def test_initialisers_are_truncated_normals_zeros_and_ones() -> None:
    model = make_model(EncoderConfig(num_layers=2, vocab_size=2000))
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            assert (parameter == 1).all(), name
        elif name.endswith("bias"):
            assert (parameter == 0).all(), name
        else:
            # A normal cut at two deviations has 0.8796 of its deviation.
            assert parameter.abs().max() <= 0.04, name
            if parameter.numel() > 10_000:
                assert abs(parameter.std() / 0.02 - 0.8796) < 0.02, name
                assert abs(parameter.mean()) < 4 * 0.02 / math.sqrt(parameter.numel()), name


def test_shared_depths_use_the_same_weights_and_others_do_not() -> None:
    encoder = make_model(replace(CONFIG, sharing="0,1,0")).encoder
    batch = Batch.pack(make_sequences([6]))
    before = encoder(batch, keep_depths=True).depths
    with torch.no_grad():
        encoder.attentions[1].output.weight.add_(1)
    after = encoder(batch, keep_depths=True).depths
    assert torch.equal(before[1], after[1]) and not torch.equal(before[2], after[2])
    gradients = torch.autograd.grad(encoder(batch).hidden_TD.square().sum(), encoder.attentions[0].output.weight)
    assert gradients[0].any()


def test_flops_count_the_products_that_torch_counts() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    encoder = make_model().encoder.eval()
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        encoder(Batch.pack(make_sequences([24, 24])))
    assert counter.get_total_flops() == 48 * CONFIG.flops_per_token(24)


@pytest.mark.parametrize(
    ("token_ids", "segment_ids", "said"),
    [([5, 61], [0, 0], "token ids from 5 to 61; the model has 61"), ([5, 6], [0, 2], "segment ids from 0 to 2"),
     ([-1, 6], [0, 0], "token ids from -1 to 6")],
)  # fmt: skip
def test_ids_beyond_the_tables_are_refused(token_ids: list[int], segment_ids: list[int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_model().encoder(Batch.pack([token_ids], [segment_ids]))
