from dataclasses import asdict, replace

import pytest

from litebert.config import UserError, from_dict
from litebert.models.encoder import EncoderConfig
from litebert.presets import change_encoder
from litebert.pretraining.config import (
    PretrainConfig,
    agree_with,
    check_encoder,
    count_work,
    make_schedule,
    plan_stages,
    settle,
)
from litebert.recipes import find_recipe
from litebert.training.loop import LoopConfig

CONFIG = PretrainConfig(corpus="somewhere", num_sequences=256)


def test_what_is_not_given_follows_from_the_paper() -> None:
    schedule = make_schedule(CONFIG)
    assert (schedule.steps, schedule.learning_rate, schedule.warmup_steps) == (2_000_000, 0.00176 / 4, 3125)


def test_what_is_given_stays() -> None:
    schedule = make_schedule(replace(CONFIG, steps=100, learning_rate=0.5, warmup_steps=7))
    assert (schedule.steps, schedule.learning_rate, schedule.warmup_steps) == (100, 0.5, 7)


def test_a_settled_config_is_read_back_from_json_as_it_was() -> None:
    config = settle(replace(CONFIG, depths=("3", "12@0.5")), make_schedule(CONFIG))
    stored = asdict(config)
    stored["depths"] = list(stored["depths"])  # as JSON has it
    assert from_dict(PretrainConfig, stored) == config


def test_stages_keep_the_tokens_of_a_step_and_count_sequences_through() -> None:
    config = replace(CONFIG, depths=("3", "12@0.5"), lengths=("128", "512@0.25"))
    stages = plan_stages(config, 12, 1000)
    assert [(s.first_step, s.end_step, s.length, s.num_sequences, s.num_layers) for s in stages] == [
        (0, 250, 128, 1024, 3),
        (250, 500, 512, 256, 3),
        (500, 1000, 512, 256, 12),
    ]
    assert [stage.first_sequence for stage in stages] == [0, 256_000, 256_000 + 250 * 256]


def test_of_the_loop_only_what_it_calls_fixed_must_stay() -> None:
    changed = {"precision": "bf16", "guard_factor": 9.0, "micro_sequences": 4, "keep": 9, "log_every": 7}
    for name, value in changed.items():
        loop = LoopConfig(**{name: value})  # type: ignore[arg-type]
        assert (replace(CONFIG, loop=loop).fixed == CONFIG.fixed) == (name not in LoopConfig().fixed), name


@pytest.mark.parametrize("sharing", ["all", "0,0,0,0"])
def test_a_model_that_shares_all_weights_can_grow(sharing: str) -> None:
    check_encoder(replace(CONFIG, depths=("1", "4@0.5")), EncoderConfig(num_layers=4, sharing=sharing))


def test_a_cycle_can_grow_from_its_first_round() -> None:
    encoder = EncoderConfig(num_layers=4, sharing="cycle=2")
    check_encoder(replace(CONFIG, depths=("2", "4@0.5")), encoder)
    with pytest.raises(UserError, match="do not use all weights"):
        check_encoder(replace(CONFIG, depths=("1", "4@0.5")), encoder)


def test_work_grows_with_tokens_and_layers_and_adds_up_over_stages() -> None:
    config = replace(CONFIG, num_sequences=10, depths=("3", "11@0.5"), batches=("5", "10@0.8"))
    stages = plan_stages(config, 11, 1000)
    per_sequence = config.pairs.length
    halves = 500 * 5 * per_sequence * 4, 300 * 5 * per_sequence * 12, 200 * 10 * per_sequence * 12
    assert [count_work(stages, steps) for steps in (0, 500, 800, 1000)] == [
        0, halves[0], halves[0] + halves[1], sum(halves),
    ]  # fmt: skip
    assert count_work(stages, 650) == halves[0] + halves[1] / 2


