"""What options a command has, read from its dataclass: for its help, the reference, and shells that complete them."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option as it is typed, or a name for what is given without one."""

    name: str
    help: str
    kind: str
    """What it takes: `int`, `lamb | adamw`; nothing where it is a switch."""
    choices: tuple[str, ...]
    default: str | None
    """As it is typed; nothing where it must be given."""
    group: str
    """What the config it belongs to is for; nothing if it is the command's own."""

    @property
    def is_positional(self) -> bool:
        return not self.name.startswith("--")


def list_options(options: type, default: Any = None, group: str = "") -> Iterator[Option]:
    """Those of a command's `Options`, and of the configs within it, which are typed without a prefix."""
    helps, hints = read_helps(options), typing.get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        hint, value = hints[field.name], find_default(field, default)
        if dataclasses.is_dataclass(hint):
            config = typing.cast(type, hint)
            yield from list_options(config, value, first_paragraph(config))
            continue
        plain, *marks = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        metavar = next((mark.metavar for mark in marks if getattr(mark, "metavar", None)), None)
        is_positional = metavar is not None and tyro.conf.Positional in marks
        yield Option(
            name=str(metavar) if is_positional else f"--{field.name.replace('_', '-')}",
            help=helps.get(field.name, ""),
            kind=describe(plain) if is_positional else metavar or describe(plain),
            choices=find_choices(plain),
            default=show(value),
            group=group,
        )


def find_default(field: "dataclasses.Field[Any]", default: Any) -> Any:
    """The value in a default of the whole, or the field's own, or a mark that there is none."""
    if default not in (None, dataclasses.MISSING):
        return getattr(default, field.name)
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def show(value: Any) -> str | None:
    if value in (dataclasses.MISSING, tyro.MISSING):
        return None
    if value is None or value is False:
        return ""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def describe(hint: Any) -> str:
    """What an option takes, in a word or two."""
    hint = next((part for part in split_union(hint) if part is not types.NoneType), hint)
    if typing.get_origin(hint) is tuple:
        return f"{describe(typing.get_args(hint)[0])}..."
    return " | ".join(find_choices(hint)) or {bool: "", str: "text", Path: "path"}.get(hint, hint.__name__)


def split_union(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def find_choices(hint: Any) -> tuple[str, ...]:
    """The values that a `Literal` lists, also where it may be left out."""
    return tuple(
        str(choice)
        for part in split_union(hint)
        if typing.get_origin(part) is Literal
        for choice in typing.get_args(part)
    )


def read_helps(kind: type) -> dict[str, str]:
    """The strings below a dataclass's fields, each on one line."""
    body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def first_paragraph(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
