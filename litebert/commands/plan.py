"""Say what a pre-training run will cost in memory, time and money, without running it.

Takes the options of litebert pretrain. Memory follows from what the code keeps; time from a few seconds of steps on
this machine, or, for a kind of device that is named, from its data sheet and an assumed share of its peak. Evaluations
and checkpoints are not included. With a corpus, its vocabulary and its sequences are used; nothing is written.

Example:
    litebert plan --preset albert-micro --corpus my-corpus
    litebert plan --preset albert-base --num-sequences 4096 --length 512 --devices 64 --kind a100-40 --precision bf16
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litebert.pretraining.config import PretrainConfig, Stage

if TYPE_CHECKING:
    from litebert.batch import Batch
    from litebert.corpus.shards import Corpus
    from litebert.models.encoder import EncoderConfig
    from litebert.training.costs import Manner, Work

SAMPLE = 2048
"""How many sequences tell the lengths of all."""
TIMED_SECONDS = 1.0
"""About the longest step that is timed; of longer ones, a part is."""
USUAL_SHARE = 0.5
"""Of this machine's peak, to guess how much work makes a step that long."""
OWN_NETWORK = 1.25e9
"""Bytes a second between machines like this one, if there are several: 10 Gbit/s."""


@dataclass(frozen=True, kw_only=True)
class Options:
    config: Path | None = None
    """Begin with the config.json of a run; other options change it."""
    settings: PretrainConfig = field(default_factory=PretrainConfig)
    devices: int = 1
    """How many devices share the work."""
    kind: str = "this"
    """What they are: this machine, which is measured, or a100-40, a100-80, h100, v100, t4, l4, rtx-4090, tpu-v3."""
    price: float | None = None
    """US dollars for an hour of one device; for named kinds one is assumed unless it is given."""
    json: bool = False
    """Print JSON instead of tables."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run is to take place."""

    name: str
    memory: float
    """Of a device, in bytes."""
    program: float
    """What a process needs beside its model."""
    peak: float | None
    speed: float
    """What is reached of it, in FLOP/s."""
    bandwidth: float
    price: float | None
    origin: str
    """How the speed is known."""


def find_default(arguments: list[str]) -> Options:
    """The defaults of the preset, or of the config, that is asked for."""
    from litebert.config import from_dict, read_json
    from litebert.recipes import find_recipe

    given: dict[str, str] = {}
    for option, value in itertools.pairwise([*arguments, ""]):
        name, equals, text = option.partition("=")
        given[name] = text if equals else value
    settings = find_recipe(given.get("--preset", "albert-base"))
    if "--config" in given:
        settings = from_dict(PretrainConfig, read_json(Path(given["--config"])))
    return Options(settings=settings)


def run(options: Options) -> None:
    from litebert.config import require
    from litebert.display import print_json

    require(options.devices > 0, f"devices is {options.devices}; it must be at least 1")
    require((options.price or 0) >= 0, f"price is {options.price}; it must be at least 0")
    plan = make_plan(options)
    print_json(plan) if options.json else print_plan(plan)


def make_plan(options: Options) -> dict[str, Any]:
    """Everything that is to be said of a run."""
    from litebert.config import require
    from litebert.corpus.loader import open_mixture
    from litebert.pretraining.config import make_schedule, plan_stages
    from litebert.training.costs import count_exchanged, count_parameters

    config = options.settings
    corpora, weights = open_mixture(config.corpora) if config.corpus or config.mix else ([], [])
    encoder = find_encoder(config, corpora)
    stages = plan_stages(config, encoder.num_layers, make_schedule(config, config.steps).steps)
    for stage in stages:
        require(
            stage.num_sequences % options.devices == 0,
            f"a step has {stage.num_sequences} sequences and there are {options.devices} devices; make it a multiple",
        )
    sources = [Source(config, stage, corpora, weights) for stage in stages]
    parts = count_parameters(encoder, config.pairs.num_pair_classes)
    places = find_places(options, encoder, sources)
    exchanged = count_exchanged(sum(parts.values()), options.devices)
    plan = {
        "model": config.init or config.preset,
        "encoder": asdict(encoder),
        "parameters": {**parts, "all": sum(parts.values())},
        "memory": plan_memory(options, encoder, sources, places[-1]),
        "exchange": describe_exchange(parts, options.devices, exchanged),
    }
    return plan | plan_time(options, encoder, sources, places, exchanged)


