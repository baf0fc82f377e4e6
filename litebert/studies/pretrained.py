"""Pre-training runs on a page: what was trained on what, for how long, and what came out beside what needs no model."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from litebert.config import UserError, read_config, read_json
from litebert.models.encoder import EncoderConfig
from litebert.models.folder import read_model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.data import describe_data, find_changed
from litebert.studies.layers import Layers
from litebert.studies.page import to_facts, to_figure, to_list, to_table
from litebert.studies.pictures import LAYERS_CAPTION, draw_curves, draw_layers
from litebert.studies.questions import LAYER_SEQUENCES, Questions
from litebert.studies.results import find_baselines
from litebert.studies.study import MEASURES, explain_measures, head, is_better, show_value
from litebert.training.costs import count_parameters
from litebert.training.curves import Run
from litebert.training.metrics import Line, companion_key, read_metrics
from litebert.training.progress import show_seconds

PAIRS = {"sop": "sentence order", "nsp": "next sentence", "three-way": "sentence order and next sentence"}
HIDDEN = {"span": "n-grams of whole words", "word": "whole words", "token": "tokens"}
SHARED = {"all": "one block for all layers", "none": "each layer has its own"}
LAST = "As last evaluated; in brackets 95 % intervals, by documents."
FREQUENCIES = "word frequencies alone"
BASELINES = {"shallow baseline": "counting words, without pre-training", "majority": "always the commoner answer"}


class Pretrained(NamedTuple):
    """A run, as its folder tells of it. One of an older version may tell less."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    data: Mapping[str, Any]
    environment: Mapping[str, Any]
    metrics: Sequence[Line]
    encoder: EncoderConfig | None
    """Of the model, where the run is done."""
    layers: Layers | None
    frequencies: Mapping[str, float]
    """What one who knows only how frequent tokens are has of the held-out text; empty where the corpus is not there."""

    @property
    def last(self) -> Line:
        """What was last held out, or how far the run has come without it."""
        evaluations = (line for line in reversed(self.metrics) if line["kind"] == "evaluation")
        return next(evaluations, {"step": self.metrics[-1]["step"]})

    @property
    def parameters(self) -> int | None:
        """With the heads of pre-training."""
        if self.encoder is None:
            return None
        num_classes = {"three-way": 3, "none": 0}.get(self.config.get("pairs", {}).get("objective"), 2)
        return sum(count_parameters(self.encoder, num_classes).values())

    @property
    def seconds(self) -> float | None:
        return find_seconds(self.metrics)


def find_seconds(metrics: Sequence[Line]) -> float | None:
    """How long a run took, if it tells."""
    return max((line["seconds"] for line in metrics if "seconds" in line), default=None)


def open_pretrained(name: str, folder: Path) -> Pretrained:
    config, data, environment = (
        read_json(folder / f"{part}.json") if (folder / f"{part}.json").exists() else {}
        for part in ("config", "data", "environment")
    )
    encoder = read_model(folder / "model").config if (folder / "model").exists() else None
    layers, frequencies = measure_again(folder, data) if encoder is not None else (None, {})
    return Pretrained(name, folder, config, data, environment, read_metrics(folder), encoder, layers, frequencies)


def measure_again(run: Path, data: Mapping[str, Any]) -> tuple[Layers | None, Mapping[str, float]]:
    """What a run does not write of itself, where its corpus is still what it was."""
    try:
        config = read_config(PretrainConfig, run / "config.json")
        questions = Questions(replace(config, evaluation_sequences=LAYER_SEQUENCES))
        if find_changed(describe_data(questions.corpora, questions.weights), data):
            return None, {}
        return questions.measure_layers(run / "model"), questions.measure_frequencies()
    except UserError:  # the corpus is elsewhere, or the run of another version
        return None, {}


