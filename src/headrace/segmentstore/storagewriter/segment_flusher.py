"""Performs one step of one segment: calls storage, then updates segment state and read index.

Between storage's answer and the last line of a step nothing is awaited, so the rest of the container sees
either none or all of it.
"""

from __future__ import annotations

import contextlib
from typing import Final

from headrace.errors import CorruptionError, DataCorruptionError, StorageReadError
from headrace.limits import MIB
from headrace.model.attributes import ROLLOVER_SIZE
from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.flush_plan import (
    CompareStep,
    ConcatStep,
    FinishMergeStep,
    Step,
    WriteStep,
)
from headrace.segmentstore.storagewriter.flush_turn import TurnEvent
from headrace.segmentstore.storagewriter.reconcile_plan import adopt_stored_state, first_difference
from headrace.segmentstore.storagewriter.segment_aggregator import (
    PendingDelete,
    PendingMerge,
    PendingSeal,
    PendingTruncate,
    QueueTotals,
    SegmentAggregator,
    queue_source_deletions,
)
from headrace.storage.chunks.segment_info import StoredSegmentInfo
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.metadata.contract import RowsNotLoadedError

_COMPARED_BYTES: Final = 1 * MIB


class SegmentFlusher:
    """The only caller of storage's modifying methods, whose errors it passes on. Steps can be repeated."""

    def __init__(self, storage: ChunkedSegmentStorage, read_index: ReadIndex) -> None:
        self._storage = storage
        self._read_index = read_index
        self.bytes_written = 0
        self.merges_absorbed = 0
        self.merges_joined = 0
        self.reconciliations = 0
        """How often storage claimed more than was known to be stored."""
        self.bytes_compared = 0
        self._deleted_sources: list[SegmentAggregator] = []

    def take_deleted_sources(self) -> list[SegmentAggregator]:
        """Return the sources whose deletion was queued since the last call: they have to be settled."""
        sources, self._deleted_sources = self._deleted_sources, []
        return sources

    def make_aggregator(self, segment: SegmentState, totals: QueueTotals) -> SegmentAggregator:
        """First contact with a segment: begin with what storage has, if that is in memory.

        Raises: DataCorruptionError.
        """
        aggregator = SegmentAggregator(segment, in_storage=False, totals=totals)
        self.adopt_nowait(aggregator)
        return aggregator

    def adopt_nowait(self, aggregator: SegmentAggregator) -> None:
        """Learn what storage claims to have, now or before the next step. Raises: DataCorruptionError."""
        aggregator.adopted = False
        with contextlib.suppress(RowsNotLoadedError):
            self._adopt(aggregator, self._storage.info_nowait(aggregator.segment.storage_name))

    async def adopt(self, aggregator: SegmentAggregator) -> None:
        """Learn what storage claims to have.

        Raises:
            DataCorruptionError: that cannot be.
            StorageReadError: it cannot be known now; the segment has to be adopted later.
        """
        aggregator.adopted = False
        self._adopt(aggregator, await self._storage.info(aggregator.segment.storage_name))

    def _adopt(self, aggregator: SegmentAggregator, info: StoredSegmentInfo | None) -> None:
        segment = aggregator.segment
        claimed = adopt_stored_state(segment, info)
        if claimed > max(segment.stored_length, aggregator.claimed):
            self.reconciliations += 1
        aggregator.adopt(claimed, in_storage=info is not None)

    async def perform(self, aggregator: SegmentAggregator, step: Step) -> None:
        match step:
            case WriteStep():
                await self._write(aggregator, step)
            case CompareStep():
                await self._compare(aggregator, step)
            case ConcatStep():
                await self._concat(aggregator, step.merge)
            case FinishMergeStep():
                await self._finish_merge(aggregator, step.merge)
            case PendingSeal():
                await self._seal(aggregator, step)
            case PendingTruncate():
                await self._truncate(aggregator, step)
            case PendingDelete():
                await self._delete_from_storage(aggregator)
                aggregator.segment.note_stored_deletion()
                # Also a source that was merged into a deleted target: its bytes would count as unstored.
                self._read_index.drop(aggregator.segment)
                aggregator.finish(step)
            case _:
                raise AssertionError(step)

    # ---------------------------------------------------------------------------------- steps

    async def _write(self, aggregator: SegmentAggregator, step: WriteStep) -> None:
        segment = aggregator.segment
        buffers: list[memoryview] = []
        for holder, offset, length in step.ranges:
            views = self._read_index.read_direct(holder, offset, length)
            if views is None:
                if segment.deleted:
                    return  # its deletion follows
                raise DataCorruptionError(
                    f"segment {holder.name!r}: [{offset}, {offset + length}) is neither stored nor cached"
                )
            buffers += views
        for merge in step.absorbed:
            merge.source.take_turn(TurnEvent.HOLD)
        try:
            stored = await self._storage.write(
                segment.storage_name,
                step.offset,
                buffers,
                create=step.offset == 0,
                rollover_bytes=max(0, segment.attribute(ROLLOVER_SIZE)),
            )
        finally:
            for merge in step.absorbed:
                merge.source.take_turn(TurnEvent.RELEASE)
        aggregator.in_storage = True
        self.bytes_written += step.length
        _check_length(segment, step.offset + step.length, stored)
        self._advance(aggregator, step.offset + step.length)
        for merge in step.absorbed:
            self.merges_absorbed += 1
            self._complete_merge(aggregator, merge)
            aggregator.confirm(step.offset + step.length)

    async def _compare(self, aggregator: SegmentAggregator, step: CompareStep) -> None:
        """Storage says it has these bytes already; believe it if they are those of the log."""
        segment = aggregator.segment
        if (
            step.end > segment.stored_length
            and self._read_index.read_direct(segment, step.offset, step.end - step.offset) is None
            and not segment.deleted
        ):
            raise DataCorruptionError(
                f"segment {segment.name!r}: [{step.offset}, {step.end}), which storage claims, is not cached"
            )
        await self._check_claim(segment, step.offset, step.end, segment, step.offset)
        if not segment.deleted:  # else its deletion follows
            self._advance(aggregator, step.end)

    async def _finish_merge(self, aggregator: SegmentAggregator, merge: PendingMerge) -> None:
        """The target has the source's bytes already, or there are none."""
        source = merge.source
        source.take_turn(TurnEvent.HOLD)
        try:
            is_done = await self._finish_with(aggregator, merge)
        finally:
            source.take_turn(TurnEvent.RELEASE)
        if is_done:
            self._complete_merge(aggregator, merge)

    async def _finish_with(self, aggregator: SegmentAggregator, merge: PendingMerge) -> bool:
        """Let storage forget the source; False if the target was deleted meanwhile."""
        target, source = aggregator.segment, merge.source
        if merge.end == merge.offset:
            await self._delete_from_storage(source)
            return True
        await self._check_claim(target, merge.offset, merge.end, source.segment, 0)
        twin = await self._storage.info(source.segment.storage_name)
        if target.deleted:  # meanwhile
            return False
        if twin is not None:
            # The write that gave its bytes to the target was not known to have succeeded, and the source was
            # stored by itself meanwhile: after a crash, or a lost reply. What is stored may have left the
            # cache, so the two are compared with each other before one of them goes.
            await self._check_twins(target, merge)
            await self._delete_from_storage(source)
            if aggregator.segment.deleted:  # meanwhile
                return False
        self._advance(aggregator, merge.end)
        return True

    async def _check_claim(
        self, segment: SegmentState, offset: int, end: int, holder: SegmentState, holder_offset: int
    ) -> None:
        """Compare ``[offset, end)`` in storage with the cached bytes of ``holder``, as far as there are any.

        Of a log that was recovered some may have left the cache: those were believed when it was replayed.

        Raises:
            DataCorruptionError: they differ.
            StorageReadError: storage did not answer, or with damaged bytes; retry.
        """
        info = await self._storage.info(segment.storage_name)
        assert info is not None
        for at in range(max(offset, info.start_offset), end, _COMPARED_BYTES):
            length = min(_COMPARED_BYTES, end - at)
            cached_at = holder_offset + at - offset
            if self._read_index.read_direct(holder, cached_at, length) is None:
                continue
            stored = await self._read_back(segment, at, length)
            # What is stored may be evicted at any time: look again instead of keeping the views.
            cached = self._read_index.read_direct(holder, cached_at, length)
            if cached is None:
                continue
            different = first_difference(stored, cached)
            if different is not None:
                raise DataCorruptionError(
                    f"segment {segment.name!r}: storage has other bytes than the log at {at + different}"
                )
            self.bytes_compared += length

    async def _check_twins(self, target: SegmentState, merge: PendingMerge) -> None:
        """Compare what storage has of a source with what it has in the target. Raises as _check_claim."""
        source, taken = merge.source.segment, await self._storage.info(target.storage_name)
        own = await self._storage.info(source.storage_name)
        assert taken is not None
        assert own is not None
        for at in range(max(0, taken.start_offset - merge.offset), own.length, _COMPARED_BYTES):
            length = min(_COMPARED_BYTES, own.length - at)
            taken_bytes = await self._read_back(target, merge.offset + at, length)
            own_bytes = await self._read_back(source, at, length)
            different = first_difference(taken_bytes, [own_bytes])
            if different is not None:
                raise DataCorruptionError(
                    f"storage has {source.name!r} beside the bytes it gave to {target.name!r}, which "
                    f"differ at {at + different}"
                )
            self.bytes_compared += length

    async def _read_back(self, segment: SegmentState, offset: int, length: int) -> memoryview:
        """Read what storage claims. Raises: StorageReadError.

        A damaged object is no contradiction: the log has these bytes and retains them until the object is
        repaired; other segments go on.
        """
        try:
            return await self._storage.read_stored(segment.storage_name, offset, length)
        except CorruptionError as error:
            raise StorageReadError(
                f"what is stored of segment {segment.name!r} is damaged, the log retains it: {error}"
            ) from error

    async def _concat(self, aggregator: SegmentAggregator, merge: PendingMerge) -> None:
        target, source = aggregator.segment, merge.source.segment
        length = merge.end - merge.offset
        info = await self._storage.info(source.storage_name)
        if info is None:
            await self.adopt(aggregator)  # did an earlier attempt succeed?
            if aggregator.claimed >= merge.end:
                return
        if info is None or info.length != length:
            raise DataCorruptionError(
                f"segment {source.name!r} was merged with {length} bytes, storage has "
                f"{'none' if info is None else info.length}"
            )
        if not info.sealed:
            await self._storage.seal(source.storage_name)
        if not aggregator.in_storage:
            await self._storage.create(target.storage_name, max(0, target.attribute(ROLLOVER_SIZE)))
            aggregator.in_storage = True
        stored = await self._storage.concat(target.storage_name, merge.offset, source.storage_name)
        self.merges_joined += 1
        _check_length(target, merge.end, stored)
        self._advance(aggregator, merge.end)
        self._complete_merge(aggregator, merge)

    async def _seal(self, aggregator: SegmentAggregator, step: PendingSeal) -> None:
        if aggregator.in_storage:
            await self._storage.seal(aggregator.segment.storage_name)
        aggregator.segment.note_stored_seal(sealed=True)
        aggregator.finish(step)

    async def _truncate(self, aggregator: SegmentAggregator, step: PendingTruncate) -> None:
        offset = step.offset
        if aggregator.in_storage:
            await self._storage.truncate(aggregator.segment.storage_name, offset)
        if step.offset == offset:  # else it was raised meanwhile
            aggregator.finish(step)

    async def _delete_from_storage(self, aggregator: SegmentAggregator) -> None:
        name = aggregator.segment.storage_name
        if await self._storage.info(name) is not None:
            await self._storage.delete(name)
        aggregator.in_storage = False

    # ---------------------------------------------------------------------------------- after a step

    def _advance(self, aggregator: SegmentAggregator, length: int) -> None:
        """The bytes below ``length`` are stored; of recovered ones that is no news."""
        segment = aggregator.segment
        aggregator.confirm(length)
        if length > segment.stored_length:
            segment.note_stored(length)
            segment.check()
            self._read_index.on_changed(segment)

    def _complete_merge(self, aggregator: SegmentAggregator, merge: PendingMerge) -> None:
        """The target has the source's bytes: the source is not needed any more."""
        source = merge.source
        self._deleted_sources += queue_source_deletions(source)
        source.clear()
        source.in_storage = False
        source.target = None
        source.segment.note_stored_deletion()
        self._read_index.complete_merge(aggregator.segment, source.segment)
        self._read_index.drop(source.segment)
        aggregator.finish(merge)


def _check_length(segment: SegmentState, expected: int, stored: int) -> None:
    """Check that storage reports the length that was just stored. Raises: DataCorruptionError."""
    if stored != expected:
        raise DataCorruptionError(
            f"segment {segment.name!r}: {expected} bytes were stored, storage tells of {stored}"
        )
