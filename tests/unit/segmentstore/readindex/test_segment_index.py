from __future__ import annotations

import gc
import tracemalloc

import pytest

from headrace.limits import MIB
from headrace.segmentstore.readindex.cache.block_layout import NO_BLOCK
from headrace.segmentstore.readindex.cache.cache import BlockCache, CacheConfig
from headrace.segmentstore.readindex.index_entries import IndexEntries
from headrace.segmentstore.readindex.read_plan import Need, plan_read
from headrace.segmentstore.readindex.segment_index import SegmentIndex, UnstoredBytes
from headrace.segmentstore.state.segment_state import SegmentState
from tests.unit.segmentstore.readindex.world import BLOCK, pattern, small_cache


def make(cache: BlockCache) -> SegmentIndex:
    return SegmentIndex(SegmentState(1, "s"), cache, UnstoredBytes())


def append(index: SegmentIndex, size: int) -> None:
    offset = max(0, index.end)
    index.append(offset, memoryview(pattern(offset, size)))
    index.state.durable_length = offset + size


def store(index: SegmentIndex, length: int) -> None:
    index.state.stored_length = length
    index.follow()
    index.check()


def cached(index: SegmentIndex, offset: int, length: int) -> bytes:
    pieces: list[memoryview] = []
    assert index.collect(offset, length, pieces, []) == sum(map(len, pieces))
    return b"".join(pieces)


def test_a_busy_segment_gets_larger_and_larger_extents():
    cache = small_cache(1024, extent_bytes_max=16 * BLOCK)
    index = make(cache)
    for _ in range(400):
        append(index, 700)
    index.check()
    orders = [cache.memory.orders[block] for _, block in index.entries]
    assert orders[:5] == [0, 1, 2, 3, 4]
    assert set(orders[5:]) == {4}


def test_a_merged_extent_gives_back_the_room_that_nobody_will_fill():
    cache = small_cache(1024, extent_bytes_max=16 * BLOCK)
    target, source = make(cache), make(cache)
    append(source, 9 * BLOCK)
    target.begin_merge(0, source, 9 * BLOCK)
    used = cache.statistics().used_bytes
    source.state.stored_length = 9 * BLOCK
    target.state.stored_length = 9 * BLOCK
    target.follow()
    target.complete_merge(next(iter(target.redirects)))
    target.check()
    cache.check()
    assert cache.statistics().used_bytes == used  # nine blocks need sixteen
    append(source := make(cache), 5 * BLOCK)
    append(source, 4 * BLOCK)
    before = cache.statistics().used_bytes
    target.begin_merge(9 * BLOCK, source, 9 * BLOCK)
    target.complete_merge(next(iter(target.redirects)))
    assert cache.statistics().used_bytes < before
    assert cached(target, 9 * BLOCK, 9 * BLOCK) == pattern(0, 9 * BLOCK)


def test_an_extent_full_and_stored_may_leave_while_the_segment_grows_on():
    cache = small_cache(4, extent_bytes_max=BLOCK)
    index = make(cache)
    for number in range(50):
        append(index, BLOCK)
        index.check()
        store(index, (number + 1) * BLOCK)
    assert cached(index, 49 * BLOCK, 1) == pattern(49 * BLOCK, 1)


@pytest.mark.parametrize("left", ["enough", "too little", "held"])
def test_a_stored_tail_is_extended_unless_that_takes_what_is_set_aside(left):
    cache = small_cache(64)
    index, other = make(cache), make(cache)
    append(index, 10 * BLOCK)  # of an extent of 16
    store(index, 10 * BLOCK)
    cache.set_aside_bytes += 16 * BLOCK
    append(other, 32 * BLOCK)
    assert cache.spare_bytes == 16 * BLOCK
    pieces: list[memoryview] = []
    blocks: list[int] = []
    release = None
    if left == "too little":
        cache.set_aside_bytes += 1
    elif left == "held":
        release = cache.lend_views(pieces, blocks, index.collect(0, 10 * BLOCK, pieces, blocks))
    room = cache.free_bytes
    append(index, 100)
    taken = {"enough": 16 * BLOCK, "too little": BLOCK, "held": 0}
    assert room - cache.free_bytes == taken[left]
    assert index.entries.count == (2 if left == "too little" else 1)
    append(index, 5000)
    index.check()
    cache.check()
    assert cached(index, 10 * BLOCK - 1, 101) == pattern(10 * BLOCK - 1, 1) + pattern(10 * BLOCK, 100)
    assert cached(index, 10 * BLOCK + 100, 5000) == pattern(10 * BLOCK + 100, 5000)
    if release:
        release()
    cache.check()


def test_a_stored_tail_left_alone_keeps_no_room_that_nobody_will_fill():
    cache = small_cache(64)
    index, other = make(cache), make(cache)
    append(index, 16 * BLOCK)
    append(index, 1)  # in an extent of 16 blocks as well
    store(index, 16 * BLOCK + 1)
    cache.set_aside_bytes += 32 * BLOCK
    append(other, 17 * BLOCK)
    used = cache.statistics().used_bytes
    append(index, 100)
    index.check()
    cache.check()
    assert cache.statistics().used_bytes < used
    assert cached(index, 0, 16 * BLOCK) == pattern(0, 16 * BLOCK)


def test_replayed_bytes_that_storage_holds_are_not_cached():
    cache = small_cache(64)
    index = make(cache)
    index.state.stored_length = 1000
    index.append(0, memoryview(pattern(0, 400)))
    assert index.entries.count == 0
    index.append(400, memoryview(pattern(400, 1000)))
    assert list(index.entries) == [(1000, index.tail_block)]
    assert (index.end, index.unstored) == (1400, 400)
    index.append(1400, memoryview(pattern(1400, 10)))
    assert cached(index, 1000, 500) == pattern(1000, 410)
    index.check()


