"""The threads that touch chunk files, apart by what they do, so that what hangs holds up only its like.

On a file system that is mounted over a network a call may hang for minutes. Hung writes then must not keep
anybody from reading, and neither may the deletion of a million objects.
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

    What is performed raises no ``OSError``; one that comes all the same is the system's, which gives no
    thread: then nothing was performed, and whoever asked is told what the provider's contract has for that.
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
        """Do everything in one pool: for tools, and for storage that does not hang."""
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
        """Perform a deletion, which nobody waits for impatiently. Raises: as :meth:`write`."""
        try:
            return await perform(self._chores, fn, *args)
        except OSError as error:
            raise StorageWriteError(str(error)) from error

    async def look(self, fn: Callable[..., T], *args: Any) -> T:
        """Perform a look at files that nobody waits for impatiently. Raises: as :meth:`read`."""
        try:
            return await perform(self._chores, fn, *args)
        except OSError as error:
            raise StorageReadError(str(error)) from error

    def begin(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done) -> None:
        """Perform something that nobody waits for; ``done(result, error)`` is called on the loop behind it.

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


class Errand:
    """A call for a thread to make, unless whoever asked for it has left before.

    Without this, a store that hung for an hour would first have to answer everything that was given up in
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
    errand = Errand(fn, args)
    del args  # or the frame, which a traceback may keep for a while, would have the buffers
    try:
        result: T = await pool.run(errand)
    except asyncio.CancelledError:
        errand.call = None
        raise
    return result
