"""What a table segment was at each moment, by its durable log alone, and which answers that explains.

The log is decoded here once more, by code that shares nothing with indexes, caches or updates in flight. Each
change that becomes durable makes a moment. An answer must have been true at some moment of the call,
between its beginning and its end; what it has written must be what one of these moments brought.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import OffsetMismatchError, SegmentError, TableKeyMissingError, TableKeyVersionError
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableDelta, TableEntry, TableInfo, TableKey
from tests.simulation.worlds.memory_segments import Disk

ANY_LENGTH: Final = -1

_HEADER: Final = struct.Struct(">biiq")

Found = tuple[int, bytes]
"""Version and value of a key."""

Items = Sequence[TableEntry] | Sequence[TableKey]


@dataclass(frozen=True, slots=True)
class Logged:
    """One entry of the log; ``value`` is None for a removal."""

    offset: int
    key: bytes
    value: bytes | None
    version: int
    """NO_VERSION for what a caller wrote."""


def decode(log: bytes | bytearray, start: int = 0) -> Iterator[Logged]:
    """Yield the entries of a log from ``start`` on."""
    at = start
    while at < len(log):
        format_version, key_length, value_length, version = _HEADER.unpack_from(log, at)
        assert format_version == 1
        key_at = at + _HEADER.size
        value_at = key_at + key_length
        value = None if value_length == -1 else bytes(log[value_at : value_at + value_length])
        yield Logged(at, bytes(log[key_at:value_at]), value, version)
        at = value_at + max(0, value_length)
    assert at == len(log)


def replay(entries: Iterable[Logged], table: Mapping[bytes, Found] | None = None) -> dict[bytes, Found]:
    """Return what a table holds after these entries."""
    found = dict(table or {})
    for entry in entries:
        if entry.value is None:
            found.pop(entry.key, None)
        else:
            version = entry.offset if entry.version == NO_VERSION else entry.version
            found[entry.key] = version, entry.value
    return found


def entry_bytes(key: bytes, value: bytes) -> int:
    return _HEADER.size + len(key) + len(value)


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A table between two changes; ``disk`` is None while there is none."""

    disk: Disk | None = None
    length: int = 0
    start_offset: int = 0
    table: Mapping[bytes, Found] = field(default_factory=dict)
    brought: tuple[Logged, ...] = ()
    """The entries of the change that led here."""

    @property
    def exists(self) -> bool:
        return self.disk is not None

    def behind(self, entries: Sequence[Logged]) -> Moment:
        """Return what the table is between these entries and those that come with them."""
        length = self.length + sum(entry_bytes(entry.key, entry.value or b"") for entry in entries)
        return Moment(self.disk, length, self.start_offset, replay(entries, self.table))

    def refusal(self, items: Items, expected_length: int = ANY_LENGTH) -> type[SegmentError] | None:
        """Return how a request with these conditions is refused now; None if all of them hold."""
        if expected_length not in (ANY_LENGTH, self.length):
            return OffsetMismatchError
        kinds: set[type[SegmentError]] = set()
        for item in items:
            found = self.table.get(item.key)
            if item.version == NO_VERSION or (item.version == NOT_EXISTS and found is None):
                continue
            if found is None:
                kinds.add(TableKeyMissingError)
            elif found[0] != item.version:
                kinds.add(TableKeyVersionError)
        if TableKeyMissingError in kinds:
            return TableKeyMissingError
        return kinds.pop() if kinds else None


class TableMoments:
    """Every moment of the tables of one name, oldest first. The first one is that there was none."""

    def __init__(self) -> None:
        self.all: list[Moment] = [Moment()]
        self.disks: list[Disk] = []

    @property
    def now(self) -> int:
        """The number of the newest moment."""
        return len(self.all) - 1

    def add(self, disk: Disk | None) -> None:
        """Something has become durable.

        Raises:
            AssertionError: a truncation has taken something that was alive.
        """
        before = self.all[-1]
        if disk is None:
            self.all.append(Moment())
            return
        if disk is not before.disk:
            assert not disk.data
            self.disks.append(disk)
            before = Moment(disk)
        brought = tuple(decode(disk.data, before.length))
        table = replay(brought, before.table) if brought else before.table
        if disk.start_offset != before.start_offset:
            assert replay(decode(disk.data, disk.start_offset)) == table, "a truncation took what was alive"
        self.all.append(Moment(disk, len(disk.data), disk.start_offset, table, brought))

    def written(self, key: bytes, value: bytes) -> int:
        """Return how many times callers have written this value under this key."""
        return sum(
            (entry.key, entry.value, entry.version) == (key, value, NO_VERSION)
            for disk in self.disks
            for entry in decode(disk.data)
        )

    def table_at(self, disk: Disk, length: int) -> Mapping[bytes, Found]:
        """Return the entries of a table when its log had that length, which it had at some moment."""
        return next(moment.table for moment in self.all if moment.disk is disk and moment.length == length)


