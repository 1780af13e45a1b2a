"""What nothing uses any more of a container: deleted in time, held for copies of the log, or purged."""

from __future__ import annotations

import asyncio

from headrace.errors import DataCorruptionError, StorageWriteError
from headrace.storage.chunks.chunk_writer import ChunkWriter
from headrace.storage.chunks.garbage import GarbageBatch, GarbageQueue
from headrace.storage.chunks.garbage_collector import GarbageCollector
from headrace.storage.chunks.garbage_numbers import GarbageNumbers
from headrace.storage.chunks.incarnation import Incarnation
from headrace.storage.chunks.segment_layout import Rows
from headrace.storage.metadata.rows import GarbageRow


class StorageGarbage:
    """The garbage of :class:`ChunkedSegmentStorage`, which adds to it with each commit that drops chunks."""

    def __init__(
        self,
        queue: GarbageQueue,
        numbers: GarbageNumbers,
        collector: GarbageCollector,
        incarnation: Incarnation,
        writer: ChunkWriter,
        container_epoch: int,
    ) -> None:
        self._queue = queue
        self._numbers = numbers
        self._collector = collector
        self._incarnation = incarnation
        self._writer = writer
        self._container_epoch = container_epoch
        self._collecting = asyncio.Lock()
        self.rewriting = asyncio.Lock()
        """Held by whoever makes chunks of what others hold, from his reading to his commit."""

    # ---------------------------------------------------------------------------------- what commits add

    def check_capacity(self) -> None:
        """Raises: ThrottledError: too much garbage waits already."""
        self._queue.check_capacity()

    async def reserve(self, garbage: GarbageRow, rows: Rows) -> GarbageBatch:
        """Add a batch to ``rows``, which are committed next. Raises as ``RowStore.commit``."""
        await self._numbers.reserve()
        return self._queue.reserve(garbage, rows, asyncio.get_running_loop().time())

    def add(self, batch: GarbageBatch) -> None:
        """The rows of a reserved batch are committed."""
        self._queue.add(batch)

    def reread(self, batch: GarbageBatch) -> None:
        """The outcome of the commit of a reserved batch is unknown: its row will show it."""
        self._queue.reread(batch.number, batch.not_before)

    # ---------------------------------------------------------------------------------- deleting

    async def collect(self, objects_max: int = 1000) -> int:
        """Delete up to ``objects_max`` objects that nothing uses any more; return how many were.

        The deletion of an object that fails is retried in a later call.
        """
        self._numbers.load()
        async with self._collecting:
            return await self._collector.collect(objects_max)

    async def collect_orphans(self) -> int:
        """Delete the orphans of former owners; return how many. Lists the objects of the container, or all if
        they are files.

        Call it once after recovery, in the background: it pauses between pages of the listing. It deletes
        nothing if the log is older than its objects, see :meth:`GarbageCollector.collect_orphans`.
        """
        return await self._collector.collect_orphans(
            self._incarnation, self._container_epoch, lambda: self._writer.owner
        )

    async def purge(self, end: int) -> None:
        """Delete the batches below number ``end`` and all orphans, without regard to readers with an old
        layout.

        Raises:
            StorageWriteError: some objects may be left. May be repeated.
            DataCorruptionError: it is not known which objects they are, because rows are damaged.
            StorageReadError: rows or the listing cannot be read now.
        """
        async with self.rewriting:
            pass  # what a rewrite has read before this is garbage now, or an orphan
        orphans = set(self._queue.orphans)
        self._queue.expire(asyncio.get_running_loop().time())
        await self.collect_orphans()
        while await self.collect():
            pass
        orphans.intersection_update(self._queue.orphans)
        if self._queue.damaged_count:
            raise DataCorruptionError(
                f"{self._queue.damaged_count} garbage batches have damaged rows: their objects are unknown"
            )
        if self.first_number < end or orphans:
            raise StorageWriteError("some objects that nothing needs could not be deleted")

    # ---------------------------------------------------------------------------------- holding

    @property
    def next_number(self) -> int:
        """The number of the next batch."""
        self._numbers.load()
        return self._queue.next_number

    @property
    def first_number(self) -> int:
        """A number such that all batches below it are deleted."""
        self._numbers.load()
        return self._queue.first_number()

    def first_free(self) -> int:
        """Return a number below which every batch is committed: its chunks are part of no segment.

        Raises: DataCorruptionError, RowsNotLoadedError.
        """
        self._numbers.load()
        return self._queue.first_uncommitted()

    def hold(self, first: int | None) -> None:
        """Retain the objects of batches from number ``first`` on, until the next call."""
        self._queue.held_from = first

    def holds(self) -> bool:
        """Whether batches wait only because of :meth:`hold`."""
        return self._queue.holds()

    @property
    def waiting(self) -> float:
        """Batches that wait for deletion, as a part of those that may."""
        return self._queue.waiting
