"""The bytes of the cache: arenas of memory, and the properties of every extent.

An *extent* is a power-of-two sequence of blocks within one arena, identified by the number of its first
block. Its bytes are written once, from beginning to end, so a view of written bytes never changes.
"""

from __future__ import annotations

import contextlib
import mmap
from array import array
from collections.abc import Iterator, Mapping
from typing import Final

from headrace.segmentstore.readindex.cache.block_layout import BLOCK_BYTES

NOT_A_HEAD: Final = 0xFF
"""Order of a block that is not the first of an extent."""

_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


def _map(size_bytes: int) -> mmap.mmap:
    """Return private memory, if possible in huge pages: their first write costs half."""
    memory = mmap.mmap(-1, size_bytes, flags=_PRIVATE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them: ordinary pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class ExtentMemory:
    """Memory in arenas of ``arena_bytes``, and columns that are indexed by the first block of an extent.

    30 bytes per 4 KiB block, in arrays that the garbage collector does not see. The columns are public for
    the hot paths of the cache and of the segment indexes; only the cache changes them.
    """

    __slots__ = (
        "_mask",
        "_readable",
        "_shift",
        "_writable",
        "after",
        "arena_blocks",
        "before",
        "classes",
        "lengths",
        "offsets",
        "orders",
        "owner_numbers",
        "pins",
    )

    def __init__(self, arena_bytes: int) -> None:
        self.arena_blocks = arena_bytes // BLOCK_BYTES
        self._shift = self.arena_blocks.bit_length() - 1
        self._mask = self.arena_blocks - 1
        self._writable: list[memoryview] = []
        self._readable: list[memoryview] = []
        self.orders = bytearray()
        self.lengths = array("I")
        self.classes = bytearray()
        self.pins = array("I")
        """How many reads have lent views."""
        self.owner_numbers = array("I")
        self.offsets = array("Q")
        """Where the extent begins in its owner's segment."""
        self.before, self.after = array("I"), array("I")
        """Links of the queues."""

    @property
    def blocks_to_arena_end(self) -> int:
        """How many blocks can be added at once: a whole arena, or the unused rest of one."""
        return self.arena_blocks - len(self.orders) % self.arena_blocks

    def add_blocks(self, count: int) -> bool:
        """Allocate memory for ``count`` more blocks; the system provides each page at its first write.

        Returns:
            False, and nothing is changed, if the system has none: the caller may be able to use less.
        """
        assert 0 < count <= self.blocks_to_arena_end
        if not len(self.orders) % self.arena_blocks:
            try:
                memory = memoryview(_map(self.arena_blocks * BLOCK_BYTES))
            except OSError:
                return False
            self._writable.append(memory)
            self._readable.append(memory.toreadonly())
        self.orders.extend(bytes([NOT_A_HEAD]) * count)
        self.classes.extend(bytes(count))
        for words in (self.lengths, self.pins, self.owner_numbers, self.before, self.after):
            words.frombytes(bytes(4 * count))
        self.offsets.frombytes(bytes(8 * count))
        return True

    def append(self, block: int, data: memoryview) -> None:
        """Write ``data`` behind the bytes of an extent; the caller knows that it fits."""
        used = self.lengths[block]
        end = used + len(data)
        assert end <= BLOCK_BYTES << self.orders[block]
        base = (block & self._mask) * BLOCK_BYTES
        self._writable[block >> self._shift][base + used : base + end] = data
        self.lengths[block] = end

    def writable(self, block: int, size: int) -> memoryview:
        """Return the first ``size`` bytes of an extent, to be filled by its user."""
        base = (block & self._mask) * BLOCK_BYTES
        return self._writable[block >> self._shift][base : base + size]

    def view(self, block: int, start: int, end: int) -> memoryview:
        """Bytes ``[start, end)`` of an extent, read-only. Pin it before control returns to the loop."""
        base = (block & self._mask) * BLOCK_BYTES
        return self._readable[block >> self._shift][base + start : base + end]

    def free_bytes(self, block: int) -> int:
        """Bytes that can still be appended to an extent."""
        return (BLOCK_BYTES << self.orders[block]) - self.lengths[block]

    def count(self) -> int:
        """Return the number of extents."""
        return len(self.orders) - self.orders.count(NOT_A_HEAD)

    def heads(self, free: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Each extent and its order. For checks: asserts that what is not ``free`` is in exactly one.

        ``free``: the orders of free extents by their first blocks.
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
