"""A page that needs nothing else: tables, figures and text -> HTML, with the style that it is shown in."""

import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from litebert.training.drawing import GREY, GRID, INK, quietly_drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INKS = {
    "#000000": "currentColor", INK: "currentColor", GREY: "var(--soft)", GRID: "var(--line)", "#ffffff": "var(--page)",
}  # fmt: skip
"""What stands in a page for the colours of a figure that are no run's."""
STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #5c5c5c; --line: #d9d9d9; --page: #ffffff; --band: #f5f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --soft: #a5a5a5; --line: #3d3d3d; --page: #16181c; --band: #202329; }
}
body { font: 16px/1.6 system-ui, "Noto Sans CJK SC", sans-serif; color: var(--ink); background: var(--page);
  max-width: 68rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin: 2.8rem 0 .3rem; } h2 small { color: var(--soft); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .2rem; }
p { margin: .4rem 0; } ul { margin: .4rem 0; padding-left: 1.3rem; }
.soft, .soft li, caption, figcaption { color: var(--soft); font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .2rem .45rem; }
th, td { padding: .25rem .45rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-size: .85rem; white-space: normal; color: var(--soft); font-weight: 600; }
td:first-child, th:first-child { text-align: left; }
tr:nth-child(even) td { background: var(--band); }
tfoot td { background: none; color: var(--soft); font-style: italic; }
tfoot tr:first-child td { border-top: 2px solid var(--line); }
.facts tr th { text-align: left; vertical-align: top; font-size: inherit; white-space: nowrap; }
.facts tr td { text-align: left; white-space: normal; background: none; padding-right: 1.5rem; }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { max-width: 100%; min-width: 38rem; height: auto; color: var(--ink); }
svg text { fill: currentColor; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--soft); }
pre { background: var(--band); padding: .7rem 1rem; overflow-x: auto; font-size: .85rem; border-radius: 6px; }
nav a { margin-right: 1rem; } a { color: inherit; }
"""


def make_page(title: str, findings: Sequence[str], sections: Mapping[str, str]) -> str:
    """What was found, in short, and all sections, with a link to each of them by its name at the top."""
    links = "".join(f'<a href="#{html.escape(name)}">{html.escape(name)}</a>' for name in sections)
    body = "\n".join(f'<section id="{html.escape(name)}">{content}</section>' for name, content in sections.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1><nav>{links}</nav>{to_list(findings)}\n{body}\n</body></html>\n"
    )


def to_code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


SOFT = ' class="soft"'
"""What is to be read second."""


def to_paragraph(text: str, *, soft: bool = False) -> str:
    return f"<p{SOFT if soft else ''}>{html.escape(text)}</p>"


def to_list(items: Iterable[str], *, soft: bool = False) -> str:
    points = "".join(f"<li>{html.escape(item)}</li>" for item in items)
    return f"<ul{SOFT if soft else ''}>{points}</ul>" if points else ""


def to_facts(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """A column for each thing, by its name, and a line for each fact; a fact that is the same of all is told once."""
    lines = []
    for name in dict.fromkeys(name for told in facts.values() for name in told):
        values = [to_text(told.get(name, "-")) for told in facts.values()]
        is_same = len({*values}) == 1
        cells = f'<td colspan="{len(values)}">{html.escape(values[0])}</td>' if is_same else to_cells(values, "td")
        lines.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    head = f"<thead><tr>{to_cells(['', *facts], 'th')}</tr></thead>" if len(facts) > 1 else ""
    return f'<div class="scroll"><table class="facts">{head}<tbody>{"".join(lines)}</tbody></table></div>'


def to_cells(values: Iterable[Any], kind: str) -> str:
    return "".join(f"<{kind}>{html.escape(to_text(value))}</{kind}>" for value in values)


def fold(summary: str, content: str) -> str:
    return f"<details><summary>{html.escape(summary)}</summary>{content}</details>"


def to_table(rows: Sequence[Mapping[str, Any]], caption: str = "", below: Sequence[Mapping[str, Any]] = ()) -> str:
    """Of all columns that any row has; what the rows are to be held against stands `below` them."""
    columns = list(dict.fromkeys(column for row in rows for column in row))

    def lines(rows: Iterable[Mapping[str, Any]]) -> str:
        return "".join(f"<tr>{to_cells([row.get(column, '-') for column in columns], 'td')}</tr>" for row in rows)

    head = f"<thead><tr>{to_cells(columns, 'th')}</tr></thead>"
    foot = f"<tfoot>{lines(below)}</tfoot>" if below else ""
    named = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{named}{head}<tbody>{lines(rows)}</tbody>{foot}</table></div>'


def to_text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def to_figure(figure: "Figure", caption: str) -> str:
    """A figure within the page, in the page's own colour of ink."""
    from matplotlib import rc_context

    drawn = io.StringIO()
    # The browser has letters of its own for those that are unknown here.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "litebert"}), quietly_drawn():
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    picture = drawn.getvalue()
    picture = picture[picture.index("<svg") :]
    for color, ink in INKS.items():
        picture = picture.replace(color.lower(), ink)
    return f"<figure>{picture}<figcaption>{html.escape(caption)}</figcaption></figure>"
