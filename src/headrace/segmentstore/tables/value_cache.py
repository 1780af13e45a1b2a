"""Values read or written lately, so that a hot key is answered without reading its segment.

The value of one version of a key never changes, so nothing here is ever stale: superseded entries are
discarded to save room, not for correctness.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

#: Memory of one cached value besides its bytes: key tuple, two integers, slot, header.
VALUE_OVERHEAD_BYTES: Final = 250

#: A value larger than this share of the cache would push out too many others.
_SHARE_MAX: Final = 32


@dataclass(slots=True)
class ValueCacheStatistics:
    values: int
    bytes: int
    bytes_max: int
    hits: int
    misses: int


class ValueCache:
    """Least recently used values of all tables of one container, bounded in bytes.

    A value is named by a number its table got when it was opened and the version of its entry.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._value_bytes_max = bytes_max // _SHARE_MAX
        self._values: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0

    def find(self, table: int, version: int) -> bytes | None:
        name = (table, version)
        value = self._values.get(name)
        if value is None:
            self._misses += 1
            return None
        self._hits += 1
        self._values.move_to_end(name)
        return value

    def put(self, table: int, version: int, value: bytes) -> None:
        """Remember ``value``; the least recently used ones make room. Large values are not kept."""
        size = len(value) + VALUE_OVERHEAD_BYTES
        if size > self._value_bytes_max:
            return
        name = (table, version)
        if name in self._values:
            return
        self._values[name] = value
        self._bytes += size
        while self._bytes > self._bytes_max:
            _, oldest = self._values.popitem(last=False)
            self._bytes -= len(oldest) + VALUE_OVERHEAD_BYTES

    def discard(self, table: int, version: int) -> None:
        """Forget a value nobody will ask for any more. Those of closed tables grow old and leave by
        themselves.
        """
        value = self._values.pop((table, version), None)
        if value is not None:
            self._bytes -= len(value) + VALUE_OVERHEAD_BYTES

    def statistics(self) -> ValueCacheStatistics:
        return ValueCacheStatistics(len(self._values), self._bytes, self._bytes_max, self._hits, self._misses)

    def check(self) -> None:
        """Assert the invariants. Touches every value."""
        assert self._bytes == sum(len(value) + VALUE_OVERHEAD_BYTES for value in self._values.values())
        assert self._bytes <= self._bytes_max
