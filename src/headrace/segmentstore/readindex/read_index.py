"""The read index of a container: answers reads from cache, storage and merges, or waits for appends.

It decides nothing itself: ``read_plan`` decides what a read needs, ``segment_index`` knows what is cached,
``prefetch_policy`` decides how far to read ahead. This driver calls them in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.errors import (
    ContainerOfflineError,
    NoSuchSegmentError,
    SegmentSealedError,
    SegmentTruncatedError,
)
from headrace.limits import KIB, MIB
from headrace.runtime.settings import internal
from headrace.segmentstore.contract import ReadResult, StorageReader
from headrace.segmentstore.readindex.cache.block_layout import BLOCK_BYTES
from headrace.segmentstore.readindex.cache.cache import COPY_BYTES_MAX, BlockCache
from headrace.segmentstore.readindex.closing_indexes import ClosingIndexes
from headrace.segmentstore.readindex.prefetch_policy import SequentialReaders, grant_window
from headrace.segmentstore.readindex.read_plan import (
    SEQUENTIAL_READ_ALIGNMENT,
    STORAGE_READ_ALIGNMENT,
    Need,
    ReadPlan,
    check_read,
    plan_read,
    plan_storage_range,
)
from headrace.segmentstore.readindex.redirects import Redirect
from headrace.segmentstore.readindex.segment_index import SLACK_BYTES, SegmentIndex, UnstoredBytes
from headrace.segmentstore.readindex.storage_fetches import FetchStatistics, Spawner, StorageFetches
from headrace.segmentstore.readindex.tail_waiters import TailWaiters
from headrace.segmentstore.state.segment_state import SegmentState

AT_ONCE_BYTES_MIN: Final = 256 * KIB
"""Reads of this size and more are read exactly; for smaller ones more is read, and cached."""
AT_ONCE_BYTES_MAX: Final = 1 * MIB
"""Bytes read on the loop at once: a third of a millisecond out of the page cache, checksums included."""
FOLLOWED_SEGMENTS_MAX: Final = 64
"""Segments with known sequential readers; the one read from storage longest ago is forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadIndexConfig:
    """How one container reads from long-term storage."""

    fetches_max: int = internal(
        16, help="Storage reads in flight, of at most 2 MiB each; half of them at most for reading ahead."
    )
    read_ahead: bool = internal(default=True, help="Read ahead of sequential readers.")
    storage_timeout_s: float = internal(30.0, help="Timeout of a storage read, its wait for a slot included.")
    """Storage has a shorter timeout for a range, so that its first block can still be read."""


@dataclass(slots=True)
class ReadIndexStatistics:
    segments: int
    unstored_bytes: int
    waiting_reads: int
    cached_reads: int
    storage_reads: int
    fetches: FetchStatistics


