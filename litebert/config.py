"""Configs are frozen dataclasses: checked when made, written as JSON, read back strictly.

Every config class calls `require` in its `__post_init__`, so a config that exists is a config that can run.
"""

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Config = TypeVar("Config")


class UserError(ValueError):
    """A mistake its maker can correct. Commands print it as one sentence and exit with code 2."""


def require(condition: object, message: str) -> None:
    """Refuses an impossible value: `message` says what, its value, and what to do."""
    if not condition:
        raise UserError(message)


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` for the known name closest to `name`, or the list of all when nothing is close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(names)})"


def from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """A config from what JSON held; keys it does not have and values of the wrong type are refused."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    check_values(kind, values)
    needed = [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]  # type: ignore[arg-type]
    missing = [name for name in needed if name not in values]
    require(not missing, f"{kind.__name__} lacks {', '.join(missing)}")
    return kind(**values)


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """A copy of `config` with `changes`, refused like those of `from_dict`."""
    check_values(type(config), changes)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def check_values(kind: type, values: Mapping[str, Any]) -> None:
    known = typing.get_type_hints(kind)
    for key, value in values.items():
        require(key in known, f"{kind.__name__} has no {key!r}{nearest(key, known)}")
        require(fits(value, known[key]), f"{kind.__name__}.{key} is {value!r}; it must be {type_name(known[key])}")


def check_fields(config: Any) -> None:
    """For `__post_init__`: refuses values of the wrong type, and names that a `Literal` does not list."""
    check_values(type(config), {field.name: getattr(config, field.name) for field in dataclasses.fields(config)})


def fits(value: object, hint: Any) -> bool:
    """Whether a value read from JSON or a command line fits a field's type."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option) for option in typing.get_args(hint))
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, typing.get_args(hint)[0]) for item in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def type_name(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(hint)))
    return hint.__name__ if isinstance(hint, type) else str(hint)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; a file that is missing, cut short or not an object is refused by name."""
    require(path.is_file(), f"{path} does not exist")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid JSON ({error}); write it again or restore it") from None
    require(isinstance(content, dict), f"{path} holds a JSON {type(content).__name__}, not an object")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
