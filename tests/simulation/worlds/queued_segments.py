"""Segments in memory whose changes wait in a queue before they are accepted, as those of a container do.

Fault model: the log takes nothing, or few changes, while more of them queue; a caller that gives up in the
queue leaves it, one that gives up later has changed something; a change can be refused when it leaves the
queue, and is if it is too large; storage fails; idle segments are evicted and activated as other objects.
What is accepted is never lost: an answer before it was durable is convicted by its time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from headrace.errors import (
    ContainerOfflineError,
    EventTooLargeError,
    NoSuchSegmentError,
    SegmentExistsError,
    SegmentSealedError,
    SegmentTruncatedError,
    StorageReadError,
)
from headrace.model.attributes import AttributeUpdate
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.state.segment_state import SegmentState
from tests.simulation.worlds.memory_segments import Decide, Disk, MemorySegments

T = TypeVar("T")


class QueuedSegments(MemorySegments):
    """The same with a queue in front of it. ``on_durable`` is called for each durable change."""

    def __init__(self, on_durable: Callable[[SegmentState, Disk | None], None]) -> None:
        super().__init__(auto_commit=False)
        self.is_closed = False
        """Whether the log takes nothing."""
        self.append_bytes_max = 1 << 30
        self.read_failures = 0
        """So many of the next reads fail."""
        self.on_deleting: Callable[[str], None] = lambda _: None
        """Called with the name of a segment when its deletion ends or fails: a container drops its table."""
        self._on_durable = on_durable
        self._creating: dict[str, asyncio.Future[SegmentState]] = {}
        self._changes: deque[tuple[asyncio.Future[Any], Decide[Any]]] = deque()

    # ---- the queue

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued, and nothing accepted that is not durable."""
        return not self._changes and not self._operations

    def open_queue(self) -> None:
        """Let the log take all there is, and all that comes."""
        self.is_closed = False
        self.admit(len(self._changes))

    def admit(self, count: int) -> None:
        """Accept or refuse the first ``count`` of the queue; those given up do not count."""
        while self._changes and count > 0:
            decided, decide = self._changes.popleft()
            if decided.done():
                continue
            count -= 1
            try:
                decided.set_result(decide())
            except Exception as error:
                decided.set_exception(error)

    async def flush(self) -> None:
        """Wait until all that is accepted is durable, as a store does before it refuses."""
        if self._operations:
            await super()._accept(lambda: None, None)

    async def _submit(self, decide: Decide[T], segment: SegmentState | None = None) -> T:
        if segment is None:
            return await self._enqueue(decide)
        segment.users += 1
        try:
            return await self._enqueue(decide)
        finally:
            segment.users -= 1

    async def _enqueue(self, decide: Decide[T]) -> T:
        if self.is_closed or self._changes:
            loop = asyncio.get_running_loop()
            decided: asyncio.Future[tuple[T, asyncio.Future[None]]] = loop.create_future()
            self._changes.append((decided, decide))
            answer, durable = await decided
        else:
            answer, durable = decide()
        await durable
        return answer

    def _accept(
        self, apply: Callable[[], None], segment: SegmentState | None, data: bytes = b""
    ) -> asyncio.Future[None]:
        assert segment is not None

        def apply_and_notify() -> None:
            apply()
            self._on_durable(segment, self.disks.get(segment.name))

        return super()._accept(apply_and_notify, segment, data)

    # ---- segments that are not in memory

    def evict(self, name: str) -> None:
        self._segments.pop(name).evicted = True

    def is_evictable(self, name: str) -> bool:
        """Whether a container could evict the segment, as far as it knows."""
        segment = self._segments.get(name)
        if segment is None or self.disks.get(name) is not self._disk(segment):
            return False
        return (
            not segment.users
            and segment.accepted_length == segment.durable_length
            and not (segment.accepted_deleted or segment.accepted_start_offset != segment.start_offset)
        )

    async def resolve(self, name: str) -> SegmentState:
        if name not in self._segments and name in self.disks:
            await asyncio.sleep(0)
            if name not in self._segments and name in self.disks:
                self._segments[name] = self._open(name, self.disks[name])
        segment = self.get_segment(name)
        if self.disks.get(name) is not self._disk(segment):
            raise NoSuchSegmentError(name)  # its creation is not durable
        return segment

    # ---- changes and reads

    async def create(self, name: str, attributes: dict[bytes, int]) -> SegmentState:
        """Create a segment, one request after the other, and also if the caller has given up."""
        while (pending := self._creating.get(name)) is not None:
            await asyncio.wait([pending])
        creation = self._creating[name] = asyncio.ensure_future(self._create(name, attributes))
        creation.add_done_callback(partial(self._end_creation, name))
        return await asyncio.shield(creation)

    async def _create(self, name: str, attributes: dict[bytes, int]) -> SegmentState:
        if name in self._segments and self._segments[name].accepted_deleted:
            await self.flush()
        elif name in self.disks:
            raise SegmentExistsError(name)
        return await super().create(name, attributes)

    def _end_creation(self, name: str, creation: asyncio.Future[SegmentState]) -> None:
        del self._creating[name]
        if not creation.cancelled():
            creation.exception()  # perhaps no caller waits

    def _decide_append(
        self, segment: SegmentState, data: bytes, updates: Sequence[AttributeUpdate], expected_offset: int
    ) -> tuple[int, asyncio.Future[None]]:
        if len(data) > self.append_bytes_max:
            raise EventTooLargeError(len(data), self.append_bytes_max)
        return super()._decide_append(segment, data, updates, expected_offset)

    async def delete(self, segment: SegmentState) -> None:
        try:
            await super().delete(segment)
        finally:
            self.on_deleting(segment.name)

    async def read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        if segment.evicted:
            raise ContainerOfflineError(f"segment {segment.name!r} was evicted meanwhile; look it up again")
        segment.users += 1
        try:
            return await self._read(segment, offset, length_max, wait=wait)
        finally:
            segment.users -= 1

    async def _read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        self._check_read(segment, offset)
        while wait and offset >= segment.durable_length:
            if segment.sealed:
                raise SegmentSealedError(segment.name)
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
            self._check_read(segment, offset)
        if self.hold_reads is not None:
            await self.hold_reads.wait()
        await asyncio.sleep(0)
        if self.read_failures:
            self.read_failures -= 1
            raise StorageReadError(f"{segment.name} at {offset}")
        self._check_read(segment, offset)
        end = min(offset + length_max, offset + self.read_bytes_max, segment.durable_length)
        data = bytes(self._disk(segment).data[offset:end])
        return ReadResult(offset, [memoryview(data)] if data else [], at_tail=not data)

    def _check_read(self, segment: SegmentState, offset: int) -> None:
        """What is gone or truncated is so for readers once it is durable."""
        if segment.deleted:
            raise NoSuchSegmentError(segment.name)
        if offset < segment.start_offset:
            raise SegmentTruncatedError(segment.name, segment.start_offset, offset)

    def _require_live(self, segment: SegmentState) -> None:
        if segment.evicted:
            raise ContainerOfflineError(f"segment {segment.name!r} was evicted meanwhile; look it up again")
        super()._require_live(segment)
