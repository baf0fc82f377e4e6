"""What is computed of a step, against what torch counts and keeps."""

import gc
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from litebert.batch import Batch
from litebert.models import linear
from litebert.models.encoder import Checkpointing, EncoderConfig
from litebert.models.heads import PRETRAINING, HeadConfig
from litebert.models.model import Model
from litebert.presets import PRESETS, albert_large_v2, albert_micro, bert_large, bert_micro
from litebert.training.costs import (
    Manner,
    Work,
    count_activations,
    count_exchanged,
    count_flops,
    count_memory,
    count_parameters,
    count_recomputed,
    pack_bytes,
)
from litebert.training.losses import Pretraining, mean_loss

CHECKPOINTING: tuple[Checkpointing, ...] = get_args(Checkpointing)
MICRO, TWIN = replace(albert_micro(), vocab_size=2000), replace(bert_micro(), vocab_size=2000)
CONFIGS = {
    "albert": MICRO,
    "bert": TWIN,
    "groups, erf": replace(MICRO, sharing="groups=2", activation="gelu_erf", num_layers=5),
    "dropout": replace(MICRO, hidden_dropout=0.1, attention_dropout=0.1),
    "relu, hidden dropout": replace(TWIN, hidden_dropout=0.1, activation="relu"),
}
EQUAL, MIXED = (64, 64, 64, 64), (64, 20, 64, 64, 33, 10)


class AliveStorages(TorchDispatchMode):
    """Remembers every storage that is made, without keeping it."""

    def __init__(self, known: list[Tensor]) -> None:
        super().__init__()
        self.known = {tensor.untyped_storage()._cdata for tensor in known}
        self.made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and (key := tensor.untyped_storage()._cdata) not in self.known:
                self.made[key] = StorageWeakRef(tensor.untyped_storage()), tensor.untyped_storage().nbytes()
        return made

    def count_bytes(self) -> int:
        gc.collect()
        return sum(size for storage, size in self.made.values() if not storage.expired())


def make_batch(config: EncoderConfig, lengths: tuple[int, ...]) -> Batch:
    num_tokens = sum(lengths)
    predicted_P = torch.arange(0, num_tokens, 7)
    return Batch(
        lengths=lengths,
        token_ids_T=torch.randint(config.vocab_size, (num_tokens,)),
        segment_ids_T=torch.zeros(num_tokens, dtype=torch.long),
        predicted_positions_P=predicted_P,
        predicted_ids_P=torch.zeros_like(predicted_P),
        pair_labels_B=torch.zeros(len(lengths), dtype=torch.long),
    )


def describe(config: EncoderConfig, batch: Batch) -> Work:
    assert batch.predicted_ids_P is not None
    return Work(lengths=batch.lengths, num_predicted=len(batch.predicted_ids_P), num_layers=config.num_layers)


def make_model(config: EncoderConfig, checkpointing: Checkpointing) -> Model:
    model = Model(config, PRETRAINING).train()
    model.encoder.checkpointing = checkpointing
    return model


@pytest.mark.parametrize(
    ("name", "num_classes"), [*((name, 2) for name in PRESETS), ("albert-nano", 0), ("bert-nano", 3)]
)
def test_parameters_by_part_add_up_to_those_of_the_model(name: str, num_classes: int) -> None:
    heads = [HeadConfig(kind="masked_token")]
    heads += [HeadConfig(kind="pair", num_classes=num_classes)] if num_classes else []
    with torch.device("meta"):
        counted = sum(parameter.numel() for parameter in Model(PRESETS[name](), heads).parameters())
    assert sum(count_parameters(PRESETS[name](), num_classes).values()) == counted


@pytest.mark.parametrize("sharing", ["all", "none", "attention", "ffn", "groups=2", "sandwich", "0:0,0:1,1:1,1:0"])
def test_parameters_are_right_for_every_sharing(sharing: str) -> None:
    config = replace(MICRO, sharing=sharing)
    with torch.device("meta"):
        counted = sum(parameter.numel() for parameter in Model(config, PRETRAINING).parameters())
    assert sum(count_parameters(config).values()) == counted


