"""What a run will cost, without running it: memory, time, money, and what devices send each other."""

import itertools
import math
import sys
from dataclasses import asdict, replace
from typing import Any

from litebert.config import require
from litebert.corpus.loader import open_mixture
from litebert.models.encoder import EncoderConfig
from litebert.presets import bert_large
from litebert.pretraining.config import check_stages, make_schedule, plan_stages
from litebert.pretraining.places import Place, Request, find_manner, find_places
from litebert.pretraining.preparation import find_encoder
from litebert.pretraining.sources import SAMPLE, Source, count_operations
from litebert.training.costs import FULL, Memory, count_exchanged, count_memory, count_parameters


def make_plan(request: Request) -> dict[str, Any]:
    """Everything that is to be said of a run."""
    require(request.devices > 0, f"devices is {request.devices}; it must be at least 1")
    require(0 <= (request.price or 0) < math.inf, f"price is {request.price}; it must be a number of at least 0")
    config = request.config
    corpora, weights = open_mixture(config.corpora) if config.corpus or config.mix else ([], [])
    encoder = find_encoder(config, corpora[0] if corpora else None)
    stages = plan_stages(config, encoder.num_layers, make_schedule(config).steps)
    check_stages(stages, config.pairs, request.devices)
    sources = [Source(config, stage, corpora, weights) for stage in stages]
    parts = count_parameters(encoder, config.pairs.num_pair_classes)
    places = find_places(request, encoder, sources)
    exchanged = count_exchanged(sum(parts.values()), request.devices)
    plan = {
        "model": config.init or config.preset,
        "encoder": asdict(encoder),
        "parameters": {**parts, "all": sum(parts.values())},
        "memory": plan_memory(request, encoder, sources, places[-1]),
        "exchange": describe_exchange(parts, request.devices, exchanged),
    }
    return plan | plan_time(request, encoder, sources, places, exchanged)


def plan_memory(request: Request, encoder: EncoderConfig, sources: list[Source], place: Place) -> dict[str, Any]:
    """Bytes on each device, for each way of checkpointing, at the stage that needs the most."""
    config = request.config
    manner = find_manner(config, request.devices, on_cpu=request.kind == "this")
    classes = config.pairs.num_pair_classes

    def most(number: int | None, **changes: Any) -> Memory:
        """With at most so many sequences at once."""
        pieces = [min(number or sys.maxsize, s.stage.num_sequences // request.devices) for s in sources]
        works = [source.work(piece) for source, piece in zip(sources, pieces, strict=True)]
        return max((count_memory(encoder, work, replace(manner, **changes), classes) for work in works), key=sum)

    micro = config.loop.micro_sequences
    rows = {}
    for name in ("nothing", "activations", "layers"):
        memory = most(micro, checkpointing=name)
        fits = place.program + memory.total <= place.memory
        rows[name] = {
            **memory._asdict(),
            "program": int(place.program),
            "total": int(memory.total + place.program),
            "fits": fits,
            "largest_micro_sequences": None if fits else find_largest(most, name, place, config.num_sequences),
        }
    whole = most(micro, parallel="ddp")
    return {
        "device_bytes": int(place.memory),
        "micro_sequences": max(
            min(micro or sys.maxsize, source.stage.num_sequences // request.devices) for source in sources
        ),
        "checkpointing": config.checkpointing,
        "by_checkpointing": rows,
        "fsdp_saves": whole.total - most(micro, parallel="fsdp").total if request.devices > 1 else 0,
    }


def find_largest(most: Any, checkpointing: str, place: Place, highest: int) -> int:
    """The most sequences at once that fit the memory; 0 where not even one does."""
    fitting, too_many = 0, highest + 1
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if place.program + most(middle, checkpointing=checkpointing).total <= place.memory:
            fitting = middle
        else:
            too_many = middle
    return fitting


def describe_exchange(parts: dict[str, int], num_devices: int, exchanged: float) -> dict[str, Any]:
    """What devices send each other, beside what BERT-large's would; models are compared as the paper counts them."""

    def paper_count(parts: dict[str, int]) -> int:
        return sum(number for part, number in parts.items() if not part.endswith("head"))

    return {
        "gradient_bytes": FULL * sum(parts.values()),
        "bytes_per_device_and_step": exchanged,
        "bytes_per_step": exchanged * num_devices,
        "fewer_than_bert_large": paper_count(count_parameters(bert_large())) / paper_count(parts),
    }


def plan_time(
    request: Request, encoder: EncoderConfig, sources: list[Source], places: list[Place], exchanged: float
) -> dict[str, Any]:
    """Operations, seconds and money of a step and of the run."""
    config = request.config
    steps = make_schedule(config).steps
    starts = [*(source.stage.first_step for source in sources), steps]
    rows = [
        {"share": (end - start) / steps} | plan_step(request, encoder, source, place, exchanged)
        for source, place, (start, end) in zip(sources, places, itertools.pairwise(starts), strict=True)
    ]
    means = {key: sum(row[key] * row["share"] for row in rows) for key in ("flops", "seconds", "tokens")}
    if config.steps is None and config.minutes is not None:
        steps = max(1, int(60 * config.minutes / means["seconds"]))
        for row, stage in zip(rows, plan_stages(config, encoder.num_layers, steps), strict=False):
            row |= {"first_step": stage.first_step, "first_sequence": stage.first_sequence}
    hours, price = steps * means["seconds"] / 3600, places[0].price
    sequences = sum(row["share"] * row["num_sequences"] for row in rows) * steps
    epoch = sources[-1].open(1).epoch_size if sources[-1].corpora else None
    return {
        "kind": places[0].name,
        "devices": request.devices,
        "stages": rows,
        "step": {**means, "flops": int(means["flops"]), "tokens": int(means["tokens"])},
        "run": {
            "steps": steps,
            "sequences": int(sequences),
            "epochs": sequences / epoch if epoch else None,
            "flops": int(means["flops"] * steps),
            "hours": hours,
            "price_per_device_hour": price,
            "dollars": None if price is None else hours * price * request.devices,
        },
    }


def plan_step(
    request: Request, encoder: EncoderConfig, source: Source, place: Place, exchanged: float
) -> dict[str, Any]:
    """A step of one stage."""
    stage = source.stage
    useful, done = count_operations(encoder, source.work(SAMPLE), request.config)
    useful, done = (work * stage.num_sequences // SAMPLE for work in (useful, done))
    # What is measured here already takes the time of what checkpointing repeats.
    compute = (useful if request.kind == "this" else done) / request.devices / place.speed
    return {
        **stage._asdict(),
        "tokens": sum(source.lengths) * stage.num_sequences // SAMPLE,
        "flops": useful,
        "compute_seconds": compute,
        "exchange_seconds": exchanged / place.bandwidth,
        "seconds": compute + exchanged / place.bandwidth,
        "speed": place.origin,
    }
