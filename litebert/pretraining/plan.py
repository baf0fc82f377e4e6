"""What a run will cost, without running it: memory, time, money, and what devices send each other."""

import itertools
import resource
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from litebert.batch import Batch
from litebert.config import require
from litebert.corpus.draws import make_keys
from litebert.corpus.loader import Loader, State, open_mixture
from litebert.corpus.pairs import NUM_MARKS, draw_lengths
from litebert.corpus.shards import Corpus
from litebert.models.encoder import EncoderConfig
from litebert.models.folder import read_model
from litebert.models.heads import Model
from litebert.presets import bert_large, change_encoder, find_preset, read_changes
from litebert.pretraining.config import (
    PretrainConfig,
    Stage,
    check_encoder,
    check_stages,
    list_heads,
    make_schedule,
    plan_stages,
)
from litebert.training.allocator import keep_freed_memory
from litebert.training.costs import (
    FULL,
    PROGRAM_BYTES,
    Manner,
    Memory,
    Work,
    count_exchanged,
    count_flops,
    count_memory,
    count_parameters,
    count_recomputed,
)
from litebert.training.devices import look_up_device
from litebert.training.environment import machine_memory
from litebert.training.loop import Training
from litebert.training.losses import Pretraining
from litebert.training.parallel import Ranks
from litebert.training.timing import measure_peak, time_step

SAMPLE = 2048
"""How many sequences tell the lengths of all."""
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


def make_plan(request: Request) -> dict[str, Any]:
    """Everything that is to be said of a run."""
    require(request.devices > 0, f"devices is {request.devices}; it must be at least 1")
    require((request.price or 0) >= 0, f"price is {request.price}; it must be at least 0")
    config = request.config
    corpora, weights = open_mixture(config.corpora) if config.corpus or config.mix else ([], [])
    encoder = find_encoder(config, corpora)
    stages = plan_stages(config, encoder.num_layers, make_schedule(config, config.steps).steps)
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


def find_encoder(config: PretrainConfig, corpora: list[Corpus]) -> EncoderConfig:
    """The encoder that the run would train."""
    if config.init is not None:
        encoder = read_model(config.init, **read_changes(config.encoder)).config
    else:
        preset = find_preset(config.preset)
        size = corpora[0].vocabulary.size if corpora else preset.vocab_size
        encoder = change_encoder(replace(preset, vocab_size=size), config.encoder)
    check_encoder(config, encoder)
    return encoder


class Source:
    """What the sequences of a stage are like: the corpus's own, or without one such as PairConfig draws them."""

    def __init__(
        self, config: PretrainConfig, stage: Stage, corpora: list[Corpus], weights: list[float], size: int = SAMPLE
    ) -> None:
        self.config, self.stage, self.corpora, self.weights = config, stage, corpora, weights
        self.pairs = replace(config.pairs, length=stage.length)
        masking = config.masking
        rate = (masking.rate + (masking.rate if masking.final_rate is None else masking.final_rate)) / 2
        # The schedule of the rate is a straight line: its mean costs the same.
        self.masking = replace(masking, rate=rate, final_rate=None, rate_sequences=0, hardness=0.0)
        if corpora:
            batch = self.open(size, num_threads=0).make_sequences(np.arange(size))
            assert batch.predicted_ids_P is not None
            self.lengths, self.predicted = batch.lengths, len(batch.predicted_ids_P) / size
            return
        marks = NUM_MARKS if self.pairs.has_pairs else NUM_MARKS - 1
        drawn = draw_lengths(self.pairs, make_keys(config.seed, np.arange(size))) + marks
        self.lengths = tuple(int(length) for length in drawn)
        most = masking.max_predictions or self.pairs.length
        self.predicted = sum(min(most, rate * length) for length in self.lengths) / size

    def open(self, num_sequences: int, num_threads: int = 1) -> Any:

        return Loader(
            self.corpora,
            self.pairs,
            self.masking,
            num_sequences=num_sequences,
            weights=self.weights,
            state=State(seed=self.config.seed),
            num_threads=num_threads,
        )

    def work(self, num_sequences: int, num_layers: int | None = None) -> Work:
        """So many sequences, with the lengths of the sample."""

        lengths = tuple(itertools.islice(itertools.cycle(self.lengths), num_sequences))
        predicted = round(self.predicted * num_sequences)
        return Work(lengths=lengths, num_predicted=predicted, num_layers=num_layers or self.stage.num_layers)

    def batches(self, vocab_size: int, num_sequences: int) -> Iterator[Batch]:
        """Batches to be timed: the corpus's, made as for a run, or random tokens."""

        if self.corpora:
            yield from self.open(num_sequences)
        order = itertools.cycle(self.lengths)
        while True:
            lengths = tuple(itertools.islice(order, num_sequences))
            size = sum(lengths)
            token_ids_T = torch.randint(vocab_size, (size,))
            predicted_P = torch.randperm(size)[: max(1, round(self.predicted * num_sequences))].sort().values
            yield Batch(
                lengths=lengths,
                token_ids_T=token_ids_T,
                segment_ids_T=torch.zeros_like(token_ids_T),
                predicted_positions_P=predicted_P,
                predicted_ids_P=token_ids_T[predicted_P],
                pair_labels_B=torch.zeros(num_sequences, dtype=torch.long) if self.pairs.has_pairs else None,
            )


