"""The threads that touch chunk files, one pool for each kind of call: a stall delays its own kind only.

On a file system that is mounted over a network a call may stall for minutes. Stalled writes must not delay
reads then, and neither may the deletion of a million objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self, TypeVar

from headrace.errors import StorageReadError, StorageWriteError
from headrace.runtime.blocking import BlockingWork, Threads
from headrace.runtime.bounded_work import BlockingStatistics, Done
from headrace.storage.providers.config import ChunkThreadsConfig

T = TypeVar("T")


class ChunkThreads:
    """Three bounded pools, which belong to it. Used on one event loop.

    What is performed raises no ``OSError``; if there is one, the system gave no thread: then nothing was
    performed, and the caller gets the error that the provider's contract has for that.
    """

    def __init__(self, writes: BlockingWork, reads: BlockingWork, chores: BlockingWork) -> None:
        self._writes = writes
        self._reads = reads
        self._chores = chores

    @classmethod
    def start(cls, threads: Threads, config: ChunkThreadsConfig) -> Self:
        """Make the pools; their threads begin when there is work."""
        return cls(
            threads.pool(config.writes, "chunk-writes"),
            threads.pool(config.reads, "chunk-reads"),
            threads.pool(config.chores, "chunk-chores"),
        )

    @classmethod
    def shared(cls, pool: BlockingWork) -> Self:
        """Do everything in one pool: for tools, and for storage that does not stall."""
        return cls(pool, pool, pool)

    async def write(self, fn: Callable[..., T], *args: Any) -> T:
        """Raises: StorageWriteError if there is no thread."""
        try:
            return await perform(self._writes, fn, *args)
        except OSError as error:
            raise StorageWriteError(str(error)) from error

    async def read(self, fn: Callable[..., T], *args: Any) -> T:
        """Raises: StorageReadError if there is no thread."""
        try:
            return await perform(self._reads, fn, *args)
        except OSError as error:
            raise StorageReadError(str(error)) from error

    async def remove(self, fn: Callable[..., T], *args: Any) -> T:
        """Perform a deletion, which is not urgent. Raises: as :meth:`write`."""
        try:
            return await perform(self._chores, fn, *args)
        except OSError as error:
            raise StorageWriteError(str(error)) from error

    async def look(self, fn: Callable[..., T], *args: Any) -> T:
        """Perform a look at files, which is not urgent. Raises: as :meth:`read`."""
        try:
            return await perform(self._chores, fn, *args)
        except OSError as error:
            raise StorageReadError(str(error)) from error

    def begin(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done) -> None:
        """Perform ``fn`` without a caller that waits; ``done(result, error)`` is called on the loop after it.

        Raises:
            MailboxFullError, ClosedError: it was not begun.
        """
        self._chores.submit(fn, args, done)

    def close(self) -> None:
        """Accept no more; what is queued is still performed. Idempotent."""
        for pool in (self._writes, self._reads, self._chores):
            pool.close()

    async def wait_closed(self) -> None:
        """Wait until every thread has ended."""
        for pool in (self._writes, self._reads, self._chores):
            await pool.wait_closed()

    def statistics(self) -> dict[str, BlockingStatistics]:
        return {
            "writes": self._writes.statistics(),
            "reads": self._reads.statistics(),
            "chores": self._chores.statistics(),
        }


class CancellableCall:
    """A call for a thread to make, unless its caller was cancelled before.

    Without this, a store that stalled for an hour would first have to answer all calls that were cancelled in
    that hour; and what waits in the queue would keep its buffers.
    """

    __slots__ = ("call",)

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.call: tuple[Callable[..., Any], tuple[Any, ...]] | None = (fn, args)

    def __call__(self) -> Any:
        call = self.call
        return None if call is None else call[0](*call[1])


async def perform(pool: BlockingWork, fn: Callable[..., T], *args: Any) -> T:
    """Perform ``fn(*args)`` in ``pool``; if the caller is cancelled before a thread takes it, never."""
    cancellable = CancellableCall(fn, args)
    del args  # or this frame, which a traceback may keep for a while, would have the buffers
    try:
        result: T = await pool.run(cancellable)
    except asyncio.CancelledError:
        cancellable.call = None
        raise
    return result
