"""The paper's ablations, each a function from the settings that its runs have in common to those runs.

The figures are the paper's averages over SQuAD 1.1 and 2.0, MNLI, SST-2 and RACE, unless they are of what it calls
intrinsic tasks: masked tokens, next sentence, sentence order.
"""

import itertools
import math
from dataclasses import replace
from typing import Any, cast

from litebert.config import require
from litebert.corpus.pairs import Objective
from litebert.models.encoder import EncoderConfig
from litebert.presets import LADDER, change_encoder, find_preset, read_changes, twin_changes
from litebert.pretraining.config import PretrainConfig
from litebert.studies.study import AFTER, Study, Variant, change


def find_base(base: PretrainConfig) -> EncoderConfig:
    """The encoder that the runs of a study vary."""
    return change_encoder(find_preset(base.preset), base.encoder)


def paper_average(figure: float) -> dict[str, float]:
    return {"downstream": figure}


SIZE_FIELDS = {"hidden_size", "embedding_size", "projection", "sharing"}
"""What the study of sizes compares, by which an ALBERT also differs from its twin. Depth, heads and the width of the
feed-forward network may be given, for all of its models alike."""


SIZES = {
    "albert-base": ("albert-base-v1", "bert-base", "albert-large-v1", "bert-large"),
    **{
        f"albert-{rung}": (f"albert-{rung}", f"bert-{rung}", f"albert-{larger}", f"bert-{larger}")
        for rung, larger in itertools.pairwise(LADDER)
    },
}
"""Two sizes of ALBERT with the BERTs of their shape, by the smaller. All of the paper's have dropout."""


def sizes(base: PretrainConfig) -> list[Variant]:
    """On the ladder, a rung stands for the paper's base, the next for its large."""
    require(
        base.preset in SIZES,
        f"--preset is {base.preset}; this study compares fixed pairs of sizes: choose {', '.join(SIZES)}",
    )
    given = sorted(SIZE_FIELDS & read_changes(base.encoder).keys())
    require(not given, f"{', '.join(given)} is what the study's models differ in; leave it out of --encoder")
    return [
        Variant(name=name, settings=change(base, preset=name), paper=paper_average(figure))
        for name, figure in zip(SIZES[base.preset], (80.1, 82.3, 82.4, 85.2), strict=True)
    ]


def embedding(base: PretrainConfig) -> list[Variant]:
    """Sizes below the hidden width, and that width itself, where nothing is projected."""
    hidden_size = find_base(base).hidden_size
    figures = {
        "none": {64: 81.3, 128: 81.7, 256: 81.8},
        "all": {64: 79.0, 128: 80.1, 256: 79.6},
    }
    widest = {"none": 82.3, "all": 79.8}
    return [
        Variant(
            name=f"{'shared' if sharing == 'all' else 'not shared'}, E={size}",
            settings=change(base, {"sharing": sharing, "embedding_size": size, "projection": size != hidden_size}),
            paper=paper_average(figure),
        )
        for sharing, row in figures.items()
        for size, figure in (
            {size: row[size] for size in row if size < hidden_size} | {hidden_size: widest[sharing]}
        ).items()
    ]


def sharing(base: PretrainConfig) -> list[Variant]:
    num_layers = find_base(base).num_layers
    figures = {"all": 80.1, "attention": 81.7, "ffn": 80.2, "none": 81.6}
    others = [f"groups={max(2, num_layers // 2)}", "cycle=2"] if num_layers > 2 else []
    others += ["sandwich"] if num_layers > 3 else []
    return [
        Variant(
            name=name,
            settings=change(base, {"sharing": name}),
            paper=paper_average(figures[name]) if name in figures else {},
        )
        for name in (*figures, *others)
    ]


