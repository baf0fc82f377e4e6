"""The learning rates of a model's parts."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from litebert.batch import Batch
from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING, HeadConfig
from litebert.models.layers import Attention
from litebert.models.model import Model
from litebert.training.loop import LoopConfig
from litebert.training.losses import Pretraining, mean_loss
from litebert.training.optimizer import OptimizerConfig, group_parameters, make_optimizer, set_rate
from litebert.training.schedule import ScheduleConfig
from tests.training.made import CONFIG, make_batch, make_training, same_weights, watch_training, weights_of

TINY = EncoderConfig(
    vocab_size=31, embedding_size=8, hidden_size=16, num_layers=4, num_heads=2, feed_forward_size=32, num_positions=20
)
UNSHARED = replace(CONFIG, sharing="none")


def find_shares(model: Model, config: OptimizerConfig) -> dict[str, float]:
    """Each weight's share of the learning rate; every weight that is trained is in one group."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = group_parameters(model, config)
    shares = [(names[parameter], group["rate_scale"]) for group in groups for parameter in group["params"]]
    assert sorted(name for name, _ in shares) == sorted(
        name for name, parameter in model.named_parameters() if parameter.requires_grad
    )
    return dict(shares)


def watch_depths(model: Model) -> dict[str, int]:
    """For each weight of the encoder the number of the last layer that was seen to use it; 0 is before all."""
    seen: dict[str, int] = {}
    depth = 0

    def note(name: str, module: torch.nn.Module) -> None:
        nonlocal depth
        depth += isinstance(module, Attention)  # every layer begins with its own
        for leaf, _ in module.named_parameters(recurse=False):
            seen[f"encoder.{name}.{leaf}"] = depth

    for name, module in model.encoder.named_modules():
        module.register_forward_pre_hook(lambda module, _, name=name: note(name, module))
    model(Batch.pack([[2, 7, 8, 3]]))
    return seen


@pytest.mark.parametrize(
    "sharing", ["all", "none", "attention", "ffn", "sandwich", "groups=2", "cycle=2", "cycle=3", "1:0,0:1,0:0,1:0"]
)
def test_a_weight_has_the_rate_of_the_highest_layer_that_uses_it(sharing: str) -> None:
    model = Model(replace(TINY, sharing=sharing), [HeadConfig(kind="classes")])
    shares = find_shares(model, OptimizerConfig(layer_decay=0.5))
    depths = watch_depths(model)
    assert max(depths.values()) == 4
    expected = {name: 0.5 ** (5 - depth) for name, depth in depths.items()}
    above = {name: 1.0 for name in shares if name.startswith(("pooler.", "heads."))}
    assert above and shares == expected | above


def test_without_sharing_each_layer_has_half_the_rate_of_the_one_above_it() -> None:
    shares = find_shares(Model(replace(TINY, sharing="none"), PRETRAINING), OptimizerConfig(layer_decay=0.5))
    for layer, share in enumerate([0.0625, 0.125, 0.25, 0.5]):
        for part in ("attentions", "feed_forwards", "norms"):
            assert {value for name, value in shares.items() if name.startswith(f"encoder.{part}.{layer}.")} == {share}
    assert {value for name, value in shares.items() if name.startswith("encoder.embedding.")} == {0.03125}
    assert {value for name, value in shares.items() if not name.startswith("encoder.")} == {1.0}


def test_a_decay_of_one_leaves_all_rates_alike() -> None:
    model = Model(replace(TINY, sharing="none"), PRETRAINING)
    assert set(find_shares(model, OptimizerConfig()).values()) == {1.0}
    assert {group["rate_scale"] for group in group_parameters(model, OptimizerConfig())} == {1.0}


def test_the_pooler_and_a_pair_head_have_a_rate_of_their_own() -> None:
    model = Model(TINY, [*PRETRAINING, HeadConfig(kind="classes")])
    shares = find_shares(model, OptimizerConfig(pooler_rate=0.1, layer_decay=0.5))
    assert {name for name, share in shares.items() if share == 0.1} == {
        "pooler.weight",
        "pooler.bias",
        "heads.pair.output.weight",
        "heads.pair.output.bias",
    }
    assert {share for name, share in shares.items() if name.startswith(("heads.masked", "heads.classes"))} == {1.0}


@pytest.mark.parametrize("rule", ["lamb", "adamw"])
def test_a_loop_of_ones_own_sets_the_rate_or_lets_torch_schedule_it(rule: str) -> None:
    model = Model(TINY, PRETRAINING)
    config = OptimizerConfig(optimizer=rule, pooler_rate=0.1)  # type: ignore[arg-type]
    optimizer = make_optimizer(model, config, learning_rate=1e-2)
    halved = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    assert {round(group["lr"], 9) for group in optimizer.param_groups} == {5e-3, 5e-4}
    assert halved.base_lrs == [group["lr"] * 2 for group in optimizer.param_groups]
    set_rate(optimizer, 1.0)
    assert {group["lr"] for group in optimizer.param_groups} == {1.0, 0.1}


