"""Samples as people read them, on a terminal or a page: segments, pair label, what is hidden and what it was."""

import html
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.pairs import Objective
from litebert.text.normalize import WORD_START, is_ideograph
from litebert.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from rich.text import Text

LABELS: dict[Objective, tuple[str, ...]] = {
    "sop": ("in order", "swapped"),
    "nsp": ("next", "random"),
    "three-way": ("in order", "swapped", "random"),
    "none": (),
}
STYLES = ("cyan", "green")
HIDDEN_STYLE = "bold black on yellow"

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 16px/1.9 system-ui, "Noto Sans CJK SC", sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }}
h1 {{ font-size: 1.3rem; margin-bottom: 0; }} .note {{ color: #666; font-size: .9rem; }}
article {{ border: 1px solid #ddd; border-radius: 8px; padding: .8rem 1.2rem; margin: 1.2rem 0; }}
header {{ color: #666; font-size: .85rem; }} .label {{ background: #333; color: #fff; border-radius: 4px;
  padding: .1rem .5rem; }}
.a {{ background: #e3f0fb; }} .b {{ background: #e4f5e4; }} .mark {{ color: #999; font-size: .8rem; }}
ruby {{ background: #ffe28a; border-radius: 3px; padding: 0 .15rem; margin: 0 .05rem; }}
rt {{ color: #a33; font-size: .7rem; }}
</style></head><body><h1>{title}</h1>
<p class="note">{note} <span class="a">first segment</span> <span class="b">second segment</span>
<ruby>what is shown<rt>what was hidden</rt></ruby></p>
{body}
</body></html>
"""


class Token(NamedTuple):
    """A piece as the model sees it, and what it was where it is to be predicted."""

    shown: str
    segment: int
    is_mark: bool
    hidden: str | None


class Sample(NamedTuple):
    tokens: list[Token]
    label: str

    @property
    def num_hidden(self) -> int:
        return sum(token.hidden is not None for token in self.tokens)

    @property
    def heading(self) -> str:
        return f"{len(self.tokens)} tokens, {self.num_hidden} predicted"


def read_samples(batch: Batch, vocabulary: Vocabulary, objective: Objective) -> list[Sample]:
    """The sequences of a batch as words."""
    assert batch.predicted_positions_P is not None and batch.predicted_ids_P is not None
    hidden = dict(zip(batch.predicted_positions_P.tolist(), batch.predicted_ids_P.tolist(), strict=True))
    labels = [NO_LABEL] * batch.num_sequences if batch.pair_labels_B is None else batch.pair_labels_B.tolist()
    marks = (vocabulary.special.cls, vocabulary.special.sep)
    spell = spell_apart if vocabulary.engine.continuation else str
    samples = []
    for start, length, label in zip(batch.starts, batch.lengths, labels, strict=True):
        ids, segments = (values[start : start + length].tolist() for values in (batch.token_ids_T, batch.segment_ids_T))
        tokens = [
            Token(
                spell(vocabulary.piece(index)),
                segment,
                index in marks and place not in hidden,
                spell(vocabulary.piece(hidden[place])) if place in hidden else None,
            )
            for place, (index, segment) in enumerate(zip(ids, segments, strict=True), start=start)
        ]
        samples.append(Sample(tokens, "no label" if label == NO_LABEL else LABELS[objective][label]))
    return samples


def spell_apart(piece: str) -> str:
    """A piece of WordPiece, which marks what goes on with a word, with the mark of a word's beginning instead."""
    begins_word = piece[:1].isalnum() and not is_ideograph(piece[0])
    return f"{WORD_START}{piece}" if begins_word else piece


def space(piece: str) -> tuple[str, str]:
    """The space before a piece, which SentencePiece's and byte-level ones bring with them, and its characters."""
    if piece.startswith((WORD_START, "Ġ")):
        return " ", piece[1:] or "␣"
    if piece.startswith("##"):
        return "", piece[2:]
    return "", piece


def to_terminal(sample: Sample) -> "Text":
    """In colour: the first segment, the second, and what is hidden, with what it was behind it."""
    from rich.text import Text

    text = Text()
    for token in sample.tokens:
        before, piece = space(token.shown)
        if token.is_mark:
            text.append(f" {piece} ", style="dim")
        elif token.hidden is None:
            text.append(before).append(piece, style=STYLES[token.segment])
        else:
            text.append(" ").append(f"{piece}←{space(token.hidden)[1]}", style=HIDDEN_STYLE).append(" ")
    return Text(" ").join(part for part in text.split(" ") if part)


def to_page(samples: Sequence[Sample], title: str, note: str) -> str:
    """The samples as one HTML page that needs nothing else."""
    body = "\n".join(
        f'<article><header><span class="label">{html.escape(sample.label)}</span> {sample.heading}</header>'
        f"<p>{to_html(sample)}</p></article>"
        for sample in samples
    )
    return PAGE.format(title=html.escape(title), note=html.escape(note), body=body)


def to_html(sample: Sample) -> str:
    parts = []
    for segment, tokens in itertools.groupby(sample.tokens, key=lambda token: token.segment):
        parts.append(f'<span class="{"ab"[segment]}">{"".join(map(token_to_html, tokens))}</span>')
    return " ".join(parts)


def token_to_html(token: Token) -> str:
    before, piece = space(token.shown)
    if token.is_mark:
        return f' <span class="mark">{html.escape(piece)}</span> '
    if token.hidden is None:
        return before + html.escape(piece)
    return f"{before}<ruby>{html.escape(piece)}<rt>{html.escape(space(token.hidden)[1])}</rt></ruby>"