def count_products(model: Model, batch: Batch) -> int:
    """The matrix products of a forward and a backward pass, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        mean_loss(Pretraining(), model, batch).backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("checkpointing", CHECKPOINTING)
@pytest.mark.parametrize("config", [MICRO, TWIN], ids=["albert", "bert"])
def test_flops_are_those_that_torch_counts(config: EncoderConfig, checkpointing: Checkpointing) -> None:
    # Without dropout attention is one operation on CPU, whose products torch does not count.
    config = replace(config, attention_dropout=0.1)
    batch = make_batch(config, MIXED)
    work = describe(config, batch)
    computed = count_flops(config, work.lengths, work.num_predicted) + count_recomputed(config, work, checkpointing)
    assert computed == pytest.approx(count_products(make_model(config, checkpointing), batch), rel=0.02)


@pytest.mark.parametrize("lengths", [EQUAL, MIXED], ids=["equal", "mixed"])
@pytest.mark.parametrize("checkpointing", CHECKPOINTING)
@pytest.mark.parametrize("name", CONFIGS)
def test_activations_are_the_storages_alive_after_a_forward_pass(
    name: str, checkpointing: Checkpointing, lengths: tuple[int, ...]
) -> None:
    config = CONFIGS[name]
    model, batch = make_model(config, checkpointing), make_batch(config, lengths)
    with AliveStorages(list(model.parameters())) as alive:
        loss = mean_loss(Pretraining(), model, batch)
    manner = Manner(checkpointing=checkpointing, on_cpu=True)
    assert count_activations(config, describe(config, batch), manner) == pytest.approx(alive.count_bytes(), rel=0.02)
    del loss


@pytest.mark.parametrize("checkpointing", CHECKPOINTING)
@pytest.mark.parametrize("config", [MICRO, TWIN], ids=["albert", "bert"])
def test_activations_in_16_bits_are_the_storages_alive_too(config: EncoderConfig, checkpointing: Checkpointing) -> None:
    model, batch = make_model(config, checkpointing), make_batch(config, MIXED)
    with AliveStorages(list(model.parameters())) as alive, torch.autocast("cpu", torch.bfloat16):
        loss = mean_loss(Pretraining(), model, batch)
    manner = Manner(checkpointing=checkpointing, precision="bf16", on_cpu=True)
    assert count_activations(config, describe(config, batch), manner) == pytest.approx(alive.count_bytes(), rel=0.03)
    del loss


@pytest.mark.parametrize("lengths", [EQUAL, MIXED], ids=["equal", "mixed"])
def test_activations_are_what_autograd_saves(lengths: tuple[int, ...]) -> None:
    model, batch = make_model(MICRO, "nothing"), make_batch(MICRO, lengths)
    own = [*model.parameters(), batch.token_ids_T, batch.segment_ids_T, batch.predicted_positions_P]
    known = {tensor.untyped_storage()._cdata for tensor in own if tensor is not None}
    saved: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        saved.setdefault(tensor.untyped_storage()._cdata, tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = mean_loss(Pretraining(), model, batch)
    counted = sum(tensor.untyped_storage().nbytes() for key, tensor in saved.items() if key not in known)
    manner = Manner(on_cpu=True)
    assert count_activations(MICRO, describe(MICRO, batch), manner) == pytest.approx(counted, rel=0.01)
    del loss


def test_albert_large_exchanges_18_times_fewer_gradients_than_bert_large() -> None:
    sizes = []
    for config, millions in ((bert_large(), 334), (albert_large_v2(), 18)):  # ALBERT, Table 1
        parts = count_parameters(config)
        sizes.append(sum(number for part, number in parts.items() if not part.endswith("head")))
        assert sizes[-1] / 1e6 == pytest.approx(millions, rel=0.02)
    large, small = (count_exchanged(size, 64) for size in sizes)
    assert large / small == pytest.approx(18, abs=1)


@pytest.mark.parametrize("num_devices", [1, 2, 5, 64])
def test_a_ring_of_devices_sends_as_many_bytes_as_computed(num_devices: int) -> None:
    """Every device sends one part of N in each of N - 1 rounds to add them up, and again to hand out the sums."""
    size = 64 * 5 * 100
    sent = sum(4 * size // num_devices for _ in range(num_devices - 1)) * 2
    assert count_exchanged(size, num_devices) == pytest.approx(sent)


def test_a_device_holds_four_numbers_for_each_parameter_and_fewer_with_fsdp() -> None:
    work = describe(MICRO, make_batch(MICRO, MIXED))
    number = sum(count_parameters(MICRO).values())
    alone = count_memory(MICRO, work, Manner())
    assert (alone.weights, alone.gradients, alone.moments) == (4 * number, 4 * number, 8 * number)
    spread = count_memory(MICRO, work, Manner(parallel="fsdp", num_devices=8))
    copied = count_memory(MICRO, work, Manner(num_devices=8))
    assert spread.moments == number and copied.moments == 8 * number
    assert spread.total < copied.total


def test_checkpointing_trades_activations_for_work() -> None:
    work = Work(lengths=(512,) * 8, num_predicted=8 * 77, num_layers=12)
    kept = [count_activations(EncoderConfig(), work, Manner(checkpointing=name)) for name in CHECKPOINTING]
    assert kept == sorted(kept, reverse=True) and kept[2] < kept[0] / 5
    repeated = [count_recomputed(EncoderConfig(), work, name) for name in CHECKPOINTING]
    assert repeated[:2] == [0, 0] and repeated[2] > 0


def test_matrices_that_many_layers_share_are_counted_as_they_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    base, work = EncoderConfig(), Work(lengths=(128,) * 8, num_predicted=150, num_layers=12)
    monkeypatch.setattr(linear, "is_limited", False)
    before = count_memory(base, work, Manner(on_cpu=True))
    monkeypatch.setattr(linear, "is_limited", True)
    monkeypatch.setattr(linear, "prefers_onednn", lambda: True)
    packs = count_memory(base, work, Manner(on_cpu=True)).total - before.total
    attention, feed_forward = (count_parameters(base)[part] for part in ("attention", "feed-forward"))
    assert packs == pytest.approx(2 * 4 * (attention + feed_forward), rel=0.002)  # biases are not packed
    unshared = replace(base, sharing="none")
    for manner in (Manner(on_cpu=False), Manner(on_cpu=True, precision="bf16")):
        assert pack_bytes(base, work, manner) == 0
    assert pack_bytes(unshared, work, Manner(on_cpu=True)) == 0
    assert pack_bytes(base, replace(work, num_layers=3), Manner(on_cpu=True)) == 0