def find_encoder(config: PretrainConfig, corpora: "list[Corpus]") -> "EncoderConfig":
    """The encoder that the run would train."""
    from litebert.config import require
    from litebert.models.folder import read_model
    from litebert.presets import find_preset
    from litebert.pretraining.config import change_encoder, check_depths, read_changes

    if config.init is not None:
        encoder = read_model(config.init, **read_changes(config.encoder)).config
    else:
        preset = find_preset(config.preset)
        size = corpora[0].vocabulary.size if corpora else preset.vocab_size
        encoder = change_encoder(replace(preset, vocab_size=size), config.encoder)
    require(
        config.pairs.length <= encoder.num_positions,
        f"length is {config.pairs.length}; the model has {encoder.num_positions} positions",
    )
    check_depths(config, encoder)
    return encoder


class Source:
    """What the sequences of a stage are like: the corpus's own, or without one such as PairConfig draws them."""

    def __init__(
        self, config: PretrainConfig, stage: Stage, corpora: "list[Corpus]", weights: list[float], size: int = SAMPLE
    ) -> None:
        import numpy as np

        from litebert.corpus.draws import make_keys
        from litebert.corpus.pairs import NUM_MARKS, draw_lengths

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
        from litebert.corpus.loader import Loader, State

        return Loader(
            self.corpora,
            self.pairs,
            self.masking,
            num_sequences=num_sequences,
            weights=self.weights,
            state=State(seed=self.config.seed),
            num_threads=num_threads,
        )

    def work(self, num_sequences: int, num_layers: int | None = None) -> "Work":
        """So many sequences, with the lengths of the sample."""
        from litebert.training.costs import Work

        lengths = tuple(itertools.islice(itertools.cycle(self.lengths), num_sequences))
        predicted = round(self.predicted * num_sequences)
        return Work(lengths=lengths, num_predicted=predicted, num_layers=num_layers or self.stage.num_layers)

    def batches(self, vocab_size: int, num_sequences: int) -> "Iterator[Batch]":
        """Batches to be timed: the corpus's, made as for a run, or random tokens."""
        import torch

        from litebert.batch import Batch

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


def count_work(encoder: "EncoderConfig", work: "Work", config: PretrainConfig) -> tuple[int, int]:
    """The useful operations, and all, with those that checkpointing repeats."""
    from litebert.training.costs import count_flops, count_recomputed

    useful = count_flops(encoder, work.lengths, work.num_predicted, work.num_layers)
    return useful, useful + count_recomputed(encoder, work, config.checkpointing)


def find_places(options: Options, encoder: "EncoderConfig", sources: list[Source]) -> list[Place]:
    """The place of the run as it serves each stage."""
    from litebert.training.devices import find_device

    if options.kind == "this":
        return measure_this(options, encoder, sources)
    precision = options.settings.loop.precision
    name, device = find_device(options.kind, precision)
    peak = device.speed(precision)
    assert peak is not None
    place = Place(
        name=name,
        memory=device.memory,
        program=0,
        peak=peak,
        speed=device.share * peak,
        bandwidth=device.bandwidth(options.devices),
        price=device.price if options.price is None else options.price,
        origin=f"an ASSUMED share of {device.share:.0%} of the data sheet's peak, {peak / 1e12:.3g} TFLOP/s "
        f"in {precision}",
    )
    return [place] * len(sources)


