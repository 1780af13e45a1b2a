"""Durable operations in memory, in sequence order, until the storage writer takes them.

Adjacent appends to one segment are joined while they wait: under load the storage writer receives one item
per megabyte, not one per append batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import DataCorruptionError
from headrace.segmentstore.contract import StorageOperation, StoredAppend
from headrace.segmentstore.state.segment_state import SegmentState


@dataclass(slots=True)
class MemoryLogStatistics:
    operations: int
    added_total: int
    taken_total: int


class OperationMemoryLog:
    """The queue between the durable log (producer) and the storage writer (only consumer). One loop, no
    locks.

    Bounded by the operation processor, which stops accepting at ``count_max`` operations.
    """

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._queue: deque[StorageOperation] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._sequence = 0
        self._added = 0
        self._taken = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add_append(self, sequence: int, segment: SegmentState, offset: int, length: int) -> None:
        """Add a durable append, joined to the last item if it continues that. Raises as :meth:`add`."""
        queue = self._queue
        if queue:
            last = queue[-1]
            if (
                type(last) is StoredAppend
                and last.segment is segment
                and last.offset + last.length == offset
                and sequence > self._sequence
            ):
                last.length += length
                last.sequence = self._sequence = sequence
                return
        self.add(StoredAppend(sequence, segment, offset, length))

    def add(self, operation: StorageOperation) -> None:
        """Add a durable operation. Raises DataCorruptionError if it does not follow the ones before it."""
        if operation.sequence <= self._sequence:
            raise DataCorruptionError(f"operation {operation.sequence} became durable after {self._sequence}")
        self._sequence = operation.sequence
        self._queue.append(operation)
        self._added += 1
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def take(self, count_max: int, timeout_s: float) -> Sequence[StorageOperation]:
        """Remove and return up to ``count_max`` operations; empty after ``timeout_s`` seconds without any."""
        if not self._queue:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._waiter
            except TimeoutError:
                return ()
            finally:
                self._waiter = None
        queue = self._queue
        taken = [queue.popleft() for _ in range(min(len(queue), count_max))]
        self._taken += len(taken)
        return taken

    def statistics(self) -> MemoryLogStatistics:
        return MemoryLogStatistics(len(self._queue), self._added, self._taken)