def count_operations(encoder: EncoderConfig, work: Work, config: PretrainConfig) -> tuple[int, int]:
    """The useful operations, and all, with those that checkpointing repeats."""
    useful = count_flops(encoder, work.lengths, work.num_predicted, work.num_layers)
    return useful, useful + count_recomputed(encoder, work, config.checkpointing)


def find_places(request: Request, encoder: EncoderConfig, sources: list[Source]) -> list[Place]:
    """The place of the run as it serves each stage."""
    if request.kind == "this":
        return measure_this(request, encoder, sources)
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
    return [place] * len(sources)


def measure_this(request: Request, encoder: EncoderConfig, sources: list[Source]) -> list[Place]:
    """This machine, by timing steps of every stage; where none fits its memory, by its peak."""
    keep_freed_memory()
    torch.set_flush_denormal(True)
    config = request.config
    memory = machine_memory()
    program = PROGRAM_BYTES + sum(corpus_bytes(corpus) for corpus in sources[0].corpora)
    peak = measure_peak()
    places, counted = [], 0
    for source in sources:
        number, layers = choose_timed(request, encoder, source, peak)
        work = source.work(number, layers)
        needed = count_memory(encoder, work, find_manner(config, 1, on_cpu=True))
        if needed.total + program < 0.8 * memory:
            counted = max(counted, needed.total + needed.weights)  # timing takes a copy of the model
            seconds = time_work(config, encoder, source, number, layers)
            speed = count_operations(encoder, work, config)[0] / seconds
            origin = f"{speed / peak:.0%} of its {peak / 1e9:,.0f} GFLOP/s, measured on steps of {number} sequences"
            origin += f" and {layers} layers" if layers < source.stage.num_layers else ""
        else:
            speed = USUAL_SHARE * peak
            origin = f"an ASSUMED {USUAL_SHARE:.0%} of its measured {peak / 1e9:,.0f} GFLOP/s, as no step fits it"
        places.append(
            Place(
                name="this machine",
                memory=memory,
                program=program,
                speed=speed,
                bandwidth=OWN_NETWORK,
                price=request.price,
                origin=origin,
            )
        )
    if counted:
        # What the process really took for it, heap and all, tells what a run will take beside what can be counted.
        program = max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - counted)
    return [replace(place, program=program) for place in places]


def corpus_bytes(corpus: Corpus) -> int:
    """Its files, which are mapped into memory and stay while nothing else needs it."""
    return sum(file.stat().st_size for file in Path(corpus.path).glob("train-*.bin"))


def choose_timed(request: Request, encoder: EncoderConfig, source: Source, peak: float) -> tuple[int, int]:
    """How many sequences and layers make a step that is short enough to be timed."""
    config, whole = request.config, source.stage.num_sequences // request.devices
    limit = TIMED_SECONDS * USUAL_SHARE * peak
    each = count_operations(encoder, source.work(SAMPLE), config)[0] / SAMPLE
    number = max(1, min(whole, config.loop.micro_sequences or whole, int(limit / each)))
    layers = source.stage.num_layers
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
        schedule=make_schedule(config, config.steps),
        loop=replace(config.loop, micro_sequences=number, parallel="ddp"),
        batches=lambda step: source.batches(encoder.vocab_size, pieces * number),
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


def plan_memory(request: Request, encoder: EncoderConfig, sources: list[Source], place: Place) -> dict[str, Any]:
    """Bytes on each device, for each way of checkpointing, at the stage that needs the most."""
    config = request.config
    manner = find_manner(config, request.devices, on_cpu=request.kind == "this")
    classes = config.pairs.num_pair_classes

    def most(number: int | None, **changes: Any) -> Memory:
        """With at most so many sequences at once."""
        pieces = [min(number or SAMPLE**4, s.stage.num_sequences // request.devices) for s in sources]
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
        "micro_sequences": micro or max(source.stage.num_sequences // request.devices for source in sources),
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
    steps = make_schedule(config, config.steps).steps
    starts = [*(source.stage.first_step for source in sources), steps]
    rows = []
    for source, place, (start, end) in zip(sources, places, itertools.pairwise(starts), strict=True):
        stage = source.stage
        useful, done = count_operations(encoder, source.work(SAMPLE), config)
        useful, done = (work * stage.num_sequences // SAMPLE for work in (useful, done))
        # What is measured here already takes the time of what checkpointing repeats.
        compute = (useful if request.kind == "this" else done) / request.devices / place.speed
        rows.append(
            {
                **stage._asdict(),
                "share": (end - start) / steps,
                "tokens": sum(source.lengths) * stage.num_sequences // SAMPLE,
                "flops": useful,
                "compute_seconds": compute,
                "exchange_seconds": exchanged / place.bandwidth,
                "seconds": compute + exchanged / place.bandwidth,
                "speed": place.origin,
            }
        )
    means = {key: sum(row[key] * row["share"] for row in rows) for key in ("flops", "seconds", "tokens")}
    if config.steps is None and config.minutes is not None:
        steps = max(1, int(60 * config.minutes / means["seconds"]))
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
