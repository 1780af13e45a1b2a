"""Reads what a question needs of the epochs of one stream, as they are at one version of its row.

A question costs what it is about, whatever lies before: the successors of a segment take its sealed row and
two epochs; a distance between cuts is walked in batches. Nothing of it stays in memory but the rows that
``history_rows`` caches.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

from headrace.controller.store.rows.epoch_row import EpochRecord, SegmentRecord
from headrace.controller.store.rows.stream_row import RollPhase, ScalePhase, StreamRow
from headrace.controller.streams.epochs import (
    Successor,
    created_in,
    duplicated_epoch,
    scaled_epoch,
    successors_between,
)
from headrace.controller.streams.history_rows import BatchSize, HistoryRows
from headrace.errors import HeadraceError
from headrace.model.segment_id import epoch_of
from headrace.runtime.loop_budget import LoopBudget

_SHORT_WALK: Final = 64
"""Epochs of walks that are no longer than this are cached."""

_YIELD_SEGMENTS: Final = 1_000

AbsenceOf = Callable[[int], Awaitable[HeadraceError]]
"""Told an epoch whose row is missing; returns what to raise."""


class EpochReader:
    """Epochs up to the active one of ``row``; with ``visible`` also those that clients may see before they
    are active.

    Raises, where nothing else is said, DataCorruptionError: a row that must be there is missing; and
    NoSuchStreamError: it is missing because the stream is being deleted.
    """

    def __init__(
        self, rows: HistoryRows, row: StreamRow, absence_of: AbsenceOf, *, visible: bool = False
    ) -> None:
        self.row = row
        self._rows = rows
        self._absence_of = absence_of
        self._pending_count = _count_pending(row) if visible else 0
        self._pending: list[EpochRecord] | None = None if self._pending_count else []

    @property
    def last_epoch(self) -> int:
        return self.row.epoch.epoch + self._pending_count

    # ---------------------------------------------------------------------------------- epochs

    async def find(self, epoch: int) -> EpochRecord | None:
        """Return an epoch, None if the stream has no such one (yet)."""
        if not 0 <= epoch <= self.last_epoch:
            return None
        return (await self.read([epoch]))[epoch]

    async def last(self) -> EpochRecord:
        return (await self.read([self.last_epoch]))[self.last_epoch]

    async def read(self, epochs: Collection[int], *, cached: bool = True) -> dict[int, EpochRecord]:
        """Return the given epochs, all of which the stream has; what was read stays cached if it may."""
        active = self.row.epoch
        found: dict[int, EpochRecord] = {}
        if any(epoch > active.epoch for epoch in epochs):
            found = {record.epoch: record for record in await self._read_pending()}
        found[active.epoch] = active
        older = [epoch for epoch in epochs if epoch < active.epoch]
        if older:
            found |= await self._rows.epochs(self.row.uid, older, cached=cached)
            for epoch in older:
                if epoch not in found:
                    raise await self._absence_of(epoch)
        return found

    async def walk(self, epochs: Sequence[int]) -> AsyncIterator[EpochRecord]:
        """Yield the given epochs in their order, reading them in batches of bounded size."""
        cached, start, size = len(epochs) <= _SHORT_WALK, 0, BatchSize()
        budget = LoopBudget(_YIELD_SEGMENTS)
        while start < len(epochs):
            batch = epochs[start : start + size.count]
            start += len(batch)
            records = await self.read(batch, cached=cached)
            segments = 0
            for epoch in batch:
                record = records.pop(epoch)
                segments += len(record.segments)
                await budget.spend(len(record.segments))
                yield record
            size.adapt(segments)

    async def created(self, epochs: Sequence[int]) -> AsyncIterator[list[SegmentRecord]]:
        """Yield for each of the given epochs the segments that came with it."""
        async for record in self.walk(epochs):
            yield created_in(record)

    async def count_before(self, time_ms: int) -> int:
        """Return how many epochs were created before ``time_ms``: times of creation increase."""
        low, high = 0, self.last_epoch + 1
        while low < high:
            middle = (low + high) // 2
            if (await self.read([middle]))[middle].created_ms < time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    # ---------------------------------------------------------------------------------- segments

    async def find_segments(self, segment_ids: Iterable[int]) -> dict[int, SegmentRecord]:
        """Return the given segments; those that the stream never had are left out."""
        wanted: dict[int, set[int]] = {}
        for segment_id in segment_ids:
            if 0 <= epoch_of(segment_id) <= self.last_epoch:
                wanted.setdefault(epoch_of(segment_id), set()).add(segment_id)
        found: dict[int, SegmentRecord] = {}
        for segment in self.row.epoch.segments:
            if segment.segment_id in wanted.get(epoch_of(segment.segment_id), ()):
                found[segment.segment_id] = segment
        older = [epoch for epoch in sorted(wanted) if not wanted[epoch] <= found.keys()]
        async for record in self.walk(older):
            for segment in record.segments:
                if segment.segment_id in wanted[record.epoch]:
                    found[segment.segment_id] = segment
        return found

    async def ends(self, segment_ids: Iterable[int]) -> dict[int, int]:
        """Return for each of the given segments, which the stream had, the first epoch without it.

        Segments of the last epoch are left out.
        """
        last = set((await self.last()).segment_ids())
        wanted = [segment_id for segment_id in segment_ids if segment_id not in last]
        if not wanted:
            return {}
        rows = await self._rows.sealed(self.row.uid, wanted)
        found: dict[int, int] = {}
        for segment_id in wanted:
            row = rows.get(segment_id)
            if row is None or row.epoch is None:
                found[segment_id] = await self._search_end(segment_id)
            else:
                found[segment_id] = row.epoch
        return found

    async def successors(self, segment_id: int) -> list[Successor]:
        """Return the successors, with all predecessors of each; nothing for active and unknown segments."""
        if not 0 <= epoch_of(segment_id) <= self.last_epoch:
            return []
        if (await self.last()).find(segment_id) is not None:
            return []
        row = (await self._rows.sealed(self.row.uid, [segment_id])).get(segment_id)
        if row is not None and row.epoch is not None:
            end = row.epoch
        elif await self.find_segments([segment_id]):
            end = await self._search_end(segment_id)
        else:
            return []
        records = await self.read([end - 1, end])
        return successors_between(records[end - 1], records[end], segment_id)

    # ---------------------------------------------------------------------------------- inside

    async def _search_end(self, segment_id: int) -> int:
        """Find the end of a segment without a sealed row: the epochs it is in follow each other."""
        present, absent = epoch_of(segment_id), self.last_epoch
        while absent - present > 1:
            middle = (present + absent) // 2
            if (await self.read([middle]))[middle].find(segment_id) is None:
                absent = middle
            else:
                present = middle
        return absent

    async def _read_pending(self) -> list[EpochRecord]:
        if self._pending is None:
            row = self.row
            if row.scale is not None and row.scale.phase is ScalePhase.REVEALED:
                self._pending = [scaled_epoch(row.epoch, row.scale)]
            else:
                self._pending = await self.rolled()
        return self._pending

    async def rolled(self) -> list[EpochRecord]:
        """Return both epochs that the rolling commit in the row leads to; see ``rolled_epochs``."""
        assert self.row.commit is not None
        epoch = self.row.commit.txn_epoch
        original = await self.find(epoch)
        if original is None:
            raise await self._absence_of(epoch)
        return rolled_epochs(self.row, original)


def rolled_epochs(row: StreamRow, original: EpochRecord) -> list[EpochRecord]:
    """Return both epochs of the rolling commit in ``row``: the transactions' one, which is ``original``,
    again, then the active one.

    A function of the row and of immutable epochs only, so that a resumed commit gets the same.
    """
    assert row.commit is not None
    assert row.commit.roll is not None
    time_ms = max(row.commit.roll.time_ms, row.epoch.created_ms + 1)
    return [
        duplicated_epoch(original, row.epoch.epoch + 1, time_ms),
        duplicated_epoch(row.epoch, row.epoch.epoch + 2, time_ms + 1),
    ]


def _count_pending(row: StreamRow) -> int:
    """How many epochs clients may see before they are active: successors must be known first."""
    if row.scale is not None and row.scale.phase is ScalePhase.REVEALED:
        return 1
    roll = None if row.commit is None else row.commit.roll
    return 2 if roll is not None and roll.phase is RollPhase.REVEALED else 0
