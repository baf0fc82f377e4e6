"""The file of a benchmark in SQuAD's layout -> its questions."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from litebert.config import UserError, require
from litebert.tasks.quotes import quote, quote_some
from litebert.tasks.tables import read_json

# Under which names a layout has what we need: SQuAD's, and that in which CMRC 2018 was handed out first.
NAMES = {
    "context": ("context", "context_text"),
    "question": ("question", "query_text"),
    "id": ("id", "query_id"),
    "qas": ("qas",),
}


class SpanExample(NamedTuple):
    """A question about a paragraph."""

    id: str
    place: str
    context: str
    question: str
    answers: tuple[tuple[str, int], ...] = ()
    """The texts that are right and where each begins; -1 where that is not said."""
    is_impossible: bool = False
    """Whether it is known to have no answer."""

    @property
    def gold(self) -> tuple[tuple[str, int], ...]:
        return self.answers

    def without_gold(self) -> Self:
        return self._replace(answers=(), is_impossible=False)


def read_examples(path: str) -> Iterator[SpanExample]:
    """The questions of a file, in order."""
    content = read_json(path)
    articles = content.get("data") if isinstance(content, dict) else content
    if not isinstance(articles, list):
        raise UserError(f'{path} has no list under "data"; it must have the layout of SQuAD')
    for number, article in enumerate(articles, 1):
        place = f"{path}, article {number}"
        require(isinstance(article, dict), f"{place}: a JSON {type(article).__name__}, not an object; mend it")
        # In CMRC's first layout a paragraph stands alone.
        paragraphs = article.get("paragraphs", [article])
        require(isinstance(paragraphs, list), f"{place}: 'paragraphs' is {quote(paragraphs)}, not a list; mend it")
        for count, paragraph in enumerate(paragraphs, 1):
            yield from read_paragraph(f"{place}, paragraph {count}", paragraph)


def read_paragraph(place: str, paragraph: Any) -> Iterator[SpanExample]:
    context = pick(place, paragraph, "context", str)
    for number, record in enumerate(pick(place, paragraph, "qas", list), 1):
        at = f"{place}, question {number}"
        question, key = pick(at, record, "question", str), pick(at, record, "id", str | int)
        given = record.get("answers") or []
        require(
            isinstance(given, list), f"{at}: 'answers' is {quote(given)}; it must be a list of texts with their start"
        )
        answers = tuple(read_answer(at, answer) for answer in given)
        is_impossible = bool(record.get("is_impossible", False))
        yield SpanExample(str(key), at, context, question, () if is_impossible else answers, is_impossible)


def pick(place: str, record: Any, field: str, kind: Any) -> Any:
    """What a record has under one of the names of a field."""
    require(isinstance(record, dict), f"{place}: a JSON {type(record).__name__}, not an object; mend it")
    name = next((name for name in NAMES[field] if name in record), None)
    if name is None:
        raise UserError(f"{place}: no {field!r} among its fields ({quote_some(record)}); add it")
    value = record[name]
    require(isinstance(value, kind), f"{place}: {name!r} is {quote(value)}, a {type(value).__name__}; mend it")
    return value


def read_answer(place: str, answer: Any) -> tuple[str, int]:
    text, start = (answer, -1) if isinstance(answer, str) else (None, -1)
    if isinstance(answer, dict):
        text, start = answer.get("text"), answer.get("answer_start", -1)
    if not isinstance(text, str) or not isinstance(start, int):
        raise UserError(f"{place}: an answer is {quote(answer)}; it must have a 'text', and a number as 'answer_start'")
    return text, start
