"""What is known about every extent, in columns indexed by the number of its first block.

34 bytes per 4 KiB block, in arrays that the garbage collector does not see. The cache changes the columns in
place on its hot paths; here is what they are, and what cuts or counts extents as a whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

from headrace.segmentstore.readindex.cache.block_layout import BLOCK_BYTES
from headrace.segmentstore.readindex.cache.extent_memory import NOT_A_HEAD, ExtentMemory


class ExtentTable:
    """The columns. ``orders`` and ``lengths`` are those of the memory that holds the bytes."""

    __slots__ = (
        "after",
        "before",
        "classes",
        "lengths",
        "offsets",
        "orders",
        "owner_numbers",
        "pins",
        "stamps",
    )

    def __init__(self, memory: ExtentMemory) -> None:
        self.orders = memory.orders
        self.lengths = memory.lengths
        self.pins = array("I")
        """How many readers hold views."""
        self.classes = bytearray()
        self.stamps = array("I")
        """The generation of the last use."""
        self.owner_numbers = array("I")
        self.offsets = array("Q")
        """Where the extent begins in its owner's segment."""
        self.before, self.after = array("I"), array("I")
        """Links of the queues."""

    def extend(self, count: int) -> None:
        """There are so many blocks more."""
        self.classes.extend(bytes(count))
        for words in (self.pins, self.stamps, self.owner_numbers, self.before, self.after):
            words.frombytes(bytes(4 * count))
        self.offsets.frombytes(bytes(8 * count))

    def move(self, block: int, owner: int, offset: int) -> None:
        """The extent belongs to another index, or to another offset, from now on."""
        self.owner_numbers[block] = owner
        self.offsets[block] = offset

    def count(self) -> int:
        """Return the number of extents."""
        return len(self.orders) - self.orders.count(NOT_A_HEAD)

    def heads(self, free: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Each extent and its order. For checks: asserts that what is not ``free`` is in exactly one.

        ``free``: the orders of free runs by their first blocks.
        """
        block, end = 0, len(self.orders)
        while block < end:
            order = self.orders[block]
            if block in free:
                assert order == NOT_A_HEAD
                order = free[block]
            else:
                assert order != NOT_A_HEAD, f"block {block} is neither free nor part of an extent"
                assert block % (1 << order) == 0
                assert self.lengths[block] <= BLOCK_BYTES << order
                yield block, order
            block += 1 << order
        assert block == end
