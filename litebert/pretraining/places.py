"""Where a run is to take place: this machine, measured, or a device by its data sheet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from litebert.models.encoder import EncoderConfig
from litebert.models.model import Model
from litebert.pretraining.config import PretrainConfig, Stage, list_heads, make_schedule
from litebert.pretraining.sources import SAMPLE, Source, count_operations
from litebert.training.costs import PROGRAM_BYTES, Manner, count_memory
from litebert.training.devices import look_up_device
from litebert.training.environment import machine_memory, read_peak
from litebert.training.loop import Training
from litebert.training.losses import Pretraining
from litebert.training.parallel import Ranks
from litebert.training.process import prepare_process
from litebert.training.timing import measure_peak, time_step

TIMED_SECONDS = 4.0
"""About the longest step that is timed; of longer ones, a part is."""
USUAL_SHARE = 0.5
"""Of this machine's peak, to guess how much work makes a step that long."""
OWN_NETWORK = 1.25e9
"""Bytes a second between machines like this one, if there are several: 10 Gbit/s."""


class Request(NamedTuple):
    """A run, and where it is to take place."""

    config: PretrainConfig
    devices: int = 1
    kind: str = "this"
    """This machine, which is measured, or the name of a device."""
    price: float | None = None
    """US dollars for an hour of one device."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run is to take place."""

    name: str
    memory: float
    """Of a device, in bytes."""
    program: float
    """What a process needs beside its model."""
    speed: float
    """What is reached, in FLOP/s."""
    bandwidth: float
    price: float | None
    origin: str
    """How the speed is known."""


class Timing(NamedTuple):
    """How fast steps of a stage were here."""

    speed: float
    origin: str
    counted: float
    """Bytes that it took, as far as they can be counted; 0 where nothing was timed."""


def find_places(
    request: Request, encoder: EncoderConfig, stages: Sequence[Stage], sources: Sequence[Source]
) -> list[Place]:
    """The place of the run as it serves each stage."""
    if request.kind == "this":
        return measure_this(request, encoder, stages, sources)
    precision = request.config.loop.precision
    name, device = look_up_device(request.kind, precision)
    peak = device.speed(precision)
    assert peak is not None
    place = Place(
        name=name,
        memory=device.memory,
        program=0,
        speed=device.share * peak,
        bandwidth=device.bandwidth(request.devices),
        price=device.price if request.price is None else request.price,
        origin=f"an ASSUMED share of {device.share:.0%} of the data sheet's peak, {peak / 1e12:.3g} TFLOP/s "
        f"in {precision}",
    )
    return [place] * len(stages)


def measure_this(
    request: Request, encoder: EncoderConfig, stages: Sequence[Stage], sources: Sequence[Source]
) -> list[Place]:
    """This machine, by timing steps of every stage; where none fits its memory, by its peak."""
    prepare_process()
    peak = measure_peak()
    timings = [time_stage(request, encoder, stage, source, peak) for stage, source in zip(stages, sources, strict=True)]
    counted = max(timing.counted for timing in timings)
    # What the process really took for it, heap and all, tells what a run will take beside what can be counted.
    program = max(0, read_peak() - counted) if counted else PROGRAM_BYTES
    return [
        Place(
            name="this machine",
            memory=machine_memory(),
            program=program,
            speed=timing.speed,
            bandwidth=OWN_NETWORK,
            price=request.price,
            origin=timing.origin,
        )
        for timing in timings
    ]


def time_stage(request: Request, encoder: EncoderConfig, stage: Stage, source: Source, peak: float) -> Timing:
    config = request.config
    number, layers = choose_timed(request, encoder, stage, source, peak)
    needed = count_memory(encoder, source.sequences.work(number, layers), find_manner(config, 1, on_cpu=True))
    if needed.total + PROGRAM_BYTES >= 0.8 * machine_memory():
        origin = f"an ASSUMED {USUAL_SHARE:.0%} of its measured {peak / 1e9:,.0f} GFLOP/s, as no step fits it"
        return Timing(USUAL_SHARE * peak, origin, 0)
    seconds = time_work(config, encoder, source, number, layers)
    peak = max(peak, measure_peak())  # other work may have been in the way before
    # The batches that are timed are like the sample as a whole, and not like its first sequences.
    operations, _ = count_operations(encoder, source.sequences.work(SAMPLE, layers), config)
    speed = operations * number / SAMPLE / seconds
    origin = f"{speed / peak:.0%} of its {peak / 1e9:,.0f} GFLOP/s, measured on steps of {number} sequences"
    origin += f" and {layers} layers" if layers < stage.num_layers else ""
    return Timing(speed, origin, needed.total + needed.weights)  # timing takes a copy of the model


def choose_timed(
    request: Request, encoder: EncoderConfig, stage: Stage, source: Source, peak: float
) -> tuple[int, int]:
    """How many sequences and layers make a step that is short enough to be timed."""
    config, whole, layers = request.config, stage.num_sequences // request.devices, stage.num_layers
    limit = TIMED_SECONDS * USUAL_SHARE * peak
    each = count_operations(encoder, source.sequences.work(SAMPLE, layers), config)[0] / SAMPLE
    number = max(1, min(whole, config.loop.micro_sequences or whole, int(limit / each)))
    if number == 1 and each > 2 * limit:
        layers = max(1, int(layers * 2 * limit / each))
    return number, layers


def time_work(config: PretrainConfig, encoder: EncoderConfig, source: Source, number: int, layers: int) -> float:
    """Seconds that so many sequences take, as in a run: where it takes a batch in pieces, as one of two."""
    pieces = 2 if config.loop.micro_sequences else 1
    torch.manual_seed(config.seed)
    model = Model(encoder, list_heads(config.pairs))
    model.encoder.checkpointing, model.encoder.num_layers = config.checkpointing, layers
    training = Training(
        model=model,
        objective=Pretraining(),
        optimizer=config.optimizer,
        schedule=make_schedule(config),
        loop=replace(config.loop, micro_sequences=number, parallel="ddp"),
        batches=lambda step: source.batches(pieces * number),
        seed=config.seed,
    )
    return time_step(training, Ranks()) / pieces


def find_manner(config: PretrainConfig, num_devices: int, *, on_cpu: bool) -> Manner:
    return Manner(
        checkpointing=config.checkpointing,
        precision=config.loop.precision,
        optimizer=config.optimizer.optimizer,
        parallel=config.loop.parallel,
        num_devices=num_devices,
        on_cpu=on_cpu,
    )
