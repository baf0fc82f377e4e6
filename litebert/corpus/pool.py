"""Blocks of documents encoded, in worker processes or here, and handed back in their order."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from litebert.config import UserError
from litebert.corpus.encode import DocumentEncoder, Words, encode_in_worker, start_worker
from litebert.corpus.index import Block, Split
from litebert.corpus.selection import Work
from litebert.corpus.workers import uninterrupted, without_main, worker_context

NUM_AHEAD = 2
"""Blocks that lie ready for each worker, so that none waits."""


def encode_here(
    works: Iterator[Work], encoder: DocumentEncoder
) -> Generator[tuple[Work, dict[Split, Block]], None, None]:
    for work in works:
        yield work, encoder.encode(work.documents)


def encode_in_processes(
    works: Iterator[Work], vocabulary_path: str | Path, words: Words, num_workers: int, num_early: int
) -> Generator[tuple[Work, dict[Split, Block]], None, None]:
    """Encodes blocks in worker processes and hands them back in order, never far ahead of the slowest.

    So many of them start at once, while the first block is read; others where there is more to do.
    """
    pool = ProcessPoolExecutor(num_workers, worker_context(), start_worker, (vocabulary_path, words))
    ahead: deque[tuple[Work, Future[dict[Split, Block]]]] = deque()
    failure: UserError | None = None
    try:
        with uninterrupted(), without_main():
            for _ in range(num_early):
                pool.submit(int)
        try:
            for work in works:
                with uninterrupted(), without_main():
                    ahead.append((work, pool.submit(encode_in_worker, work.documents)))
                while len(ahead) > NUM_AHEAD * num_workers or (ahead and ahead[0][1].done()):
                    yield ahead[0][0], ahead.popleft()[1].result()
        except UserError as error:  # what was read before the mistake is not lost
            failure = error
        while ahead:
            yield ahead[0][0], ahead.popleft()[1].result()
        if failure is not None:
            raise failure
    except BrokenProcessPool:
        raise UserError(
            "a worker process died, perhaps for lack of memory; run the same command again to go on, with fewer workers"
        ) from None
    finally:
        with uninterrupted():
            pool.shutdown(wait=True, cancel_futures=True)
