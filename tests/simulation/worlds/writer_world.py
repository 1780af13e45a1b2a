"""A storage writer in a world of its own: a log, a cache and a storage that can be crashed and recovered.

The world has what a container would have made durable. ``start`` begins a new epoch the way recovery does:
the segments' durable state is whole, their stored lengths are as old as the last acknowledgement, and the
cache holds only bytes of operations that the log still has. So an acknowledgement that came too early loses
bytes, and ``check_stored`` or the writer itself finds that out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from headrace.runtime.entropy import Entropy, SeededEntropy
from headrace.segmentstore.contract import (
    ReadIndex,
    StorageOperation,
    StoredAppend,
    StoredCheckpoint,
    StoredDelete,
    StoredMerge,
    StoredSeal,
    StoredTruncate,
)
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.storage_writer import StorageWriter
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore
from headrace.testing.storage_faults import FaultyChunkProvider, FaultyRowStore, Injector, no_faults

QUICK = StorageWriterConfig(
    flush_age_s=0.0,
    take_interval_s=0.0,
    take_timeout_s=0.001,
    retry_initial_s=0.001,
    retry_max_s=0.004,
    acknowledge_interval_s=0.0,
    garbage_interval_s=0.001,
)
SMALL_CHUNKS = SegmentStorageConfig(
    rollover_bytes=64, block_bytes=8, concat_copy_bytes_max=16, garbage_delay_s=0.0, provider_timeout_s=5.0
)


class ListMemoryLog:
    """A MemoryLog that holds what it was given."""

    def __init__(self, operations: Sequence[StorageOperation] = ()) -> None:
        self._queue = deque(operations)
        self._changed = asyncio.Event()

    def add(self, operation: StorageOperation) -> None:
        self._queue.append(operation)
        self._changed.set()

    def __len__(self) -> int:
        return len(self._queue)

    async def take(self, count_max: int, timeout_s: float) -> Sequence[StorageOperation]:
        if not self._queue:
            self._changed.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                return ()
        return [self._queue.popleft() for _ in range(min(count_max, len(self._queue)))]


class StrictReadIndex:
    """A ReadIndex that has exactly the bytes it must have, and objects to whatever a writer must not ask."""

    def __init__(self) -> None:
        self.pressure = 0.0
        """What a cache shared with other containers says: their bytes count as well."""
        self._bytes: dict[SegmentState, bytearray] = {}
        self._base: dict[SegmentState, int] = {}
        self._merges: dict[SegmentState, tuple[SegmentState, int]] = {}
        self.dropped: list[str] = []
        self.completed: list[tuple[str, str]] = []

    def append(self, segment: SegmentState, offset: int, data: bytes) -> None:
        base = self._base.setdefault(segment, offset)
        cached = self._bytes.setdefault(segment, bytearray())
        assert base + len(cached) == offset
        cached += data

    def begin_merge(self, target: SegmentState, offset: int, source: SegmentState, length: int) -> None:
        self.append(target, offset, bytes(length))  # a hole: it must not be read
        self._merges[source] = (target, offset)

    def complete_merge(self, target: SegmentState, source: SegmentState) -> None:
        assert source.merged
        assert source.stored_deleted
        merge = self._merges.pop(source, None)
        if merge is not None:
            assert merge[0] is target
            assert target.stored_length >= merge[1] + source.durable_length
        self.completed.append((target.name, source.name))

    def on_changed(self, segment: SegmentState) -> None:
        segment.check()

    def read_direct(self, segment: SegmentState, offset: int, length: int) -> list[memoryview] | None:
        for source, (target, at) in self._merges.items():
            if target is segment and at < offset + length and offset < at + source.durable_length:
                return None
        begin = offset - self._base.get(segment, 0)
        cached = memoryview(bytes(self._bytes.get(segment, b"")))
        if begin < 0 or begin + length > len(cached):
            return None
        middle = begin + length // 2
        return [cached[begin:middle], cached[middle : begin + length]]

    def cache_pressure(self) -> float:
        return self.pressure

    def shared_pressure(self) -> float:
        return self.pressure

    def unstored_bytes(self) -> int:
        return 0

    def drop(self, segment: SegmentState) -> None:
        self._bytes.pop(segment, None)
        self.dropped.append(segment.name)


class WriterWorld:
    """Segments by name, what was done to them, and the writer that stores it."""

    def __init__(
        self,
        *,
        inject: Injector = no_faults,
        supports_append: bool = True,
        entropy: Entropy | None = None,
        writer_config: StorageWriterConfig = QUICK,
        storage_config: SegmentStorageConfig = SMALL_CHUNKS,
    ) -> None:
        self.objects = MemoryChunkProvider(supports_append=supports_append)
        self.provider = FaultyChunkProvider(self.objects, inject)
        self.memory_rows = MemoryRowStore()
        self.rows = FaultyRowStore(self.memory_rows, inject)
        self.entropy = entropy or SeededEntropy(7)
        self.writer_config = writer_config
        self.storage_config = storage_config
        self.epoch = 0
        self.segments: dict[str, SegmentState] = {}
        self.content: dict[str, bytearray] = {}
        self.log: list[StorageOperation] = []
        self.sequence = 0
        self.acknowledged = -1
        self._stored_at_cut: dict[str, int] = {}
        self._payloads: dict[int, bytes] = {}
        self._start_parts()

    # ---------------------------------------------------------------------------------- what a container does

    def append(self, name: str, data: bytes) -> None:
        segment = self._segment(name)
        offset = segment.durable_length
        self.content[name] += data
        segment.durable_length = segment.accepted_length = offset + len(data)
        self.read_index.append(segment, offset, data)
        sequence = self._next()
        self._payloads[sequence] = data
        self._log(StoredAppend(sequence, segment, offset, len(data)))

    def seal(self, name: str) -> None:
        segment = self._segment(name)
        segment.sealed = segment.accepted_sealed = True
        self._log(StoredSeal(self._next(), segment))

    def truncate(self, name: str, offset: int) -> None:
        segment = self._segment(name)
        segment.start_offset = segment.accepted_start_offset = max(offset, segment.start_offset)
        self._log(StoredTruncate(self._next(), segment, offset))

    def merge(self, target_name: str, source_name: str) -> None:
        """Merge a sealed segment; the source's name is free again."""
        target, source = self._segment(target_name), self.segments[source_name]
        assert source.sealed
        offset, length = target.durable_length, source.durable_length
        source.merged = source.accepted_merged = True
        target.durable_length = target.accepted_length = offset + length
        self.content[target_name] += self.content.pop(source_name)
        del self.segments[source_name]
        self.read_index.begin_merge(target, offset, source, length)
        self._log(StoredMerge(self._next(), target, source, offset, length))

    def delete(self, name: str) -> None:
        segment = self.segments.pop(name)
        del self.content[name]
        segment.deleted = segment.accepted_deleted = True
        self._log(StoredDelete(self._next(), segment))

    def checkpoint(self) -> None:
        self._log(StoredCheckpoint(self._next()))

    # ---------------------------------------------------------------------------------- life

    def restart(self) -> None:
        """Begin a new epoch from what is durable, as after a crash."""
        fresh: dict[SegmentState, SegmentState] = {}

        def recover(segment: SegmentState) -> SegmentState:
            if segment not in fresh:
                copy = replace(segment, stored_length=0, stored_sealed=False, stored_deleted=False)
                copy.stored_length = self._stored_at_cut.get(segment.storage_name, 0)
                fresh[segment] = copy
            return fresh[segment]

        self.segments = {name: recover(segment) for name, segment in self.segments.items()}
        self.log = [self._recovered(operation, recover) for operation in self.log]
        self._start_parts()
        for operation in self.log:
            self._replay(operation)

    async def run_until_stored(self, timeout_s: float = 20.0) -> None:
        """Run the writer until everything is stored and acknowledged, or it ends with an error."""
        run = asyncio.ensure_future(self.writer.run())
        await asyncio.sleep(0)
        flush = asyncio.ensure_future(self.writer.flush_all())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait({run, flush}, return_when=asyncio.FIRST_COMPLETED)
            if run.done():
                run.result()
            self.writer.check()
        finally:
            for task in (run, flush):
                task.cancel()
            await asyncio.gather(run, flush, return_exceptions=True)

    async def check_stored(self) -> None:
        """Assert that storage holds exactly what was done, and nothing else."""
        for name, content in self.content.items():
            segment = self.segments[name]
            assert segment.stored_length == segment.durable_length == len(content)
            info = self.storage.info_nowait(segment.storage_name)
            if info is None:
                assert not content
                continue
            assert (info.length, info.start_offset) == (len(content), segment.start_offset)
            assert info.sealed == segment.sealed
            start = info.start_offset
            data = await self.storage.read_stored(segment.storage_name, start, info.length - start)
            assert data == content[start:]
        names = {segment.storage_name for segment in self.segments.values()}
        assert {key[2:] for key in self.memory_rows.keys("s/")} <= names

    async def check_no_garbage(self) -> None:
        """Assert that collecting garbage and orphans of earlier epochs leaves only live objects."""
        while await self.storage.garbage.collect():
            pass
        await self.storage.garbage.collect_orphans()
        live = {chunk.name for key in self.memory_rows.keys("s/") for chunk in self.storage.chunks(key[2:])}
        found = set(self.objects.objects)
        assert live <= found
        ours = {name for name in found - live if f".E-{self.epoch}-" not in name}
        assert not ours, f"objects left behind: {sorted(ours)}"

    # ---------------------------------------------------------------------------------- inside

    def _start_parts(self) -> None:
        self.epoch += 1
        self.read_index = StrictReadIndex()
        self.memory_log = ListMemoryLog()
        self.storage = ChunkedSegmentStorage(
            self.provider, self.rows, self.epoch, self.entropy, self.storage_config
        )
        self.writer = StorageWriter(
            self.memory_log,
            cast("ReadIndex", self.read_index),
            self.storage,
            self._acknowledge,
            self.writer_config,
        )

    def _segment(self, name: str) -> SegmentState:
        if name not in self.segments:
            self.segments[name] = SegmentState(self._next(), name)
            self.content[name] = bytearray()
        return self.segments[name]

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def _log(self, operation: StorageOperation) -> None:
        self.log.append(operation)
        # The log's own copy: the writer may do with its operations what it likes.
        self.memory_log.add(replace(operation))

    async def _acknowledge(self, sequence: int) -> None:
        assert sequence >= self.acknowledged  # a recovered log still has the checkpoint it was cut at
        await asyncio.sleep(0)
        self.acknowledged = sequence
        self.log = [operation for operation in self.log if operation.sequence >= sequence]
        self._stored_at_cut = {s.storage_name: s.stored_length for s in self.segments.values()}

    @staticmethod
    def _recovered(
        operation: StorageOperation, recover: Callable[[SegmentState], SegmentState]
    ) -> StorageOperation:
        match operation:
            case StoredCheckpoint():
                return replace(operation)
            case StoredMerge():
                return replace(
                    operation, segment=recover(operation.segment), source=recover(operation.source)
                )
            case _:
                return replace(operation, segment=recover(operation.segment))

    def _replay(self, operation: StorageOperation) -> None:
        self.memory_log.add(replace(operation))
        match operation:
            case StoredAppend():
                data = self._payloads[operation.sequence]
                self.read_index.append(operation.segment, operation.offset, data)
            case StoredMerge():
                self.read_index.begin_merge(
                    operation.segment, operation.offset, operation.source, operation.length
                )
            case _:
                pass
