"""Segments in memory whose appends become durable when the test says so, for what is built on
``ContainerSegments``.

Fault model: whatever was accepted and not made durable with :meth:`MemorySegments.commit` is gone
after :meth:`~MemorySegments.crash`; the next append can be refused; a read returns only part of what
was asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from headrace.errors import (
    ContainerOfflineError,
    FencedOutError,
    HeadraceError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentSealedError,
    SegmentTruncatedError,
)
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState
from tests.simulation.worlds.memory_indexes import MemoryIndexes, StoredIndex

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview

Decide = Callable[[], tuple[T, asyncio.Future[None]]]
"""Accepts something at once, or raises why not: what to answer, and when."""


@dataclass(slots=True)
class _Operation:
    """Accepted, not yet durable."""

    done: asyncio.Future[None]
    apply: Callable[[], None]
    segment: SegmentState | None
    data: bytes


@dataclass(slots=True)
class Disk:
    """What a crash leaves."""

    data: bytearray = field(default_factory=bytearray)
    attributes: dict[bytes, int] = field(default_factory=dict)
    start_offset: int = 0
    sealed: bool = False
    index: StoredIndex = field(default_factory=StoredIndex)


class MemorySegments:
    """:class:`ContainerSegments` over byte arrays. What is durable, in ``disks``, survives :meth:`crash`."""

    def __init__(self, disks: dict[str, Disk] | None = None, *, auto_commit: bool = True) -> None:
        self.disks = {} if disks is None else disks
        self.auto_commit = auto_commit
        """Make each operation durable at once, in the next iteration of the loop."""
        self.read_bytes_max = 1 << 21
        self.fenced = False
        """Whether another process owns the container, which writes find out by themselves."""
        self.hold_reads: asyncio.Event | None = None
        """If set, reads wait for it once they know that their bytes are durable."""
        self.refuse_next: HeadraceError | None = None
        """Raised by the next append instead of accepting it."""
        self.suspend_appends: asyncio.Event | None = None
        """If set, appends wait for it before they are accepted."""
        self.appends = 0
        self.reads = 0
        self.read_bytes = 0
        self._operations: deque[_Operation] = deque()
        self._segments: dict[str, SegmentState] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._next_id = 1
        self._disk_of: dict[int, Disk] = {}
        self._offline = False
        self.indexes = MemoryIndexes(lambda segment: self._disk(segment).index)
        for name, disk in self.disks.items():
            self._segments[name] = self._open(name, disk)

    # ---- time

    @property
    def pending_count(self) -> int:
        return len(self._operations)

    def commit(self, count: int | None = None) -> None:
        """Make the ``count`` oldest accepted operations durable; all of them by default."""
        left = len(self._operations) if count is None else min(count, len(self._operations))
        while left > 0 and self._operations:
            left -= 1
            operation = self._operations.popleft()
            operation.apply()
            if not operation.done.done():
                operation.done.set_result(None)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def accepted_data(self, segment: SegmentState) -> list[bytes]:
        """Return the appends to a segment that are accepted and not durable, oldest first."""
        return [operation.data for operation in self._operations if operation.segment is segment]

    def crash(self) -> MemorySegments:
        """Lose what is not durable, fail all waiting callers; return the access after recovery."""
        self._offline = self.indexes.is_offline = True
        for future in [operation.done for operation in self._operations] + self._waiting:
            if not future.done():
                future.set_exception(ContainerOfflineError("crashed"))
                future.exception()  # mark it as retrieved: perhaps no caller waits
        return MemorySegments(self.disks, auto_commit=self.auto_commit)

    def evict(self, name: str) -> None:
        """Forget a segment's state, as a container does with idle ones; it is activated as another object."""
        assert not self._operations
        self._segments[name].evicted = True
        self._segments[name] = self._open(name, self.disks[name])

    def seal(self, name: str) -> None:
        self.disks[name].sealed = self._segments[name].sealed = self._segments[name].accepted_sealed = True

    # ---- ContainerSegments

    async def check_owner(self) -> None:
        if self.fenced:
            raise FencedOutError("a newer owner has taken the container")

    def may_answer(self) -> bool:
        return True

    def find_segment(self, name: str) -> SegmentState | None:
        segment = self._segments.get(name)
        return None if segment is None or segment.accepted_deleted else segment

    async def resolve(self, name: str) -> SegmentState:
        return self.get_segment(name)

    def get_segment(self, name: str) -> SegmentState:
        segment = self.find_segment(name)
        if segment is None:
            raise NoSuchSegmentError(name)
        return segment

    async def create(self, name: str, attributes: dict[bytes, int]) -> SegmentState:
        return await self._submit(partial(self._decide_create, name, attributes))

    async def append(
        self,
        segment: SegmentState,
        data: Buffer,
        updates: Sequence[AttributeUpdate] = (),
        expected_offset: int = -1,
    ) -> int:
        if self.suspend_appends is not None:
            await self.suspend_appends.wait()
        if self.refuse_next is not None:
            error, self.refuse_next = self.refuse_next, None
            raise error
        return await self._submit(
            partial(self._decide_append, segment, bytes(data), updates, expected_offset), segment
        )

    async def read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        while True:
            self._require_live(segment)
            if offset < segment.start_offset:
                raise SegmentTruncatedError(segment.name, segment.start_offset, offset)
            if offset < segment.durable_length or not wait:
                break
            if segment.sealed:
                raise SegmentSealedError(segment.name)
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if self.hold_reads is not None:
            await self.hold_reads.wait()
        await asyncio.sleep(0)
        if offset < segment.start_offset:
            raise SegmentTruncatedError(segment.name, segment.start_offset, offset)
        end = min(offset + length_max, offset + self.read_bytes_max, segment.durable_length)
        data = bytes(self._disk(segment).data[offset:end])
        self.reads += 1
        self.read_bytes += len(data)
        return ReadResult(offset, [memoryview(data)] if data else [], at_tail=not data)

    def read_nowait(self, segment: SegmentState, offset: int, length_max: int) -> ReadResult | None:
        """Answer from what is durable, unless reads wait."""
        end = min(offset + length_max, offset + self.read_bytes_max, segment.durable_length)
        if self.hold_reads is not None or not segment.start_offset <= offset < end:
            return None
        return ReadResult(offset, [memoryview(bytes(self._disk(segment).data[offset:end]))])

    async def truncate(self, segment: SegmentState, offset: int) -> None:
        await self._submit(partial(self._decide_truncate, segment, offset), segment)

    async def delete(self, segment: SegmentState) -> None:
        await self._submit(partial(self._decide_delete, segment), segment)

    # ---- what is decided in the order in which it is accepted

    async def _submit(self, decide: Decide[T], segment: SegmentState | None = None) -> T:
        """Let ``decide`` accept something, or refuse it; return its answer once that is durable."""
        del segment
        answer, durable = decide()
        await durable
        return answer

    def _decide_create(
        self, name: str, attributes: dict[bytes, int]
    ) -> tuple[SegmentState, asyncio.Future[None]]:
        if self.find_segment(name) is not None:
            raise SegmentExistsError(name)
        disk = Disk(attributes=dict(attributes))
        segment = self._segments[name] = self._open(name, disk)

        def apply() -> None:
            self.disks[name] = disk

        return segment, self._accept(apply, segment)

    def _decide_append(
        self, segment: SegmentState, data: bytes, updates: Sequence[AttributeUpdate], expected_offset: int
    ) -> tuple[int, asyncio.Future[None]]:
        self._require_live(segment)
        if segment.accepted_sealed:
            raise SegmentSealedError(segment.name)
        offset = segment.accepted_length
        if expected_offset not in (-1, offset):
            raise OffsetMismatchError(segment.name, expected_offset, offset)
        assert all(update.kind is UpdateKind.REPLACE for update in updates)
        assert len(data) > 0
        self.appends += 1
        segment.accepted_length += len(data)
        disk = self._disk(segment)

        def apply() -> None:
            disk.data += data
            segment.durable_length += len(data)
            values = {update.attribute_id: update.value for update in updates}
            segment.attributes.apply(values)
            disk.attributes.update(values)

        return offset, self._accept(apply, segment, data)

    def _decide_truncate(self, segment: SegmentState, offset: int) -> tuple[None, asyncio.Future[None]]:
        self._require_live(segment)
        if not segment.accepted_start_offset <= offset <= segment.accepted_length:
            raise SegmentTruncatedError(segment.name, segment.accepted_start_offset, offset)
        segment.accepted_start_offset = offset
        disk = self._disk(segment)

        def apply() -> None:
            segment.start_offset = disk.start_offset = offset

        return None, self._accept(apply, segment)

    def _decide_delete(self, segment: SegmentState) -> tuple[None, asyncio.Future[None]]:
        self._require_live(segment)
        segment.accepted_deleted = True
        disk = self._disk(segment)

        def apply() -> None:
            segment.deleted = True
            if self.disks.get(segment.name) is disk:
                del self.disks[segment.name]

        return None, self._accept(apply, segment)

    # ---- inside

    def _open(self, name: str, disk: Disk) -> SegmentState:
        self._next_id += 1
        segment = SegmentState(
            self._next_id,
            name,
            start_offset=disk.start_offset,
            accepted_start_offset=disk.start_offset,
            durable_length=len(disk.data),
            accepted_length=len(disk.data),
            sealed=disk.sealed,
            accepted_sealed=disk.sealed,
            attributes=SegmentAttributes(disk.attributes),
        )
        self._disk_of[segment.segment_id] = disk
        return segment

    def _disk(self, segment: SegmentState) -> Disk:
        return self._disk_of[segment.segment_id]

    def _require_live(self, segment: SegmentState) -> None:
        if self._offline:
            raise ContainerOfflineError("crashed")
        if segment.accepted_deleted or self._segments.get(segment.name) is not segment:
            raise NoSuchSegmentError(segment.name)

    def _accept(
        self, apply: Callable[[], None], segment: SegmentState | None, data: bytes = b""
    ) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        operation = _Operation(loop.create_future(), apply, segment, data)
        self._operations.append(operation)
        if self.auto_commit:
            loop.call_soon(self.commit)
        return operation.done
