"""Configs are frozen dataclasses: checked when made, written as JSON, read back strictly.

Every config class calls `require` in its `__post_init__`, so a config that exists is a config that can run.
"""

import dataclasses
import difflib
import hashlib
import json
import os
import shlex
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Config = TypeVar("Config")


class UserError(ValueError):
    """A mistake its maker can correct. Commands print it as one sentence and exit with code 2."""


class OtherFormatError(ValueError):
    """Sealed JSON of a format that this version does not read."""


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
    hints = typing.get_type_hints(kind)
    values = {key: from_json(value, hints.get(key)) for key, value in values.items()}
    check_values(kind, values)
    missing = [
        field.name
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        if field.default is field.default_factory is dataclasses.MISSING and field.name not in values
    ]
    require(not missing, f"{kind.__name__} lacks {', '.join(missing)}")
    return kind(**values)


def read_config(kind: type[Config], path: Path) -> Config:
    """A config from a JSON file, which is named where something is wrong with it."""
    content = read_json(path)
    try:
        return from_dict(kind, content)
    except UserError as error:
        raise UserError(f"{path} cannot be used ({error}); restore it, or name another") from None


def from_json(value: Any, hint: Any) -> Any:
    """A field's value from what JSON held: lists are tuples, and a config within a config is an object."""
    if isinstance(value, dict) and dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value)
    return tuple(value) if isinstance(value, list) else value


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """A copy of `config` with `changes`, refused like those of `from_dict`."""
    check_values(type(config), changes)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def check_values(kind: type, values: Mapping[str, Any]) -> None:
    known = typing.get_type_hints(kind)
    for key, value in values.items():
        require(key in known, f"{kind.__name__} has no {key!r}{nearest(key, known)}")
        require(fits(value, known[key]), f"{key} is {value!r}; it must be {type_name(known[key])}")


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
    return isinstance(value, origin or hint)  # of dict[str, float] only that it is a dict


def refuse_changes(
    asked: Mapping[str, Any], before: Mapping[str, Any], where: object, *, kind: str = "run", option: str = "--run"
) -> None:
    """Refuses to go on with a run under another config than the one it began with."""
    changes = [change for name in before for change in list_changes(name, asked.get(name), before[name])]
    require(
        not changes,
        f"{where} is a {kind} with another config (now {'; '.join(changes)}); give the same to go on with it, "
        f"or a new {option}",
    )


def list_changes(name: str, asked: Any, before: Any) -> list[str]:
    """As a user types them; of a config within a config, what differs there, for its options have no prefix."""
    if asked == before:
        return []
    if isinstance(asked, Mapping) and isinstance(before, Mapping):
        keys = {**before, **asked}
        return [change for key in keys for change in list_changes(key, asked.get(key), before.get(key))]
    return [f"{spell_option(name, asked)} instead of {spell_option(name, before)}"]


def spell_option(name: str, value: Any) -> str:
    """A field with its value as it is typed on a command line."""
    option = f"--{name.replace('_', '-')}"
    if value is None or value is False or value in ((), []):
        return f"no {option}"
    if value is True:
        return option
    return f"{option} {shlex.join(map(str, value if isinstance(value, tuple | list) else [value]))}"


def type_name(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(hint)))
    return hint.__name__ if isinstance(hint, type) else str(hint)


def check_count(name: str, value: int, most: int) -> None:
    """Also from above: what no machine can do should be refused before it is tried for minutes."""
    require(value > 0, f"{name} is {value}; it must be at least 1")
    require(value <= most, f"{name} is {value}; it must be at most {most:,}")


def check_seed(seed: int) -> None:
    require(0 <= seed < 1 << 62, f"seed is {seed}; it must be at least 0 and below 2^62")


def plain_path(path: str | None) -> str | None:
    """Without what makes no other path of it, such as the slash that a shell's completion adds."""
    return os.path.normpath(path) if path else path


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; a file that is missing, cut short or not an object is refused by name."""
    require(not path.is_dir(), f"{path} is a folder; name a file")
    require(path.is_file(), f"{path} does not exist; correct the path")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also of letters, and of numbers beyond measure
        raise UserError(f"{path} is not valid JSON ({error}); write it again or restore it") from None
    require(isinstance(content, dict), f"{path} holds a JSON {type(content).__name__}, not an object")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def seal(content: Mapping[str, Any], number: int) -> str:
    """JSON that holds its own sha256, so that no byte of it can change unseen; `number` is that of its format."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps({"format": number, "sha256": digest, **content}, indent=1) + "\n"


def unseal(text: bytes, number: int) -> dict[str, Any]:
    """What was sealed; a ValueError says what is wrong with the text, in words that follow the name of its file."""
    try:
        content = json.loads(text)
        found, _ = content.pop("format"), content.pop("sha256")
        # The text, not the sha256, is compared: white space and doubled keys are gone from what JSON read.
        whole = seal(content, number).encode() == text
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise ValueError("is damaged") from None
    if found != number:
        raise OtherFormatError(f"has format {found!r}; this version reads {number}")
    if not whole:
        raise ValueError("is damaged")
    return content
