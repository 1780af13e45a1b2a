"""What is cached of one segment, and which of it may leave: entries, merges under way, and the line of what
is stored.

Every byte a segment has is in one of four places: in an extent of the cache, in long-term storage, in a
segment that is being merged into this one (a *redirect*), or nowhere yet. This class knows the first and the
third. Bytes at or above ``stored`` are only here, so their extents are essential to the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

from headrace.errors import HeadraceError
from headrace.limits import KIB
from headrace.segmentstore.readindex.cache.block_layout import BLOCK_BYTES, NO_BLOCK
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import ESSENTIAL, HISTORY
from headrace.segmentstore.readindex.index_entries import IndexEntries
from headrace.segmentstore.readindex.redirects import Redirect, Redirects
from headrace.segmentstore.readindex.tail_waiters import TailWaiters
from headrace.segmentstore.state.segment_state import SegmentState

MERGE_COPY_BYTES_MAX: Final = 16 * KIB
"""A source this small is copied to its target as the merge begins: cheaper than an extent of its own. Unless
there is no room to spare, for a block more than its bytes, and for the last extent of the target if storage
holds all of that."""

USELESS_AT_ONCE: Final = 1000
"""So many extents are freed when a segment is truncated. Of those of a single block there may be a hundred
thousand, each takes 2 to 3 us; storage holds what is left, so it leaves like everything else that is old."""

SLACK_BYTES: Final = 2 * BLOCK_BYTES
"""What the unstored bytes of one segment may keep beyond their own size."""


@dataclass(slots=True)
class UnstoredBytes:
    """Memory of one container that cannot be evicted because storage does not hold it yet, in bytes.

    Two blocks are counted extra for each segment that has any: its first and last byte may each keep a block
    that is hardly used. Shared by the segment indexes.
    """

    count: int = 0


class SegmentIndex:
    """Cached entries of one segment. Offsets are bytes of the segment; blocks are extents of the cache."""

    __slots__ = (
        "_account",
        "_cache",
        "_memory",
        "_number",
        "end",
        "entries",
        "merged_into",
        "parked",
        "redirects",
        "start",
        "state",
        "stored",
        "tail_block",
        "tail_offset",
        "unstored",
        "waiters",
    )

    def __init__(self, state: SegmentState, cache: BlockCache, account: UnstoredBytes) -> None:
        self.state = state
        self._cache = cache
        self._memory = cache.memory
        self._account = account
        self._number = cache.register(self)
        self.entries = IndexEntries()
        self.redirects: Redirects[SegmentIndex] = Redirects()
        self.merged_into: Redirect[SegmentIndex] | None = None
        self.parked: TailWaiters | None = None
        """Of a source: reads which found it gone and wait for its merge to complete."""
        self.waiters = TailWaiters()
        self.start = state.start_offset
        self.stored = state.stored_length
        self.end = -1  # where the next append begins; unknown until the first one
        self.tail_block = NO_BLOCK
        self.tail_offset = 0
        self.unstored = 0

    # ---------------------------------------------------------------------------------- appends

    def append(self, offset: int, data: memoryview) -> None:
        """Copy ``data`` behind the bytes appended so far.

        Wakes reads that wait for bytes below the durable length, which includes these.
        """
        assert offset == self.end or self.end < 0, f"append at {offset}, the index ends at {self.end}"
        state = self.state
        if state.stored_length != self.stored or state.start_offset != self.start:
            # First of all. A truncation that came in the same frame has not been told yet, and
            # what it makes useless may be the tail.
            self.follow()
        if offset < self.stored:
            # Recovery replays what storage holds already; caching that would push out what it does not hold.
            known = min(self.stored - offset, len(data))
            offset, data = offset + known, data[known:]
            self.tail_block = NO_BLOCK
        size = len(data)
        memory = self._memory
        block = self.tail_block
        if (
            block != NO_BLOCK
            and not self._cache.classes[block]  # ESSENTIAL: its room is nobody else's
            and size <= (BLOCK_BYTES << memory.orders[block]) - memory.lengths[block]
        ):
            memory.append(block, data)
        elif size:
            self._extend(offset, data)
        self.end = offset + size
        if self.unstored:
            self.unstored += size
            self._account.count += size
        else:
            self._count_unstored(size)
        if self.waiters.waiting:
            self.waiters.wake_below(self.state.durable_length)

    def _extend(self, offset: int, data: memoryview) -> None:
        """Fill the last extent and add others behind it."""
        cache, memory = self._cache, self._memory
        orders = memory.orders
        lost = 0 if self.tail_block == NO_BLOCK else cache.room_lost(self.tail_block)
        if lost and lost > cache.spare_bytes:
            cache.trim(self.tail_block)
            self.tail_block = NO_BLOCK  # storage holds all of it: it can leave, and make room for this
        tail = self.tail_block
        room, grown_from = 0, -1
        if tail != NO_BLOCK:
            grown_from = orders[tail]
            room = min((BLOCK_BYTES << grown_from) - memory.lengths[tail], len(data))
            if room:
                cache.set_essential(tail)
                memory.append(tail, data[:room])
        done, size = room, len(data)
        while done < size:
            begin = done
            block = cache.allocate_tail(self._number, offset + begin, size - begin, grown_from)
            grown_from = orders[block]
            done += BLOCK_BYTES << grown_from
            memory.append(block, data[begin:done])  # of the last one, what there is
            self.entries.push(offset + begin, block)
            self.tail_block, self.tail_offset = block, offset + begin

    # ---------------------------------------------------------------------------------- look-ups

    def collect(self, offset: int, length_max: int, pieces: list[memoryview], blocks: list[int]) -> int:
        """Add views of the cached bytes from ``offset`` on, as far as there is no gap; answer their size."""
        memory = self._memory
        lengths = memory.lengths
        block = self.tail_block
        if block != NO_BLOCK:
            start = offset - self.tail_offset
            if start >= 0:
                end = start + length_max
                if end > lengths[block]:
                    end = lengths[block]
                    if end <= start:
                        return 0
                pieces.append(memory.view(block, start, end))
                blocks.append(block)
                return end - start
        first, block = self.entries.floor(offset)
        if block == NO_BLOCK:
            return 0
        length = lengths[block]
        start = offset - first
        if start >= length:
            return 0
        end = start + length_max
        if end <= length:  # most reads lie within one extent
            pieces.append(memory.view(block, start, end))
            blocks.append(block)
            return length_max
        wanted = offset + length_max
        position = offset
        for first, block in self.entries.from_floor(offset):
            start = position - first
            if start < 0 or position >= wanted:
                break  # a gap, or enough
            end = min(lengths[block], start + wanted - position)
            pieces.append(memory.view(block, start, end))
            blocks.append(block)
            position += end - start
        return position - offset

    def is_history(self, block: int) -> bool:
        return self._cache.classes[block] == HISTORY

    def covered_until(self, offset: int, limit: int) -> int:
        """Return the first offset from ``offset`` on which is not cached; looks no further than ``limit``."""
        for first, block in self.entries.from_floor(offset):
            if first > offset or offset >= limit:
                break
            offset = max(offset, first + self._memory.lengths[block])
        return offset

    def next_cached(self, offset: int, limit: int) -> int:
        """Return where the next entry or redirect after ``offset`` begins, at most ``limit``."""
        for first, _ in self.entries.from_floor(offset):
            if first > offset:
                limit = min(limit, first)
                break
        return self.redirects.next_offset(offset, limit)

    # ---------------------------------------------------------------------------------- storage

    def insert_history(self, offset: int, data: memoryview) -> None:
        """Cache bytes read from storage where nothing is cached yet, as far as history's share allows."""
        cache = self._cache
        end = min(offset + len(data), self.stored)
        position = max(offset, self.start)
        while position < end:
            covered = self.covered_until(position, end)
            if covered > position:
                position = covered
                continue
            size = self.next_cached(position, end) - position
            block = cache.allocate_history(self._number, position, size)
            if block == NO_BLOCK:
                return
            size = min(size, BLOCK_BYTES << self._memory.orders[block])
            self._memory.append(block, data[position - offset : position - offset + size])
            self.entries.insert(position, block)
            position += size

    def follow(self) -> None:
        """Take over what the segment's state says about storage and about its start."""
        state = self.state
        if state.stored_length != self.stored:
            self.set_stored(state.stored_length)
            if state.start_offset > 0:
                self.set_start(state.start_offset)
        elif state.start_offset != self.start:
            self.set_start(state.start_offset)

    def set_stored(self, stored: int) -> None:
        """Storage holds the bytes below ``stored``: their extents may leave."""
        before, self.stored = self.stored, stored
        assert stored >= before  # storage never forgets what it said it holds
        set_stored, lengths = self._cache.set_stored, self._memory.lengths
        released = 0
        for offset, block in self.entries.from_floor(before):
            if offset >= stored:
                break
            end = offset + lengths[block]
            if end > before:
                released += min(end, stored) - max(offset, before)
                if end <= stored:
                    set_stored(block)
        self._count_unstored(-released)

    def _count_unstored(self, change: int) -> None:
        """Keep count of what may not be evicted, as memory."""
        before, after = self.unstored, self.unstored + change
        self.unstored = after
        if not before and after:
            change += SLACK_BYTES
            self._cache.count_tails(1)
        elif before and not after:
            change -= SLACK_BYTES
            self._cache.count_tails(-1)
        self._account.count += change

    def set_start(self, start: int) -> None:
        """The segment begins at ``start`` now: stored extents wholly below it are of no use to anybody.

        Of very many the rest is left to eviction.

        One that is being extended is essential already, and left alone.
        """
        self.start = start
        limit = min(start, self.stored)
        cache = self._cache
        useless: list[tuple[int, int]] = []
        for offset, block in self.entries:
            if offset + self._memory.lengths[block] > limit or cache.classes[block] == ESSENTIAL:
                break
            if len(useless) == USELESS_AT_ONCE:
                break
            useless.append((offset, block))
        for offset, block in useless:
            self.on_evicted(offset)
            cache.free(block)

    # ---------------------------------------------------------------------------------- the cache asks

    def on_evicted(self, offset: int) -> None:
        """The extent at ``offset`` leaves the cache. Storage holds its bytes."""
        if self.entries.remove(offset) == self.tail_block:
            self.tail_block = NO_BLOCK

    # ---------------------------------------------------------------------------------- merges

    def begin_merge(self, offset: int, source: SegmentIndex, length: int) -> None:
        """``[offset, offset + length)`` is the content of ``source`` from now on."""
        assert offset == self.end or self.end < 0
        self.follow()
        redirect = Redirect(offset, offset + length, source)
        pieces: list[memoryview] = []
        spare = self._cache.spare_bytes - BLOCK_BYTES
        if self.tail_block != NO_BLOCK:
            spare -= self._cache.room_lost(self.tail_block)
        if length > min(MERGE_COPY_BYTES_MAX, spare) or source.collect(0, length, pieces, []) < length:
            self.end, self.tail_block = offset + length, NO_BLOCK
        else:
            self.append(offset, memoryview(b"".join(pieces)))
        self.redirects.push(redirect)
        source.merged_into = redirect
        source.parked = TailWaiters()

    def complete_merge(self, redirect: Redirect[SegmentIndex]) -> None:
        """Storage has joined the source: its extents are ours, without moving a byte."""
        self.redirects.remove(redirect)
        source = redirect.source
        assert not source.redirects  # the writer finishes a source before it joins it
        cache = self._cache
        moved = list(source.entries)
        source.forget_entries()
        for source_offset, block in moved:
            offset = redirect.offset + source_offset
            end = offset + self._memory.lengths[block]
            is_known = self.covered_until(offset, end) > offset or self.next_cached(offset, end) < end
            if end <= self.start or end > redirect.end or is_known:
                cache.free(block)
                continue
            self.entries.insert(offset, block)
            cache.move(block, self._number, offset)
            cache.trim(block)
            if end <= self.stored:
                cache.set_stored(block)
            else:
                cache.set_essential(block)
                self._count_unstored(end - max(offset, self.stored))
        assert source.parked is not None
        source.parked.wake_all()

    def forget_entries(self) -> None:
        """Let go of all entries without freeing them: somebody else owns the extents now."""
        self.entries = IndexEntries()
        self.tail_block = NO_BLOCK
        self._count_unstored(-self.unstored)

    def fail_readers(self, error: HeadraceError) -> None:
        """End the reads that wait for bytes to come, here and in what is merged into this segment."""
        for redirect in self.redirects:
            assert redirect.source.parked is not None
            redirect.source.parked.fail_all(error)
        self.waiters.fail_all(error)

    def close(self, extents_max: int) -> bool:
        """Free everything, in as many calls as it takes if it is more extents than that; answer whether it is
        done. The index must not be used afterwards, except by the cache until then.
        """
        if self.entries.count > extents_max:
            for offset, block in list(islice(self.entries, extents_max)):
                self.on_evicted(offset)
                self._cache.free(block)
            return False
        for _, block in self.entries:
            self._cache.free(block)
        self.forget_entries()
        self._cache.unregister(self._number)
        return True

    def check(self) -> None:
        """Assert that entries are apart, of the right class, and counted."""
        cache = self._cache
        self.entries.check()
        end = unstored = 0
        for offset, block in self.entries:
            length = self._memory.lengths[block]
            assert offset >= end
            assert length > 0
            end = offset + length
            unstored += max(0, end - max(offset, self.stored))
            assert (cache.classes[block] == ESSENTIAL) == (end > self.stored), (offset, end, self.stored)
        assert unstored == self.unstored
        assert self.end < 0 or end <= max(self.end, self.stored)
        if self.tail_block != NO_BLOCK:
            assert end == self.end == self.tail_offset + self._memory.lengths[self.tail_block]
        self.redirects.check()
