"""What a run will cost, without running it: memory, time, money, and what devices send each other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

from litebert.config import require
from litebert.corpus.loader import open_mixture
from litebert.corpus.shards import Corpus
from litebert.models.encoder import EncoderConfig
from litebert.presets import bert_large
from litebert.pretraining.config import Stage, check_stages, count_sequences, make_schedule, plan_stages
from litebert.pretraining.places import Place, Request, find_manner, find_places
from litebert.pretraining.preparation import find_encoder
from litebert.pretraining.sources import SAMPLE, CorpusSource, RandomSource, Source, count_operations
from litebert.training.costs import FULL, Memory, count_exchanged, count_memory, count_parameters
from litebert.training.schedule import MOST_STEPS


class PlannedStage(NamedTuple):
    """A stage of a run, what its sequences are like, and where it takes place."""

    stage: Stage
    source: Source
    place: Place


def make_plan(request: Request) -> dict[str, Any]:
    """Everything that is to be said of a run."""
    require(request.devices > 0, f"devices is {request.devices}; it must be at least 1")
    require(0 <= (request.price or 0) < math.inf, f"price is {request.price}; it must be a number of at least 0")
    config = request.config
    corpora, weights = open_mixture(config.corpora) if config.corpus or config.mix else ([], [])
    encoder = find_encoder(config, corpora[0] if corpora else None)
    parameters = count_parameters(encoder, config.pairs.num_pair_classes)
    exchanged = count_exchanged(sum(parameters.values()), request.devices)
    parts = plan_parts(request, encoder, corpora, weights, exchanged)
    plan = {
        "model": config.init or config.preset,
        "encoder": asdict(encoder),
        "parameters": {**parameters, "all": sum(parameters.values())},
        "memory": plan_memory(request, encoder, parts),
        "exchange": describe_exchange(parameters, request.devices, exchanged),
    }
    return plan | plan_time(request, encoder, parts, exchanged)


def plan_parts(
    request: Request, encoder: EncoderConfig, corpora: list[Corpus], weights: list[float], exchanged: float
) -> list[PlannedStage]:
    """The stages of the run. Of one that is given by its minutes, steps of every stage are timed before it is known how
    many fit; where they are few, some of the stages have none."""
    config = request.config
    by_minutes = config.steps is None and config.minutes is not None
    stages = plan_stages(config, encoder.num_layers, MOST_STEPS if by_minutes else make_schedule(config).steps)
    check_stages(stages, config.pairs, request.devices)
    sources: list[Source] = [
        CorpusSource(config, stage.length, corpora, weights)
        if corpora
        else RandomSource(config, stage.length, encoder.vocab_size)
        for stage in stages
    ]
    parts = list(map(PlannedStage, stages, sources, find_places(request, encoder, stages, sources)))
    if not by_minutes:
        return parts
    stages = plan_stages(config, encoder.num_layers, fit_minutes(request, encoder, parts, exchanged))
    timed = {part.stage.shape: part for part in parts}
    return [timed[stage.shape]._replace(stage=stage) for stage in stages]


def fit_minutes(request: Request, encoder: EncoderConfig, parts: Sequence[PlannedStage], exchanged: float) -> int:
    """How many steps fit the minutes of a run."""
    minutes = request.config.minutes
    assert minutes is not None
    seconds = average_rows([plan_step(request, encoder, part, exchanged) for part in parts], "seconds")
    return max(1, int(60 * minutes / seconds))


def plan_memory(request: Request, encoder: EncoderConfig, parts: Sequence[PlannedStage]) -> dict[str, Any]:
    """Bytes on each device, for each way of checkpointing, at the stage that needs the most."""
    config, place = request.config, parts[-1].place
    most_at_once = max(part.stage.num_sequences // request.devices for part in parts)
    micro = min(config.loop.micro_sequences or most_at_once, most_at_once)

    count = partial(count_most, request, encoder, parts)
    return {
        "device_bytes": int(place.memory),
        "micro_sequences": micro,
        "checkpointing": config.checkpointing,
        "by_checkpointing": {
            name: describe_memory(partial(count, checkpointing=name), micro, place, config.num_sequences)
            for name in ("nothing", "activations", "layers")
        },
        "fsdp_saves": count(micro, parallel="ddp").total - count(micro, parallel="fsdp").total
        if request.devices > 1
        else 0,
    }


def count_most(
    request: Request, encoder: EncoderConfig, parts: Sequence[PlannedStage], number: int, **changes: Any
) -> Memory:
    """What the stage takes that takes the most, with at most so many sequences at once; changes are to the manner."""
    manner = find_manner(request.config, request.devices, on_cpu=request.kind == "this")
    counted = []
    for stage, source, _ in parts:
        work = source.sequences.work(min(number, stage.num_sequences // request.devices), stage.num_layers)
        classes = request.config.pairs.num_pair_classes
        counted.append(count_memory(encoder, work, replace(manner, **changes), classes))
    return max(counted, key=sum)


def describe_memory(count: Callable[[int], Memory], micro: int, place: Place, highest: int) -> dict[str, Any]:
    """What so many sequences take at once, and whether they fit the memory; where they do not, how many would."""

    def fits(number: int) -> bool:
        return place.program + count(number).total <= place.memory

    memory = count(micro)
    return {
        **memory._asdict(),
        "program": int(place.program),
        "total": int(memory.total + place.program),
        "fits": fits(micro),
        "largest_micro_sequences": None if fits(micro) else find_largest(fits, highest),
    }


def find_largest(fits: Callable[[int], bool], highest: int) -> int:
    """The most sequences at once that fit the memory; 0 where not even one does."""
    fitting, too_many = 0, highest + 1
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(middle):
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
    request: Request, encoder: EncoderConfig, parts: Sequence[PlannedStage], exchanged: float
) -> dict[str, Any]:
    """Operations, seconds and money of a step and of the run."""
    rows = [plan_step(request, encoder, part, exchanged) for part in parts]
    means = {key: average_rows(rows, key) for key in ("flops", "seconds", "tokens")}
    last, stages = parts[-1], [part.stage for part in parts]
    steps, sequences, epoch = last.stage.end_step, count_sequences(stages), last.source.epoch_size
    hours, price = steps * means["seconds"] / 3600, last.place.price
    return {
        "kind": last.place.name,
        "devices": request.devices,
        "stages": [{"share": row["num_steps"] / steps} | row for row in rows],
        "step": {**means, "flops": int(means["flops"]), "tokens": int(means["tokens"])},
        "run": {
            "steps": steps,
            "sequences": sequences,
            "epochs": sequences / epoch if epoch else None,
            "flops": int(means["flops"] * steps),
            "hours": hours,
            "price_per_device_hour": price,
            "dollars": None if price is None else hours * price * request.devices,
        },
    }


def average_rows(rows: Sequence[dict[str, Any]], key: str) -> float:
    """The mean over all steps."""
    return sum(row[key] * row["num_steps"] for row in rows) / sum(row["num_steps"] for row in rows)


def plan_step(request: Request, encoder: EncoderConfig, part: PlannedStage, exchanged: float) -> dict[str, Any]:
    """A step of one stage."""
    stage, source, place = part
    useful, done = count_operations(encoder, source.sequences.work(SAMPLE, stage.num_layers), request.config)
    useful, done = (work * stage.num_sequences // SAMPLE for work in (useful, done))
    # What is measured here already takes the time of what checkpointing repeats.
    compute = (useful if request.kind == "this" else done) / request.devices / place.speed
    return {
        **stage._asdict(),
        "num_steps": stage.num_steps,
        "tokens": sum(source.sequences.lengths) * stage.num_sequences // SAMPLE,
        "flops": useful,
        "compute_seconds": compute,
        "exchange_seconds": exchanged / place.bandwidth,
        "seconds": compute + exchanged / place.bandwidth,
        "speed": place.origin,
    }
