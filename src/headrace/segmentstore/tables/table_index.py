"""Where the newest durable entry of each key lies in the log of its table: one integer per key, no values.

The index is not stored. The log is its own truth: entries take effect in the order of their offsets,
whatever version they carry, because a copy is accepted only while its key still has the version that is
copied. So an index is what replaying the log from its first retained byte gives, after a crash as after a
clean stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.segmentstore.tables.compact_locations import CompactLocations
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES, REMOVAL, LoggedEntry
from headrace.segmentstore.tables.ordered_keys import OrderedKeys

_LENGTH_BITS: Final = 20
_VERSION_BITS: Final = 64
_LENGTH_MASK: Final = (1 << _LENGTH_BITS) - 1
_VERSION_MASK: Final = (1 << _VERSION_BITS) - 1
_MOVED_SHIFT: Final = _LENGTH_BITS + _VERSION_BITS

#: Bytes of memory per key besides the key itself: its slot, the two objects' headers. For statistics and
#: eviction.
KEY_OVERHEAD_BYTES: Final = 170

REMOVED: Final = -1
"""In place of a location: the key is known to be absent."""


def pack_location(offset: int, version: int, value_length: int) -> int:
    """Pack place, version and value length of an entry into one integer that is small for entries never
    copied.
    """
    assert 0 <= version <= offset
    assert 0 <= value_length <= _LENGTH_MASK
    return (offset - version) << _MOVED_SHIFT | version << _LENGTH_BITS | value_length


def location_offset(location: int) -> int:
    return (location >> _LENGTH_BITS & _VERSION_MASK) + (location >> _MOVED_SHIFT)


def location_version(location: int) -> int:
    return location >> _LENGTH_BITS & _VERSION_MASK


def location_value_length(location: int) -> int:
    return location & _LENGTH_MASK


class TableIndex:
    """The durable keys of one table. Mutated by the table that owns it, entry by entry in log order.

    A ``compact`` one takes a quarter of the memory and cannot list its keys.
    """

    __slots__ = ("_key_bytes", "_live_bytes", "_locations", "_ordered", "_unordered")

    def __init__(self, *, compact: bool = False) -> None:
        self._locations: dict[bytes, int] | CompactLocations = CompactLocations() if compact else {}
        self._key_bytes = 0
        self._live_bytes = 0
        self._ordered: OrderedKeys | None = None
        self._unordered: list[bytes] = []
        """Keys still to be put in order; those that come or go meanwhile need not be here."""

    def __len__(self) -> int:
        return len(self._locations)

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the keys, in no particular order. Not in a compact index."""
        return iter(self._keys())

    def _keys(self) -> dict[bytes, int]:
        assert isinstance(self._locations, dict), "a compact index does not have its keys"
        return self._locations

    def locations(self) -> Iterable[int]:
        """Return the locations, in no particular order."""
        return self._locations.values()

    @property
    def live_bytes(self) -> int:
        """Bytes of the log that hold the newest entry of a key."""
        return self._live_bytes

    @property
    def memory_bytes(self) -> int:
        """An estimate."""
        if isinstance(self._locations, CompactLocations):
            return self._locations.memory_bytes
        return self._key_bytes + len(self._locations) * KEY_OVERHEAD_BYTES

    def find(self, key: bytes) -> int:
        """Return the location of the entry of ``key``, or ``REMOVED``."""
        return self._locations.get(key, REMOVED)

    def put(self, key: bytes, location: int) -> int:
        """Set the location of ``key``; return the one it had, or ``REMOVED``."""
        locations = self._locations
        if isinstance(locations, dict):
            before = locations.get(key, REMOVED)
            locations[key] = location
        else:
            before = locations.swap(key, location, REMOVED)
        if before == REMOVED:
            self._key_bytes += len(key)
            self._live_bytes += ENTRY_HEADER_BYTES + len(key) + (location & _LENGTH_MASK)
            if self._ordered is not None:
                self._ordered.add(key)
        else:
            self._live_bytes += (location & _LENGTH_MASK) - (before & _LENGTH_MASK)
        return before

    def remove(self, key: bytes) -> int:
        """Forget ``key``; return the location it had, or ``REMOVED``."""
        before = self._locations.pop(key, REMOVED)
        if before != REMOVED:
            self._key_bytes -= len(key)
            self._live_bytes -= ENTRY_HEADER_BYTES + len(key) + (before & _LENGTH_MASK)
            if self._ordered is not None:
                self._ordered.discard(key)
        return before

    def replay(self, entries: Iterable[LoggedEntry], segment: str) -> None:
        """Apply entries read from the log, in order.

        Raises:
            DataCorruptionError: a copy carries another version than the entry it claims to be a copy of.
        """
        for offset, _, key, value_length, version, _ in entries:
            if value_length == REMOVAL:
                self.remove(key)
                continue
            before = self.put(key, pack_location(offset, version, value_length))
            if version != offset and before != REMOVED and location_version(before) != version:
                raise DataCorruptionError(
                    f"a copy of key {key.hex()} claims version {version}, not {location_version(before)}",
                    path=segment,
                    offset=offset,
                )

    # ---- order

    @property
    def is_ordered(self) -> bool:
        """Whether :meth:`page` may be called."""
        return self._ordered is not None and not self._unordered

    def order_some(self, count: int) -> bool:
        """Put up to ``count`` more keys in order; return whether all are. Changes in between are taken along.

        The first iterator pays for the order; tables that are never iterated have none.
        """
        keys = self._keys()
        if self._ordered is None:
            if len(keys) <= count:
                self._ordered = OrderedKeys(keys)
            else:
                self._ordered, self._unordered = OrderedKeys(), list(keys)
        if self._unordered:
            some = self._unordered[-count:]
            del self._unordered[-count:]
            for key in sorted(some):
                if key in keys:
                    self._ordered.add(key)
        return not self._unordered

    def page(self, start: bytes, count: int, *, inclusive: bool) -> list[bytes]:
        """Return up to ``count`` keys in ascending order from (or after) ``start``; needs
        :attr:`is_ordered`.
        """
        assert self._ordered is not None
        assert not self._unordered
        return self._ordered.page(start, count, inclusive=inclusive)

    def check(self) -> None:
        """Assert the invariants. Touches every key."""
        assert all(location >= 0 for location in self.locations())
        if isinstance(self._locations, CompactLocations):
            self._locations.check()
            assert self._ordered is None
            values = sum(map(location_value_length, self.locations()))
            assert self._live_bytes == len(self) * ENTRY_HEADER_BYTES + self._key_bytes + values
            return
        assert self._key_bytes == sum(map(len, self._locations))
        assert self._live_bytes == sum(
            ENTRY_HEADER_BYTES + len(key) + location_value_length(location)
            for key, location in self._locations.items()
        )
        if self._ordered is not None:
            self._ordered.check()
            if not self._unordered:
                assert len(self._ordered) == len(self._locations)
                assert all(key in self._ordered for key in self._locations)
