"""Segments in long-term storage: performs what the plans decide, in an order that is safe for a crash.

Every modification is: write objects (durable), then commit rows (durable), then use the new layout. Until the
commit nothing of it exists; what a failed or crashed attempt leaves in objects lies beyond every committed
length or in objects no row names. Objects are deleted only after the commit that forgets them.

A chunk is appended to only by the container epoch that created it, and never again after a write to it
failed: its object may be longer than is known. Modifications of one segment run one at a time; reads run at
any time on the layout they found.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from headrace.errors import (
    ChunkOffsetError,
    CorruptionError,
    DataCorruptionError,
    HeadraceError,
    NoSuchChunkError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentSealedError,
    ThrottledError,
)
from headrace.runtime.entropy import Entropy
from headrace.runtime.open_file import FileSpan
from headrace.storage.chunks.checksum_groups import ChecksumGroups
from headrace.storage.chunks.chunk_index import ChunkIndex
from headrace.storage.chunks.chunk_io import ChunkIO
from headrace.storage.chunks.chunk_names import container_prefix
from headrace.storage.chunks.chunk_writer import ChunkWriter, Written
from headrace.storage.chunks.concat_plan import check_concat, plan_link
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.garbage import GarbageQueue
from headrace.storage.chunks.garbage_collector import GarbageCollector
from headrace.storage.chunks.garbage_numbers import GarbageNumbers
from headrace.storage.chunks.incarnation import Incarnation
from headrace.storage.chunks.layout_cache import LayoutCache
from headrace.storage.chunks.read_plan import ReadPiece, check_range, plan_at_once, plan_read
from headrace.storage.chunks.rewriter import ChunkRewriter
from headrace.storage.chunks.segment_info import ChunkInfo, SegmentStorageStatistics, StoredSegmentInfo
from headrace.storage.chunks.segment_layout import Rows, SegmentLayout, load_layout, walk_chunks
from headrace.storage.chunks.segment_locks import SegmentLocks
from headrace.storage.chunks.storage_garbage import StorageGarbage
from headrace.storage.chunks.truncate_plan import check_truncate, plan_delete, plan_truncate
from headrace.storage.metadata.contract import RowCatalogue, RowsNotLoadedError, RowStore
from headrace.storage.metadata.joint_store import JointRowStore
from headrace.storage.metadata.rows import GarbageRow
from headrace.storage.providers.contract import Buffer, ChunkProvider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.storage.providers.wrappers.throttled import ThrottledChunkProvider
from headrace.storage.providers.wrappers.token_bucket import RequestBudget

_logger = logging.getLogger(__name__)

_READ_ATTEMPTS = 3

ORPHANS_MAX = 10_000
"""Orphans of this owner that are remembered for deletion; the next owner finds others."""


class ChunkedSegmentStorage:
    """The segments of one container, as owned by one container epoch. Used on the container's loop.

    A modifying call that was cancelled, or failed with an unknown outcome, may have happened: see ``info``.
    Cancel one only when the owner ends.
    """

    def __init__(
        self,
        provider: ChunkProvider,
        rows: RowStore,
        container_epoch: int,
        entropy: Entropy,
        config: SegmentStorageConfig | None = None,
        catalogue: RowCatalogue | None = None,
        *,
        container: int = 0,
    ) -> None:
        """Own the segments whose rows are ``rows``; ``container`` is part of the names of new objects."""
        self._config = config or SegmentStorageConfig()
        self._rows = JointRowStore(rows, self._config.commit_bytes_max)
        self._container_epoch = container_epoch
        self._provider = provider
        self._io = ChunkIO(
            RetryingChunkProvider(provider, self._config.provider_timeout_s),
            parallel_max=self._config.read_parallel_max,
        )
        self._locks = SegmentLocks()
        self._layouts = LayoutCache(rows, container_epoch, self._config)
        self._checksums = ChecksumGroups(rows.get)
        queue = GarbageQueue(
            batches_max=self._config.garbage_runs_max,
            orphans_max=ORPHANS_MAX,
            delay_s=self._config.garbage_delay_s,
        )
        self._incarnation = Incarnation(self._rows, entropy)
        self._writer = ChunkWriter(
            self._io,
            queue,
            self._incarnation,
            entropy,
            container=container,
            container_epoch=container_epoch,
            block_bytes=self._config.block_bytes,
        )
        self._collector = GarbageCollector(
            self._io,
            rows,
            queue,
            self._config,
            self._writer.forget,
            catalogue,
            # Files may have names of earlier releases, which do not begin with the container.
            prefix=container_prefix(container) if provider.local is None else "",
        )
        self._queue = queue
        self.garbage = StorageGarbage(
            queue,
            GarbageNumbers(self._rows, queue),
            self._collector,
            self._incarnation,
            self._writer,
            container_epoch,
        )
        self._statistics = SegmentStorageStatistics()

    # ---------------------------------------------------------------------------------- what is there

    @property
    def supports_append(self) -> bool:
        """Whether a write may make a chunk longer; else each makes another."""
        return self._io.supports_append

    async def info(self, segment: str) -> StoredSegmentInfo | None:
        """Return what storage has of a segment at the moment of return, or None.

        Raises:
            DataCorruptionError: its rows are damaged.
            StorageReadError: they cannot be read now; retry.
        """
        return _info_of(await self._layouts.find(segment))

    def info_nowait(self, segment: str) -> StoredSegmentInfo | None:
        """As :meth:`info`. Raises: RowsNotLoadedError if rows of the segment are not in memory."""
        return _info_of(self._layouts.find_nowait(segment))

    def chunks(self, segment: str) -> list[ChunkInfo]:
        """Return the chunks of a segment in order. Cost: looks at the row of every one of them.

        Raises: NoSuchSegmentError, DataCorruptionError, RowsNotLoadedError.
        """
        layout = load_layout(segment, self._rows.get)
        if layout is None:
            raise NoSuchSegmentError(segment)
        return [
            ChunkInfo(chunk.name, start, chunk.length, chunk.epoch)
            for chunk, start in walk_chunks(layout, self._rows.get)
        ]

    def is_idle(self, segment: str) -> bool:
        """Whether no call changes the segment, or waits to."""
        return segment not in self._locks

    def forget(self, segment: str) -> None:
        """The rows of a segment were evicted: it is unknown here until they are in the row store again."""
        self._layouts.forget(segment)

    def make_rewriter(self, budget: RequestBudget | None = None) -> ChunkRewriter:
        """Return what rewrites chunks, within a budget of requests and bytes if there is one."""
        io = self._io
        if budget is not None:
            retrying = RetryingChunkProvider(self._provider, self._config.provider_timeout_s)
            throttled = ThrottledChunkProvider(retrying, budget)
            io = ChunkIO(throttled, parallel_max=self._config.read_parallel_max)
        return ChunkRewriter(
            io,
            self._rows,
            self._locks,
            self._layouts,
            self._writer,
            self.garbage,
            self._commit,
            self._config,
            self._container_epoch,
        )

    def statistics(self) -> SegmentStorageStatistics:
        return replace(
            self._statistics,
            row_commits=self._rows.statistics.made,
            chunks_created=self._writer.chunks_created,
            write_failures=self._writer.failures,
            objects_deleted=self._collector.objects_deleted,
            leftovers_deleted=self._collector.leftovers_deleted,
            checksum_failures=self._io.checksum_failures,
            garbage_runs=len(self._queue),
            garbage_runs_damaged=self._queue.damaged_count,
            orphans=len(self._queue.orphans),
            layouts=len(self._layouts),
            segments_busy=len(self._locks),
        )

    async def read_stored(self, segment: str, offset: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes of ``segment`` from ``offset``. Raises as :meth:`read_some`."""
        data = await self.read_some(segment, offset, length)
        if len(data) == length:
            return data
        parts, done = [data], len(data)
        while done < length:
            parts.append(await self.read_some(segment, offset + done, length - done))
            done += len(parts[-1])
        return memoryview(b"".join(parts))

    async def read_some(self, segment: str, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes of ``segment`` from ``offset``, verified against their checksums.

        Fewer, but one at least, if these lie in many objects or something behind them cannot be read.

        Raises:
            NoSuchSegmentError: storage does not know the segment.
            SegmentTruncatedError: ``offset`` lies below the stored start offset.
            InvalidArgumentError: the range ends beyond the stored length.
            StorageReadError: the store did not answer; retry.
            DataCorruptionError: an object of the segment is missing, too short, or not what was written.
        """
        pieces = await self._plan_read(segment, offset, length)
        for _ in range(_READ_ATTEMPTS):
            try:
                data = await self._io.read(pieces)
            except (NoSuchChunkError, ChunkOffsetError) as error:
                # It may have been deleted after a truncation or concat that happened meanwhile: look again.
                pieces = await self._plan_read(segment, offset, length)
                if any(piece.chunk == error.chunk for piece in pieces):
                    raise DataCorruptionError(f"segment {segment!r}: {error}", path=error.chunk) from error
                continue
            self._statistics.reads += 1
            self._statistics.bytes_read += len(data)
            return data
        raise DataCorruptionError(f"segment {segment!r}: its chunks are deleted while they are read")

    async def _plan_read(self, segment: str, offset: int, length: int) -> list[ReadPiece]:
        check_range(await self._layouts.get(segment), offset, length)
        while True:
            layout, index = await self._layouts.reach(segment, offset, offset + length)
            try:
                return plan_read(
                    layout, self._layouts.locator(layout, index), offset, length, self._checksums
                )
            except RowsNotLoadedError as missing:
                await self._rows.load(missing.keys)

    def read_at_once(
        self, segment: str, offset: int, length: int, buffer: memoryview
    ) -> tuple[int, int, FileSpan | None]:
        """Read the blocks that hold ``length`` bytes from ``offset`` on, as far as that takes no waiting.

        Nothing is left out at the end if ``buffer`` is larger than ``length`` by two blocks, or by one if
        ``length`` is whole blocks.

        Returns:
            ``(begin, end, span)``: ``buffer[begin:end]`` are the bytes from ``offset`` on, ``buffer[:begin]``
            those in front; ``span`` is where the former lie in an open file, if they do, for this iteration
            of the loop. If the range is empty, :meth:`read_some` has to be called. Never raises.
        """
        local = self._io.local
        if local is None:
            return 0, 0, None
        try:
            found = self._layouts.reach_at_once(segment, offset, offset + 1)
            if found is None:
                return 0, 0, None
            locate = self._layouts.locator(*found)
            piece = plan_at_once(found[0], locate, offset, length, len(buffer), self._checksums)
        except (HeadraceError, RowsNotLoadedError):
            return 0, 0, None  # read_some will raise it, or load them
        if piece is None:
            return 0, 0, None
        end = self._io.read_at_once(local, piece, buffer)
        if end <= piece.skip:
            return 0, 0, None
        self._statistics.reads += 1
        self._statistics.bytes_read += end - piece.skip
        file = local.open_file(piece.chunk)
        span = None if file is None else FileSpan(file, piece.offset + piece.skip)
        return piece.skip, end, span

    # ---------------------------------------------------------------------------------- modifying

    async def create(self, segment: str, rollover_bytes: int = 0) -> None:
        """Create an empty segment: one row, no object. 0 means the configured rollover size.

        Raises:
            SegmentExistsError: it is there already.
        """
        async with self._locks.hold(segment):
            if await self._layouts.find(segment) is not None:
                raise SegmentExistsError(segment)
            layout = self._layouts.new(segment, rollover_bytes)
            rows: Rows = {}
            layout.put_segment_row(rows)
            await self._commit(rows, layout)
            self._layouts.put(layout)

    async def write(
        self,
        segment: str,
        offset: int,
        buffers: Sequence[Buffer],
        *,
        create: bool = False,
        rollover_bytes: int = 0,
    ) -> int:
        """Append the buffers at ``offset``, which must be the stored length: all of them or none. Return the
        stored length.

        With ``create`` a segment that storage does not know is created in the same commit, if ``offset`` is
        0.

        Raises:
            NoSuchSegmentError, SegmentSealedError, OffsetMismatchError, StorageFullError, ThrottledError:
                nothing happened.
            FencedOutError: a newer owner has the segment.
            StorageWriteError: ``info`` shows whether it happened.
        """
        views = [memoryview(buffer) for buffer in buffers]
        length = sum(map(len, views))
        async with self._locks.hold(segment):
            layout = await self._layouts.find(segment)
            if layout is None:
                if not create or offset != 0:
                    raise NoSuchSegmentError(segment)
                layout = self._layouts.new(segment, rollover_bytes)
            self._layouts.check_owner(layout)
            if layout.sealed:
                raise SegmentSealedError(segment)
            if layout.length != offset:
                raise OffsetMismatchError(segment, offset, layout.length)
            written = await self._writer.write(layout, views, length)
            await self._commit_written(written, written.rows, layout)
            self._layouts.put(written.after)
        self._statistics.writes += 1
        self._statistics.bytes_written += length
        return written.after.length

    async def seal(self, segment: str) -> None:
        """Allow no more bytes. Fine if it is sealed already. Raises: NoSuchSegmentError, FencedOutError."""
        async with self._locks.hold(segment):
            layout = await self._layouts.get_owned(segment)
            if layout.sealed:
                return
            after = replace(layout, sealed=True, owner_epoch=self._container_epoch)
            rows: Rows = {}
            after.put_segment_row(rows)
            await self._commit(rows, layout)
            self._layouts.put(after)

    async def truncate(self, segment: str, offset: int) -> None:
        """Drop the bytes below ``offset``. Fine if they are dropped already; allowed on sealed segments.

        If damage hides which chunk holds ``offset``, all of them stay until a truncation to the last chunk.

        Raises:
            NoSuchSegmentError, FencedOutError: nothing happened.
            InvalidArgumentError: ``offset`` lies beyond the stored length.
            ThrottledError: too much garbage waits already.
        """
        async with self._locks.hold(segment):
            layout = await self._layouts.get_owned(segment)
            if offset <= layout.start_offset:
                return
            check_truncate(layout, offset)
            index = await self._find_first_retained(layout, offset)
            self.garbage.check_capacity()
            after, rows, garbage = plan_truncate(layout, index, offset, container_epoch=self._container_epoch)
            await self._commit(rows, layout, garbage=garbage)
            self._layouts.put(after)

    async def _find_first_retained(self, layout: SegmentLayout, offset: int) -> ChunkIndex | None:
        """Return an index that has the first chunk behind a truncation; None if damage hides it."""
        try:
            return (await self._layouts.reach(layout.segment, offset, offset + 1))[1]
        except CorruptionError as error:
            damage = str(error)
        # A truncation is the way to skip damage, so damage must not make it fail: it stands in the log, and
        # would end each owner anew. No chunk is dropped whose offset is unknown.
        _logger.error(
            "damaged data: %s; %r is truncated to %d, its chunks are retained", damage, layout.segment, offset
        )
        return None

    async def concat(self, target: str, offset: int, source: str) -> int:
        """Add all of the sealed ``source`` at the end of ``target``, at ``offset``; forget the source. Return
        the stored length of the target.

        Damage of the source's objects is no reason to fail: they are linked as they are.

        Raises:
            NoSuchSegmentError: for either of them.
            SegmentSealedError, SegmentNotSealedError, OffsetMismatchError, InvalidArgumentError,
            StorageFullError, ThrottledError, FencedOutError: nothing happened.
            StorageWriteError, StorageReadError: ``info`` shows whether it happened.
        """
        async with self._locks.hold(target, source):
            into = await self._layouts.get_owned(target)
            content = await self._layouts.get_owned(source)
            check_concat(into, offset, content)
            self.garbage.check_capacity()
            data = await self._read_to_copy(content)
            if data is not None:
                forget, garbage = plan_delete(content)
                written = await self._writer.write(into, [data], content.length)
                after = written.after
                await self._commit_written(written, written.rows | forget, into, content, garbage=garbage)
                self._statistics.concats_copied += 1
            else:
                after, rows = plan_link(into, content, container_epoch=self._container_epoch)
                await self._commit(rows, into, content)
                self._statistics.concats_linked += 1
            self._layouts.forget(source)
            self._layouts.put(after)
        return after.length

    async def _read_to_copy(self, source: SegmentLayout) -> memoryview | None:
        """Return the bytes of a source that is to be copied; None if it has to be linked.

        Raises:
            StorageReadError: the store did not answer; retry.
        """
        small = 0 < source.length <= self._config.concat_copy_bytes_max
        if not small or not self._io.supports_append:
            return None
        try:
            return await self.read_stored(source.segment, 0, source.length)
        except CorruptionError as error:
            damage = str(error)
        # If the source is linked, a reader finds the damage, and an operator may repair it; the merge does
        # not need these bytes, and the container goes on. The last chunk gets no more bytes: they would share
        # a block with the damage.
        _logger.error("damaged data: %s; %r is joined as it is", damage, source.segment)
        self._writer.close_last(source)
        return None

    async def delete(self, segment: str) -> None:
        """Forget a segment; its objects are deleted later. Raises: NoSuchSegmentError, ThrottledError."""
        async with self._locks.hold(segment):
            self.garbage.check_capacity()
            layout = await self._layouts.get_owned(segment)
            rows, garbage = plan_delete(layout)
            await self._commit(rows, layout, garbage=garbage)
            self._layouts.forget(segment)

    # ---------------------------------------------------------------------------------- names of objects

    @property
    def chunks_created(self) -> int:
        """Objects created since the start."""
        return self._writer.chunks_created

    @property
    def incarnation(self) -> str:
        """The incarnation in the names of all chunks of this metadata; empty if there is none yet."""
        return self._incarnation.committed_name

    # ---------------------------------------------------------------------------------- committing

    async def _commit_written(
        self, written: Written, rows: Rows, *layouts: SegmentLayout, garbage: GarbageRow | None = None
    ) -> None:
        """Commit what was just written; its new objects are orphans if the commit certainly did not happen.

        The next attempt makes others: with many refused commits the store would fill up otherwise.
        """
        try:
            await self._commit(rows, *layouts, garbage=garbage)
        except ThrottledError:
            self._writer.discard(written)
            raise

    async def _commit(self, rows: Rows, *layouts: SegmentLayout, garbage: GarbageRow | None = None) -> None:
        """Commit ``rows``, with a GarbageRow for what they drop. ``layouts`` are true until then.

        On failure the layouts of these segments are built from their rows again when next needed, whatever
        these say; chunks just written stay as they are, since the commit may turn out to have happened.
        """
        batch = None
        if garbage is not None:
            batch = await self.garbage.reserve(garbage, rows)
        try:
            await self._rows.commit(rows)
        except BaseException:
            for layout in layouts:
                self._layouts.forget(layout.segment)
                self._writer.close_last(layout)
            if batch is not None:
                self.garbage.reread(batch)
            raise
        self._statistics.commits += 1
        if batch is not None:
            self.garbage.add(batch)


def _info_of(layout: SegmentLayout | None) -> StoredSegmentInfo | None:
    if layout is None:
        return None
    return StoredSegmentInfo(
        layout.segment,
        layout.length,
        layout.start_offset,
        layout.sealed,
        layout.owner_epoch,
        layout.chunk_count,
        layout.rollover_bytes,
    )