def measure_this(options: Options, encoder: "EncoderConfig", sources: list[Source]) -> list[Place]:
    """This machine, by timing steps of every stage; where none fits its memory, by its peak."""
    import os

    import torch

    from litebert.training.allocator import keep_freed_memory
    from litebert.training.costs import PROGRAM_BYTES, count_memory
    from litebert.training.timing import measure_peak

    keep_freed_memory()
    torch.set_flush_denormal(True)
    config = options.settings
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    program = PROGRAM_BYTES + sum(corpus_bytes(corpus) for corpus in sources[0].corpora)
    peak = measure_peak()
    places = []
    for source in sources:
        number, layers = choose_timed(options, encoder, source, peak)
        work = source.work(number, layers)
        needed = count_memory(encoder, work, find_manner(config, 1, on_cpu=True)).total + program
        if needed < 0.8 * memory:
            seconds = time_work(config, encoder, source, number, layers)
            speed = count_work(encoder, work, config)[0] / seconds
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
                peak=peak,
                speed=speed,
                bandwidth=OWN_NETWORK,
                price=options.price,
                origin=origin,
            )
        )
    return places


def corpus_bytes(corpus: "Corpus") -> int:
    """Its files, which are mapped into memory and stay while nothing else needs it."""
    return sum(file.stat().st_size for file in Path(corpus.path).glob("train-*.bin"))


def choose_timed(options: Options, encoder: "EncoderConfig", source: Source, peak: float) -> tuple[int, int]:
    """How many sequences and layers make a step that is short enough to be timed."""
    config, whole = options.settings, source.stage.num_sequences // options.devices
    limit = TIMED_SECONDS * USUAL_SHARE * peak
    each = count_work(encoder, source.work(SAMPLE), config)[0] / SAMPLE
    number = max(1, min(whole, config.loop.micro_sequences or whole, int(limit / each)))
    layers = source.stage.num_layers
    if number == 1 and each > 2 * limit:
        layers = max(1, int(layers * 2 * limit / each))
    return number, layers


def time_work(config: PretrainConfig, encoder: "EncoderConfig", source: Source, number: int, layers: int) -> float:
    """Seconds of a step of so many sequences, taken as a run takes it."""
    import torch

    from litebert.models.heads import HeadConfig, Model
    from litebert.pretraining.config import make_schedule
    from litebert.training.loop import Training
    from litebert.training.losses import Pretraining
    from litebert.training.parallel import Ranks
    from litebert.training.timing import time_step

    torch.manual_seed(config.seed)
    heads = [HeadConfig(kind="masked_token")]
    if config.pairs.has_pairs:
        heads.append(HeadConfig(kind="pair", num_classes=config.pairs.num_pair_classes))
    model = Model(encoder, heads)
    model.encoder.checkpointing, model.encoder.num_layers = config.checkpointing, layers
    training = Training(
        model=model,
        objective=Pretraining(),
        optimizer=config.optimizer,
        schedule=make_schedule(config, config.steps),
        loop=replace(config.loop, micro_sequences=None, parallel="ddp"),
        batches=lambda step: source.batches(encoder.vocab_size, number),
        seed=config.seed,
    )
    return time_step(training, Ranks())


def find_manner(config: PretrainConfig, num_devices: int, *, on_cpu: bool) -> "Manner":
    from litebert.training.costs import Manner

    return Manner(
        checkpointing=config.checkpointing,
        precision=config.loop.precision,
        optimizer=config.optimizer.optimizer,
        parallel=config.loop.parallel,
        num_devices=num_devices,
        on_cpu=on_cpu,
    )


