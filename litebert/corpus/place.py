"""Where a corpus is built: what was built there before, and the vocabulary beside it."""

import glob
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from litebert import files
from litebert.config import list_changes, require
from litebert.corpus.index import SPLITS, Index, read_index
from litebert.corpus.shards import join_path
from litebert.folders import INDEX_NAME, VOCABULARY_FILES
from litebert.text.documents import Source, is_remote
from litebert.text.vocabulary import list_vocabulary

logger = logging.getLogger(__name__)

WORDINGS = {
    "vocabulary": "from another vocabulary",
    "sources": "from other text",
    "config": "from the same text with other options",
    "parts": "in another number of parts",
}
"""How what was built before may differ."""


def is_own(path: str, out: str) -> bool:
    """Whether a file of text is the vocabulary of a corpus, which lies beside it and is no text of it."""
    if Path(path).name not in VOCABULARY_FILES:
        return False
    if files.is_url(path) and files.is_url(out):
        (system, file), (_, folder) = files.connect(path), files.connect(out)
        return system.unstrip_protocol(file).rpartition("/")[0] == system.unstrip_protocol(folder).rstrip("/")
    return files.local_path(path).resolve().parent == files.local_path(out).resolve()


def find_begun(out: str, index: Index) -> Index:
    """What was built there before, else this index. Every other part there must be of the same corpus as this one."""
    begun = index
    for path in find_index_files(out):
        other = read_index(path)
        for name, wording in WORDINGS.items():
            asked, before = index.identity[name], other.identity[name]
            changes = f" (now {'; '.join(list_changes(name, asked, before))})" if name == "config" else ""
            require(asked == before, f"{path} was built {wording}{changes}; choose another --out, or remove it")
        if other.part == index.part:
            begun = other
            check_shards(out, path, other)
    return begun


def remove_unfinished(out: str, index: Index) -> None:
    """What a build of this part that was killed left unfinished; other parts may be built there at this moment."""
    if files.is_url(out) or not files.local_path(out).is_dir():
        return
    part, total = index.part
    middle = "" if total == 1 else f"{part}-of-{total}-"
    names = re.compile(rf"\.(({'|'.join(SPLITS)})-{middle}\d{{5}}\.bin|{re.escape(index.name)})\.[0-9a-f]{{32}}\.tmp")
    for file in files.local_path(out).iterdir():
        if names.fullmatch(file.name):
            file.unlink(missing_ok=True)


def check_shards(out: str, path: str, index: Index) -> None:
    """Refuses to go on where shards that were written before have been lost since."""
    found = files.match_files(join_path(glob.escape(out), "*.bin")) if index.shards else {}
    sizes = {Path(files.name_in_chain(file)).name: size for file, size in found.items()}
    for entry in index.shards:
        require(
            sizes.get(entry.name) == entry.num_bytes(index.token_type),
            f"{join_path(out, entry.name)} is missing or of another size; copy it again or remove {path} to begin anew",
        )


def warn_of_changes(sources: Sequence[Source], out: str) -> None:
    """A text that has kept its name and size since a part of the corpus was built may yet be another."""
    indexes = [] if files.is_url(out) else find_index_files(out)
    if not indexes:
        return
    oldest = min(files.local_path(index).stat().st_mtime for index in indexes)
    here = [files.local_path(source.path) for source in sources if not is_remote(source.path)]
    changed = [path for path in here if find_time(path) > oldest]
    if changed:
        logger.warning(
            "%s was written, or copied, after the corpus in %s; if it is another text now, choose another --out",
            changed[0],
            out,
        )


def find_time(path: Path) -> float:
    """When a file was written last; the beginning of time for a link that leads nowhere."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def find_index_files(out: str) -> list[str]:
    """The indexes in a folder, which need not exist."""
    found = files.match_files(join_path(glob.escape(out), "index*.json"))
    return [path for path in found if INDEX_NAME.fullmatch(Path(path).name)]


def place_vocabulary(source: Path, out: str) -> None:
    """Copies the vocabulary to the corpus, which is thereby complete in itself."""
    found = list_vocabulary(source)
    for name in VOCABULARY_FILES:
        require(
            name in found or not files.exists(join_path(out, name)),
            f"{join_path(out, name)} is of another vocabulary than --vocab's; remove it, or choose another --out",
        )
    for name, file in found.items():
        place_file(join_path(out, name), file.read_bytes())


def place_file(path: str, content: bytes) -> None:
    """Writes a file, unless it is there; another one there belongs to something else, such as a model."""
    if not files.exists(path):
        files.write_file(path, content)
        return
    with files.open_file(path) as file:
        require(file.read() == content, f"{path} is of another vocabulary than --vocab's; choose another --out")
