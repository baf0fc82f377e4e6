"""Estimate what a pre-training run will cost in memory, time and money, without running it.

Takes the options of litebert pretrain. Memory follows from what the code keeps; time from a few seconds of steps on
this machine, or, for a kind of device that is named, from its data sheet and an assumed share of its peak. Evaluations
and checkpoints are not included, so a run with --minutes takes somewhat fewer steps. With a corpus, its vocabulary
and its sequences are used; nothing is written.

Example:
    litebert plan --preset albert-micro --corpus my-corpus
    litebert plan --preset albert-base --num-sequences 4096 --length 512 --devices 64 --kind a100-40 --precision bf16
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from litebert.pretraining.config import PretrainConfig


@dataclass(frozen=True, kw_only=True)
class Options:
    config: Path | None = None
    """Start from the settings of a run, its config.json; other options override them."""
    settings: PretrainConfig = field(default_factory=PretrainConfig)
    devices: int = 1
    """How many devices share the work."""
    kind: str = "this"
    """The kind of device: this machine, which is measured, or a100-40, a100-80, h100, v100, t4, l4, rtx-4090 or tpu-v3,
    by data sheet."""
    price: float | None = None
    """US dollars per device and hour; by default an assumed price for named kinds."""
    json: bool = False
    """Print JSON instead of tables."""


def find_default(arguments: list[str]) -> Options:
    from litebert.beginnings import begin_pretraining

    return Options(settings=begin_pretraining(arguments))


def run(options: Options) -> None:
    from litebert.display import print_json
    from litebert.pretraining.places import Request
    from litebert.pretraining.plan import make_plan

    plan = make_plan(Request(options.settings, options.devices, options.kind, options.price))
    print_json(plan) if options.json else print_plan(plan)


def print_plan(plan: dict[str, Any]) -> None:
    from litebert.display import print_fields, print_table

    parts, memory = plan["parameters"], plan["memory"]
    print_fields(describe_run(plan))
    print()
    columns = ("weights", "gradients", "moments", "activations", "temporary", "program", "total")
    print_table(
        [
            {
                "checkpointing": name,
                **{column: show_bytes(row[column]) for column in columns},
                "fits": describe_fit(row),
            }
            for name, row in memory["by_checkpointing"].items()
        ],
        title=f"bytes on a device of {show_bytes(memory['device_bytes'])}, "
        f"with {memory['micro_sequences']:,} sequences at once",
    )
    print_table([{"part": part, "parameters": number} for part, number in parts.items()])


def describe_fit(row: dict[str, Any]) -> str:
    if row["fits"]:
        return "yes"
    largest = row["largest_micro_sequences"]
    return f"no: --micro-sequences {largest}" if largest else "no, not even one sequence"


def describe_run(plan: dict[str, Any]) -> dict[str, str]:
    from litebert.pretraining.config import describe_stages

    step, whole, exchange = plan["step"], plan["run"], plan["exchange"]
    epochs = "" if whole["epochs"] is None else f", {whole['epochs']:.2f} epochs"
    compute, sending = (
        sum(row["share"] * row[name] for row in plan["stages"]) for name in ("compute_seconds", "exchange_seconds")
    )
    keys = ("first_step", "length", "num_sequences", "num_layers")
    stages = describe_stages(tuple(row[key] for key in keys) for row in plan["stages"])
    fields = {
        "model": f"{plan['model']}: {plan['parameters']['all']:,} parameters with the heads, "
        f"{plan['encoder']['vocab_size']:,} pieces",
        "devices": f"{plan['devices']} x {plan['kind']}",
        "speed": "; ".join(dict.fromkeys(row["speed"] for row in plan["stages"])),
        "step": f"{step['tokens']:,} tokens, {step['flops'] / 1e12:,.3g} TFLOP, {step['seconds']:.3g} s",
        "exchange": f"none; between several devices, {exchange['fewer_than_bert_large']:.1f}x fewer bytes than "
        "BERT-large",
        "run": f"{whole['steps']:,} steps, {whole['sequences']:,} sequences{epochs}, {whole['flops']:.3g} FLOP: "
        f"{show_hours(whole['hours'])}",
        "cost": "unknown; give --price"
        if whole["dollars"] is None
        else f"{whole['dollars']:,.2f} dollars at {whole['price_per_device_hour']:g} an hour and device",
        "without": "evaluations and checkpoints, which take time and memory of their own",
    }
    if plan["devices"] > 1:
        fields["step"] += (
            f": {compute:.3g} computing and {sending:.3g} exchanging, one after the other (what overlaps is gained)"
        )
        fields["exchange"] = (
            f"{show_bytes(exchange['bytes_per_device_and_step'])} sent by each device in a step, "
            f"{show_bytes(exchange['bytes_per_step'])} by all; {exchange['fewer_than_bert_large']:.1f}x fewer than "
            "BERT-large"
        )
        saved = plan["memory"]["fsdp_saves"]
        words = "saves" if saved >= 0 else "costs"
        fields["fsdp"] = f"--parallel fsdp {words} {show_bytes(abs(saved))} on each device against ddp"
    return fields | ({"stages": stages} if len(plan["stages"]) > 1 else {})


def show_bytes(number: float) -> str:
    return f"{number / 1e9:,.3g} GB" if number >= 1e9 else f"{number / 1e6:,.3g} MB"


def show_hours(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:,.1f} days"
    return f"{hours:.1f} hours" if hours >= 2 else f"{60 * hours:.1f} minutes"
