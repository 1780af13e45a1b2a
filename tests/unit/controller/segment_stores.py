"""Segment stores in memory, as the controller sees them, that count, fail and forget replies on demand.

Fault model: any call may be refused without effect, or take effect and lose its reply
(:attr:`FakeSegmentStores.fault`); calls of one caller interleave with those of others at every await.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from headrace.errors import (
    InvalidArgumentError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentMergedError,
    SegmentSealedError,
    SegmentTruncatedError,
    TableKeyMissingError,
    TableKeyVersionError,
    TableNotEmptyError,
)
from headrace.limits import BULK_NAMES_MAX, TABLE_BATCH_BYTES_MAX, TABLE_VALUE_BYTES_MAX
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableDelta, TableEntry, TableInfo, TableKey

Fault = Callable[[str, str], Awaitable[None]]
"""Told (call, segment) before a call takes effect; raises to refuse it."""


@dataclass(slots=True)
class FakeSegment:
    """One stream segment; ``data`` holds everything ever appended, also below the start offset."""

    scale_type: int = 0
    target_rate: int = 0
    rollover_bytes: int = 0
    data: bytearray = field(default_factory=bytearray)
    start_offset: int = 0
    sealed: bool = False
    attributes: dict[bytes, int] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return len(self.data)


@dataclass(slots=True)
class FakeRead:
    """What one read found."""

    offset: int
    data: bytes
    at_tail: bool
    end_of_segment: bool

    def to_bytes(self) -> bytes:
        return self.data


@dataclass(slots=True)
class FakeTable:
    """One hash table; versions are offsets in a log, as in the real one."""

    key_length: int
    rollover_bytes: int
    length: int = 0
    entries: dict[bytes, TableEntry] = field(default_factory=dict)


class FakeSegmentStores:
    """A ``model.segment_access.SegmentAccess`` over dictionaries."""

    def __init__(self) -> None:
        self.segments: dict[str, FakeSegment] = {}
        self.tables: dict[str, FakeTable] = {}
        self.calls: Counter[str] = Counter()
        self.fault: Fault | None = None
        self.after: Fault | None = None
        """Told after a call took effect; raises to lose its reply."""
        self.appended = asyncio.Event()
        """Set by the next append."""
        self.looked_at: list[dict[str, int]] = [{}]
        """Lengths at each look for changes, by its marker."""

    # ---- for tests

    def write(self, segment: str, data: bytes) -> None:
        """Append as a writer would. Raises NoSuchSegmentError, SegmentSealedError."""
        found = self._segment(segment)
        if found.sealed:
            raise SegmentSealedError(segment)
        found.data += data
        self.appended.set()
        self.appended = asyncio.Event()

    def of_users(self) -> list[str]:
        """Return the names of the segments that are not the controllers' own."""
        return sorted(name for name in self.segments if not name.startswith("_system/"))

    # ---- segments

    async def create_segment(
        self, segment: str, *, scale_type: int = 0, target_rate: int = 0, rollover_bytes: int = 0
    ) -> None:
        await self._enter("create_segment", segment)
        if segment in self.segments:
            raise SegmentExistsError(segment)
        self.segments[segment] = FakeSegment(scale_type, target_rate, rollover_bytes)
        await self._leave("create_segment", segment)

    async def delete_segment(self, segment: str) -> None:
        await self._enter("delete_segment", segment)
        self._segment(segment)
        del self.segments[segment]
        await self._leave("delete_segment", segment)

    async def seal_segment(self, segment: str) -> int:
        await self._enter("seal_segment", segment)
        found = self._segment(segment)
        if found.sealed:
            raise SegmentSealedError(segment)
        found.sealed = True
        await self._leave("seal_segment", segment)
        return found.length

    async def truncate_segment(self, segment: str, offset: int) -> None:
        await self._enter("truncate_segment", segment)
        found = self._segment(segment)
        if offset < found.start_offset:
            raise SegmentTruncatedError(segment, found.start_offset, offset)
        if offset > found.length:
            raise InvalidArgumentError(f"{offset} is beyond the length {found.length} of {segment}")
        found.start_offset = offset
        await self._leave("truncate_segment", segment)

    async def update_policy(self, segment: str, scale_type: int, target_rate: int) -> None:
        await self._enter("update_policy", segment)
        found = self._segment(segment)
        found.scale_type, found.target_rate = scale_type, target_rate
        await self._leave("update_policy", segment)

    async def segment_info(self, segment: str) -> FakeSegment:
        await self._enter("segment_info", segment)
        return self._segment(segment)

    async def segment_infos(self, segments: Sequence[str]) -> list[FakeSegment | None]:
        assert len(segments) <= BULK_NAMES_MAX
        self.calls["segment_infos"] += 1
        found = []
        for segment in segments:
            await self._enter("segment_info", segment)
            found.append(self.segments.get(segment))
        return found

    async def delete_segments(self, segments: Sequence[str]) -> None:
        assert len(segments) <= BULK_NAMES_MAX
        self.calls["delete_segments"] += 1
        for segment in segments:
            await self._enter("delete_segment", segment)
            if self.segments.pop(segment, None) is not None:
                await self._leave("delete_segment", segment)

    async def changed_segments(self, marker: bytes) -> tuple[bytes, list[tuple[str, int]]]:
        await self._enter("changed_segments", "")
        found = {name: each.length for name, each in self.segments.items()}
        seen = self.looked_at[int(marker)] if marker else {}
        self.looked_at.append(found)
        changed = [(name, length) for name, length in found.items() if seen.get(name, -1) != length]
        return b"%d" % (len(self.looked_at) - 1), changed

    async def append(
        self,
        segment: str,
        data: bytes | bytearray | memoryview,
        updates: Sequence[AttributeUpdate] = (),
        expected_offset: int = -1,
    ) -> int:
        await self._enter("append", segment)
        found = self._segment(segment)
        if found.sealed:
            raise SegmentSealedError(segment)
        offset = found.length
        for each in updates:
            assert each.kind is UpdateKind.ACCUMULATE
            value = found.attributes.get(each.attribute_id, 0)
            found.attributes[each.attribute_id] = value + each.value
        if expected_offset not in {-1, offset}:
            raise OffsetMismatchError(segment, expected_offset, offset)
        found.data += data
        await self._leave("append", segment)
        self.appended.set()
        self.appended = asyncio.Event()
        return offset

    async def read(self, segment: str, offset: int, length_max: int, *, wait: bool) -> FakeRead:
        await self._enter("read", segment)
        while True:
            found, appended = self._segment(segment), self.appended
            if offset < found.start_offset:
                raise SegmentTruncatedError(segment, found.start_offset, offset)
            data = bytes(found.data[offset : offset + length_max])
            at_end = offset + len(data) == found.length
            if data or found.sealed or not wait:
                return FakeRead(offset, data, at_end and not found.sealed, at_end and found.sealed)
            await appended.wait()

    async def merge_segments(self, target: str, source: str, updates: Sequence[AttributeUpdate] = ()) -> int:
        assert not updates
        await self._enter("merge_segments", target)
        if source not in self.segments:
            raise SegmentMergedError(source)
        length = self._merge(target, source)
        await self._leave("merge_segments", target)
        return length

    async def merge_batch(self, target: str, sources: Sequence[str]) -> list[int]:
        await self._enter("merge_batch", target)
        into = self._segment(target)
        if into.sealed:
            raise SegmentSealedError(target)
        lengths = []
        for source in sources:
            if source in self.segments:
                self._merge(target, source)
                await self._leave("merge_batch.one", target)
            lengths.append(into.length)
        await self._leave("merge_batch", target)
        return lengths

    async def get_attribute(self, segment: str, attribute_id: bytes) -> int:
        await self._enter("get_attribute", segment)
        return self._segment(segment).attributes.get(attribute_id, ATTRIBUTE_NULL)

    async def update_attribute(self, segment: str, attribute_id: bytes, value: int, expected: int) -> bool:
        await self._enter("update_attribute", segment)
        attributes = self._segment(segment).attributes
        if attributes.get(attribute_id, ATTRIBUTE_NULL) != expected:
            return False
        attributes[attribute_id] = value
        await self._leave("update_attribute", segment)
        return True

    # ---- tables

    async def create_table(self, segment: str, *, key_length: int = 0, rollover_bytes: int = 0) -> None:
        await self._enter("create_table", segment)
        if segment in self.tables:
            raise SegmentExistsError(segment)
        self.tables[segment] = FakeTable(key_length, rollover_bytes)
        await self._leave("create_table", segment)

    async def delete_table(self, segment: str, *, must_be_empty: bool) -> None:
        await self._enter("delete_table", segment)
        if must_be_empty and self._table(segment).entries:
            raise TableNotEmptyError(segment)
        self._table(segment)
        del self.tables[segment]
        await self._leave("delete_table", segment)

    async def table_info(self, segment: str, /) -> TableInfo:
        raise NotImplementedError

    async def table_update(
        self, segment: str, /, entries: Sequence[TableEntry], expected_length: int = -1
    ) -> list[int]:
        await self._enter("table_update", segment)
        assert expected_length == -1
        table = self._table(segment)
        for entry in entries:
            if len(entry.value) > TABLE_VALUE_BYTES_MAX:
                raise InvalidArgumentError(f"a value of {len(entry.value)} bytes is too large")
        for entry in entries:
            self._require(segment, table, entry.key, entry.version)
        versions = []
        for entry in entries:
            versions.append(table.length)
            table.entries[entry.key] = TableEntry(entry.key, bytes(entry.value), table.length)
            table.length += 17 + len(entry.key) + len(entry.value)
        await self._leave("table_update", segment)
        return versions

    async def table_remove(
        self, segment: str, /, keys: Sequence[TableKey], expected_length: int = -1
    ) -> None:
        await self._enter("table_remove", segment)
        assert expected_length == -1
        table = self._table(segment)
        for key in keys:
            self._require(segment, table, key.key, key.version)
        for key in keys:
            table.entries.pop(key.key, None)
            table.length += 17 + len(key.key)
        await self._leave("table_remove", segment)

    async def table_get(
        self, segment: str, /, keys: Sequence[bytes], bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> list[TableEntry | None]:
        await self._enter("table_get", segment)
        found = [self._table(segment).entries.get(key) for key in keys]
        return [entry and TableEntry(entry.key, entry.value, entry.version) for entry in found]

    async def table_keys(
        self,
        segment: str,
        /,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableKey], bytes]:
        entries, token = await self.table_entries(segment, token, count, from_key, to_key)
        return [TableKey(entry.key, entry.version) for entry in entries], token

    async def table_entries(
        self,
        segment: str,
        /,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableEntry], bytes]:
        await self._enter("table_entries", segment)
        assert not from_key
        assert not to_key
        entries = self._table(segment).entries
        ordered = sorted(entries, key=_scatter)
        start = bisect_right([_scatter(key) for key in ordered], token) if token else 0
        chosen = ordered[start : start + count]
        return [TableEntry(key, entries[key].value, entries[key].version) for key in chosen], _scatter(
            chosen[-1]
        ) if chosen else token

    async def table_delta(
        self, segment: str, /, position: int, count: int, bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> TableDelta:
        raise NotImplementedError

    # ---- inside

    async def _enter(self, call: str, segment: str) -> None:
        self.calls[call] += 1
        await asyncio.sleep(0)
        if self.fault is not None:
            await self.fault(call, segment)

    async def _leave(self, call: str, segment: str) -> None:
        if self.after is not None:
            await self.after(call, segment)

    def _segment(self, segment: str) -> FakeSegment:
        found = self.segments.get(segment)
        if found is None:
            raise NoSuchSegmentError(segment)
        return found

    def _table(self, segment: str) -> FakeTable:
        found = self.tables.get(segment)
        if found is None:
            raise NoSuchSegmentError(segment)
        return found

    def _merge(self, target: str, source: str) -> int:
        into, merged = self._segment(target), self._segment(source)
        if into.sealed:
            raise SegmentSealedError(target)
        into.data += merged.data
        del self.segments[source]
        return into.length

    @staticmethod
    def _require(segment: str, table: FakeTable, key: bytes, version: int) -> None:
        if version == NO_VERSION:
            return
        present = table.entries.get(key)
        if present is None:
            if version != NOT_EXISTS:
                raise TableKeyMissingError(segment)
        elif version != present.version:
            raise TableKeyVersionError(segment)


def _scatter(key: bytes) -> bytes:
    """Order keys as a hash table would: not at all as they are written."""
    return bytes(reversed(key)) + b"\x01"
