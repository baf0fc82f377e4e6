"""Files on this machine and behind URLs, found, read and written alike.

A local path is opened directly; `s3://`, `gs://`, `https://`, `memory://` and every other protocol goes through fsspec.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from litebert.config import UserError, require

LOCAL = ("file://", "local://")
WILDCARDS = "*?["
WAITS_FOR_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REASONS = {
    errno.EACCES: ("you have no permission", "change that, or choose another path"),
    errno.EPERM: ("you have no permission", "change that, or choose another path"),
    errno.EISDIR: ("it is a folder", "name a file"),
    errno.ENOTDIR: ("a file stands where a folder is wanted", "choose another path"),
    errno.EEXIST: ("a file stands where a folder is wanted", "choose another path"),
    errno.ENOSPC: ("no space is left", "make room, or choose another path"),
    errno.EDQUOT: ("your share of the space is used up", "make room, or choose another path"),
    errno.EFBIG: ("files of this size are not allowed", "raise the limit, or choose another path"),
    errno.EROFS: ("its disk can only be read", "choose another path"),
    errno.ENAMETOOLONG: ("its name is too long", "choose another path"),
    errno.ELOOP: ("it is a link that leads back to itself", "choose another path"),
}
"""Why the system refuses something, and what to do about it, by the number of its error."""
NUMBERS = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    FileExistsError: errno.EEXIST,
}
"""Of errors that come without one, as from behind a URL."""


def is_url(path: str | Path) -> bool:
    """Whether a path is behind a protocol; fsspec's `file://` and `local://` are local paths."""
    return "://" in str(path) and not str(path).startswith(LOCAL)


def local_path(path: str | Path) -> Path:
    path = Path(str(path).removeprefix(LOCAL[0]).removeprefix(LOCAL[1]))
    try:
        return path.expanduser()
    except RuntimeError:  # nobody has that name: as in shells, it is one like others
        return path


def has_wildcard(path: str) -> bool:
    return any(character in path for character in WILDCARDS)


def find_files(pattern: str | Path) -> dict[str, int]:
    """The files that a file, folder, wildcard pattern or URL names, in order, with their sizes in bytes.

    A folder stands for all files below it; names that begin with a dot are left out, since systems and editors hide
    their own files there. A link in it that leads nowhere is left to whoever opens it, and has no bytes. A pattern
    stands for the files and folders that match it, as in shells, and `**` for folders at any depth.
    """
    found = match_files(pattern)
    require(found or not has_wildcard(str(pattern)), f"no file matches {pattern}; correct the pattern")
    require(found, f"the folder {pattern} holds no files; put some there or name another")
    return found


def match_files(pattern: str | Path) -> dict[str, int]:
    """The same, where there may be none."""
    with explain(pattern, "found"):
        found = find_remote(str(pattern)) if is_url(pattern) else find_local(local_path(pattern))
    return dict(sorted(found.items()))


def find_local(path: Path) -> dict[str, int]:
    # A name that exists is taken as it stands, also if it has brackets in it.
    if has_wildcard(str(path)) and not path.exists():
        matches = match_pattern(path)
    else:
        path.stat()  # raises where nothing is
        matches = [path]
    return {str(file): measure(file) for match in matches for file in list_files(match)}


def match_pattern(path: Path) -> list[Path]:
    """The files and folders that match a pattern; none of them is hidden, unless the pattern is."""
    literal = next(parent for parent in path.parents if not has_wildcard(str(parent)))
    pattern = path.relative_to(literal)
    try:
        matches = list(literal.glob(str(pattern)))
    except ValueError as error:
        raise UserError(f"{path} is no pattern ({error}); correct it") from None
    if not is_hidden(pattern):  # as in shells, what begins with a dot must be asked for
        matches = [match for match in matches if not is_hidden(match.relative_to(literal))]
    return matches


def list_files(path: Path) -> Iterable[Path]:
    with contextlib.suppress(OSError):  # of a link that leads nowhere
        if path.is_dir():
            return walk_folder(path)
    return [path]


def is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def measure(file: Path) -> int:
    """The bytes of a file that was found; none of a link that leads nowhere."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def walk_folder(folder: Path) -> Iterator[Path]:
    """All files below a folder, and below those that are linked there.

    Unlike Path.rglob it does not pass in silence over a folder that may not be entered.
    """
    visited: set[str] = set()

    def refuse(error: OSError) -> None:
        raise UserError(describe_refusal(error, error.filename, "read")) from None

    for parent, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        if os.path.realpath(parent) in visited:  # by a link to a folder above it, or to one beside it
            folders.clear()
            continue
        visited.add(os.path.realpath(parent))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def find_remote(url: str) -> dict[str, int]:
    system, path = connect(url)
    before, behind = split_chain(url)

    def spell(name: str) -> str:
        """One way for one file, and with the rest of a chain."""
        return f"{before}{system.unstrip_protocol(name)}{behind}"

    if system.isfile(path):
        return {spell(path): system.size(path) or 0}
    if has_wildcard(path):
        found, known = system.glob(path, detail=True), path[: min(map(path.index, set(WILDCARDS) & set(path)))]
        folders = [name for name, entry in found.items() if entry["type"] == "directory"]
        found = dict(chain(found.items(), *(system.find(name, detail=True).items() for name in folders)))
    else:
        system.info(path)  # raises for a folder that is not there, where `find` only finds nothing
        found, known = system.find(path, detail=True), path
    files = {
        name: entry
        for name, entry in found.items()
        if entry["type"] == "file" and not is_hidden(Path(name.removeprefix(known)))
    }
    return {spell(name): entry["size"] or 0 for name, entry in files.items()}


def split_chain(url: str) -> tuple[str, str]:
    """What stands before and behind the link of a chain of URLs that names a file in it: nothing and `::s3://b/a.zip`
    for `zip://a.txt::s3://b/a.zip`, `simplecache::` and nothing for `simplecache::s3://b/a.txt`."""
    links = url.split("::")
    place = next(number for number, link in enumerate(links) if "://" in link)
    return "".join(f"{link}::" for link in links[:place]), "".join(f"::{link}" for link in links[place + 1 :])


def name_in_chain(path: str | Path) -> str:
    """The link of a chain that names the file; any other path as it is."""
    if not is_url(path):
        return str(path)
    before, behind = split_chain(str(path))
    return str(path).removeprefix(before).removesuffix(behind)


def connect(url: str) -> tuple[Any, str]:
    """The file system behind a URL, and the URL's path in it."""
    import fsspec

    return fsspec.core.url_to_fs(url)