def plan_memory(options: Options, encoder: "EncoderConfig", sources: list[Source], place: Place) -> dict[str, Any]:
    """Bytes on each device, for each way of checkpointing, at the stage that needs the most."""
    from litebert.training.costs import Memory, count_memory

    config = options.settings
    manner = find_manner(config, options.devices, on_cpu=options.kind == "this")
    classes = config.pairs.num_pair_classes

    def most(number: int | None, **changes: Any) -> Memory:
        """With at most so many sequences at once."""
        pieces = [min(number or SAMPLE**4, s.stage.num_sequences // options.devices) for s in sources]
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
        "micro_sequences": micro or max(source.stage.num_sequences // options.devices for source in sources),
        "checkpointing": config.checkpointing,
        "by_checkpointing": rows,
        "fsdp_saves": whole.total - most(micro, parallel="fsdp").total if options.devices > 1 else 0,
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
    from litebert.presets import bert_large
    from litebert.training.costs import FULL, count_parameters

    def paper_count(parts: dict[str, int]) -> int:
        return sum(number for part, number in parts.items() if not part.endswith("head"))

    return {
        "gradient_bytes": FULL * sum(parts.values()),
        "bytes_per_device_and_step": exchanged,
        "bytes_per_step": exchanged * num_devices,
        "fewer_than_bert_large": paper_count(count_parameters(bert_large())) / paper_count(parts),
    }


def plan_time(
    options: Options, encoder: "EncoderConfig", sources: list[Source], places: list[Place], exchanged: float
) -> dict[str, Any]:
    """Operations, seconds and money of a step and of the run."""
    from litebert.pretraining.config import make_schedule

    config = options.settings
    steps = make_schedule(config, config.steps).steps
    starts = [*(source.stage.first_step for source in sources), steps]
    rows = []
    for source, place, (start, end) in zip(sources, places, itertools.pairwise(starts), strict=True):
        stage = source.stage
        useful, done = count_work(encoder, source.work(SAMPLE), config)
        useful, done = (work * stage.num_sequences // SAMPLE for work in (useful, done))
        # What is measured here already takes the time of what checkpointing repeats.
        compute = (useful if options.kind == "this" else done) / options.devices / place.speed
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
        "devices": options.devices,
        "stages": rows,
        "step": {**means, "flops": int(means["flops"]), "tokens": int(means["tokens"])},
        "run": {
            "steps": steps,
            "sequences": int(sequences),
            "epochs": sequences / epoch if epoch else None,
            "flops": int(means["flops"] * steps),
            "hours": hours,
            "price_per_device_hour": price,
            "dollars": None if price is None else hours * price * options.devices,
        },
    }


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
    step, whole, exchange = plan["step"], plan["run"], plan["exchange"]
    epochs = "" if whole["epochs"] is None else f", {whole['epochs']:.2f} epochs"
    compute, sending = (
        sum(row["share"] * row[name] for row in plan["stages"]) for name in ("compute_seconds", "exchange_seconds")
    )
    stages = "; ".join(
        f"{row['num_layers']} layers, length {row['length']} from step {round(row['first_step']):,}"
        for row in plan["stages"]
    )
    fields = {
        "model": f"{plan['model']}: {plan['parameters']['all']:,} parameters with the heads, "
        f"{plan['encoder']['vocab_size']:,} pieces",
        "devices": f"{plan['devices']} x {plan['kind']}",
        "speed": "; ".join(dict.fromkeys(row["speed"] for row in plan["stages"])),
        "step": f"{step['tokens']:,} tokens, {step['flops'] / 1e12:,.3g} TFLOP, {step['seconds']:.3g} s: "
        f"{compute:.3g} computing and {sending:.3g} exchanging, one after the other (what overlaps is gained)",
        "exchange": f"{show_bytes(exchange['bytes_per_device_and_step'])} sent by each device in a step, "
        f"{show_bytes(exchange['bytes_per_step'])} by all; {exchange['fewer_than_bert_large']:.1f}x fewer than "
        "BERT-large",
        "run": f"{whole['steps']:,} steps, {whole['sequences']:,} sequences{epochs}, {whole['flops']:.3g} FLOP: "
        f"{show_hours(whole['hours'])}",
        "cost": "unknown; give --price"
        if whole["dollars"] is None
        else f"{whole['dollars']:,.2f} dollars at {whole['price_per_device_hour']:g} an hour and device",
        "without": "evaluations and checkpoints, which take time and memory of their own",
    }
    if plan["devices"] > 1:
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
