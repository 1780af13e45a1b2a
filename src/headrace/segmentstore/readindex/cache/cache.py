"""The memory of all read indexes of a process: no object per entry, no byte moved to free memory.

The unit is the *extent*: up to 1 MiB of contiguous memory with a length, known by the number of its first
block. A segment's index maps offsets to extents; appends fill the last extent of the segment in place.

The bound is checked before appends are accepted: the bytes of a log frame are set aside when it is opened
(``set_aside_bytes``), and readers use only spare bytes. Durable bytes are never refused: if nothing can be
evicted for them, the cache grows beyond its bound.

Readers get views. An extent has *pins* while views of it are lent: eviction skips it, and it is freed when
the last view is released. Bytes of an extent are written once, so a view never changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.segmentstore.readindex.cache.block_layout import (
    BLOCK_BYTES,
    NO_BLOCK,
    BlockLayout,
    order_covering,
    order_within,
)
from headrace.segmentstore.readindex.cache.eviction_policy import (
    ESSENTIAL,
    HISTORY,
    TAIL,
    UNOWNED,
    CacheConfig,
    EvictionPolicy,
)
from headrace.segmentstore.readindex.cache.extent_evictions import ExtentEvictions, ExtentOwner
from headrace.segmentstore.readindex.cache.extent_memory import NOT_A_HEAD, ExtentMemory
from headrace.segmentstore.readindex.cache.recency import RecencyQueue

COPY_BYTES_MAX: Final = BLOCK_BYTES
"""Reads up to this size are copied: cheaper than pinning an extent."""


@dataclass(slots=True)
class CacheStatistics:
    """Sizes in bytes, of whole blocks."""

    bytes_max: int
    arena_bytes: int
    used_bytes: int
    essential_bytes: int
    tail_bytes: int
    history_bytes: int
    pinned_bytes: int
    lent_bytes: int
    extents: int
    owners: int
    tails: int
    evicted_extents: int
    evicted_bytes: int
    overdrawn_bytes: int


class BlockCache:
    """All cached bytes of a process. One loop owns it; every container on that loop shares it.

    ``classes`` and ``pins`` are public to the segment indexes, which read them on their hot paths and change
    them only through the methods here. ``free_bytes`` is the memory that is free or could be evicted at once,
    so not what is lent to readers, and less than 0 while the cache is beyond its bound; ``set_aside_bytes``
    is the part of it for log frames in flight.
    """

    def __init__(self, config: CacheConfig | None = None) -> None:
        self.config = config or CacheConfig()
        self.policy = EvictionPolicy(self.config)
        order_max = min(self.config.extent_bytes_max // BLOCK_BYTES, self.policy.blocks_max).bit_length() - 1
        self.layout = BlockLayout(order_max)
        self.memory = memory = ExtentMemory(self.config.arena_bytes)
        self._orders, self._lengths = memory.orders, memory.lengths
        self.pins, self.classes = memory.pins, memory.classes
        self._owner_numbers, self._offsets = memory.owner_numbers, memory.offsets
        self._queues = {name: RecencyQueue(memory.before, memory.after) for name in (TAIL, HISTORY)}
        self._evictions = ExtentEvictions(memory, self._queues, self.free)

        self.replay_lock = asyncio.Lock()
        """Held by the one container that replays its log into the cache. It is here because all containers
        that share the cache share it; the cache itself never waits for it."""
        self.containers = 0
        self.set_aside_bytes = 0
        self._tails = 0
        self.count_tails(0)

        self.free_bytes = self.policy.blocks_max * BLOCK_BYTES
        self.pinned_blocks = 0
        self._lent_blocks = 0

    # ---------------------------------------------------------------------------------- owners

    def register(self, owner: ExtentOwner) -> int:
        """Return the number under which ``owner`` allocates."""
        return self._evictions.register(owner)

    def unregister(self, number: int) -> None:
        """The owner has freed all its extents."""
        self._evictions.unregister(number)

    def count_tails(self, change: int) -> None:
        """``change`` segments more have unstored bytes."""
        self._tails += change
        blocks = self.policy.tail_blocks_max(self._tails)
        self.tail_order_max = min(self.layout.order_max, blocks.bit_length() - 1)
        self._soft_blocks = self.policy.soft_blocks(self._tails)

    # ---------------------------------------------------------------------------------- extents

    def allocate_tail(self, owner: int, offset: int, wanted_bytes: int, grown_from: int) -> int:
        """Allocate an extent for appended bytes, evicting stored extents if need be. Return its block.

        It has at least one block and as much of ``wanted_bytes`` as fits. While memory is not tight it is
        twice as large as the extent of order ``grown_from`` before it (-1: there is none), so that a busy
        segment has few large extents and an idle one a small one. Blocks beyond those of ``wanted_bytes`` are
        never taken from what is set aside. If everything is essential or lent to readers, the cache grows.

        Raises:
            MemoryError: the system gives no memory.
        """
        order = max(order_covering(wanted_bytes), min(grown_from + 1, self.tail_order_max))
        if (
            order > self.tail_order_max
            or self.policy.is_tight(self.essential_blocks)
            or self.spare_bytes < BLOCK_BYTES << order
        ):
            order = min(order_within(wanted_bytes), self.layout.order_max)
        block = self._allocate(order, self._soft_blocks)
        if block == NO_BLOCK and self._evictable_blocks < 1 << order:
            block = self._allocate(order, self.policy.blocks_max)
        if block == NO_BLOCK:
            self._evict_for(order)
            order = self.layout.find_order(order)
            if order < 0:
                order = self._overdraw(order_within(wanted_bytes))
            block = self.layout.allocate(order)
        self._begin(block, order, owner, offset, ESSENTIAL)
        return block

    def allocate_history(self, owner: int, offset: int, wanted_bytes: int) -> int:
        """Allocate an extent for bytes read from storage; return NO_BLOCK if history has its share."""
        block, order = self._allocate_of_history(min(order_within(wanted_bytes), self.layout.order_max))
        if block != NO_BLOCK:
            self._begin(block, order, owner, offset, HISTORY)
        return block

    def lend(self, wanted_bytes: int) -> tuple[int, memoryview] | None:
        """Lend memory for bytes from storage to a reader, to be released by :meth:`release_lent`.

        It belongs to no index, counts as history and as pinned, and may be smaller than wanted. None if there
        is not enough memory. What was released last is lent next: it is still in the processor's cache.
        """
        order = min(order_covering(wanted_bytes), self.layout.order_max)
        if not self._may_lend(1 << order, 1 << order):
            return None
        block, order = self._allocate_of_history(order)
        if block == NO_BLOCK:
            return None
        size = 1 << order
        self._orders[block] = order
        self._lengths[block] = 0
        self.classes[block] = UNOWNED
        self.pins[block] = 1
        self.free_bytes -= BLOCK_BYTES << order
        self.pinned_blocks += size
        self._lent_blocks += size
        return block, self.memory.writable(block, min(wanted_bytes, BLOCK_BYTES << order))

    def release_lent(self, block: int) -> None:
        """Release the memory of a :meth:`lend`."""
        self._lent_blocks -= 1 << self._orders[block]
        self._unpin([block])

    def _allocate_of_history(self, order: int) -> tuple[int, int]:
        """Allocate an extent of ``order`` or less within the share of history: (block, its order)."""
        history, policy = self._queues[HISTORY], self.policy
        blocks_max = policy.history_max - self._lent_blocks
        while history.blocks + (1 << order) > blocks_max and self._evictions.evict_one((HISTORY,)):
            pass
        while history.blocks + (1 << order) > blocks_max:
            if not order:
                return NO_BLOCK, -1
            order -= 1
        block = self._allocate(order, self._soft_blocks)
        if block == NO_BLOCK:
            while self.layout.free_blocks < 1 << order:
                taken = history.blocks + self._lent_blocks
                if not self._evictions.evict_one(policy.queues_for_history(taken, 1 << order)):
                    self._add_arena()
                    break
            order = self.layout.find_order(order)
            if order >= 0:
                block = self.layout.allocate(order)
        return block, order

    def _allocate(self, order: int, blocks_max: int) -> int:
        """Allocate a free extent; arenas are added while the cache has fewer blocks than ``blocks_max``."""
        block = self.layout.allocate(order)
        while block == NO_BLOCK and self.layout.blocks < blocks_max and self._add_arena():
            block = self.layout.allocate(order)
        return block

    def _overdraw(self, order: int) -> int:
        """Grow beyond the bound by about an extent of ``order``; return the order that is free then."""
        order = min(order, self.layout.order_max)
        if not self._add_blocks(1 << order):
            raise MemoryError("the system gives no memory for bytes of the cache that cannot be evicted")
        return self.layout.find_order(order)

    def _begin(self, block: int, order: int, owner: int, offset: int, extent_class: int) -> None:
        self._orders[block] = order
        self._lengths[block] = 0
        self.pins[block] = 0
        self._owner_numbers[block] = owner
        self._offsets[block] = offset
        self.classes[block] = extent_class
        if extent_class == ESSENTIAL:
            self.free_bytes -= BLOCK_BYTES << order
        else:
            self._queues[extent_class].push(block, 1 << order)

    def _add_arena(self) -> bool:
        return self._add_blocks(self.policy.blocks_max - self.layout.blocks)

    def _add_blocks(self, count: int) -> bool:
        """Add up to ``count`` blocks, as many as belong to one arena."""
        count = min(count, self.memory.blocks_to_arena_end)
        if count <= 0 or not self.memory.add_blocks(count):
            return False
        self.layout.extend(count)
        return True

    def free(self, block: int) -> None:
        """The owner has forgotten the extent. Its memory is reused once no view of it is lent."""
        extent_class = self.classes[block]
        order = self._orders[block]
        assert order != NOT_A_HEAD
        assert extent_class != UNOWNED
        is_lent = self.pins[block]
        if extent_class != ESSENTIAL:
            self._queues[extent_class].remove(block, 1 << order)
            if not is_lent:
                self.free_bytes -= BLOCK_BYTES << order
        if is_lent:
            self.classes[block] = UNOWNED
        else:
            self._recycle(block, order)

    def _recycle(self, block: int, order: int) -> None:
        self.free_bytes += BLOCK_BYTES << order
        self._orders[block] = NOT_A_HEAD
        self._lengths[block] = 0
        self.classes[block] = ESSENTIAL
        self.layout.release(block, order)

    def set_essential(self, block: int) -> None:
        """This extent has unstored bytes (again): it may not be evicted."""
        extent_class = self.classes[block]
        if extent_class != ESSENTIAL:
            self._queues[extent_class].remove(block, 1 << self._orders[block])
            self.classes[block] = ESSENTIAL
            if not self.pins[block]:
                self.free_bytes -= BLOCK_BYTES << self._orders[block]

    def free_bytes_lost(self, block: int) -> int:
        """Return by how much ``free_bytes`` decreases once unstored bytes are appended to this extent.

        If it is stored so far, by all of it, however few they are: it must not come out of what is set aside.
        An extent that is lent is not free in any case.
        """
        if self.classes[block] == ESSENTIAL or self.pins[block]:
            return 0
        return BLOCK_BYTES << self._orders[block]

    def set_stored(self, block: int) -> None:
        """Every byte of this extent is stored: it may be evicted as soon as no view of it is lent."""
        if self.classes[block] == ESSENTIAL:
            self.classes[block] = TAIL
            self._queues[TAIL].push(block, 1 << self._orders[block])
            if not self.pins[block]:
                self.free_bytes += BLOCK_BYTES << self._orders[block]

    def move(self, block: int, owner: int, offset: int) -> None:
        """The extent belongs to another index, or to another offset, from now on."""
        self._owner_numbers[block] = owner
        self._offsets[block] = offset

    def trim(self, block: int) -> None:
        """Release the halves of an extent that have no byte yet."""
        order = self._orders[block]
        needed = order_covering(max(1, self._lengths[block]))
        extent_class = self.classes[block]
        assert extent_class != UNOWNED
        if needed >= order:
            return
        surplus = (1 << order) - (1 << needed)
        is_lent = self.pins[block]
        if extent_class == ESSENTIAL or is_lent:
            self.free_bytes += surplus * BLOCK_BYTES
        if extent_class != ESSENTIAL:
            self._queues[extent_class].blocks -= surplus
        if is_lent:
            self.pinned_blocks -= surplus
        while order > needed:
            order -= 1
            self.layout.release(block + (1 << order), order)
        self._orders[block] = order

    # ---------------------------------------------------------------------------------- readers

    def lend_views(self, pieces: list[memoryview], blocks: list[int], size: int) -> Callable[[], None] | None:
        """Make ``pieces`` of the extents ``blocks`` valid until the reader releases them.

        Small reads, and all reads while too much is pinned already, are replaced by a copy in place and need
        no release. Otherwise returns the function that releases them, to be called once. Whole extents count
        as pinned, however little of them the reader wants. The extents become the most recently used.
        """
        classes = self.classes
        for block in blocks:
            if classes[block] != ESSENTIAL:
                self._queues[classes[block]].refresh(block)
        if size > COPY_BYTES_MAX:
            pins, orders = self.pins, self._orders
            pinned = taken = 0
            for block in blocks:
                if not pins[block]:
                    pinned += 1 << orders[block]
                    if classes[block] != ESSENTIAL:
                        taken += 1 << orders[block]
            if self._may_lend(pinned, taken):
                self.pinned_blocks += pinned
                self.free_bytes -= taken * BLOCK_BYTES
                for block in blocks:
                    pins[block] += 1
                return partial(self._unpin, blocks)
        pieces[:] = [memoryview(b"".join(pieces))]
        return None

    def _may_lend(self, blocks: int, taken: int) -> bool:
        """Whether ``blocks`` more may be pinned, of which ``taken`` could be evicted otherwise.

        Bytes that are set aside are never used for it.
        """
        if self.pinned_blocks + blocks > self.policy.pinned_max:
            return False
        return not taken or self.spare_bytes >= taken * BLOCK_BYTES

    def _unpin(self, blocks: list[int]) -> None:
        pins = self.pins
        for block in blocks:
            count = pins[block] - 1
            pins[block] = count
            if not count:
                order = self._orders[block]
                self.pinned_blocks -= 1 << order
                extent_class = self.classes[block]
                if extent_class == UNOWNED:
                    self._recycle(block, order)
                elif extent_class != ESSENTIAL:
                    self.free_bytes += BLOCK_BYTES << order

    # ---------------------------------------------------------------------------------- bounds

    @property
    def essential_blocks(self) -> int:
        """Blocks that may not be evicted: they have unstored bytes, or are lent to readers."""
        return self.policy.blocks_max - self.free_bytes // BLOCK_BYTES

    @property
    def _evictable_blocks(self) -> int:
        return self.layout.blocks - self.layout.free_blocks - self.essential_blocks

    @property
    def spare_bytes(self) -> int:
        """Free bytes that are not set aside. Negative if more is set aside than is free."""
        return self.free_bytes - self.set_aside_bytes

    def shared_pressure(self) -> float:
        """Part of the cache, 0 to 1, that cannot be evicted or is set aside."""
        return min(1.0, max(0.0, 1.0 - self.spare_bytes / self.config.bytes_max))

    def _evict_for(self, order: int) -> None:
        """Evict the oldest until an extent of ``order`` is free, or twice its size was evicted.

        If only its size was evicted, small extents of many segments would fragment the cache for ever: new
        extents would be cut to fit their holes, and be evicted at another time than their neighbours.
        """
        layout, evictions, history = self.layout, self._evictions, self._queues[HISTORY]
        evicted_max = evictions.evicted_blocks + (2 << order)
        while layout.find_order(order) < order:
            if layout.free_blocks >= 1 << order and evictions.evicted_blocks >= evicted_max:
                return
            if not evictions.evict_one(self.policy.queues_for_append(history.blocks)):
                return

    # ---------------------------------------------------------------------------------- introspection

    def statistics(self) -> CacheStatistics:
        return CacheStatistics(
            bytes_max=self.policy.blocks_max * BLOCK_BYTES,
            arena_bytes=self.layout.blocks * BLOCK_BYTES,
            used_bytes=(self.layout.blocks - self.layout.free_blocks) * BLOCK_BYTES,
            essential_bytes=self.essential_blocks * BLOCK_BYTES,
            tail_bytes=self._queues[TAIL].blocks * BLOCK_BYTES,
            history_bytes=self._queues[HISTORY].blocks * BLOCK_BYTES,
            pinned_bytes=self.pinned_blocks * BLOCK_BYTES,
            lent_bytes=self._lent_blocks * BLOCK_BYTES,
            extents=self.memory.count(),
            owners=len(self._evictions.owners),
            tails=self._tails,
            evicted_extents=self._evictions.evicted_extents,
            evicted_bytes=self._evictions.evicted_blocks * BLOCK_BYTES,
            overdrawn_bytes=max(0, self.layout.blocks - self.policy.blocks_max) * BLOCK_BYTES,
        )

    def check(self) -> None:
        """Assert that every block is free or in exactly one extent, and every extent where it belongs."""
        self.layout.check()
        assert self.layout.blocks == len(self._orders)
        queued = {block: name for name, queue in self._queues.items() for block in queue}
        assert len(queued) == sum(queue.count for queue in self._queues.values())
        blocks_of = {TAIL: 0, HISTORY: 0}
        pinned_blocks = evictable_blocks = 0
        for block, order in self.memory.heads(dict(self.layout.free_extents())):
            assert queued.get(block, ESSENTIAL) == self.classes[block] % UNOWNED
            if block in queued:
                blocks_of[queued[block]] += 1 << order
                if not self.pins[block]:
                    evictable_blocks += 1 << order
            if self.classes[block] == UNOWNED:
                assert self.pins[block]
            else:
                assert self._owner_numbers[block] in self._evictions.owners
            if self.pins[block]:
                pinned_blocks += 1 << order
        assert all(blocks_of[name] == queue.blocks for name, queue in self._queues.items())
        in_use = self.layout.blocks - self.layout.free_blocks
        assert self.essential_blocks == in_use - evictable_blocks
        assert self.free_bytes == (self.policy.blocks_max - self.essential_blocks) * BLOCK_BYTES
        assert pinned_blocks == self.pinned_blocks
        assert 0 <= self._lent_blocks <= pinned_blocks
        assert self._queues[HISTORY].blocks + self._lent_blocks <= self.policy.history_max
