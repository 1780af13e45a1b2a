"""The rows that say how streams came to be what they are: epochs and sealed segments, of all streams.

Both are immutable once complete, so those used last are cached, bounded in count and bytes. What a question
walks through in long batches is read past the cache: it would only push out what is asked for often.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import details_table, epoch_key, sealed_key
from headrace.controller.store.rows.epoch_row import EpochRecord, decode_epoch, encode_epoch
from headrace.controller.store.rows.sealed_row import SealedRow, decode_sealed, encode_sealed
from headrace.controller.streams.epochs import created_in
from headrace.errors import MetadataConflictError
from headrace.limits import KIB, MIB
from headrace.runtime.loop_budget import LoopBudget

ROWS_AT_ONCE: Final = 1000
"""How many rows one call reads or writes."""

_CACHED_ROWS_MAX: Final = 20_000
_CACHED_BYTES_MAX: Final = 32 * MIB
_SEGMENT_BYTES: Final = 250
_ROW_BYTES: Final = 500
"""What a segment of an epoch, and a cached row beside its segments, take in memory."""

_YIELD_BYTES: Final = 16 * KIB
"""Rows are decoded in some milliseconds of one iteration of the loop."""

_FIRST_BATCH: Final = 16
_BATCH_SEGMENTS: Final = 20_000

_ATTEMPTS_MAX: Final = 50


@dataclass(slots=True)
class HistoryStatistics:
    """Gauges of now and counts since creation."""

    rows_cached: int
    bytes_cached: int
    hits: int
    rows_read: int


class BatchSize:
    """How many epochs to read at once, so that about as many segments as it should be are in memory.

    Epochs differ in their number of segments, and neighbours do not differ much.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = _FIRST_BATCH

    def adapt(self, segments: int) -> None:
        """The last batch had this many segments."""
        self.count = max(
            1, min(ROWS_AT_ONCE, 4 * self.count, _BATCH_SEGMENTS * self.count // max(1, segments))
        )


class HistoryRows:
    """Reads and writes the rows of all streams of one controller. Used on its loop."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        rows_max: int = _CACHED_ROWS_MAX,
        bytes_max: int = _CACHED_BYTES_MAX,
    ) -> None:
        self._store = store
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._cached: OrderedDict[tuple[bytes, bytes], EpochRecord | SealedRow] = OrderedDict()
        self._bytes_cached = 0
        self._hits = 0
        self._rows_read = 0

    # ---------------------------------------------------------------------------------- read

    async def epochs(
        self, uid: bytes, epochs: Sequence[int], *, cached: bool = True
    ) -> dict[int, EpochRecord]:
        """Return the given epochs of a stream; those without a row are left out."""
        found: dict[int, EpochRecord] = {}
        keys = {epoch: epoch_key(uid, epoch) for epoch in epochs}
        for epoch, key in keys.items():
            record = self._cached_row(uid, key)
            if isinstance(record, EpochRecord):
                found[epoch] = record
        budget = LoopBudget(_YIELD_BYTES)
        for epoch, data in (await self._read(uid, keys, found)).items():
            await budget.spend(len(data))
            found[epoch] = decode_epoch(data)
            if cached:
                self._remember(uid, keys[epoch], found[epoch])
        return found

    async def sealed(self, uid: bytes, segment_ids: Iterable[int]) -> dict[int, SealedRow]:
        """Return what is known of the given segments; those without a row are left out."""
        found: dict[int, SealedRow] = {}
        keys = {segment_id: sealed_key(uid, segment_id) for segment_id in segment_ids}
        for segment_id, key in keys.items():
            known = self._cached_row(uid, key)
            if isinstance(known, SealedRow):
                found[segment_id] = known
        for segment_id, data in (await self._read(uid, keys, found)).items():
            found[segment_id] = row = decode_sealed(data)
            if row.length is not None:
                self._remember(uid, keys[segment_id], row)
        return found

    # ---------------------------------------------------------------------------------- write

    async def archive(
        self, uid: bytes, records: Iterable[EpochRecord], sealed: Mapping[int, SealedRow]
    ) -> None:
        """Write epochs that are, or are about to be, in the past, and what is to be sealed with them.

        Epochs never change: repeating is harmless. Of segments only those are written that have no row yet:
        another controller may know the length already.
        """
        table = details_table(uid)
        epochs = [Write(epoch_key(uid, record.epoch), encode_epoch(record)) for record in records]
        for _ in range(_ATTEMPTS_MAX):
            known = await self.sealed(uid, sealed)
            writes = [
                Write(sealed_key(uid, segment_id), encode_sealed(row), ABSENT)
                for segment_id, row in sealed.items()
                if segment_id not in known
            ]
            try:
                for start in range(0, len(writes), ROWS_AT_ONCE):
                    await self._store.update(table, writes[start : start + ROWS_AT_ONCE])
                await self._store.update(table, epochs)
            except MetadataConflictError:
                continue
            return
        raise MetadataConflictError("the sealed segments of a stream are changed by too many callers at once")

    async def note_sealed(self, uid: bytes, sealed: Mapping[int, SealedRow]) -> None:
        """Write complete rows of sealed segments. They never change: repeating is harmless."""
        assert all(row.length is not None for row in sealed.values())
        writes = [
            Write(sealed_key(uid, segment_id), encode_sealed(row)) for segment_id, row in sealed.items()
        ]
        for start in range(0, len(writes), ROWS_AT_ONCE):
            await self._store.update(details_table(uid), writes[start : start + ROWS_AT_ONCE])

    async def remove(self, uid: bytes, last: EpochRecord) -> None:
        """Delete all rows of a stream whose last epoch is ``last``, those of the newest epochs first.

        Repeatable from wherever it ended: what is missing is done.
        """
        await self._delete(uid, [sealed_key(uid, segment_id) for segment_id in last.segment_ids()])
        # A mark is deleted whatever is happening to it: the epochs after the active one may be archived.
        await self._delete(uid, [epoch_key(uid, epoch) for epoch in (last.epoch + 1, last.epoch)])
        stop, batch = last.epoch, BatchSize()
        while stop > 0:
            epochs = range(max(0, stop - batch.count), stop)
            records = (await self.epochs(uid, epochs, cached=False)).values()
            ended = [segment for record in records for segment in created_in(record)]
            await self._delete(uid, [sealed_key(uid, segment.segment_id) for segment in ended])
            await self._delete(uid, [epoch_key(uid, epoch) for epoch in reversed(epochs)])
            stop = epochs.start
            batch.adapt(sum(len(record.segments) for record in records))

    async def has_all(self, uid: bytes, epochs: Sequence[int]) -> bool:
        """Whether all the given epochs have rows in the store, be they cached or not."""
        rows = await self._store.get_many(details_table(uid), [epoch_key(uid, epoch) for epoch in epochs])
        return None not in rows

    def statistics(self) -> HistoryStatistics:
        return HistoryStatistics(len(self._cached), self._bytes_cached, self._hits, self._rows_read)

    # ---------------------------------------------------------------------------------- inside

    async def _delete(self, uid: bytes, keys: Sequence[bytes]) -> None:
        for start in range(0, len(keys), ROWS_AT_ONCE):
            deletions = [Write(key, None) for key in keys[start : start + ROWS_AT_ONCE]]
            await self._store.update(details_table(uid), deletions)

    async def _read(
        self, uid: bytes, keys: Mapping[int, bytes], known: Mapping[int, object]
    ) -> dict[int, bytes]:
        """Return the values of the rows that are not known."""
        wanted = [number for number in keys if number not in known]
        values: dict[int, bytes] = {}
        for start in range(0, len(wanted), ROWS_AT_ONCE):
            numbers = wanted[start : start + ROWS_AT_ONCE]
            rows = await self._store.get_many(details_table(uid), [keys[number] for number in numbers])
            self._rows_read += len(rows)
            values |= {
                number: row.value for number, row in zip(numbers, rows, strict=True) if row is not None
            }
        return values

    def _cached_row(self, uid: bytes, key: bytes) -> EpochRecord | SealedRow | None:
        row = self._cached.get((uid, key))
        if row is not None:
            self._hits += 1
            self._cached.move_to_end((uid, key))
        return row

    def _remember(self, uid: bytes, key: bytes, row: EpochRecord | SealedRow) -> None:
        if (uid, key) in self._cached:
            return
        self._cached[uid, key] = row
        self._bytes_cached += _size_bytes(row)
        while len(self._cached) > self._rows_max or self._bytes_cached > self._bytes_max:
            _, evicted = self._cached.popitem(last=False)
            self._bytes_cached -= _size_bytes(evicted)


def _size_bytes(row: EpochRecord | SealedRow) -> int:
    return _ROW_BYTES + (_SEGMENT_BYTES * len(row.segments) if isinstance(row, EpochRecord) else 0)
