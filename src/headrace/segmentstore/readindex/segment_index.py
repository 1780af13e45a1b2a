"""The cached bytes of one segment, and which may be evicted: entries, unfinished merges, stored length.

Every durable byte of a segment is in an extent of the cache, in long-term storage, or in a segment that is
being merged into this one (a *redirect*). This class knows the first and the last. Bytes at or above
``stored`` are unstored, so their extents are essential to the cache.
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
"""A source up to this size is copied to its target when the merge begins: cheaper than an extent of its own.
The cache must have spare bytes for it, for one block more, and for a stored last extent of the target."""

USELESS_AT_ONCE: Final = 1000
"""Extents that are freed when a segment is truncated. There may be a hundred thousand of one block, each
takes 2 to 3 us; the rest is stored, so it is evicted like other old extents."""

SLACK_BYTES: Final = 2 * BLOCK_BYTES
"""Memory that the unstored bytes of one segment may pin beyond their own size."""


@dataclass(slots=True)
class UnstoredBytes:
    """Memory of one container that unstored bytes pin, in bytes.

    Two blocks more are counted for each segment that has any: its first and last byte may each pin a block
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
        "merge_waiters",
        "merged_into",
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
        self.merge_waiters: TailWaiters | None = None
        """Of a merge source: reads that found it removed and wait until its merge is complete."""
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
            # First of all: ``on_changed`` is not called yet for a truncation in the same frame, and the tail
            # may be one of the extents that it frees.
            self.follow()
        if offset < self.stored:
            # Recovery replays stored bytes too; caching them would evict others.
            known = min(self.stored - offset, len(data))
            offset, data = offset + known, data[known:]
            self.tail_block = NO_BLOCK
        size = len(data)
        memory = self._memory
        block = self.tail_block
        if (
            block != NO_BLOCK
            and not self._cache.classes[block]  # ESSENTIAL: it cannot be evicted
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
        """Fill the last extent and add further ones behind it."""
        cache, memory = self._cache, self._memory
        orders = memory.orders
        lost = 0 if self.tail_block == NO_BLOCK else cache.free_bytes_lost(self.tail_block)
        if lost and lost > cache.spare_bytes:
            cache.trim(self.tail_block)
            self.tail_block = NO_BLOCK  # it is stored: it can be evicted for this append
        tail = self.tail_block
        free, grown_from = 0, -1
        if tail != NO_BLOCK:
            grown_from = orders[tail]
            free = min((BLOCK_BYTES << grown_from) - memory.lengths[tail], len(data))
            if free:
                cache.set_essential(tail)
                memory.append(tail, data[:free])
        done, size = free, len(data)
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
        """Add views of the cached bytes from ``offset`` on, as far as there is no gap; return their size."""
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
        """Cache bytes read from storage where nothing is cached, as far as the share of history allows."""
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
        """Adopt stored length and start offset of the segment's state."""
        state = self.state
        if state.stored_length != self.stored:
            self.set_stored(state.stored_length)
            if state.start_offset > 0:
                self.set_start(state.start_offset)
        elif state.start_offset != self.start:
            self.set_start(state.start_offset)

    def set_stored(self, stored: int) -> None:
        """The bytes below ``stored`` are stored: their extents may be evicted."""
        before, self.stored = self.stored, stored
        assert stored >= before  # the stored length never decreases
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
        """Count the memory of unstored bytes."""
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
        """The segment begins at ``start`` now: free stored extents wholly below it.

        Beyond ``USELESS_AT_ONCE`` they are left to eviction. A last extent that is being filled stays.
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

    # ---------------------------------------------------------------------------------- from the cache

    def on_evicted(self, offset: int) -> None:
        """The extent at ``offset``, which is stored, is evicted."""
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
            spare -= self._cache.free_bytes_lost(self.tail_block)
        if length > min(MERGE_COPY_BYTES_MAX, spare) or source.collect(0, length, pieces, []) < length:
            self.end, self.tail_block = offset + length, NO_BLOCK
        else:
            self.append(offset, memoryview(b"".join(pieces)))
        self.redirects.push(redirect)
        source.merged_into = redirect
        source.merge_waiters = TailWaiters()

    def complete_merge(self, redirect: Redirect[SegmentIndex]) -> None:
        """Storage has joined the source: move its extents to this segment, without copying a byte."""
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
        assert source.merge_waiters is not None
        source.merge_waiters.wake_all()

    def forget_entries(self) -> None:
        """Remove all entries without freeing their extents, which have another owner now."""
        self.entries = IndexEntries()
        self.tail_block = NO_BLOCK
        self._count_unstored(-self.unstored)

    def fail_readers(self, error: HeadraceError) -> None:
        """Fail the reads that wait for bytes, here and in sources of merges into this segment."""
        for redirect in self.redirects:
            assert redirect.source.merge_waiters is not None
            redirect.source.merge_waiters.fail_all(error)
        self.waiters.fail_all(error)

    def close(self, extents_max: int) -> bool:
        """Free up to ``extents_max`` extents; return whether all are freed. Until then to be called again.

        Meanwhile only the cache may use the index.
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
