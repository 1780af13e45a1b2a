"""A container's surroundings, as far as a read index sees them: states, storage, bytes to compare with."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any, Final

import numpy as np

from headrace.errors import (
    DataCorruptionError,
    NoSuchSegmentError,
    SegmentTruncatedError,
    StorageReadError,
)
from headrace.limits import KIB
from headrace.runtime.open_file import FileSpan, OpenFile
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.readindex import (
    prefetch_policy,
    read_index,
    read_plan,
    segment_index,
    storage_fetches,
)
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.readindex.read_index import ContainerReadIndex, ReadIndexConfig
from headrace.segmentstore.state.segment_state import SegmentState

BLOCK: Final = 4096

#: Constants, see ``replaced``, with which segments of some hundred kilobytes do what large ones do.
SMALL_SIZES: Final = {
    (prefetch_policy, "PIECE_BYTES"): 8 * KIB,
    (prefetch_policy, "WINDOW_BYTES_MAX"): 64 * KIB,
    (storage_fetches, "PIECE_BYTES"): 8 * KIB,
    (read_plan, "STORAGE_READ_ALIGNMENT"): 2 * KIB,
    (read_plan, "SEQUENTIAL_READ_ALIGNMENT"): 8 * KIB,
    (read_index, "STORAGE_READ_ALIGNMENT"): 2 * KIB,
    (read_index, "SEQUENTIAL_READ_ALIGNMENT"): 8 * KIB,
    (read_index, "AT_ONCE_BYTES_MIN"): 8 * KIB,
    (read_index, "AT_ONCE_BYTES_MAX"): 32 * KIB,
    (segment_index, "MERGE_COPY_BYTES_MAX"): 2 * KIB,
}


def small_cache(blocks: int, **config: Any) -> BlockCache:
    """A cache of so many blocks, in arenas of 64, with extents of up to 16."""
    defaults: dict[str, Any] = {"arena_bytes": 64 * BLOCK, "extent_bytes_max": 16 * BLOCK}
    return BlockCache(CacheConfig(bytes_max=blocks * BLOCK, **{**defaults, **config}))


class FakeStorage:
    """Stored bytes by segment. Reads can be blocked, made to fail, and are listed."""

    def __init__(self) -> None:
        self.segments: dict[str, bytearray] = {}
        self.starts: dict[str, int] = {}
        """Where the stored bytes of truncated segments begin."""
        self.reads: list[tuple[str, int, int]] = []
        self.failures = 0
        self.short_answers = 0
        """So many answers are half of what was asked for."""
        self.bytes_per_s = 0
        """How fast it answers; 0: at once."""
        self.damaged_at = -1
        """This byte of any segment cannot be read; answers end in front of it."""
        self.warm_bytes = 0
        """Bytes at the beginning of every segment that can be read without waiting."""
        self.warm_period = 0
        """If not 0, so is as much at every multiple of it."""
        self.block_bytes = 1024
        self.file = OpenFile(7)
        self.reads_at_once: list[tuple[str, int, int]] = []
        self._gate = asyncio.Event()
        self._gate.set()

    @property
    def is_stalled(self) -> bool:
        return not self._gate.is_set()

    def stall(self) -> None:
        self._gate.clear()

    def resume(self) -> None:
        self._gate.set()

    async def read_some(self, segment: str, offset: int, length: int) -> bytes:
        self.reads.append((segment, offset, length))
        await asyncio.sleep(length / self.bytes_per_s if self.bytes_per_s else 0)
        await self._gate.wait()
        if self.failures:
            self.failures -= 1
            raise StorageReadError(f"{segment} at {offset}")
        if segment not in self.segments:
            raise NoSuchSegmentError(segment)
        start = self.starts.get(segment, 0)
        if offset < start:
            raise SegmentTruncatedError(segment, start, offset)
        if self.damaged_at == offset:
            raise DataCorruptionError("not what was written", path=segment, offset=self.damaged_at)
        data = bytes(self.segments[segment][offset : offset + length])
        assert len(data) == length, "the read index asked for bytes that are not stored"
        if offset < self.damaged_at < offset + length:
            return data[: self.damaged_at - offset]
        if self.short_answers:
            self.short_answers -= 1
            return data[: max(1, len(data) // 2)]
        return data

    def read_at_once(
        self, segment: str, offset: int, length: int, buffer: memoryview
    ) -> tuple[int, int, FileSpan | None]:
        """Whole blocks of ``block_bytes`` as far as they are warm, from the one that ``offset`` lies in."""
        content = self.segments.get(segment)
        if content is None or self.failures or not self._gate.is_set():
            return 0, 0, None
        if offset < self.starts.get(segment, 0):
            return 0, 0, None
        first = offset - offset % self.block_bytes
        begin = first - first % self.warm_period if self.warm_period else 0
        warm = min(len(content), begin + self.warm_bytes)
        whole = min(-(-(offset + length) // self.block_bytes) * self.block_bytes, len(content))
        end = min(warm, first + len(buffer), whole)
        if end < len(content):
            end -= end % self.block_bytes
        if end <= offset:
            return 0, 0, None
        buffer[: end - first] = content[first:end]
        self.reads_at_once.append((segment, offset, end - offset))
        return offset - first, end - first, FileSpan(self.file, offset)


class World:
    """Does to states, storage and read index what container and storage writer would do, in their order."""

    def __init__(self, cache: BlockCache | None = None, **config: Any) -> None:
        self.cache = cache or small_cache(256)
        self.storage = FakeStorage()
        self.task_failures: list[BaseException] = []
        self.supervisor = Supervisor("test", lambda _, error: self.task_failures.append(error))
        self.accepted_bytes_max = config.pop("accepted_bytes_max", 0)
        self.index = ContainerReadIndex(self.cache, self.storage, self.supervisor, ReadIndexConfig(**config))
        self.bytes: dict[SegmentState, bytearray] = {}
        self.accepted_bytes = 0
        self._accepted: deque[tuple[SegmentState, int] | tuple[SegmentState, SegmentState]] = deque()
        self._next_id = 0

    def create(self, name: str = "s") -> SegmentState:
        self._next_id += 1
        segment = SegmentState(self._next_id, name)
        self.bytes[segment] = bytearray()
        self.storage.segments[segment.storage_name] = bytearray()
        return segment

    def create_stored(self, name: str, length: int) -> SegmentState:
        """A segment known from a checkpoint: everything is in storage, nothing was appended here."""
        segment = self.create(name)
        self.bytes[segment] += pattern(0, length)
        self.storage.segments[segment.storage_name] += self.bytes[segment]
        segment.accepted_length = segment.durable_length = segment.stored_length = length
        return segment

    def append(self, segment: SegmentState, data: bytes | int) -> None:
        offset = segment.durable_length
        if isinstance(data, int):
            data = pattern(offset, data)
        frame = bytearray(data)  # reused at once, as a frame would be
        self.bytes[segment] += data
        segment.accepted_length = segment.durable_length = offset + len(data)
        self.index.append(segment, offset, memoryview(frame))
        frame[:] = bytes(len(frame))

    def accept(self, segment: SegmentState, size: int) -> bool:
        """Accept an append as the operation processor does; it is in flight until :meth:`apply`.

        False, and nothing is changed, while the cache or the log has no free bytes.
        """
        if self.accepted_bytes + size > self.accepted_bytes_max:
            return False
        if not self.index.has_free_capacity():
            return False
        self.index.set_aside(size)
        self._accepted.append((segment, size))
        self.accepted_bytes += size
        segment.accepted_length += size
        return True

    def accept_merge(self, target: SegmentState, source: SegmentState) -> bool:
        """The same for a merge."""
        if not self.has_free_capacity:
            return False
        if not source.sealed:
            self.seal(source)
        self._accepted.append((target, source))
        target.accepted_length += source.durable_length
        return True

    @property
    def has_free_capacity(self) -> bool:
        return self.index.has_free_capacity()

    @property
    def in_flight(self) -> int:
        """How many appends and merges were accepted, and not applied yet."""
        return len(self._accepted)

    def apply(self, count: int | None = None) -> None:
        """The first ``count`` accepted appends and merges are durable; None: all of them."""
        for _ in range(len(self._accepted) if count is None else min(count, len(self._accepted))):
            segment, what = self._accepted.popleft()
            accepted_length = segment.accepted_length
            if isinstance(what, int):
                self.append(segment, what)
                self.accepted_bytes -= what
                self.index.set_aside(-what)
            else:
                self.begin_merge(segment, what)
            segment.accepted_length = accepted_length

    def store(self, segment: SegmentState, length: int | None = None) -> None:
        """The storage writer has written everything below ``length``, out of the read index."""
        length = segment.durable_length if length is None else length
        offset = segment.stored_length
        if length > offset:
            views = self.index.read_direct(segment, offset, length - offset)
            assert views is not None
            stored = self.storage.segments[segment.storage_name]
            assert len(stored) == offset
            stored += b"".join(views)
            assert stored == self.bytes[segment][:length]
            segment.stored_length = length
        self.index.on_changed(segment)

    def seal(self, segment: SegmentState) -> None:
        segment.accepted_sealed = segment.sealed = True
        self.index.on_changed(segment)

    def truncate(self, segment: SegmentState, offset: int) -> None:
        segment.accepted_start_offset = segment.start_offset = offset
        self.index.on_changed(segment)

    def truncate_in_storage(self, segment: SegmentState, offset: int) -> None:
        """The storage writer has passed a truncation on."""
        self.storage.starts[segment.storage_name] = offset

    def begin_merge(self, target: SegmentState, source: SegmentState) -> None:
        if not source.sealed:
            self.seal(source)
        offset = target.durable_length
        source.accepted_merged = source.merged = True
        self.bytes[target] += self.bytes[source]
        target.accepted_length = target.durable_length = offset + source.durable_length
        self.index.begin_merge(target, offset, source, source.durable_length)
        self.index.on_changed(target)
        self.index.on_changed(source)

    def join_in_storage(self, target: SegmentState, source: SegmentState) -> None:
        """The first half of completing a merge: long-term storage does not know the source any more."""
        self.store(source)
        self.storage.segments[target.storage_name] += self.storage.segments.pop(source.storage_name)

    def complete_merge(self, target: SegmentState, source: SegmentState) -> None:
        """The second half: the read index learns of it."""
        target.stored_length += source.durable_length
        source.deleted = source.accepted_deleted = source.stored_deleted = True
        self.index.complete_merge(target, source)
        self.index.on_changed(target)

    def delete(self, segment: SegmentState) -> None:
        segment.accepted_deleted = segment.deleted = True
        self.index.on_changed(segment)
        self.storage.segments.pop(segment.storage_name, None)
        segment.stored_deleted = True
        self.index.on_changed(segment)

    def evict(self, segment: SegmentState) -> SegmentState:
        """Evict a segment that is idle and stored, and activate it at once.

        Another object stands for it from then on.
        """
        assert segment.is_settled
        self.index.drop(segment)
        again = replace(segment)
        segment.evicted = True
        self.bytes[again] = self.bytes.pop(segment)
        return again

    async def read(self, segment: SegmentState, offset: int, length: int, *, wait: bool = False) -> bytes:
        """Read once; a short answer is short."""
        result = await self.index.read(segment, offset, length, wait=wait)
        assert result.length <= length
        return result.to_bytes()

    async def read_exactly(self, segment: SegmentState, offset: int, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = await self.read(segment, offset + len(data), length - len(data))
            assert piece
            data += piece
        return data

    def check(self) -> None:
        self.cache.check()
        self.index.check()
        for segment in self.bytes:
            segment.check()

    async def close(self) -> None:
        self.index.close()
        await self.index.wait_freed()
        self.storage.resume()
        await self.supervisor.stop()
        self.cache.check()
        assert self.task_failures == []


def pattern(offset: int, length: int) -> bytes:
    """Bytes which contain their offset: each aligned group of four holds its number."""
    numbers = np.arange(offset // 4, (offset + length + 3) // 4, dtype="<u4")
    return numbers.tobytes()[offset % 4 :][:length]


async def settle() -> None:
    """Let every callback and task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)
