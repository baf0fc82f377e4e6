"""Checkpoints that outlast a kill, a full disk and a flipped byte.

    checkpoints/latest           the name of the checkpoint saved last, and the sha256 of its manifest
    checkpoints/step_00000500/   manifest.json       the size and the sha256 of every other file, sealed
                                 state.json          what is no tensor
                                 model.safetensors   the tensors whose names begin with "model."; other groups likewise

A checkpoint is written into a hidden folder and renamed when all of it is on the disk, so that it is there whole or not
at all. Nothing is loaded that is not, byte for byte, what was saved: torch and safetensors would not notice.
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import Tensor

from litebert import files
from litebert.config import UserError, require, seal, unseal

FORMAT = 1
MANIFEST, STATE, LATEST = "manifest.json", "state.json", "latest"
# A folder under the second name stepped aside for a new one of the same step, which a kill may have kept from coming.
FOLDER_NAME = re.compile(r"step_([0-9]+)|\.step_([0-9]+)\.replaced")
# What a kill may leave half written or half removed.
UNFINISHED = ".unfinished"
DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
}  # fmt: skip
"""The names that safetensors has for them."""

Buffer = bytes | memoryview

logger = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """All that a run needs to go on from a step."""

    path: Path
    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


class DamageError(ValueError):
    """What is wrong with a checkpoint, in words that follow its name."""


def save_checkpoint(
    folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], *, keep: int = 3
) -> Path:
    """Saves a checkpoint into `folder`, and then removes all but the `keep` newest. One process alone may save there.

    `state` must be what JSON can hold. An error of the disk leaves the checkpoints that were there as they were.
    """
    require(step >= 0, f"step is {step}; it must be 0 or more")
    require(keep >= 1, f"keep is {keep}; it must be 1 or more, or no checkpoint would be left")
    target = folder / f"step_{step:08}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)  # it may be what fills the disk
        digest = write_checkpoint(unfinished(target), step, serialize(tensors, state))
        put_in_place(target)
        replace_latest(folder, f"{target.name} {digest}\n")
    except OSError as error:
        raise UserError(describe_failure(target, error)) from None
    finally:
        remove_unfinished(folder)
    remove_old(folder, step, keep)
    return target


def unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}{UNFINISHED}")


def serialize(tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Iterator[tuple[str, Iterable[Buffer]]]:
    """The files of a checkpoint, each in parts that follow one another; tensors are not copied."""
    yield STATE, [f"{json.dumps(state, indent=1)}\n".encode()]
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        group = name.split(".")[0]
        require(re.fullmatch(r"\w[\w-]*", group), f"the tensor {name!r} needs a name that begins with that of its file")
        groups.setdefault(group, {})[name] = tensor.detach().cpu().contiguous()
    for group, members in groups.items():
        yield f"{group}.safetensors", to_safetensors(members)


def to_safetensors(tensors: Mapping[str, Tensor]) -> Iterator[Buffer]:
    """A file of safetensors: the length of its header, the header, and the tensors. Their own function copies twice."""
    header, end = {}, 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for tensor in tensors.values():
        yield tensor.reshape(-1).view(torch.uint8).numpy().data


def write_checkpoint(path: Path, step: int, contents: Iterable[tuple[str, Iterable[Buffer]]]) -> str:
    """Writes a checkpoint's folder to the disk; returns the sha256 of its manifest.

    Each sha256 is that of the bytes in memory, and not of the file, so that an error while writing does not go unseen.
    """
    path.mkdir()
    entries = {name: write_through(path / name, parts) for name, parts in contents}
    manifest = seal({"step": step, "files": entries}, FORMAT).encode()
    write_through(path / MANIFEST, [manifest])
    sync_folder(path)
    return hash_bytes(manifest)


def hash_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_through(path: Path, parts: Iterable[Buffer]) -> dict[str, Any]:
    """Writes a file and waits until it is on the disk; what the manifest says of it."""
    size, digest = 0, hashlib.sha256()
    with path.open("wb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
            size += len(part)
        file.flush()
        os.fsync(file.fileno())
    return {"size": size, "sha256": digest.hexdigest()}


def sync_folder(path: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems know no such thing for folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def put_in_place(target: Path) -> None:
    """Gives a finished checkpoint its name.

    No folder can be renamed onto another. One of the same step, as a rule a damaged one that a resumed run passes
    again, steps aside under a name at which it is still found, so that at no moment both are out of reach.
    """
    if target.exists():
        aside = target.with_name(f".{target.name}.replaced")
        remove(aside)
        target.rename(aside)
    unfinished(target).rename(target)
    sync_folder(target.parent)


def replace_latest(folder: Path, text: str) -> None:
    file = unfinished(folder / LATEST)
    write_through(file, [text.encode()])
    file.replace(folder / LATEST)
    sync_folder(folder)


def describe_failure(target: Path, error: OSError) -> str:
    good = next((path.name for path in find_checkpoints(target.parent) if verify_checkpoint(path) is None), None)
    kept = f"the last good checkpoint, {good}, is intact" if good else "there is no good checkpoint yet"
    return (
        f"the checkpoint {target} cannot be written ({error.strerror or error}); {kept}: "
        "free space, or whatever else the cause asks for, and run the same command again"
    )


def remove_old(folder: Path, step: int, keep: int) -> None:
    """Removes what the checkpoint of `step` makes superfluous.

    Newer ones stay. They are damaged, or the run would have gone on from them, but that is for their owner to decide.
    """
    passed = [path for path in find_checkpoints(folder) if step_of(path) <= step]
    replaced = [path for path in passed if path.name.startswith(".")]
    old = [path for path in passed if path not in replaced][keep:]
    for path in replaced + old:
        try:
            path.rename(unfinished(path))  # so that half of it is never taken for a damaged checkpoint
        except OSError as error:
            warn_of_leftover(path, error)
    remove_unfinished(folder)


def remove_unfinished(folder: Path) -> None:
    for path in folder.glob(f".*{UNFINISHED}"):
        remove(path)


def remove(path: Path) -> None:
    """Removes a file or a folder. One that stays is no reason to stop a run."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        warn_of_leftover(path, error)