def exists(path: str | Path) -> bool:
    """Whether there is a file or folder at a path."""
    if not is_url(path):
        return local_path(path).exists()
    with explain(path, "found"):
        system, name = connect(str(path))
        return system.exists(name)


def open_file(path: str | Path) -> BinaryIO:
    """A file to read bytes from."""
    with explain(path, "read"):
        if is_url(path):
            system, name = connect(str(path))
            file = system.open(name, "rb")
            weakref.finalize(file, id, system)  # an archive closes its files when nobody holds it any more
            return file
        return local_path(path).open("rb")


@contextlib.contextmanager
def replace_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write bytes to. It appears at `path`, whole, when the block ends, and not at all if the block fails."""
    folder = Path(tempfile.gettempdir()) if is_url(path) else local_path(path).parent
    # The name is ours alone, also among machines that share the folder.
    temporary = folder / f".{Path(path).name}.{uuid.uuid4().hex}.tmp"
    with explain(path, "written"):
        is_special = not is_url(path) and local_path(path).exists() and not local_path(path).is_file()
        require(not is_special or local_path(path).is_dir(), f"{path} is a device or the like, not a file; name a file")
        folder.mkdir(parents=True, exist_ok=True)
        file = temporary.open("xb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with explain(path, "written"):
            move_file(temporary, path)
    except OSError as error:
        if error.errno not in WAITS_FOR_ROOM:  # it may be of whoever fills the file
            raise
        raise UserError(describe_refusal(error, path, "written")) from None
    finally:
        temporary.unlink(missing_ok=True)


def move_file(source: Path, target: str | Path) -> None:
    if is_url(target):
        system, name = connect(str(target))
        system.put_file(str(source), name)
    else:
        source.replace(local_path(target))


def write_file(path: str | Path, content: bytes) -> None:
    """Writes a file whole or not at all."""
    with replace_file(path) as file:
        file.write(content)


def write_json_file(path: str | Path, content: Mapping[str, Any]) -> None:
    """Writes JSON for people and programs, whole or not at all."""
    write_file(path, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")


def fetch(path: str | Path, *, anew: bool = False) -> Path:
    """A file on this machine: `path` itself, or a copy of the URL's, made anew when asked, or when the sizes differ."""
    if not is_url(path):
        require(local_path(path).is_file(), f"{path} is not a file; correct the path")
        return local_path(path)
    found = find_files(path)
    require(len(found) == 1, f"{path} is not one file but {len(found)}; name one of them")
    ((url, size),) = found.items()
    folder, name = url.rsplit("/", 1)
    copy = cache_folder() / hashlib.sha256(folder.encode()).hexdigest()[:16] / name
    if anew or not (copy.is_file() and copy.stat().st_size == size > 0):
        with open_file(url) as source, replace_file(copy) as target:
            shutil.copyfileobj(source, target, 1 << 20)
    return copy


def require_suffix(path: str | Path, suffix: str) -> None:
    """Before a file is replaced that may be something else."""
    require(Path(path).suffix.lower() == suffix, f"{path} does not end in {suffix}; give a name that does")


def is_name(path: str | Path) -> bool:
    """Whether a file can be named so: not with the character 0, nor with half a character."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def hash_file(path: Path) -> str:
    """The sha256 of a file on this machine, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder() -> Path:
    """Where copies of URLs are kept: the folder that LITEBERT_CACHE names, or ~/.cache/litebert."""
    return Path(os.environ.get("LITEBERT_CACHE") or "~/.cache/litebert").expanduser()


@contextlib.contextmanager
def explain(path: str | Path, deed: str) -> Iterator[None]:
    """Says in one sentence why a file cannot be `deed` ("found", "read", "written")."""
    require(is_name(path), f"{path} cannot be {deed}: no file has a name with such characters; correct it")
    try:
        yield
    except OSError as error:
        raise UserError(describe_refusal(error, path, deed)) from None
    except ImportError as error:
        raise UserError(f"{path} cannot be {deed}: its protocol needs another package ({error})") from None
    except Exception as error:  # behind a URL, every protocol has errors of its own
        if not is_url(path):
            raise
        raise UserError(f"{path} cannot be {deed} ({error}); check the URL and your access to it") from None


def describe_refusal(error: OSError, path: object, deed: str) -> str:
    """What the system does not let us do, why, and what can be done about it, in one sentence."""
    number = error.errno or next((number for kind, number in NUMBERS.items() if isinstance(error, kind)), 0)
    if number == errno.ENOENT:
        return f"{path} does not exist; correct the path"
    reason, advice = REASONS.get(number, (error.strerror or str(error), "choose another path"))
    return f"{path} cannot be {deed}: {reason}; {advice}"