def test_truncation_frees_what_storage_holds_and_nobody_can_read():
    cache = small_cache(64, extent_bytes_max=BLOCK)
    index = make(cache)
    append(index, 10 * BLOCK)
    store(index, 6 * BLOCK)
    index.state.start_offset = 8 * BLOCK + 1
    index.follow()
    index.check()
    assert [offset // BLOCK for offset, _ in index.entries] == [6, 7, 8, 9]
    store(index, 10 * BLOCK)
    assert [offset // BLOCK for offset, _ in index.entries] == [8, 9]
    index.state.start_offset = 10 * BLOCK
    index.follow()
    assert index.entries.count == 0
    assert index.tail_block == NO_BLOCK
    append(index, 10)
    index.check()
    cache.check()


def test_history_is_inserted_only_into_gaps_and_only_where_it_is_stored():
    cache = small_cache(64, extent_bytes_max=BLOCK, history_share_max=0.5)
    index = make(cache)
    index.state.stored_length = 20 * BLOCK
    index.follow()
    index.insert_history(4 * BLOCK, memoryview(pattern(4 * BLOCK, 2 * BLOCK)))
    index.insert_history(9 * BLOCK, memoryview(pattern(9 * BLOCK, BLOCK)))
    index.insert_history(2 * BLOCK + 7, memoryview(pattern(2 * BLOCK + 7, 30 * BLOCK)))
    index.check()
    assert index.covered_until(2 * BLOCK + 7, 30 * BLOCK) <= 20 * BLOCK
    assert cached(index, 2 * BLOCK + 7, 9 * BLOCK) == pattern(2 * BLOCK + 7, 9 * BLOCK)


def test_history_wastes_no_block_and_none_on_bytes_nobody_can_read():
    cache = small_cache(256)
    index = make(cache)
    index.state.stored_length = 40 * BLOCK
    index.state.start_offset = 3 * BLOCK
    index.follow()
    index.insert_history(0, memoryview(pattern(0, 14 * BLOCK)))
    index.check()
    assert next(iter(index.entries))[0] == 3 * BLOCK
    assert cache.statistics().history_bytes == 11 * BLOCK
    assert cached(index, 3 * BLOCK, 20 * BLOCK) == pattern(3 * BLOCK, 11 * BLOCK)


@pytest.mark.slow
def test_very_many_tiny_appends_leave_no_objects_behind():
    cache = BlockCache(CacheConfig(bytes_max=16 * MIB))
    index = make(cache)
    data = memoryview(b"0123456789")
    index.append(0, data)
    gc.collect()
    objects = len(gc.get_objects())
    for number in range(1, 15_000):
        index.append(number * 10, data)
    tracemalloc.start()  # makes the rest take thrice as long
    try:
        for number in range(15_000, 20_000):
            index.append(number * 10, data)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    gc.collect()
    assert len(gc.get_objects()) - objects < 50
    assert grown < 40_000  # the arena itself is mapped memory; these are the arrays and the layout
    assert index.entries.count < 20
    assert cached(index, 0, 200_000) == bytes(data) * 20_000


@pytest.mark.slow
def test_very_many_entries_cost_bytes_not_objects():
    """The worst case of interleaved segments: every block is an entry of its own."""
    cache = BlockCache(CacheConfig(bytes_max=128 * MIB, extent_bytes_max=BLOCK, arena_bytes=16 * MIB))
    first, second = make(cache), make(cache)
    data = memoryview(bytes(BLOCK))
    gc.collect()
    objects = len(gc.get_objects())
    for number in range(10_000):
        first.append(number * BLOCK, data)
        second.append(number * BLOCK, data)
    gc.collect()
    assert first.entries.count == second.entries.count == 10_000
    assert len(gc.get_objects()) - objects < 1000
    store(first, 10_000 * BLOCK)
    cache.check()


def count_steps(monkeypatch):
    """Return a list that gets an entry for each one of an index that is looked at from now on."""
    steps, from_floor = [], IndexEntries.from_floor

    def count(entries, offset):
        for entry in from_floor(entries, offset):
            steps.append(entry)
            yield entry

    monkeypatch.setattr(IndexEntries, "from_floor", count)
    return steps


def test_a_merge_ends_without_a_look_at_all_that_follows_in_the_cache(monkeypatch):
    cache = small_cache(512)
    target = make(cache)
    sources = []
    for number in range(200):
        source = SegmentIndex(SegmentState(2 + number, f"t{number}"), cache, UnstoredBytes())
        append(source, 1000)
        target.state.durable_length += 1000
        target.begin_merge(max(0, target.end), source, 1000)
        sources.append(source)
    steps = count_steps(monkeypatch)
    for source in sources:
        target.complete_merge(source.merged_into)
    assert len(steps) <= 4 * len(sources)
    target.check()
    assert target.covered_until(0, 300_000) == 200_000


def test_what_is_cached_is_looked_for_only_as_far_as_asked(monkeypatch):
    cache = small_cache(512, extent_bytes_max=BLOCK)
    index = make(cache)
    append(index, 300 * BLOCK)
    assert index.covered_until(BLOCK, 2 * BLOCK) == 2 * BLOCK
    assert index.covered_until(BLOCK, 1 << 40) == 300 * BLOCK
    assert index.covered_until(300 * BLOCK, 1 << 40) == 300 * BLOCK
    steps = count_steps(monkeypatch)
    assert plan_read(index, 10 * BLOCK, 3 * BLOCK).need is Need.CACHED
    assert len(steps) <= 5