def pretraining_section(runs: Sequence[Pretrained]) -> str:
    layers = {run.name: run.layers for run in runs if run.layers is not None}
    curves = [Run(run.name, run.metrics) for run in runs]
    measures = [measure for measure in MEASURES if any(measure in run.last for run in runs)]
    return "\n".join(
        [
            "<h2>Pre-training</h2>",
            "<h3>What was trained</h3>",
            to_facts({run.name: dict(list_facts(run)) for run in runs}),
            "<h3>What came out, on held-out documents</h3>",
            to_table([{"": run.name, **show_last(run)} for run in runs], LAST, list_baselines(runs)),
            to_list(explain_measures(measures), soft=True),
            to_figure(draw_curves(curves, "step"), "Training and, where it was evaluated, held-out documents."),
            *([to_figure(draw_layers(layers), LAYERS_CAPTION)] if layers else []),
        ]
    )


def list_facts(run: Pretrained) -> Iterator[tuple[str, Any]]:
    """What was trained on what, how and for how long, as far as the folder tells."""
    config, encoder = run.config, run.encoder
    if "preset" in config:
        yield "model", config.get("init") or config["preset"]
    if encoder is not None:
        yield "layers", f"{encoder.num_layers}, {encoder.hidden_size} wide"
        yield "weights of layers", SHARED.get(encoder.sharing, encoder.sharing)
        yield "parameters", run.parameters
    if text := name_texts(run.data):
        yield "text", text
    if encoder is not None:
        yield "vocabulary", f"{encoder.vocab_size:,} pieces"
    if "pairs" in config and "masking" in config:
        asked = f"{config['masking']['rate']:.0%} of the tokens, hidden as {HIDDEN[config['masking']['masking']]}"
        pairs = PAIRS.get(config["pairs"]["objective"])
        yield "learned to tell", f"{asked}; {pairs}" if pairs else asked
        done, planned = run.metrics[-1]["step"], config["steps"]
        sequences = f"{config['num_sequences']:,} sequences of up to {config['pairs']['length']} tokens"
        so_far = "" if planned in (None, done) else f" so far of {planned:,}"
        yield "steps", f"{done:,}{so_far}, each of {sequences}"
        rate = config["learning_rate"]
        yield "optimizer", config["optimizer"]["optimizer"] + (f", learning rate {rate:.3g}" if rate else "")
        yield "seed", config["seed"]
    if tokens := max((int(line.get("tokens", 0)) for line in run.metrics), default=0):
        yield "tokens seen", tokens
    if run.seconds is not None:
        yield "time", show_seconds(run.seconds)
    if speeds := [line["tokens_per_second"] for line in run.metrics if "tokens_per_second" in line]:
        yield "tokens per second", round(statistics.median(speeds))
    yield from describe_machine(run.environment)


def name_texts(data: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{corpus['tokens']:,} tokens of {corpus['documents']:,} documents in {corpus['path']}"
        for corpus in data.get("corpora", ())
    )


