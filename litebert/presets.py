"""Named models. A preset is a function, so that its docstring can say what it is and what it costs."""

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from litebert.config import UserError, check_values, nearest, override, require
from litebert.models.encoder import EncoderConfig


def albert_base_v2() -> EncoderConfig:
    """The paper's smallest: 12 layers of one block, 768 wide."""
    return EncoderConfig()


def albert_large_v2() -> EncoderConfig:
    """BERT-large's depth and width in 18M parameters."""
    return EncoderConfig(hidden_size=1024, num_layers=24, num_heads=16, feed_forward_size=4096)


def albert_xlarge_v2() -> EncoderConfig:
    """Twice as wide. The published configs say 16 heads; the paper's rule, a head per 64 units, would make it 32."""
    return EncoderConfig(hidden_size=2048, num_layers=24, num_heads=16, feed_forward_size=8192)


def albert_xxlarge_v2() -> EncoderConfig:
    """The paper's best: 12 layers, 4096 wide."""
    return EncoderConfig(hidden_size=4096, num_layers=12, num_heads=64, feed_forward_size=16384)


def albert_base_v1() -> EncoderConfig:
    """Version 1 differs by its dropout."""
    return with_dropout(albert_base_v2())


def albert_large_v1() -> EncoderConfig:
    """Version 1 differs by its dropout."""
    return with_dropout(albert_large_v2())


def albert_xlarge_v1() -> EncoderConfig:
    """Version 1 differs by its dropout."""
    return with_dropout(albert_xlarge_v2())


def albert_xxlarge_v1() -> EncoderConfig:
    """Without dropout in version 1 already: it differs from version 2 by the length of its training alone."""
    return albert_xxlarge_v2()


def albert_tiny_zh() -> EncoderConfig:
    """The Chinese community's tiny model, on BERT's Chinese vocabulary."""
    return EncoderConfig(vocab_size=21128, hidden_size=312, num_layers=4, num_heads=12, feed_forward_size=1248)


def albert_small_zh() -> EncoderConfig:
    """The Chinese community's small model, on BERT's Chinese vocabulary."""
    return EncoderConfig(vocab_size=21128, hidden_size=384, num_layers=6, num_heads=12, feed_forward_size=1536)


def bert_base() -> EncoderConfig:
    """The paper's BERT-base, on ALBERT's vocabulary of 30,000."""
    return twin(albert_base_v1())


def bert_large() -> EncoderConfig:
    """The paper's BERT-large, on ALBERT's vocabulary of 30,000."""
    return twin(albert_large_v1())


def bert_xlarge() -> EncoderConfig:
    """The paper's BERT-xlarge, 1.27B parameters, which trained worse than BERT-large."""
    return twin(albert_xlarge_v1())


def roberta_base_style() -> EncoderConfig:
    """BERT-base with RoBERTa's numbers: 50,265 byte-level pieces, one segment. Its positions count from 0."""
    return replace(bert_base(), vocab_size=50265, num_segments=1, layer_norm_epsilon=1e-5, activation="gelu_erf")


def albert_nano() -> EncoderConfig:
    """The laptop ladder's first rung, for minutes of CPU."""
    return rung(hidden_size=128, num_layers=3, vocab_size=8000)


def albert_micro() -> EncoderConfig:
    """The laptop ladder's second rung, for half an hour of CPU."""
    return rung(hidden_size=192, num_layers=4, vocab_size=8000)


def albert_mini() -> EncoderConfig:
    """The laptop ladder's third rung, for an hour or two of CPU."""
    return rung(hidden_size=256, num_layers=6, vocab_size=16000)


def albert_small() -> EncoderConfig:
    """The laptop ladder's last rung, for a few hours of CPU."""
    return rung(hidden_size=384, num_layers=6, vocab_size=30000)


def bert_nano() -> EncoderConfig:
    """albert-nano without factorisation or sharing."""
    return twin(albert_nano())


def bert_micro() -> EncoderConfig:
    """albert-micro without factorisation or sharing."""
    return twin(albert_micro())


def bert_mini() -> EncoderConfig:
    """albert-mini without factorisation or sharing."""
    return twin(albert_mini())


def bert_small() -> EncoderConfig:
    """albert-small without factorisation or sharing."""
    return twin(albert_small())


def with_dropout(config: EncoderConfig) -> EncoderConfig:
    return replace(config, hidden_dropout=0.1, attention_dropout=0.1)


def rung(*, hidden_size: int, num_layers: int, vocab_size: int) -> EncoderConfig:
    """ALBERT at laptop size. The paper's initialiser, 0.02, is for widths from 768: here it scales with the width."""
    return EncoderConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_layers=num_layers,
        num_heads=hidden_size // 64,
        feed_forward_size=4 * hidden_size,
        initializer_range=round(1 / math.sqrt(hidden_size), 4),
    )


def twin(config: EncoderConfig) -> EncoderConfig:
    """The BERT of the same depth and width: nothing factorised, nothing shared."""
    return replace(config, **twin_changes(config))


def twin_changes(config: EncoderConfig) -> dict[str, Any]:
    """What makes a BERT of an ALBERT."""
    return {"embedding_size": config.hidden_size, "projection": False, "sharing": "none"}


LADDER = ("nano", "micro", "mini", "small")
"""The rungs of the laptop ladder, as albert-nano and bert-nano."""

PRESETS: dict[str, Callable[[], EncoderConfig]] = {
    preset.__name__.replace("_", "-"): preset
    for preset in (
        albert_base_v1, albert_large_v1, albert_xlarge_v1, albert_xxlarge_v1,
        albert_base_v2, albert_large_v2, albert_xlarge_v2, albert_xxlarge_v2,
        bert_base, bert_large, bert_xlarge, roberta_base_style, albert_tiny_zh, albert_small_zh,
        albert_nano, bert_nano, albert_micro, bert_micro, albert_mini, bert_mini, albert_small, bert_small,
    )
}  # fmt: skip


def is_preset(name: str) -> bool:
    return name in PRESETS or f"{name}-v2" in PRESETS


def find_preset(name: str) -> EncoderConfig:
    """A preset's config; a name without a version means version 2."""
    known = [*PRESETS, *(preset.removesuffix("-v2") for preset in PRESETS if preset.endswith("-v2"))]
    require(is_preset(name), f"there is no preset {name!r}{nearest(name, known)}")
    return PRESETS[name if name in PRESETS else f"{name}-v2"]()


def change_encoder(config: EncoderConfig, changes: Sequence[str]) -> EncoderConfig:
    """A preset with changes that were written as `num_layers=6`."""
    return override(config, read_changes(changes))


def read_changes(changes: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        require(equals, f"{change!r} changes nothing; write it as num_layers=6")
        known = [item.name for item in dataclasses.fields(EncoderConfig)]
        require(key in known, f"an encoder has no {key!r}{nearest(key, known)}")
        try:
            values[key] = text if key in ("sharing", "activation") else json.loads(text)
        except ValueError:
            raise UserError(f"{change!r} has a value that is no JSON, such as 6 or true") from None
    check_values(EncoderConfig, values)
    return values