class ContainerReadIndex:
    """Finds any byte of any segment of one container. Implements the ``ReadIndex`` contract.

    ``cache`` is shared by all containers of the process. ``spawner`` runs storage reads; its owner stops it
    after :meth:`close`. All methods run on the container's loop.
    """

    def __init__(
        self,
        cache: BlockCache,
        storage: StorageReader,
        spawner: Spawner,
        config: ReadIndexConfig | None = None,
    ) -> None:
        self._cache = cache
        self._storage = storage
        self._config = config or ReadIndexConfig()
        cache.containers += 1
        self._fetches = StorageFetches(
            storage, spawner, self._config.fetches_max, self._config.storage_timeout_s
        )
        self._indexes: dict[SegmentState, SegmentIndex] = {}
        self._readers: dict[SegmentIndex, SequentialReaders] = {}
        self._closing = ClosingIndexes()
        self._unstored = UnstoredBytes()
        self._set_aside_bytes = 0
        self._closed = False
        self._cached_reads = 0
        self._storage_reads = 0

    # ---------------------------------------------------------------------------------- changes

    def append(self, segment: SegmentState, offset: int, data: memoryview) -> None:
        index = self._indexes.get(segment)
        if index is None:
            index = self._index_of(segment)
        index.append(offset, data)

    def begin_merge(self, target: SegmentState, offset: int, source: SegmentState, length: int) -> None:
        if not length:
            return
        self._index_of(target).begin_merge(offset, self._index_of(source), length)

    def complete_merge(self, target: SegmentState, source: SegmentState) -> None:
        index = self._indexes.get(source)
        if index is None:
            return
        target_index = self._indexes.get(target)
        redirect = index.merged_into
        if target_index is not None and redirect is not None and redirect in target_index.redirects:
            target_index.follow()
            target_index.complete_merge(redirect)
        self._forget(index, NoSuchSegmentError(source.name))

    def on_changed(self, segment: SegmentState) -> None:
        index = self._indexes.get(segment)
        if index is None:
            return
        if segment.deleted and segment.stored_deleted:
            self.drop(segment)
            return
        if segment.stored_length != index.stored or segment.start_offset != index.start:
            index.follow()
        if index.waiters.waiting:
            if segment.sealed or segment.deleted or segment.merged:
                index.waiters.wake_all()
            else:
                index.waiters.wake_below(segment.durable_length)

    def drop(self, segment: SegmentState) -> None:
        index = self._indexes.get(segment)
        if index is not None:
            gone = segment.deleted or segment.merged
            self._forget(index, (NoSuchSegmentError if gone else ContainerOfflineError)(segment.name))

    def set_aside(self, change_bytes: int) -> None:
        if not self._closed:
            self._set_aside_bytes += change_bytes
            self._cache.set_aside_bytes += change_bytes
            assert self._set_aside_bytes >= 0

    def free_unneeded(self, segment: SegmentState) -> None:
        index = self._indexes.get(segment)
        if index is None:
            return
        gone = [index]
        if not segment.deleted:
            joined = index.redirects.take_below(segment.stored_length)
            gone = [redirect.source for redirect in joined]
        while gone:
            index = gone.pop()
            gone += [redirect.source for redirect in index.redirects]
            if self._indexes.get(index.state) is index:
                # Replay needs the memory at once: else the cache grows beyond its bound.
                self._forget(index, NoSuchSegmentError(index.state.name), at_once=True)

    def close(self) -> None:
        """Remove every index, without waiting until its memory is free: :meth:`wait_freed` does."""
        if self._closed:
            return
        self._cache.containers -= 1
        self.set_aside(-self._set_aside_bytes)
        self._closed = True
        self._fetches.close()
        self._readers.clear()
        closing, self._indexes = self._indexes, {}
        self._closing.add(closing.values(), ContainerOfflineError("the container stops"))

    async def wait_freed(self) -> None:
        """Return when the cache has freed the memory of all removed indexes."""
        await self._closing.wait_freed()

    def _index_of(self, segment: SegmentState) -> SegmentIndex:
        index = self._indexes.get(segment)
        if index is None:
            if self._closed:
                raise ContainerOfflineError("the container stops")
            index = SegmentIndex(segment, self._cache, self._unstored)
            self._indexes[segment] = index
        return index

    def _forget(
        self,
        index: SegmentIndex,
        error: NoSuchSegmentError | ContainerOfflineError,
        *,
        at_once: bool = False,
    ) -> None:
        del self._indexes[index.state]
        self._readers.pop(index, None)
        self._fetches.forget(index, error)
        if at_once:
            index.fail_readers(error)
            index.close(index.entries.count)
        else:
            self._closing.add([index], error)

    # ---------------------------------------------------------------------------------- reads

    def read_nowait(self, segment: SegmentState, offset: int, length_max: int) -> ReadResult | None:
        check_read(segment, offset, length_max)
        length = segment.durable_length
        limit = min(length_max, length - offset)
        if limit <= 0:
            if segment.sealed or not length_max:
                past = offset >= length
                return ReadResult(
                    offset, at_tail=past and not segment.sealed, end_of_segment=past and segment.sealed
                )
            return None
        index = self._indexes.get(segment)
        if index is None:
            if offset >= segment.stored_length:
                return None
            index = self._index_of(segment)
        pieces: list[memoryview] = []
        blocks: list[int] = []
        size = index.collect(offset, limit, pieces, blocks)
        if not size:
            plan = plan_read(index, offset, limit)
            if plan.need is Need.STORAGE:
                return self._read_at_once(plan, segment, offset)
            if plan.need is not Need.CACHED:
                return None
            size = plan.index.collect(plan.offset, plan.length, pieces, blocks)
        self._cached_reads += 1
        is_history = index.is_history(blocks[0])
        end = offset + size
        sealed = segment.sealed
        release = self._cache.lend_views(pieces, blocks, size)
        result = ReadResult(offset, pieces, end == length and not sealed, end == length and sealed, release)
        if is_history and index in self._readers:
            # Not before the bytes are lent or copied: reading ahead takes memory, and may evict them.
            try:
                self._read_ahead(index, offset, size)
            except BaseException:
                result.release()
                raise
        return result

    def _read_at_once(
        self, plan: ReadPlan[SegmentIndex], segment: SegmentState, offset: int
    ) -> ReadResult | None:
        """Answer from bytes that storage has in memory, usually the page cache: no task, no copy.

        The bytes go into lent memory and from there to the reader. They are cached only if more was read than
        the reader wanted, since it will read the rest.
        """
        index, start = plan.index, plan.offset
        if self._fetches.is_pending(index, start):
            return None
        readers = self._readers_of(index)
        wanted = plan.length
        capacity = wanted + 2 * STORAGE_READ_ALIGNMENT
        is_small = wanted < AT_ONCE_BYTES_MIN
        if is_small:
            sequential = readers.is_sequential(start, index.state.start_offset)
            wanted = capacity = SEQUENTIAL_READ_ALIGNMENT if sequential else STORAGE_READ_ALIGNMENT
        lent = self._cache.lend(min(capacity, AT_ONCE_BYTES_MAX))
        if lent is None:
            return None
        block, memory = lent
        begin, end, span = self._storage.read_at_once(index.state.storage_name, start, wanted, memory)
        size = min(end - begin, plan.length)
        if size <= 0:
            self._cache.release_lent(block)
            return None
        self._storage_reads += 1
        if is_small:
            index.insert_history(start - begin, memory[:end])
        readers.on_at_hand(start, size)
        piece = memory[begin : begin + size].toreadonly()
        release: Callable[[], None] | None = partial(self._cache.release_lent, block)
        if size <= COPY_BYTES_MAX:
            piece = memoryview(bytes(piece))
            self._cache.release_lent(block)
            release = span = None
        past = offset + size == segment.durable_length
        sealed = segment.sealed
        return ReadResult(offset, [piece], past and not sealed, past and sealed, release, span)

    def _readers_of(self, index: SegmentIndex) -> SequentialReaders:
        """Return the sequential readers of a segment that is read from storage."""
        readers = self._readers.pop(index, None) or SequentialReaders()
        self._readers[index] = readers
        if len(self._readers) > FOLLOWED_SEGMENTS_MAX:
            del self._readers[next(iter(self._readers))]
        return readers

    async def read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        waited_at_tail = False
        gone: list[Redirect[SegmentIndex]] = []
        while True:
            if waited_at_tail and segment.sealed and offset > segment.durable_length and segment.is_live:
                raise SegmentSealedError(segment.name)  # what it waited for will never exist
            result = self.read_nowait(segment, offset, length_max)
            if result is not None:
                if waited_at_tail and not result.length:
                    raise SegmentSealedError(segment.name)
                return result
            plan = plan_read(self._index_of(segment), offset, length_max)
            if plan.need is Need.TAIL:
                if not wait:
                    return ReadResult(offset, at_tail=True)
                waited_at_tail = True
                await self._wait(plan.index.waiters, offset)
            else:
                try:
                    if plan.need is Need.CHANGE:
                        await self._wait(plan.index.waiters, plan.offset)
                        continue
                    data = await self._fetch(plan)
                except SegmentTruncatedError as error:
                    # A fetch begins where the first of its readers does, and may wait for a slot: it can
                    # fail because of a truncation below this reader.
                    check_read(segment, offset, length_max)
                    if plan.offset < error.start_offset:
                        raise
                    continue
                except (NoSuchSegmentError, ContainerOfflineError):
                    # A merge source may be removed while it is read: its bytes are the target's then. So may
                    # the target, if it is the source of another merge: each of them once.
                    if plan.redirect is None or plan.redirect in gone or self._closed:
                        raise
                    gone.append(plan.redirect)
                    if self._indexes.get(plan.index.state) is plan.index:
                        assert plan.index.merge_waiters is not None  # it was reached through its merge
                        await self._wait(plan.index.merge_waiters, offset)
                    continue
                check_read(segment, offset, length_max)
                if not data:
                    continue  # the fetch was for a reader in front of this one, and ended there
                end, length = offset + len(data), segment.durable_length
                return ReadResult(
                    offset, [data], end == length and not segment.sealed, end == length and segment.sealed
                )

    @staticmethod
    async def _wait(waiters: TailWaiters, offset: int) -> None:
        waiter = waiters.add(offset)
        try:
            await waiter
        finally:
            waiters.discard(waiter)

    async def _fetch(self, plan: ReadPlan[SegmentIndex]) -> memoryview:
        """Return the bytes of a plan from storage, and read ahead."""
        self._storage_reads += 1
        index, start = plan.index, plan.index.state.start_offset
        readers = self._readers_of(index)
        readers.on_fetched(plan.offset)
        sequential = readers.is_sequential(plan.offset, start)
        end = plan_storage_range(index, plan.offset, plan.length, sequential=sequential)
        data = await self._fetches.fetch(index, plan.offset, end)
        data = data[: plan.length]
        if 2 * len(data) <= len(memoryview(data.obj)):
            data = memoryview(bytes(data))  # a sender may retain it for long, and charges only its length
        if data:
            self._read_ahead(index, plan.offset, len(data))
        return data

    def _read_ahead(self, index: SegmentIndex, offset: int, size: int) -> None:
        if not self._config.read_ahead or self._closed:
            return
        readers = self._readers.get(index)
        if readers is None:
            return
        share = self._cache.policy.history_max * BLOCK_BYTES // self._cache.containers
        window_max = grant_window(share, sum(other.active for other in self._readers.values()))
        ahead = readers.on_read(offset, size, index.state.start_offset, window_max)
        if ahead is None:
            return
        if self._is_in_memory(index, ahead[0]):
            readers.on_at_hand(offset + size, 0)
        else:
            self._fetches.fetch_ahead(index, *ahead)

    def _is_in_memory(self, index: SegmentIndex, offset: int) -> bool:
        """Whether storage would answer a read at ``offset`` without waiting, judged by its first block."""
        lent = self._cache.lend(STORAGE_READ_ALIGNMENT)
        if lent is None:
            return False
        block, memory = lent
        begin, end, _ = self._storage.read_at_once(index.state.storage_name, offset, 1, memory)
        self._cache.release_lent(block)
        return begin < end

    def read_direct(self, segment: SegmentState, offset: int, length: int) -> list[memoryview] | None:
        index = self._indexes.get(segment)
        if index is None:
            return None
        if index.redirects.touches(offset, offset + length):
            return None
        pieces: list[memoryview] = []
        return pieces if index.collect(offset, length, pieces, []) == length else None

    def first_uncovered(self, segment: SegmentState) -> int | None:
        """Return the first durable offset that neither storage nor this index can answer, or None.

        Recovery calls it for every segment: such an offset means that the log was truncated too early.
        """
        position = segment.stored_length
        index = self._indexes.get(segment)
        while position < segment.durable_length:
            if index is None:
                return position
            redirect = index.redirects.find(position)
            if redirect is not None:
                position = redirect.end
                continue
            size = index.collect(position, segment.durable_length - position, [], [])
            if not size:
                return position
            position += size
        return None

    # ---------------------------------------------------------------------------------- introspection

    def unstored_bytes(self) -> int:
        """Return the memory of unstored bytes, with two blocks more per segment that has any."""
        return self._unstored.count

    def has_free_capacity(self) -> bool:
        """Whether this container may open further log frames.

        It may while its unstored and set aside bytes are fewer than the spare bytes of the cache. So no
        container takes all of the cache, and one that has nothing there is never blocked. Bytes lent to
        readers or set aside for frames are not spare.
        """
        own = self._unstored.count + self._set_aside_bytes
        return not own or own < self._cache.spare_bytes

    def cache_pressure(self) -> float:
        """Return own bytes divided by the spare bytes of the cache: at 1 no frame may be opened."""
        own = self._unstored.count + self._set_aside_bytes
        spare = self._cache.spare_bytes
        return own / spare if 0 < own < spare else float(own > 0)

    def shared_pressure(self) -> float:
        """Return the part of the cache, 0 to 1, that cannot be evicted or is set aside, by any container."""
        return self._cache.shared_pressure()

    def statistics(self) -> ReadIndexStatistics:
        return ReadIndexStatistics(
            segments=len(self._indexes),
            unstored_bytes=self._unstored.count,
            waiting_reads=sum(len(index.waiters) for index in self._indexes.values()),
            cached_reads=self._cached_reads,
            storage_reads=self._storage_reads,
            fetches=self._fetches.statistics,
        )

    def check(self) -> None:
        """Assert the invariants of every segment's index and of the reads in flight."""
        for index in self._indexes.values():
            index.check()
        self._fetches.check()
        present = [*self._indexes.values(), *self._closing]
        unstored = [index.unstored for index in present if index.unstored]
        assert self._unstored.count == sum(unstored) + SLACK_BYTES * len(unstored)
        assert all(index in self._indexes.values() for index in self._readers)
