"""The memory of all read indexes of a process: no object per entry, no byte moved to make room.

The unit is the *extent*: up to 1 MiB of contiguous memory with a length, known by the number of its first
block. A segment's index maps offsets to extents; appends fill the last extent of the segment in place.

The bound is kept at the doors: whoever accepts appends sets the bytes of a log frame aside first
(``set_aside_bytes``), and readers take only what is left beside that. What is durable is never refused: if
nothing can be evicted for it, the cache grows beyond its bound by so much.

Readers get views. An extent is *pinned* while somebody holds a view of it; eviction passes it by, and freeing
it only takes effect when the last view is released. Bytes of an extent are written once, so a view never
changes.
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
    DOOMED,
    ESSENTIAL,
    HISTORY,
    TAIL,
    CacheConfig,
    EvictionPolicy,
)
from headrace.segmentstore.readindex.cache.extent_evictions import ExtentEvictions, ExtentOwner
from headrace.segmentstore.readindex.cache.extent_memory import NOT_A_HEAD, ExtentMemory
from headrace.segmentstore.readindex.cache.recency import RecencyQueue

COPY_BYTES_MAX: Final = BLOCK_BYTES
"""Reads up to this size are copied: that is cheaper than keeping an extent in place for them."""


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
    them only through the methods here. ``room_bytes`` is the memory that is free or could be evicted at once,
    so nothing that readers hold, and less than 0 while the cache is beyond its bound; ``set_aside_bytes`` the
    part of it that frames of the logs, which are on their way, are going to fill.
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

        self.replay_turn = asyncio.Lock()
        """Held by the one container that replays its log into the cache; the others wait in their order. The
        cache itself never waits: it is here because whoever shares the cache has to share it."""
        self.containers = 0
        self.set_aside_bytes = 0
        self._tails = 0
        self.count_tails(0)

        self.room_bytes = self.policy.blocks_max * BLOCK_BYTES
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
        """So many segments more have bytes that storage does not hold."""
        self._tails += change
        blocks = self.policy.tail_blocks_max(self._tails)
        self.tail_order_max = min(self.layout.order_max, blocks.bit_length() - 1)
        self._soft_blocks = self.policy.soft_blocks(self._tails)

    # ---------------------------------------------------------------------------------- extents

    def allocate_tail(self, owner: int, offset: int, wanted_bytes: int, grown_from: int) -> int:
        """Take an extent for appended bytes, evicting what storage holds if need be. Answers its block.

        It holds at least one block and as much of ``wanted_bytes`` as fits; with room to spare while memory
        is not tight, twice as much as the extent of order ``grown_from`` before it (-1: there is none), so
        that a busy segment lies in few large pieces and an idle one in a small one. What it has beyond the
        blocks of ``wanted_bytes`` does not come out of what is set aside. If all that is left is essential or
        in the hands of readers, the cache grows.

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
            self._make_room(order)
            order = self.layout.find_order(order)
            if order < 0:
                order = self._overdraw(order_within(wanted_bytes))
            block = self.layout.allocate(order)
        self._begin(block, order, owner, offset, ESSENTIAL)
        return block

    def allocate_history(self, owner: int, offset: int, wanted_bytes: int) -> int:
        """Take an extent for bytes read from storage; NO_BLOCK if history has its share already."""
        block, order = self._take_of_history(min(order_within(wanted_bytes), self.layout.order_max))
        if block != NO_BLOCK:
            self._begin(block, order, owner, offset, HISTORY)
        return block

    def lend(self, wanted_bytes: int) -> tuple[int, memoryview] | None:
        """Lend memory for bytes on their way from storage to a reader, to be handed to :meth:`take_back`.

        It belongs to nobody's index, counts as history and as held by readers, and may be smaller than
        wanted. None if there is no room for that. What was taken back last is lent next: a reader that goes
        through a year of data does so in memory the processor still has at hand.
        """
        order = min(order_covering(wanted_bytes), self.layout.order_max)
        if not self._may_be_held(1 << order, 1 << order):
            return None
        block, order = self._take_of_history(order)
        if block == NO_BLOCK:
            return None
        size = 1 << order
        self._orders[block] = order
        self._lengths[block] = 0
        self.classes[block] = DOOMED
        self.pins[block] = 1
        self.room_bytes -= BLOCK_BYTES << order
        self.pinned_blocks += size
        self._lent_blocks += size
        return block, self.memory.writable(block, min(wanted_bytes, BLOCK_BYTES << order))

    def take_back(self, block: int) -> None:
        """Nobody uses what :meth:`lend` answered any more."""
        self._lent_blocks -= 1 << self._orders[block]
        self._let_go([block])

    def _take_of_history(self, order: int) -> tuple[int, int]:
        """Take an extent of ``order``, or a smaller one, out of the share of history: (block, its order)."""
        history, policy = self._queues[HISTORY], self.policy
        room = policy.history_max - self._lent_blocks
        while history.blocks + (1 << order) > room and self._evictions.evict_one((HISTORY,)):
            pass
        while history.blocks + (1 << order) > room:
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
        """Take a free extent; arenas are added while the cache has fewer blocks than ``blocks_max``."""
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
            self.room_bytes -= BLOCK_BYTES << order
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
        """The owner has forgotten the extent. Its memory is reused once no reader holds it."""
        extent_class = self.classes[block]
        order = self._orders[block]
        assert order != NOT_A_HEAD
        assert extent_class != DOOMED
        held = self.pins[block]
        if extent_class != ESSENTIAL:
            self._queues[extent_class].remove(block, 1 << order)
            if not held:
                self.room_bytes -= BLOCK_BYTES << order
        if held:
            self.classes[block] = DOOMED
        else:
            self._recycle(block, order)

    def _recycle(self, block: int, order: int) -> None:
        self.room_bytes += BLOCK_BYTES << order
        self._orders[block] = NOT_A_HEAD
        self._lengths[block] = 0
        self.classes[block] = ESSENTIAL
        self.layout.release(block, order)

    def set_essential(self, block: int) -> None:
        """Storage does not hold all of this extent (any more): it may not be evicted."""
        extent_class = self.classes[block]
        if extent_class != ESSENTIAL:
            self._queues[extent_class].remove(block, 1 << self._orders[block])
            self.classes[block] = ESSENTIAL
            if not self.pins[block]:
                self.room_bytes -= BLOCK_BYTES << self._orders[block]

    def room_lost(self, block: int) -> int:
        """Return how much room is lost once bytes that storage does not hold follow in this extent.

        If storage holds it so far, that is all of it, however few they are: it must not come out of what is
        set aside. What a reader holds is no room in any case.
        """
        if self.classes[block] == ESSENTIAL or self.pins[block]:
            return 0
        return BLOCK_BYTES << self._orders[block]

    def set_stored(self, block: int) -> None:
        """Storage holds every byte of this extent: it may be evicted as soon as no reader holds it."""
        if self.classes[block] == ESSENTIAL:
            self.classes[block] = TAIL
            self._queues[TAIL].push(block, 1 << self._orders[block])
            if not self.pins[block]:
                self.room_bytes += BLOCK_BYTES << self._orders[block]

    def move(self, block: int, owner: int, offset: int) -> None:
        """The extent belongs to another index, or to another offset, from now on."""
        self._owner_numbers[block] = owner
        self._offsets[block] = offset

    def trim(self, block: int) -> None:
        """Give back the halves of an extent that hold no byte yet."""
        order = self._orders[block]
        needed = order_covering(max(1, self._lengths[block]))
        extent_class = self.classes[block]
        assert extent_class != DOOMED
        if needed >= order:
            return
        surplus = (1 << order) - (1 << needed)
        held = self.pins[block]
        if extent_class == ESSENTIAL or held:
            self.room_bytes += surplus * BLOCK_BYTES
        if extent_class != ESSENTIAL:
            self._queues[extent_class].blocks -= surplus
        if held:
            self.pinned_blocks -= surplus
        while order > needed:
            order -= 1
            self.layout.release(block + (1 << order), order)
        self._orders[block] = order

    # ---------------------------------------------------------------------------------- readers

    def hold(self, pieces: list[memoryview], blocks: list[int], size: int) -> Callable[[], None] | None:
        """Make ``pieces`` of the extents ``blocks`` valid for as long as the reader wants.

        Small reads, and all reads while too much is held already, are replaced by a copy in place and need no
        release. Otherwise answers what the reader has to call, once. Whole extents count as held, however
        little of them the reader wants. Extents that somebody came for are the last to be evicted.
        """
        classes = self.classes
        for block in blocks:
            if classes[block] != ESSENTIAL:
                self._queues[classes[block]].refresh(block)
        if size > COPY_BYTES_MAX:
            pins, orders = self.pins, self._orders
            held = taken = 0
            for block in blocks:
                if not pins[block]:
                    held += 1 << orders[block]
                    if classes[block] != ESSENTIAL:
                        taken += 1 << orders[block]
            if self._may_be_held(held, taken):
                self.pinned_blocks += held
                self.room_bytes -= taken * BLOCK_BYTES
                for block in blocks:
                    pins[block] += 1
                return partial(self._let_go, blocks)
        pieces[:] = [memoryview(b"".join(pieces))]
        return None

    def _may_be_held(self, blocks: int, taken: int) -> bool:
        """Whether readers may hold so many blocks more, of which ``taken`` could be evicted otherwise.

        They leave alone what is set aside.
        """
        if self.pinned_blocks + blocks > self.policy.pinned_max:
            return False
        return not taken or self.spare_bytes >= taken * BLOCK_BYTES

    def _let_go(self, blocks: list[int]) -> None:
        pins = self.pins
        for block in blocks:
            left = pins[block] - 1
            pins[block] = left
            if not left:
                order = self._orders[block]
                self.pinned_blocks -= 1 << order
                extent_class = self.classes[block]
                if extent_class == DOOMED:
                    self._recycle(block, order)
                elif extent_class != ESSENTIAL:
                    self.room_bytes += BLOCK_BYTES << order

    # ---------------------------------------------------------------------------------- room

    @property
    def essential_blocks(self) -> int:
        """Blocks that may not be evicted: storage lacks their bytes, or readers hold them."""
        return self.policy.blocks_max - self.room_bytes // BLOCK_BYTES

    @property
    def _evictable_blocks(self) -> int:
        return self.layout.blocks - self.layout.free_blocks - self.essential_blocks

    @property
    def spare_bytes(self) -> int:
        """Room that is not set aside. Less than nothing when more is on its way than there is room for."""
        return self.room_bytes - self.set_aside_bytes

    def shared_pressure(self) -> float:
        """Part of the cache, 0 to 1, that cannot be evicted or is set aside."""
        return min(1.0, max(0.0, 1.0 - self.spare_bytes / self.config.bytes_max))

    def _make_room(self, order: int) -> None:
        """Evict the oldest until an extent of ``order`` is free, or else twice as much as it is large.

        If only what is missing was evicted, small extents of many segments would leave holes of their size
        for ever: what fills them is cut to fit, and leaves at another time than its neighbours.
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
            assert queued.get(block, ESSENTIAL) == self.classes[block] % DOOMED
            if block in queued:
                blocks_of[queued[block]] += 1 << order
                if not self.pins[block]:
                    evictable_blocks += 1 << order
            if self.classes[block] == DOOMED:
                assert self.pins[block]
            else:
                assert self._owner_numbers[block] in self._evictions.owners
            if self.pins[block]:
                pinned_blocks += 1 << order
        assert all(blocks_of[name] == queue.blocks for name, queue in self._queues.items())
        in_use = self.layout.blocks - self.layout.free_blocks
        assert self.essential_blocks == in_use - evictable_blocks
        assert self.room_bytes == (self.policy.blocks_max - self.essential_blocks) * BLOCK_BYTES
        assert pinned_blocks == self.pinned_blocks
        assert 0 <= self._lent_blocks <= pinned_blocks
        assert self._queues[HISTORY].blocks + self._lent_blocks <= self.policy.history_max
