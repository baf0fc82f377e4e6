"""What the corpora of a run are, so that it never goes on with others."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from litebert.config import require
from litebert.corpus.shards import Corpus, find_indexes


def describe_data(corpora: Sequence[Corpus], weights: Sequence[float]) -> dict[str, Any]:
    """What tells whether corpora are the same: the sha256 of all shards, held-out ones too, and of the vocabulary."""
    described = [
        {
            "path": corpus.path,
            "weight": weight,
            "sha256": hash_shards(corpus.path),
            "tokens": corpus.num_tokens,
            "documents": corpus.num_documents,
        }
        for corpus, weight in zip(corpora, weights, strict=True)
    ]
    return {"corpora": described, "vocabulary": corpora[0].vocabulary.fingerprint}


def hash_shards(path: str) -> str:
    shards = [entry.sha256 for index in find_indexes(path) for entry in index.shards]
    return hashlib.sha256("".join(shards).encode()).hexdigest()


def find_changed(data: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """The corpora that hold something else than before. Where they lie and how they are mixed is the config's to say.

    What was written before is read with care: earlier versions wrote paths in another way, and a file may be damaged.
    """
    listed = before.get("corpora")
    hashes = [entry.get("sha256") for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if data["vocabulary"] != before.get("vocabulary") or len(hashes) != len(data["corpora"]):
        return [corpus["path"] for corpus in data["corpora"]]
    return [corpus["path"] for corpus, sha in zip(data["corpora"], hashes, strict=True) if corpus["sha256"] != sha]


def refuse_changed(data: Mapping[str, Any], before: Mapping[str, Any], where: object, option: str) -> None:
    """Refuses to go on with other corpora than something began with."""
    changed = find_changed(data, before)
    has = "have" if len(changed) > 1 else "has"
    require(
        not changed,
        f"{' and '.join(changed)} {has} been built anew since {where} began; restore what was there, "
        f"or start a new {option}",
    )
