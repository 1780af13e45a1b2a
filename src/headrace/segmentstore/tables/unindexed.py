"""Durable entries of a table that its index does not have yet: the newest location of each tree key."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from headrace.segmentstore.tables.locations import REMOVED, location_bytes

ENTRY_OVERHEAD_BYTES: Final = 170
"""Bytes of memory for each besides its tree key: slots, headers of two objects. For bounds and statistics."""

_SURPLUS_MIN: Final = 64


class UnindexedEntries:
    """Mutated in the order of the log. The location of keys that the index has to lose is REMOVED."""

    __slots__ = ("_added", "_order", "live_bytes", "live_count", "locations")

    def __init__(self) -> None:
        self.locations: dict[bytes, int] = {}
        self.live_bytes = 0
        """Sizes of all entries, by their classes."""
        self.live_count = 0
        self._order: list[bytes] | None = None
        """Keys in order, since they were first asked for; some may have gone or come twice."""
        self._added: list[bytes] = []
        """Keys that are not in order yet."""

    def __len__(self) -> int:
        return len(self.locations)

    def put(self, key: bytes, location: int) -> None:
        locations = self.locations
        before = locations.get(key)
        locations[key] = location
        if before is None:
            if self._order is not None:
                self._added.append(key)
        elif before != REMOVED:
            self.live_bytes += location_bytes(location) - location_bytes(before)
            return
        self.live_count += 1
        self.live_bytes += location_bytes(location)

    def remove(self, key: bytes, *, remember: bool) -> None:
        """Remove a key; ``remember`` it if the index may have it."""
        locations = self.locations
        before = locations.pop(key, None) if not remember else locations.get(key)
        if remember:
            locations[key] = REMOVED
            if before is None and self._order is not None:
                self._added.append(key)
        if before is not None and before != REMOVED:
            self.live_count -= 1
            self.live_bytes -= location_bytes(before)

    def update(self, newer: UnindexedEntries) -> None:
        """Take in what came later."""
        for key, location in newer.locations.items():
            if location == REMOVED:
                self.remove(key, remember=True)
            else:
                self.put(key, location)

    # ---- order

    def range(self, first: bytes, last: bytes, count: int) -> tuple[list[bytes], bytes]:
        """Return keys from ``first`` to ``last`` in order, those that were removed included, and up to which
        key they are complete: after ``count`` of them the answer may end.
        """
        order = self._ordered()
        at = bisect_left(order, first)
        some = order[at : at + count]
        end = some[-1] if len(some) == count else last
        end = min(end, last)
        return [key for key in some if key <= end], end

    def _ordered(self) -> list[bytes]:
        order, added = self._order, self._added
        if order is None or len(order) + len(added) > 2 * len(self.locations) + _SURPLUS_MIN:
            self._order = order = sorted(self.locations)
            added.clear()
        elif added:
            order += added
            order.sort()  # two ascending runs, mostly
            added.clear()
        return order

    def check(self) -> None:
        """Assert that the sums are right. Touches every key."""
        locations = self.locations
        live = [location for location in locations.values() if location != REMOVED]
        assert all(location >= REMOVED for location in locations.values())
        assert self.live_count == len(live)
        assert self.live_bytes == sum(map(location_bytes, live))
        if self._order is not None:
            assert set(locations) <= set(self._order) | set(self._added)
