"""Replaces neighbouring chunks of a segment by new ones: small ones by one, the truncated first by its rest.

::

    choose -> read, verified -> create, durable -> lock -> unchanged? -> commit -> old chunks are garbage

Bytes are copied without the segment's lock: writes, truncations and joins go on. Under the lock it is looked
whether the chunks are as they were; if not, the new objects are orphans, and the next step chooses again.
Readers with the old layout find the old objects for as long as garbage stays.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.errors import (
    ChunkOffsetError,
    DataCorruptionError,
    NoSuchChunkError,
    NoSuchSegmentError,
    SegmentTruncatedError,
    ThrottledError,
)
from headrace.limits import MIB
from headrace.runtime.uninterrupted import uninterrupted
from headrace.storage.chunks.append_plan import AppendPiece
from headrace.storage.chunks.checksum_groups import ChecksumGroups
from headrace.storage.chunks.chunk_io import ChunkIO
from headrace.storage.chunks.chunk_writer import ChunkWriter
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.layout_cache import LayoutCache
from headrace.storage.chunks.merge_plan import MergePolicy, find_merge, find_resumption, is_mostly_dead
from headrace.storage.chunks.read_plan import plan_read
from headrace.storage.chunks.rewrite_plan import Rewrite, Stretch, find_stretch, plan_rewrite, stretch_of
from headrace.storage.chunks.segment_layout import Rows, SegmentLayout
from headrace.storage.chunks.segment_locks import SegmentLocks
from headrace.storage.chunks.storage_garbage import StorageGarbage
from headrace.storage.metadata.contract import RowsNotLoadedError, RowStore
from headrace.storage.metadata.rows import GarbageRow

_CHUNKS_AT_ONCE: Final = 2048
"""Chunks of a segment looked at in one step."""

_READ_BYTES_MAX: Final = 4 * MIB

_ATTEMPTS: Final = 5


class Commit(Protocol):
    """Commits rows of these layouts, with a GarbageRow for what they drop."""

    def __call__(
        self, rows: Rows, *layouts: SegmentLayout, garbage: GarbageRow | None
    ) -> Awaitable[None]: ...


@dataclass(slots=True)
class RewriteStatistics:
    """Counts since creation. Bytes."""

    rewrites: int = 0
    chunks_replaced: int = 0
    chunks_made: int = 0
    bytes_rewritten: int = 0
    bytes_given_back: int = 0
    """Truncated parts of chunks."""
    given_up: int = 0
    """Rewrites that found their segment changed; their objects are orphans."""


@dataclass(slots=True)
class MergeStep:
    """What one step has come to: the next one begins at ``place``."""

    place: int
    is_done: bool
    """Nothing is left to merge behind it, until the segment has more chunks."""


class ChunkRewriter:
    """Rewrites chunks of one container's segments; ``io`` may be a slower one than that of writes.

    ``garbage.rewriting`` is held, by all rewriters of the container, from the first byte that is read until
    the new objects are part of the segment, or orphans.
    """

    def __init__(
        self,
        io: ChunkIO,
        rows: RowStore,
        locks: SegmentLocks,
        layouts: LayoutCache,
        writer: ChunkWriter,
        garbage: StorageGarbage,
        commit: Commit,
        config: SegmentStorageConfig,
        container_epoch: int,
    ) -> None:
        self._io = io
        self._rows = rows
        self._locks = locks
        self._layouts = layouts
        self._writer = writer
        self._garbage = garbage
        self._commit = commit
        self._config = config
        self._container_epoch = container_epoch
        self._checksums = ChecksumGroups(rows.get)
        self.statistics = RewriteStatistics()

    # ---------------------------------------------------------------------------------- merging

    async def is_candidate(self, segment: str) -> bool:
        """Whether the chunks of a segment are small on average, or a large part of the first is truncated.

        Raises: DataCorruptionError, StorageReadError.
        """
        layout = await self._layouts.find(segment)
        if layout is None or layout.last is None:
            return False
        live = layout.length - layout.start_offset
        small = live < self._policy(layout).small_bytes * layout.chunk_count
        return (layout.chunk_count > 1 and small) or is_mostly_dead(
            layout.start_offset - layout.first_chunk_start, 0
        )

    async def merge_some(self, segment: str, place: int) -> MergeStep:
        """Look at some chunks from the offset ``place`` on, merge the first that are worth it, if any are.

        Raises:
            NoSuchSegmentError: storage does not know the segment.
            DataCorruptionError: a row or an object is damaged; the segment is as it was.
            StorageReadError, StorageWriteError, StorageFullError, ThrottledError, FencedOutError: as reads
                and writes.
        """
        layout = await self._layouts.get_owned(segment)
        place = max(place, layout.first_chunk_start)
        if place >= layout.length:
            return MergeStep(place, is_done=True)
        policy = self._policy(layout)
        layout, index = await self._layouts.reach(segment, place, place + policy.target_bytes)
        if not layout.first_chunk_start <= place < layout.length:
            return MergeStep(place, is_done=False)
        found = index.neighbours(layout, place, _CHUNKS_AT_ONCE)
        is_at_end = found.starts[-1] == layout.length
        count = len(found.names)
        if is_at_end and self._io.supports_append and not layout.sealed:
            count -= 1  # the last one may still grow
        starts = found.starts
        lengths = [starts[number + 1] - starts[number] for number in range(count)]
        dead = 0
        if found.number == 0 and count:
            dead = layout.start_offset - starts[0]
            lengths[0] -= dead
        if dead and lengths[0] <= 0:  # damage has hidden from a truncation which chunks it could drop
            await self.drop_truncated(segment)
            return MergeStep(place, is_done=False)
        merged = find_merge(lengths, policy)
        if merged is None and count and is_mostly_dead(dead, lengths[0]):
            merged = range(1)
        if merged is not None:
            await self.rewrite(stretch_of(layout, found, merged), policy.target_bytes)
            return MergeStep(place, is_done=False)
        seen = find_resumption(lengths, policy)
        if not is_at_end and not seen:
            # They are small, and of such different lengths that none are merged.
            seen = count if count < _CHUNKS_AT_ONCE else count // 2
        return MergeStep(starts[seen], is_done=is_at_end)

    def _policy(self, layout: SegmentLayout) -> MergePolicy:
        target = min(layout.rollover_bytes, self._config.merge_bytes_max)
        return MergePolicy(target, 2 if layout.sealed else self._config.merge_chunks_min)

    # ---------------------------------------------------------------------------------- truncated bytes

    async def drop_truncated(self, segment: str) -> bool:
        """Rewrite the first chunks until no object of the segment has a byte below its start offset, but
        garbage; return whether that changed anything. Fine if storage does not know the segment.

        Raises:
            ThrottledError: the segment changes all the time; retry. As :meth:`merge_some`, too.
        """
        for attempt in range(_ATTEMPTS):
            found = await self._find_truncated(segment)
            if found is None:
                return attempt > 0
            await self.rewrite(*found)
        raise ThrottledError(f"segment {segment!r} changes while its first chunks are rewritten")

    async def _find_truncated(self, segment: str) -> tuple[Stretch, int] | None:
        """Return the chunks that have truncated bytes, up to the one that has the start offset, too, and how
        long the chunks in their place may be.
        """
        async with self._locks.hold(segment):
            layout = await self._layouts.find(segment)
            if layout is None or layout.first_chunk_start >= layout.start_offset:
                return None
            self._layouts.check_owner(layout)
            if layout.start_offset >= layout.last_start:
                # Else it would have grown each time that it was copied.
                self._writer.close_last(layout)
        begin = layout.start_offset
        # From the first: a rewrite that a truncation has passed leaves chunks in front of the last one.
        layout, index = await self._layouts.reach(segment, layout.first_chunk_start, begin + 1)
        if layout.start_offset != begin or layout.last is None:
            return await self._find_truncated(segment)
        number, _, _ = index.find(begin) if begin < layout.last_start else (layout.chunk_count - 1, "", 0)
        found = index.neighbours(layout, layout.first_chunk_start, number + 1)
        return stretch_of(layout, found, range(number + 1)), self._policy(layout).target_bytes

    # ---------------------------------------------------------------------------------- rewriting

    async def rewrite(self, stretch: Stretch, target_bytes: int) -> bool:
        """Copy a stretch into chunks of at most ``target_bytes`` and put these in its place.

        Returns whether it happened: not if the segment has changed meanwhile. Raises as :meth:`merge_some`.
        """
        async with self._garbage.rewriting:
            return await self._rewrite(stretch, target_bytes)

    async def _rewrite(self, stretch: Stretch, target_bytes: int) -> bool:
        copies: list[AppendPiece] = []
        try:
            for begin in range(stretch.begin, stretch.end, target_bytes):
                views = await self._read(stretch.segment, begin, min(begin + target_bytes, stretch.end))
                copies.append(await self._writer.copy(stretch.segment, begin, views, self._io))
        except (SegmentTruncatedError, NoSuchSegmentError):
            return self._give_up(copies)
        except BaseException:
            self._writer.discard_copies(copies)
            raise
        async with self._locks.hold(stretch.segment):
            planned = await self._plan(stretch, copies)
            if planned is None:
                return self._give_up(copies)
            # While it is not known whether these rows are committed, nobody may change the segment: his rows
            # would say what was true before, in the middle of what is true now.
            await uninterrupted(self._replace(stretch, copies, *planned))
        counts = self.statistics
        counts.rewrites += 1
        counts.chunks_replaced += len(stretch.names)
        counts.chunks_made += len(copies)
        counts.bytes_rewritten += stretch.length
        counts.bytes_given_back += stretch.begin - stretch.start
        return True

    async def _replace(
        self, stretch: Stretch, copies: list[AppendPiece], layout: SegmentLayout, rewrite: Rewrite
    ) -> None:
        """Commit a rewrite, and use it."""
        with self._layouts.freeze(stretch.segment):
            try:
                await self._commit(rewrite.rows, layout, garbage=rewrite.garbage)
            except ThrottledError:
                self._writer.discard_copies(copies)
                raise
            starts = [stretch.begin]
            for piece in copies[:-1]:
                starts.append(starts[-1] + piece.length)
            names = [piece.chunk for piece in copies]
            self._layouts.put_rewritten(rewrite.after, rewrite.old, names, starts)

    def _give_up(self, copies: list[AppendPiece]) -> bool:
        self._writer.discard_copies(copies)
        self.statistics.given_up += 1
        return False

    async def _plan(
        self, stretch: Stretch, copies: list[AppendPiece]
    ) -> tuple[SegmentLayout, Rewrite] | None:
        """Decide about a commit, as of the moment of return; None if the stretch is not there any more."""
        try:
            self._garbage.check_capacity()
            while True:
                layout, index = await self._layouts.reach(stretch.segment, stretch.start, stretch.end)
                self._layouts.check_owner(layout)
                old = find_stretch(layout, index, stretch)
                if old is None:
                    return None
                try:
                    return layout, plan_rewrite(
                        layout,
                        index,
                        old,
                        stretch,
                        copies,
                        self._rows.get,
                        container_epoch=self._container_epoch,
                        block_bytes=self._config.block_bytes,
                    )
                except RowsNotLoadedError as missing:
                    await self._rows.load(missing.keys)
        except NoSuchSegmentError:
            return None
        except BaseException:
            self._writer.discard_copies(copies)
            raise

    async def _read(self, segment: str, begin: int, end: int) -> list[memoryview]:
        """Return these bytes of a segment, verified, in pieces.

        Raises:
            SegmentTruncatedError, NoSuchSegmentError: they are not there any more.
            DataCorruptionError: an object is missing, too short, or not what was written.
            StorageReadError: the store did not answer.
        """
        views: list[memoryview] = []
        missing = ""
        while begin < end:
            upto = min(begin + _READ_BYTES_MAX, end)
            layout, index = await self._layouts.reach(segment, begin, upto)
            try:
                locate = self._layouts.locator(layout, index)
                pieces = plan_read(layout, locate, begin, upto - begin, self._checksums)
            except RowsNotLoadedError as absent:
                await self._rows.load(absent.keys)
                continue
            try:
                view = await self._io.read(pieces)
            except (NoSuchChunkError, ChunkOffsetError) as error:
                if error.chunk == missing:
                    raise DataCorruptionError(f"segment {segment!r}: {error}", path=error.chunk) from error
                missing = error.chunk  # it may have been deleted after another rewrite: look again
                continue
            views.append(view)
            begin += len(view)
        return views
