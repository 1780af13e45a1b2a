"""What one table holds, accepted and durable, and whether the conditions of an update hold.

Updates follow each other into the log without waiting: conditions are judged by what is *accepted*, that
is, the durable index plus the updates whose append is in flight. Readers see what is *durable*. An update
that fails its condition only because of accepted updates is not refused before those are durable: otherwise
a crash of the host would leave the caller with the answer to an update that never happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import OffsetMismatchError, SegmentError, TableKeyMissingError, TableKeyVersionError
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.segmentstore.tables.table_index import (
    REMOVED,
    TableIndex,
    location_offset,
    location_version,
)

ANY_LENGTH: Final = -1
"""As expected length: no condition."""


class Batch:
    """Entries appended in one piece. ``locations`` holds REMOVED for removals."""

    __slots__ = ("end", "keys", "locations", "offset")

    def __init__(self, offset: int, end: int, keys: list[bytes], locations: list[int]) -> None:
        self.offset = offset
        self.end = end
        self.keys = keys
        self.locations = locations


class TableState:
    """One table. Mutated only by its container's loop."""

    __slots__ = ("_accepted", "_batches", "durable_end", "index", "name", "tail")

    def __init__(self, name: str, index: TableIndex, tail: int) -> None:
        self.name = name
        self.index = index
        self.tail = tail
        """Where the next batch begins."""
        self.durable_end = tail
        """Everything below is in the index."""
        self._batches: deque[Batch] = deque()
        self._accepted: dict[bytes, tuple[int, Batch]] = {}
        """Keys touched by batches in flight: their newest location, and the batch it came with."""

    @property
    def in_flight_bytes(self) -> int:
        return self.tail - self.durable_end

    @property
    def in_flight_count(self) -> int:
        return len(self._batches)

    def find_accepted(self, key: bytes) -> int:
        """Return the accepted location of ``key``, or REMOVED."""
        if self._accepted:
            accepted = self._accepted.get(key)
            if accepted is not None:
                return accepted[0]
        return self.index.find(key)

    def is_touched(self, key: bytes) -> bool:
        """Whether an update of ``key`` is in flight."""
        return key in self._accepted

    # ---- conditions

    def find_violation(
        self, items: Sequence[TableEntry] | Sequence[TableKey], expected_length: int
    ) -> SegmentError | None:
        """Judge conditions by the accepted state."""
        if expected_length not in (ANY_LENGTH, self.tail):
            return OffsetMismatchError(self.name, expected_length, self.tail)
        return self._judge(items, self.find_accepted)

    def find_durable_violation(
        self, items: Sequence[TableEntry] | Sequence[TableKey], expected_length: int
    ) -> SegmentError | None:
        """Judge conditions by the durable state alone."""
        if expected_length not in (ANY_LENGTH, self.durable_end):
            return OffsetMismatchError(self.name, expected_length, self.durable_end)
        return self._judge(items, self.index.find)

    def awaited_end(self, items: Sequence[TableEntry] | Sequence[TableKey], expected_length: int) -> int:
        """Return the length of the log that must be durable before the caller is refused for a violation."""
        if expected_length != ANY_LENGTH:
            return self.tail
        ends = [touched[1].end for item in items if (touched := self._accepted.get(item.key)) is not None]
        return max(ends, default=self.durable_end)

    def _judge(
        self, items: Sequence[TableEntry] | Sequence[TableKey], find: Callable[[bytes], int]
    ) -> SegmentError | None:
        wrong_version = False
        for item in items:
            required = item.version
            if required == NO_VERSION:
                continue
            location = find(item.key)
            if location == REMOVED:
                if required != NOT_EXISTS:
                    return TableKeyMissingError(self.name)  # comes before any wrong version
            elif required == NOT_EXISTS or location_version(location) != required:
                wrong_version = True
        return TableKeyVersionError(self.name) if wrong_version else None

    # ---- changes

    def accept(self, batch: Batch) -> None:
        """``batch`` is being appended at the tail."""
        assert batch.offset == self.tail
        assert batch.end > batch.offset
        self._batches.append(batch)
        self.tail = batch.end
        accepted = self._accepted
        for key, location in zip(batch.keys, batch.locations, strict=True):
            accepted[key] = (location, batch)

    def extend(self, batch: Batch, keys: list[bytes], locations: list[int], size_bytes: int) -> None:
        """Add entries to ``batch``: the newest one, unless it has none yet."""
        if not batch.keys:
            self._batches.append(batch)
        assert self._batches[-1] is batch
        assert batch.end == self.tail
        batch.keys += keys
        batch.locations += locations
        self.tail = batch.end = batch.end + size_bytes
        accepted = self._accepted
        for key, location in zip(keys, locations, strict=True):
            accepted[key] = (location, batch)

    def retract(self, batch: Batch) -> bool:
        """``batch`` was not appended. Returns False if later batches were built upon it: the state is then
        void.
        """
        if not self._batches or self._batches[-1] is not batch:
            return False
        self._batches.pop()
        self.tail = batch.offset
        self._accepted = {
            key: (location, earlier)
            for earlier in self._batches
            for key, location in zip(earlier.keys, earlier.locations, strict=True)
        }
        return True

    def settle(self, durable_length: int) -> None:
        """Everything below ``durable_length`` is durable: move those batches into the index, in order."""
        index, accepted = self.index, self._accepted
        while self._batches and self._batches[0].end <= durable_length:
            batch = self._batches.popleft()
            for key, location in zip(batch.keys, batch.locations, strict=True):
                if location == REMOVED:
                    index.remove(key)
                else:
                    index.put(key, location)
                newest = accepted.get(key)
                if newest is not None and newest[1] is batch:
                    del accepted[key]
            self.durable_end = batch.end

    def check(self) -> None:
        """Assert the invariants. Touches every key."""
        self.index.check()
        at = self.durable_end
        for batch in self._batches:
            assert batch.offset == at
            assert batch.offset < batch.end
            assert len(batch.keys) == len(batch.locations)
            at = batch.end
        assert at == self.tail
        touched = {key for batch in self._batches for key in batch.keys}
        assert touched == set(self._accepted)
        for location in self.index.locations():
            assert location_offset(location) < self.durable_end