def test_a_model_without_sharing_cannot_grow() -> None:
    with pytest.raises(UserError, match="sharing=none; only one whose layers share"):
        check_encoder(replace(CONFIG, depths=("3", "12@0.5")), EncoderConfig(sharing="none"))


def test_changes_to_a_preset_are_read_from_text() -> None:
    changed = change_encoder(EncoderConfig(), ["num_layers=6", "sharing=groups=2", "hidden_dropout=0.1"])
    assert (changed.num_layers, changed.sharing, changed.hidden_dropout) == (6, "groups=2", 0.1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("num_layers", "write it as num_layers=6"),
        ("num_layer=6", "an encoder has no 'num_layer' (did you mean 'num_layers'?)"),
        ("num_layers=six", "has a value that is no JSON, such as 6 or true"),
        ("num_layers=2.5", "num_layers is 2.5; it must be int"),
        ("sharing=most", "sharing is 'most'"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        change_encoder(EncoderConfig(), [change])
    assert said in str(error.value)


def test_a_run_goes_on_only_under_the_same_config() -> None:
    stored = settle(CONFIG, make_schedule(CONFIG))
    agree_with(CONFIG, stored, "run")
    agree_with(replace(CONFIG, loop=LoopConfig(log_every=7, keep=9)), stored, "run")
    with pytest.raises(
        UserError, match="run is a run with another config .now --seed 1 instead of --seed 0.; give the same"
    ):
        agree_with(replace(CONFIG, seed=1), stored, "run")
    with pytest.raises(UserError, match="--precision bf16 instead of --precision fp32"):
        agree_with(replace(CONFIG, loop=LoopConfig(precision="bf16")), stored, "run")
    with pytest.raises(UserError, match="--steps 10 instead of --steps 2000000"):
        agree_with(replace(CONFIG, steps=10), stored, "run")


def test_a_path_with_a_slash_behind_it_is_the_same_path() -> None:
    for given, completed in (
        ({"corpus": "a/b"}, {"corpus": "a/b/"}),
        ({"mix": ("a=1", "b=2")}, {"mix": ("a/=1", "b=2")}),
    ):
        assert PretrainConfig(**given).fixed == PretrainConfig(**completed).fixed  # type: ignore[arg-type]


def test_the_same_minutes_mean_the_steps_that_were_found_for_them() -> None:
    asked = replace(CONFIG, minutes=45.0)
    stored = settle(asked, make_schedule(replace(asked, steps=1234)))
    agree_with(asked, stored, "run")
    with pytest.raises(UserError, match="--minutes 50.0 instead of --minutes 45.0"):
        agree_with(replace(CONFIG, minutes=50.0), stored, "run")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_sequences": 0}, "num_sequences is 0"),
        ({"num_sequences": 1 << 40}, "num_sequences is .*; it must be at most 1,048,576"),
        ({"evaluation_sequences": 1 << 40}, "evaluation_sequences is .*; it must be from 0 to 1,048,576"),
        ({"minutes": -1.0}, "minutes is -1.0"),
        ({"steps": 0}, "steps is 0"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0; it must be positive"),
        ({"warmup_steps": -3}, "warmup_steps is -3; it must be at least 0"),
        ({"steps": 9, "warmup_steps": 10}, "warmup_steps is 10; it must be from 0 to the number of steps, 9"),
        ({"power": 0.0}, "power is 0.0; it must be positive"),
        ({"seed": -1}, "seed is -1"),
        ({"evaluation_sequences": -1}, "evaluation_sequences is -1"),
        ({"mix": ("a=1",)}, "give one of the two"),
    ],
)
def test_an_impossible_config_is_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        replace(CONFIG, **changes)


def test_every_preset_has_a_recipe_and_a_wrong_name_is_refused() -> None:
    assert find_recipe("albert-base").num_sequences == 4096
    assert find_recipe("bert-nano").optimizer.optimizer == "adamw"
    with pytest.raises(UserError, match="did you mean 'albert-nano'"):
        find_recipe("albert-nanno")