@dataclass(frozen=True, slots=True)
class Span:
    """The moments of one call."""

    moments: Sequence[Moment]

    @property
    def is_of_one_table(self) -> bool:
        """Whether there was one table all the time."""
        return self.moments[0].exists and all(moment.disk is self.moments[0].disk for moment in self.moments)

    def _steps(self) -> Iterator[tuple[Moment, Moment]]:
        return zip(self.moments, self.moments[1:], strict=False)

    # ---- what was refused

    def explains(self, error: SegmentError, items: Items, expected_length: int) -> bool:
        return any(
            moment.exists and moment.refusal(items, expected_length) is type(error) for moment in self.moments
        )

    def has_absence(self) -> bool:
        return any(not moment.exists for moment in self.moments)

    def has_presence(self) -> bool:
        return any(moment.exists for moment in self.moments)

    def has_keys(self) -> bool:
        return any(moment.table for moment in self.moments)

    # ---- what was done

    def has_creation(self) -> bool:
        return any(after.exists and not before.exists for before, after in self._steps())

    def has_deletion(self, *, must_be_empty: bool) -> bool:
        return any(
            before.exists and not after.exists and not (must_be_empty and before.table)
            for before, after in self._steps()
        )

    def has_update(self, entries: Sequence[TableEntry], expected_length: int, versions: list[int]) -> bool:
        """Whether the entries have come with these versions, in one piece, when their conditions held; other
        updates may have come in front of them and behind them in the same change.
        """
        if not entries:
            return not versions and any(
                moment.exists and moment.refusal(entries, expected_length) is None for moment in self.moments
            )
        wanted = tuple(
            Logged(version, entry.key, entry.value, NO_VERSION)
            for version, entry in zip(versions, entries, strict=True)
        )
        return any(
            after.brought[at : at + len(wanted)] == wanted
            and before.disk is after.disk
            and before.behind(after.brought[:at]).refusal(entries, expected_length) is None
            for before, after in self._steps()
            for at in range(len(after.brought) - len(wanted) + 1)
        )

    def has_removal(self, keys: Sequence[TableKey], expected_length: int) -> bool:
        """Whether all keys that were there have gone in one piece, or none was there; as conditions held."""
        names = {item.key for item in keys}
        for moment in self.moments:
            if (
                moment.exists
                and moment.refusal(keys, expected_length) is None
                and not names & set(moment.table)
            ):
                return True
        return any(
            before.disk is after.disk is not None
            and before.refusal(keys, expected_length) is None
            and {entry.key for entry in after.brought} <= names
            and all(entry.value is None for entry in after.brought)
            and not names & set(after.table)
            for before, after in self._steps()
        )

    # ---- what was read

    def has_found(self, key: bytes, found: Found | None) -> bool:
        """Whether a key had this version and value, or was absent, at some moment."""
        return any(moment.exists and moment.table.get(key) == found for moment in self.moments)

    def has_version(self, key: bytes, version: int) -> bool:
        return any(moment.table.get(key, (None,))[0] == version for moment in self.moments)

    def keys_throughout(self) -> set[bytes]:
        """Return the keys that existed at every moment."""
        return set.intersection(*(set(moment.table) for moment in self.moments))

    def has_info(self, info: TableInfo) -> bool:
        return any(
            moment.exists
            and (info.start_offset, info.length, info.entry_count)
            == (moment.start_offset, moment.length, len(moment.table))
            for moment in self.moments
        )

    def has_changes(self, position: int, known: Mapping[bytes, Found], deltas: Sequence[TableDelta]) -> bool:
        """Whether these answers, the last to the end, complete what was known of a table at ``position``.

        They do not contain removals of keys. Only for a span of one table.
        """
        seen, at = dict(known), position
        first, last = self.moments[0], self.moments[-1]
        for number, delta in enumerate(deltas):
            if number == 0:
                assert delta.should_clear or position >= first.start_offset, "the truncation is missing"
            assert not delta.should_clear or at < last.start_offset
            if delta.should_clear:
                seen.clear()
            assert delta.entries or delta.reached_end
            assert at <= delta.last_position
            assert delta.reached_end is (number == len(deltas) - 1)
            seen.update({entry.key: (entry.version, entry.value) for entry in delta.entries})
            at = delta.last_position
        return any(
            moment.length == at and all(seen.get(key) == found for key, found in moment.table.items())
            for moment in self.moments
        )
