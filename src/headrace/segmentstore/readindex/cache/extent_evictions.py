"""Takes the oldest extents from their owners, who are told so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from headrace.segmentstore.readindex.cache.extent_memory import NOT_A_HEAD
from headrace.segmentstore.readindex.cache.extent_table import ExtentTable
from headrace.segmentstore.readindex.cache.recency import RecencyQueue


class ExtentOwner(Protocol):
    """Who must be told when an extent leaves: the index of a segment."""

    def on_evicted(self, offset: int) -> None:
        """Forget the extent that begins at ``offset``; its memory is about to be reused."""


class ExtentEvictions:
    """Evicts from ``queues``, by class. ``free`` takes an extent back that its owner has forgotten."""

    def __init__(
        self, extents: ExtentTable, queues: Mapping[int, RecencyQueue], free: Callable[[int], None]
    ) -> None:
        self._orders = extents.orders
        self._pins = extents.pins
        self._classes = extents.classes
        self._stamps = extents.stamps
        self._owner_numbers = extents.owner_numbers
        self._offsets = extents.offsets
        self._queues = queues
        self._free = free
        self.owners: dict[int, ExtentOwner] = {}
        self._owner_next = 0
        self._owners_free: list[int] = []
        self.evicted_extents = 0
        self.evicted_blocks = 0

    def register(self, owner: ExtentOwner) -> int:
        """Return the number under which ``owner`` allocates."""
        if self._owners_free:
            number = self._owners_free.pop()
        else:
            number = self._owner_next
            self._owner_next += 1
        self.owners[number] = owner
        return number

    def unregister(self, number: int) -> None:
        """The owner has freed all its extents."""
        del self.owners[number]
        self._owners_free.append(number)

    def evict_one(self, classes: tuple[int, ...]) -> bool:
        """Evict the oldest unpinned extent of the first of these queues that has one."""
        for extent_class in classes:
            queue = self._queues[extent_class]
            for _ in range(queue.count):  # pinned extents go to the back, and few are pinned
                block = queue.oldest
                if self._pins[block]:
                    queue.refresh(block)
                    continue
                self._evict(block)
                return True
        return False

    def evict_run(self, classes: tuple[int, ...], order: int, generation: int) -> bool:
        """Evict the oldest extent and what lies beside it, so that a run of ``order`` is free; or nothing.

        Small extents of many segments would otherwise leave holes of their own size for ever: what replaces
        them is cut to fit, and leaves at another time than its neighbours. Nobody goes along who is younger
        than half the age of the oldest, in generations up to ``generation``.
        """
        extent_class = next((name for name in classes if self._queues[name].count), None)
        if extent_class is None:
            return False
        oldest = self._queues[extent_class].oldest
        block = oldest >> order << order
        end = block + (1 << order)
        if self._orders[oldest] >= order or end > len(self._orders):
            return False
        stamp_max = (self._stamps[oldest] + generation) // 2
        heads: list[int] = []
        while block < end:
            size_order = self._orders[block]
            if size_order == NOT_A_HEAD:  # free
                block += 1
            elif (
                self._classes[block] == extent_class
                and not self._pins[block]
                and self._stamps[block] <= stamp_max
            ):
                heads.append(block)
                block += 1 << size_order
            else:
                return False
        for block in heads:
            self._evict(block)
        return True

    def _evict(self, block: int) -> None:
        self.evicted_extents += 1
        self.evicted_blocks += 1 << self._orders[block]
        self.owners[self._owner_numbers[block]].on_evicted(self._offsets[block])
        self._free(block)