def test_what_is_not_trained_is_in_no_group() -> None:
    model = Model(TINY, PRETRAINING)
    model.encoder.requires_grad_(False)
    assert all(name.startswith(("pooler.", "heads.")) for name in find_shares(model, OptimizerConfig(layer_decay=0.5)))


def share_by_hand(name: str) -> float:
    """Of three layers without sharing, at a layer decay of 0.5 and a pooler rate of 0.1."""
    if name.startswith("encoder.embedding."):
        return 0.0625
    if name.startswith("encoder."):
        return {"0": 0.125, "1": 0.25, "2": 0.5}[name.split(".")[2]]
    return 0.1 if name.startswith(("pooler.", "heads.pair.")) else 1.0


def plain_groups(model: Model) -> Iterator[dict]:
    for name, parameter in model.named_parameters():
        decay = 0.0 if "bias" in name or "norm" in name else 0.01
        yield {"params": [parameter], "weight_decay": decay, "share": share_by_hand(name)}


def test_steps_of_a_run_equal_torchs_adamw_with_a_rate_for_each_weight() -> None:
    torch.manual_seed(0)
    training = make_training(
        model=Model(UNSHARED, PRETRAINING),
        # The keys' bias has no gradient but rounding errors; this epsilon keeps it where it is.
        optimizer=OptimizerConfig(optimizer="adamw", epsilon=1e-4, layer_decay=0.5, pooler_rate=0.1),
        schedule=ScheduleConfig(steps=3, learning_rate=0.01, warmup_steps=1),
    )
    plain, start = copy.deepcopy(training.model), weights_of(training)
    watch_training(training)
    optimizer = torch.optim.AdamW(plain_groups(plain), betas=(0.9, 0.999), eps=1e-4)
    for step, rate in enumerate([0.01, 0.01, 0.005]):
        optimizer.zero_grad()
        mean_loss(Pretraining(), plain, make_batch(step)).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["share"]
        optimizer.step()
    for name, tensor in training.model.state_dict().items():
        torch.testing.assert_close(tensor, plain.state_dict()[name], rtol=1e-5, atol=1e-6)
        assert not torch.equal(tensor, start[name]), f"{name} was not moved"


@pytest.mark.parametrize("optimizer", ["lamb", "adamw"])
def test_a_first_step_is_as_long_as_the_shares_say(optimizer: str) -> None:
    def move(**rates: float) -> dict[str, torch.Tensor]:
        training = make_training(
            model=Model(UNSHARED, PRETRAINING),
            optimizer=OptimizerConfig(optimizer=optimizer, **rates),
            schedule=ScheduleConfig(steps=1, learning_rate=0.1, warmup_steps=0),
        )
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in training.model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.1)
        start = weights_of(training)
        watch_training(training)
        return {name: tensor - start[name] for name, tensor in weights_of(training).items()}

    full, shared = move(), move(layer_decay=0.5, pooler_rate=0.1)
    for name, moved in shared.items():
        torch.testing.assert_close(moved, full[name] * share_by_hand(name), rtol=1e-5, atol=1e-6)
        assert moved.abs().max() > 1e-4


def test_a_run_with_many_rates_that_was_cut_off_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings = {
        "optimizer": OptimizerConfig(optimizer="adamw", layer_decay=0.5, pooler_rate=0.1),
        "loop": LoopConfig(log_every=1, save_every=2),
        "steps": 5,
    }
    straight = make_training(**settings)
    watch_training(straight)

    def fall_over(model: Model, step: int) -> None:
        if step == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        watch_training(make_training(begin_step=fall_over, **settings), tmp_path)
    resumed = make_training(**settings)
    watch_training(resumed, tmp_path)
    assert same_weights(weights_of(resumed), weights_of(straight))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layer_decay": 0.0}, "layer_decay is 0.0; it must be above 0 and at most 1"),
        ({"layer_decay": 1.5}, "layer_decay is 1.5"),
        ({"pooler_rate": 0.0}, "pooler_rate is 0.0; it must be positive"),
        ({"epsilon": float("inf")}, "epsilon is inf; it must be positive and finite"),
        ({"weight_decay": float("inf")}, "weight_decay is inf; it must be at least 0 and finite"),
    ],
)
def test_impossible_numbers_are_refused(changes: dict[str, float], said: str) -> None:
    with pytest.raises(UserError, match=said):
        OptimizerConfig(**changes)