def describe_machine(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "processor" not in environment:
        return
    device = environment["device"] if environment["device"] != "cpu" else environment["processor"]
    processes = f"{environment['ranks']} processes, " if environment["ranks"] > 1 else ""
    yield "machine", f"{device}; {processes}{environment['threads']} thread{'s' * (environment['threads'] > 1)}"
    yield "versions", f"LiteBERT {environment['litebert']}, torch {environment['torch']}"


def show_last(run: Pretrained) -> dict[str, str]:
    """The scores of the last evaluation, with their units and intervals."""
    shown = {"steps": f"{run.last['step']:,}"}
    for measure in MEASURES:
        if measure in run.last:
            ends = [companion_key(measure, end) for end in ("low", "high")]
            bounds = ", ".join(f"{100 * run.last[end]:.1f}" for end in ends if end in run.last)
            shown[head(measure)] = show_value(measure, run.last[measure]) + (f" [{bounds}]" if bounds else "")
    return shown


def list_baselines(runs: Sequence[Pretrained]) -> list[dict[str, str]]:
    """What needs no pre-training; with the names of the runs it is to be held against, where they have others."""
    names: dict[str, dict[tuple[tuple[str, str], ...], list[str]]] = {}
    for run in runs:
        for baseline, row in find_rows(run).items():
            names.setdefault(baseline, {}).setdefault(tuple(row.items()), []).append(run.name)
    return [
        {"": baseline + (f" ({', '.join(named)})" if len(rows) > 1 else ""), **dict(row)}
        for baseline, rows in names.items()
        for row, named in rows.items()
    ]


def find_rows(run: Pretrained) -> dict[str, dict[str, str]]:
    """By baseline and column, what it has of the measures that the run has."""
    rows: dict[str, dict[str, str]] = {}
    for measure, value in run.frequencies.items() if "masked_token_loss" in run.last else ():
        rows.setdefault(FREQUENCIES, {})[head(measure)] = show_value(measure, value)
    return rows | find_pair_rows(MEASURES, run.last)


def find_pair_rows(measures: Iterable[str], values: Mapping[str, float]) -> dict[str, dict[str, str]]:
    """The same of the questions of pairs alone."""
    rows: dict[str, dict[str, str]] = {}
    for measure, baselines in find_baselines(measures, values).items():
        for baseline, value in baselines.items():
            rows.setdefault(BASELINES[baseline], {})[head(measure)] = show_value(measure, value)
    return rows


def find_pretraining(runs: Sequence[Pretrained]) -> Iterator[str]:
    """What is to be known of the runs, in a sentence each."""
    texts = dict.fromkeys(corpus["path"] for run in runs for corpus in run.data.get("corpora", ()))
    where = f" on {', '.join(texts)}" if texts else ""
    yield f"Pre-trained{where}: {'; '.join(map(name_cost, runs))}."
    asked = [f"{run.config['pairs']['objective']}_accuracy" for run in runs if "pairs" in run.config]
    for measure in dict.fromkeys(("masked_token_loss", *asked)):
        found = [run for run in runs if measure in run.last]
        if found:
            yield compare_runs(measure, found)
    if len(runs) > 1:
        yield "Each was trained once, so a small difference may be chance; a study with several seeds would tell."


def name_cost(run: Pretrained) -> str:
    told = [f"{run.parameters:,} parameters"] if run.parameters is not None else []
    told += [show_seconds(run.seconds)] if run.seconds is not None else []
    return f"{run.name} ({', '.join(told)})" if told else run.name


def compare_runs(measure: str, runs: Sequence[Pretrained]) -> str:
    """The best first, and whether it is more than what needs no pre-training."""
    ranked = sorted(runs, key=lambda run: run.last[measure], reverse=is_better(measure, 1, 0))
    values = ", ".join(f"{run.name} {show_value(measure, run.last[measure])}" for run in ranked)
    if measure == "masked_token_loss":
        said = f"Masked-token loss in nats, lower is better: {values}"
        known = {run.frequencies.get(measure) for run in runs}
        (frequencies,) = known if len(known) == 1 else (None,)
        return said + ("." if frequencies is None else f"; {FREQUENCIES} {show_value(measure, frequencies)}.")
    shallow, low = companion_key(measure, "shallow"), companion_key(measure, "low")
    said = f"{MEASURES[measure].capitalize()}, per cent right: {values}"
    if len({run.last.get(shallow) for run in runs}) > 1 or shallow not in runs[0].last:
        return f"{said}."
    above = [run.name for run in ranked if run.last[low] > run.last[shallow]]
    is_below = all(run.last[measure] < run.last[shallow] for run in runs)
    told = f"{BASELINES['shallow baseline']}, {show_value(measure, runs[0].last[shallow])}"
    verdict = f"{' and '.join(above)} surely above it" if above else "below it" if is_below else "none surely above it"
    return f"{said}; {told}: {verdict}."