def sentence(base: PretrainConfig) -> list[Variant]:
    """Sentence order first, as the others are held against it; what learned without pairs is asked about masked tokens
    in other sequences than they."""
    figures = {"sop": (54.0, 78.9, 86.5, 80.1), "nsp": (54.5, 90.5, 52.0, 79.2), "none": (54.9, 52.4, 53.3, 79.0)}
    measures = ("masked_token_accuracy", "nsp_accuracy", "sop_accuracy", "downstream")
    return [
        Variant(
            name=name,
            settings=change(base, pairs=replace(base.pairs, objective=cast(Objective, name))),
            paper=dict(zip(measures, figures.get(name, ()), strict=False)),
        )
        for name in (*figures, "three-way")
    ]


def time(base: PretrainConfig) -> list[Variant]:
    """A BERT, and the ALBERT of its shape and a wider one, as the paper's xxlarge is wider than BERT-large; and the
    first of the two begun with a third of its layers."""
    encoder = find_base(base)
    wider = widen(encoder, 2 * encoder.hidden_size)
    shallow = max(1, encoder.num_layers // 3)
    return [
        Variant(name="BERT", settings=change(base, twin_changes(encoder)), paper=paper_average(87.2)),
        Variant(name="ALBERT", settings=change(base)),
        Variant(name="ALBERT, twice as wide", settings=change(base, wider), paper=paper_average(88.7)),
        Variant(
            name="ALBERT, progressive depth",
            settings=change(base, depths=(str(shallow), f"{encoder.num_layers}@0.5")),
        ),
    ]


def data(base: PretrainConfig) -> list[Variant]:
    require(len(base.mix) > 1, "the study adds corpora to the first; name at least two: --mix wiki=0.7 books=0.3")
    return [
        Variant(
            name="without additional data",
            settings=change(base, mix=(), corpus=base.mix[0].rpartition("=")[0]),
            paper=paper_average(80.1),
        ),
        Variant(name="with additional data", settings=change(base), paper=paper_average(80.8)),
    ]


def dropout(base: PretrainConfig) -> list[Variant]:
    return [
        Variant(
            name=name,
            settings=change(base, {"hidden_dropout": share, "attention_dropout": share}),
            paper=paper_average(figure),
        )
        for name, share, figure in (("with dropout", 0.1, 90.4), ("without dropout", 0.0, 90.7))
    ]


def depth(base: PretrainConfig) -> list[Variant]:
    """Each depth begins with the model of the one before it, as in the paper, and so has learned for longer."""
    figures = {1: 52.9, 3: 71.2, 6: 77.2, 12: 81.5, 24: 82.1}
    names = {layers: f"{layers} layer{'s' if layers > 1 else ''}" for layers in figures}
    before = dict(zip(list(figures)[1:], names.values(), strict=False))
    return [
        Variant(
            name=names[layers],
            settings=change(base, {"num_layers": layers, "sharing": "all"}, init=AFTER if layers in before else None),
            paper=paper_average(figure),
            after=before.get(layers),
        )
        for layers, figure in figures.items()
    ]


def width(base: PretrainConfig) -> list[Variant]:
    """Three layers, as in the paper, whose narrowest is 1024 wide; here the narrowest is the model's own width."""
    encoder = find_base(base)
    figures = (71.2, 74.6, 76.3)
    return [
        Variant(
            name=f"{encoder.hidden_size << doubled} wide",
            settings=change(base, {"num_layers": 3, **widen(encoder, encoder.hidden_size << doubled)}),
            paper=paper_average(figure),
        )
        for doubled, figure in enumerate(figures)
    ]


def widen(encoder: EncoderConfig, hidden_size: int) -> dict[str, Any]:
    """The numbers of a model of another width, with heads of the same size."""
    factor = hidden_size / encoder.hidden_size
    return {
        "hidden_size": hidden_size,
        "num_heads": max(1, round(encoder.num_heads * factor)),
        "feed_forward_size": round(encoder.feed_forward_size * factor),
        "initializer_range": round(encoder.initializer_range / math.sqrt(factor), 4),
    }


def layers(base: PretrainConfig) -> list[Variant]:
    encoder = find_base(base)
    deep = {"num_layers": max(12, encoder.num_layers)}
    return [
        Variant(name="ALBERT", settings=change(base, {**deep, "sharing": "all", "projection": True})),
        Variant(name="BERT", settings=change(base, {**deep, **twin_changes(encoder)})),
    ]


def masking(base: PretrainConfig) -> list[Variant]:
    """All are asked about the same held-out masks, those of the settings they have in common."""
    plain = replace(base.masking, masking="span").at_rate(0.15)
    masks = {
        "n-grams": plain,
        "words": replace(plain, masking="word"),
        "tokens": replace(plain, masking="token"),
        "n-grams, 30 %": plain.at_rate(0.3),
        "n-grams, 30 to 15 %": replace(plain, rate=0.3, final_rate=0.15),
        "n-grams, hard tokens": replace(plain, hardness=1.0),
    }
    return [Variant(name=name, settings=change(base, masking=masking)) for name, masking in masks.items()]


STUDIES = {
    study.name: study
    for study in (
        Study(
            name="sizes",
            question="What do parameters buy? Two sizes of ALBERT and the BERTs of their shape, for equal steps.",
            source="Tables 1 and 2",
            finding="Of one shape BERT is better, with far more parameters; a larger ALBERT passes a smaller BERT.",
            vary=sizes,
        ),
        Study(
            name="embedding",
            question="How wide must the embedding be, with shared layers and without?",
            source="Table 3",
            finding="Without sharing wider is a little better; with sharing 128 is best.",
            vary=embedding,
        ),
        Study(
            name="sharing",
            question="Which weights can layers share? Also cycles and sandwiches, which the paper lacks.",
            source="Table 4",
            finding="Sharing attention costs nothing; sharing the feed-forward network is what costs.",
            vary=sharing,
        ),
        Study(
            name="sentence",
            question="Which sentence task teaches most: order (sop), next sentence (nsp), none, or both (three-way)?",
            source="Table 5",
            finding="Next-sentence training leaves sentence order at chance; sentence order teaches both.",
            vary=sentence,
            measures=("masked_token_accuracy", "sop_accuracy", "nsp_accuracy"),
        ),
        Study(
            name="time",
            question="Who learns most in equal time? Also an ALBERT that begins with a third of its layers.",
            source="Table 6",
            finding="The wider ALBERT is better than BERT-large for equal time.",
            vary=time,
            equal="minutes",
        ),
        Study(
            name="data",
            question="What does additional data bring?",
            source="Table 7, Figure 2a",
            finding="It helps, but for SQuAD, which is from Wikipedia.",
            vary=data,
        ),
        Study(
            name="dropout",
            question="Does dropout help?",
            source="Table 8, Figure 2b",
            finding="It hurts: masked-token accuracy rises when it is removed.",
            vary=dropout,
        ),
        Study(
            name="depth",
            question="How many layers of one block? 1 to 24, each begun with the shallower model.",
            source="Tables 11 and 13",
            finding="Deeper is better, less and less, up to 24 layers; for xxlarge 24 are no better than 12.",
            vary=depth,
        ),
        Study(
            name="width",
            question="How wide a block? Three layers of up to four times the width.",
            source="Table 12",
            finding="Wider is better, up to 4096.",
            vary=width,
        ),
        Study(
            name="layers",
            question="What does each layer do to its input? The distance and the angle between input and output.",
            source="Figure 1",
            finding="From layer to layer, shared ones change their input more smoothly than BERT's; none converges.",
            vary=layers,
            has_layers=True,
        ),
        Study(
            name="masking",
            question="What to hide: n-grams, words or tokens, how many, and hard ones more readily?",
            source="Section 4.1; hard examples are its future work",
            finding="The paper hides n-grams of up to three words and compares nothing.",
            vary=masking,
        ),
    )
}
