"""Which documents were seen before, in little memory: sorted runs of 64-bit hashes."""

import functools
import hashlib
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

# A run of this many hashes goes to a file, from which only what a search touches is read: 16 MiB each.
LONGEST_RUN = 1 << 21


def hash_text(text: bytes) -> int:
    """64 bits that decide whether a document is held out, which part builds it, and whether it was seen before."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


class Seen:
    """A set of hashes that only grows. Runs of like length are merged, so there are few of them."""

    def __init__(self) -> None:
        self.runs: list[Hashes] = []

    @functools.cached_property
    def folder(self) -> "tempfile.TemporaryDirectory[str]":
        return tempfile.TemporaryDirectory(prefix="litebert-seen-")

    def add(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of these are new, the first of equals among them; they are not new again."""
        is_new = np.zeros(len(hashes), bool)
        is_new[np.unique(hashes, return_index=True)[1]] = True
        for run in self.runs:
            nearest = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            is_new &= run[nearest] != hashes
        if is_new.any():
            self.runs.append(np.sort(hashes[is_new]))
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]) and not self.is_long(self.runs[-2]):
            self.runs[-2:] = [np.sort(np.concatenate(self.runs[-2:]), kind="stable")]
        if self.runs and self.is_long(self.runs[-1]) and not isinstance(self.runs[-1], np.memmap):
            self.runs[-1] = self.move_to_file(self.runs[-1])
        return is_new

    @staticmethod
    def is_long(run: Hashes) -> bool:
        return len(run) >= LONGEST_RUN

    def move_to_file(self, run: Hashes) -> Hashes:
        file = Path(self.folder.name) / f"{len(self.runs)}.u64"
        run.tofile(file)
        return np.memmap(file, np.uint64, mode="r")
