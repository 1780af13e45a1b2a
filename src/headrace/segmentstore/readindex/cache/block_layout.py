"""The free blocks of the cache, as extents that split and join, so that consecutive bytes lie together.

A buddy system over block numbers: an extent has ``2 ** order`` blocks and begins at a multiple of its size.
Splitting and joining are bit operations, so a freed extent finds its other half at once and large extents
form again by themselves. Numbers only: the memory behind them belongs to the cache.
"""

from __future__ import annotations

from typing import Final

BLOCK_BYTES: Final = 4096
NO_BLOCK: Final = -1


class BlockLayout:
    """Free extents by order. Allocation and release cost at most one step per order.

    Free extents are the keys of one dict per order: the collector does not walk integers, the order of reuse
    is last in, first out (the memory is still in the processor's cache), and it is the same in every run.
    """

    __slots__ = ("_free", "_orders_free", "blocks", "free_blocks", "order_max")

    def __init__(self, order_max: int) -> None:
        assert 0 <= order_max <= 20
        self.order_max = order_max
        self.blocks = 0
        self.free_blocks = 0
        self._free: list[dict[int, None]] = [{} for _ in range(order_max + 1)]
        self._orders_free = 0  # bit n: some extent of order n is free

    def extend(self, count: int) -> None:
        """Add ``count`` free blocks behind the last one."""
        assert count > 0
        block, end = self.blocks, self.blocks + count
        self.blocks = end
        while block < end:
            order = min(self.order_max, (block & -block).bit_length() - 1) if block else self.order_max
            while block + (1 << order) > end:
                order -= 1
            self.release(block, order)
            block += 1 << order

    def allocate(self, order: int) -> int:
        """Allocate an extent of exactly ``order``; return NO_BLOCK if no free extent is that large."""
        fitting = self._orders_free >> order
        if not fitting:
            return NO_BLOCK
        found = order + (fitting & -fitting).bit_length() - 1
        free = self._free[found]
        block, _ = free.popitem()
        if not free:
            self._orders_free ^= 1 << found
        while found > order:
            found -= 1
            self._put(block + (1 << found), found)
        self.free_blocks -= 1 << order
        return block

    def find_order(self, order_max: int) -> int:
        """Return the largest order up to ``order_max`` that can be allocated now, -1 if none."""
        if self._orders_free >> order_max:
            return order_max
        return self._orders_free.bit_length() - 1

    def release(self, block: int, order: int) -> None:
        """Release an extent and join it with its free neighbours."""
        self.free_blocks += 1 << order
        while order < self.order_max:
            buddy = block ^ (1 << order)
            free = self._free[order]
            if buddy not in free:
                break
            del free[buddy]
            if not free:
                self._orders_free ^= 1 << order
            block &= ~(1 << order)
            order += 1
        self._put(block, order)

    def _put(self, block: int, order: int) -> None:
        self._free[order][block] = None
        self._orders_free |= 1 << order

    def free_extents(self) -> list[tuple[int, int]]:
        """Every free extent as (block, order), by block. For checks and statistics."""
        return sorted((block, order) for order, free in enumerate(self._free) for block in free)

    def check(self) -> None:
        """Assert that free extents are aligned, apart, joined where they could be, and counted right."""
        end = 0
        total = 0
        extents = self.free_extents()
        for block, order in extents:
            assert block >= end
            assert block % (1 << order) == 0
            assert order == self.order_max or (block ^ (1 << order)) not in self._free[order]
            end = block + (1 << order)
            total += 1 << order
        assert end <= self.blocks
        assert total == self.free_blocks
        for order, free in enumerate(self._free):
            assert bool(free) == bool(self._orders_free >> order & 1)


def order_covering(count_bytes: int) -> int:
    """Return the smallest order whose extent holds ``count_bytes``."""
    return ((count_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES - 1).bit_length()


def order_within(count_bytes: int) -> int:
    """Return the largest order whose extent ``count_bytes``, in whole blocks, fill without a spare one."""
    return ((count_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES).bit_length() - 1
