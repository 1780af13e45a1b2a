"""Evicts the oldest extents and notifies their owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from headrace.segmentstore.readindex.cache.extent_memory import ExtentMemory
from headrace.segmentstore.readindex.cache.recency import RecencyQueue


class ExtentOwner(Protocol):
    """The index of a segment, which is notified when an extent is evicted."""

    def on_evicted(self, offset: int) -> None:
        """Forget the extent that begins at ``offset``; its memory is about to be reused."""


class ExtentEvictions:
    """Evicts from ``queues``, by class. ``free`` frees an extent that its owner has forgotten."""

    def __init__(
        self, memory: ExtentMemory, queues: Mapping[int, RecencyQueue], free: Callable[[int], None]
    ) -> None:
        self._memory = memory
        self._queues = queues
        self._free = free
        self.owners: dict[int, ExtentOwner] = {}
        self._owners_free: list[int] = []
        self.evicted_extents = 0
        self.evicted_blocks = 0

    def register(self, owner: ExtentOwner) -> int:
        """Return the number under which ``owner`` allocates."""
        number = self._owners_free.pop() if self._owners_free else len(self.owners)
        self.owners[number] = owner
        return number

    def unregister(self, number: int) -> None:
        """The owner has freed all its extents."""
        del self.owners[number]
        self._owners_free.append(number)

    def evict_one(self, classes: tuple[int, ...]) -> bool:
        """Evict the oldest unpinned extent of the first of these queues that has one."""
        memory = self._memory
        for extent_class in classes:
            queue = self._queues[extent_class]
            for _ in range(queue.count):  # pinned extents go to the back, and few are pinned
                block = queue.oldest
                if memory.pins[block]:
                    queue.refresh(block)
                    continue
                self.evicted_extents += 1
                self.evicted_blocks += 1 << memory.orders[block]
                self.owners[memory.owner_numbers[block]].on_evicted(memory.offsets[block])
                self._free(block)
                return True
        return False