def warn_of_leftover(path: Path, error: OSError) -> None:
    logger.warning("%s cannot be removed (%s) and takes up space; remove it", path, error.strerror or error)


def load_checkpoint(folder: Path, *, warn: Callable[[str], None] = logger.warning) -> Checkpoint | None:
    """The newest good checkpoint of a folder, or None if it has none at all.

    Every byte is verified. Each newer one that is damaged is told of through `warn`; if all are, a UserError says so.
    """
    problems: dict[Path, str] = {}
    checkpoint = None
    for path in find_checkpoints(folder):
        try:
            checkpoint = read_checkpoint(path)
            break
        except DamageError as error:
            problems[path] = str(error)
    everything = ", ".join(f"{path.name} ({problem})" for path, problem in problems.items())
    require(
        checkpoint or not problems,
        f"no checkpoint in {folder} can be used: {everything}; restore one from a copy, or remove {folder} "
        "to train from the start",
    )
    used = f"{checkpoint.path.name} is used" if checkpoint else "there is no checkpoint"
    pointer_problem = verify_latest(folder)
    if pointer_problem:
        warn(f"{folder / LATEST} {pointer_problem}; {used}")
    for path, problem in problems.items():
        warn(f"the checkpoint {path} cannot be used: {problem}; {used}")
    return checkpoint


def find_checkpoints(folder: Path) -> list[Path]:
    """The folders of checkpoints, good or not: the newest first, and one that stepped aside behind its successor."""
    with files.explain(folder, "read"):
        folders = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    found = [path for path in folders if FOLDER_NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (-step_of(path), path.name.startswith(".")))


def step_of(path: Path) -> int:
    match = FOLDER_NAME.fullmatch(path.name)
    assert match
    return int(match[1] or match[2])


def verify_checkpoint(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None if every byte of it is as it was saved."""
    try:
        read_checkpoint(path)
    except DamageError as error:
        return str(error)
    return None


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint, of which each file is read once, so that what is loaded are the very bytes that were verified."""
    step, entries = read_manifest(path)
    with blame(path):
        # Names with a dot in front are the system's: a file removed over NFS while another program reads it has one.
        found = {file.name for file in path.iterdir() if not file.name.startswith(".")}
    for name in sorted(found - entries.keys() - {MANIFEST}):
        raise DamageError(f"{name} does not belong there")
    tensors: dict[str, Tensor] = {}
    state: dict[str, Any] = {}
    for name, entry in entries.items():
        content = read_bytes(path / name)
        check_bytes(name, content, entry)
        if name == STATE:
            state = json.loads(content)
        else:
            tensors |= safetensors.torch.load(content)
    return Checkpoint(path, step, tensors, state)


def read_manifest(path: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """The step of a checkpoint, and the size and the sha256 of its files."""
    text = read_bytes(path / MANIFEST)
    try:
        manifest = unseal(text, FORMAT)
    except ValueError as error:
        raise DamageError(f"{MANIFEST} {error}") from None
    step = manifest["step"]
    if step != step_of(path):
        raise DamageError(f"{MANIFEST} is that of step {step}")
    return step, manifest["files"]


def read_bytes(file: Path) -> bytes:
    with blame(file):
        return file.read_bytes()


@contextlib.contextmanager
def blame(path: Path) -> Iterator[None]:
    """Counts a file that cannot be read as damage."""
    try:
        yield
    except FileNotFoundError:
        raise DamageError(f"{path.name} is missing") from None
    except OSError as error:
        raise DamageError(f"{path.name} cannot be read ({error.strerror or error})") from None


def check_bytes(name: str, content: bytes, entry: Mapping[str, Any]) -> None:
    if len(content) != entry["size"]:
        raise DamageError(f"{name} has {len(content)} bytes; {MANIFEST} says {entry['size']}")
    if hash_bytes(content) != entry["sha256"]:
        raise DamageError(f"{name} is damaged (its sha256 differs)")


def verify_latest(folder: Path) -> str | None:
    """What is wrong with `latest`, or None if it is not there yet or names a checkpoint by the right sha256."""
    if not (folder / LATEST).exists():
        return None
    try:
        match = re.fullmatch(rb"(step_[0-9]+) ([0-9a-f]{64})\n", read_bytes(folder / LATEST))
    except DamageError as error:
        return str(error).removeprefix(f"{LATEST} ")
    if not match:
        return "is damaged"
    name, digest = match[1].decode(), match[2].decode()
    if not (folder / name).is_dir():
        return f"names {name}, which is not there"
    try:
        manifest = read_bytes(folder / name / MANIFEST)
        unseal(manifest, FORMAT)
    except ValueError:
        return None  # the checkpoint is at fault, and told of when it is read
    return None if hash_bytes(manifest) == digest else f"does not fit the {MANIFEST} of {name}"
