from __future__ import annotations

import random

import pytest

from headrace.limits import MIB
from headrace.segmentstore.readindex.cache.block_layout import NO_BLOCK
from headrace.segmentstore.readindex.cache.cache import BlockCache, CacheConfig
from tests.unit.segmentstore.readindex.world import BLOCK, pattern, small_cache


class Owner:
    """Keeps what it put into the cache, by offset."""

    def __init__(self, cache: BlockCache) -> None:
        self.cache = cache
        self.extents: dict[int, int] = {}
        self.evicted: list[int] = []
        self.number = cache.register(self)

    def on_evicted(self, offset: int) -> None:
        del self.extents[offset]
        self.evicted.append(offset)

    def put(self, offset: int, size: int, *, stored: bool = True) -> int:
        block = self.cache.allocate_tail(self.number, offset, size, -1)
        self.cache.memory.append(block, memoryview(pattern(offset, size)))
        self.extents[offset] = block
        if stored:
            self.cache.set_stored(block)
        self.cache.check()
        return block

    def put_some(self, offset: int, size: int) -> int:
        """As put, of as many bytes as the extent holds that the cache gives."""
        block = self.cache.allocate_tail(self.number, offset, size, -1)
        self.extents[offset] = block
        self.cache.memory.append(
            block, memoryview(pattern(offset, min(size, self.cache.memory.free_bytes(block))))
        )
        self.cache.set_stored(block)
        self.cache.check()
        return block

    def put_history(self, offset: int, size: int) -> int:
        block = self.cache.allocate_history(self.number, offset, size)
        if block != NO_BLOCK:
            self.cache.memory.append(block, memoryview(pattern(offset, size)))
            self.extents[offset] = block
        self.cache.check()
        return block

    def lend(self, block: int):
        length = self.cache.memory.lengths[block]
        pieces = [self.cache.memory.view(block, 0, length)]
        return pieces, self.cache.lend_views(pieces, [block], length)


@pytest.fixture
def cache():
    return small_cache(16, history_share_max=0.5, history_share_min=0.0)


@pytest.fixture
def owner(cache):
    return Owner(cache)


def fill(owner: Owner, *, stored: bool = True, first: int = 0) -> None:
    for number in range(first, 16):
        owner.put(number * BLOCK, BLOCK, stored=stored)


def test_memory_is_taken_in_arenas_when_it_is_first_needed():
    cache = BlockCache(CacheConfig(bytes_max=20 * MIB))
    assert cache.statistics().arena_bytes == 0
    owner = Owner(cache)
    owner.put(0, 1)
    assert cache.statistics().arena_bytes == 8 * MIB
    for number in range(1, 20):
        owner.put(number * MIB, MIB, stored=False)
    assert cache.statistics().arena_bytes == 20 * MIB


def test_the_oldest_stored_extent_makes_room(cache, owner):
    fill(owner)
    owner.put(16 * BLOCK, BLOCK)
    assert owner.evicted == [0]
    assert cache.statistics().used_bytes == 16 * BLOCK


def test_what_storage_does_not_hold_is_never_evicted(cache, owner):
    fill(owner, stored=False)
    owner.put(16 * BLOCK, BLOCK, stored=False)
    assert owner.evicted == []
    assert cache.statistics().overdrawn_bytes == BLOCK
    cache.check()
    cache.set_stored(owner.extents[5 * BLOCK])
    owner.put(17 * BLOCK, BLOCK)
    assert owner.evicted == [5 * BLOCK]
    assert cache.statistics().overdrawn_bytes == BLOCK


def test_an_extent_that_was_used_leaves_after_those_that_were_not(cache, owner):
    fill(owner)
    cache.lend_views([memoryview(b"x")], [owner.extents[0]], 1)
    owner.put(16 * BLOCK, BLOCK)
    assert owner.evicted == [BLOCK]


@pytest.mark.slow
def test_a_cache_cut_small_by_many_segments_has_large_extents_again_after_few():
    cache = small_cache(1024, history_share_max=0.5, history_share_min=0.0)
    chance = random.Random(1)
    many = [Owner(cache) for _ in range(1024)]
    for number, owner in enumerate(many):
        owner.put(number * BLOCK, BLOCK)
    chance.shuffle(many)
    for owner in many:  # they leave in an order that has nothing to do with where they lie
        cache.lend_views([memoryview(b"x")], [*owner.extents.values()], 1)
    one = Owner(cache)
    written = 0
    while written < 4 * 1024 * BLOCK:
        block = one.put_some(written, 16 * BLOCK)
        written += cache.memory.lengths[block]
    assert len(one.extents) == 64


def test_a_held_extent_stays_and_its_view_does_not_change(cache, owner):
    fill(owner)
    pinned = small_views(owner, [0, 1])
    for number in range(16, 40):
        owner.put(number * BLOCK, BLOCK)
    for number, (pieces, release) in enumerate(pinned):
        assert number * BLOCK in owner.extents
        assert bytes(pieces[0]) == pattern(number * BLOCK, BLOCK)
        release()
    cache.check()
    assert cache.statistics().pinned_bytes == 0


def small_views(owner: Owner, numbers):
    """Hold extents of one block, which are too small to be held by themselves."""
    held = []
    for number in numbers:
        block = owner.extents[number * BLOCK]
        pieces = [owner.cache.memory.view(block, 0, BLOCK)]
        held.append((pieces, owner.cache.lend_views(pieces, [block], BLOCK + 1)))
        assert held[-1][1] is not None
    return held


def test_memory_freed_under_a_reader_is_reused_only_after_its_release(cache, owner):
    fill(owner, stored=False)
    ((pieces, release),) = small_views(owner, [3])
    cache.free(owner.extents.pop(3 * BLOCK))
    cache.check()
    owner.put(16 * BLOCK, BLOCK, stored=False)
    assert bytes(pieces[0]) == pattern(3 * BLOCK, BLOCK)
    overdrawn = cache.statistics().overdrawn_bytes
    release()
    cache.check()
    owner.put(17 * BLOCK, BLOCK, stored=False)
    assert cache.statistics().overdrawn_bytes == overdrawn


def test_two_readers_of_one_extent_both_have_to_release_it(cache, owner):
    fill(owner, stored=False)
    first, second = small_views(owner, [3, 3])
    cache.free(owner.extents.pop(3 * BLOCK))
    first[1]()
    assert bytes(second[0][0]) == pattern(3 * BLOCK, BLOCK)
    owner.put(16 * BLOCK, BLOCK, stored=False)
    assert bytes(second[0][0]) == pattern(3 * BLOCK, BLOCK)
    overdrawn = cache.statistics().overdrawn_bytes
    second[1]()
    owner.put(17 * BLOCK, BLOCK, stored=False)
    assert cache.statistics().overdrawn_bytes == overdrawn


def test_small_reads_get_copies_and_hold_nothing(cache, owner):
    block = owner.put(0, 100)
    pieces, release = owner.lend(block)
    assert release is None
    cache.free(owner.extents.pop(0))
    owner.put(0, 100)
    assert bytes(pieces[0]) == pattern(0, 100)


def test_readers_that_hold_too_much_get_copies_so_that_appends_always_find_room(cache, owner):
    for number in range(4):
        owner.put(number * 4 * BLOCK, 4 * BLOCK)
    held = [owner.lend(owner.extents[number * 4 * BLOCK]) for number in range(4)]
    assert [release is None for _, release in held] == [False, True, True, True]
    for number in range(4, 8):
        owner.put(number * 4 * BLOCK, 4 * BLOCK)
    for number, (pieces, _) in enumerate(held):
        assert b"".join(pieces) == pattern(number * 4 * BLOCK, 4 * BLOCK)


def test_history_replaces_history_once_it_has_its_share(cache, owner):
    for number in range(8):
        owner.put(number * BLOCK, BLOCK)
    for number in range(100, 200):
        assert owner.put_history(number * BLOCK, BLOCK) != NO_BLOCK
    assert all(number * BLOCK in owner.extents for number in range(8))
    assert cache.statistics().history_bytes == 8 * BLOCK


def test_history_takes_smaller_extents_where_its_share_is_small():
    cache = small_cache(16, history_share_max=0.3)
    owner = Owner(cache)
    block = cache.allocate_history(owner.number, 0, 8 * BLOCK)
    assert cache.memory.orders[block] == 2


def test_nothing_is_held_in_reserve_when_half_of_the_cache_is_essential():
    cache = small_cache(64)
    owner = Owner(cache)
    block = cache.allocate_tail(owner.number, 0, 10, 1)
    assert cache.memory.orders[block] == 2
    for number in range(10, 14):
        owner.put(number * BLOCK, 8 * BLOCK, stored=False)
    block = cache.allocate_tail(owner.number, BLOCK, 10, 1)
    assert cache.memory.orders[block] == 0


def test_appends_push_out_history_before_anything_else(cache, owner):
    fill(owner, first=8)
    for number in range(100, 108):
        owner.put_history(number * BLOCK, BLOCK)
    for number in range(16, 24):
        owner.put(number * BLOCK, BLOCK)
    assert owner.evicted == [number * BLOCK for number in range(100, 108)]


def test_appends_leave_history_its_minimum_while_tail_data_can_leave():
    cache = small_cache(16, history_share_max=0.5, history_share_min=0.25)
    owner = Owner(cache)
    for number in range(100, 108):
        owner.put_history(number * BLOCK, BLOCK)
    for number in range(60):
        owner.put(number * BLOCK, BLOCK)
    assert cache.statistics().history_bytes == 4 * BLOCK
    for number in range(60, 76):
        owner.put(number * BLOCK, BLOCK, stored=False)
    assert cache.statistics().history_bytes == 0


def test_history_is_refused_rather_than_taking_essential_memory(cache, owner):
    fill(owner, stored=False)
    assert owner.put_history(100 * BLOCK, BLOCK) == NO_BLOCK
    assert len(owner.extents) == 16


def test_bytes_that_follow_each_other_lie_in_one_extent_while_memory_allows(cache, owner):
    block = owner.put(0, 8 * BLOCK)
    assert cache.memory.orders[block] == 3
    assert len(cache.memory.view(block, 0, 8 * BLOCK)) == 8 * BLOCK


def test_fragmented_memory_is_used_in_the_pieces_there_are(cache, owner):
    fill(owner, stored=False)
    for number in range(0, 16, 2):
        cache.free(owner.extents.pop(number * BLOCK))
    for number in range(0, 16, 2):
        block = cache.allocate_tail(owner.number, number * BLOCK, 8 * BLOCK, -1)
        assert cache.memory.orders[block] == 0
        cache.memory.append(block, memoryview(b"x"))
        owner.extents[number * BLOCK] = block
    cache.check()


def test_trimming_a_held_extent_keeps_the_counts_and_the_bytes(cache, owner):
    block = cache.allocate_tail(owner.number, 0, 4 * BLOCK, -1)
    owner.extents[0] = block
    cache.memory.append(block, memoryview(pattern(0, BLOCK + 7)))
    pieces, release = owner.lend(block)
    cache.trim(block)
    cache.check()
    cache.set_stored(block)
    cache.trim(block)
    cache.check()
    assert bytes(pieces[0]) == pattern(0, BLOCK + 7)
    release()
    cache.check()


def test_tails_of_many_segments_stay_small():
    cache = BlockCache(CacheConfig(bytes_max=64 * MIB))
    owner = Owner(cache)
    cache.count_tails(1000)
    block = cache.allocate_tail(owner.number, 0, 100, 8)
    assert cache.memory.orders[block] <= 2
    cache.count_tails(-999)
    block = cache.allocate_tail(owner.number, BLOCK, 100, 8)
    assert cache.memory.orders[block] == 8


def test_views_are_read_only(cache, owner):
    block = owner.put(0, 10)
    with pytest.raises(TypeError):
        cache.memory.view(block, 0, 10)[0] = 1


def test_numbers_of_owners_are_used_again(cache):
    owners = [Owner(cache) for _ in range(3)]
    cache.unregister(owners[1].number)
    assert Owner(cache).number == owners[1].number
    assert cache.statistics().owners == 3


def test_the_essential_share_is_what_storage_lacks_of_the_bound(cache, owner):
    for number in range(16):
        owner.put(number * BLOCK, BLOCK, stored=number < 4)
        assert cache.statistics().used_bytes == (number + 1) * BLOCK
    assert cache.shared_pressure() == 12 / 16
    cache.free(owner.extents.pop(0))
    assert cache.statistics().used_bytes == 15 * BLOCK


def test_lent_memory_comes_out_of_the_share_of_history_and_is_lent_again(cache, owner):
    fill(owner)  # 16 blocks of stored tail; history may have 8, readers may hold 4
    first = cache.lend(2 * BLOCK)
    assert first is not None
    block, memory = first
    assert len(memory) <= 2 * BLOCK
    cache.check()
    others = [cache.lend(BLOCK) for _ in range(8)]
    assert [loan is not None for loan in others].count(True) <= 4 - len(memory) // BLOCK
    assert len(owner.extents) >= 12
    for loan in others:
        if loan is not None:
            cache.release_lent(loan[0])
    cache.release_lent(block)
    evicted = len(owner.evicted)
    for _ in range(100):
        loan = cache.lend(BLOCK)
        cache.check()
        cache.release_lent(loan[0])
    assert len(owner.evicted) == evicted
    assert cache.statistics().lent_bytes == 0


def test_nothing_is_lent_when_everything_is_essential(cache, owner):
    fill(owner, stored=False)
    assert cache.lend(BLOCK) is None
    assert owner.evicted == []
    cache.check()


def test_history_and_what_is_lent_have_one_share():
    cache = small_cache(16, history_share_max=0.5, history_share_min=0.0, pinned_share_max=0.5)
    owner = Owner(cache)
    loans = [cache.lend(BLOCK) for _ in range(6)]
    assert None not in loans
    for number in range(10):
        owner.put_history(number * BLOCK, BLOCK)
    statistics = cache.statistics()
    assert (statistics.lent_bytes, statistics.history_bytes) == (6 * BLOCK, 2 * BLOCK)
    loans += [cache.lend(BLOCK), cache.lend(BLOCK)]
    assert None not in loans
    assert cache.statistics().history_bytes == 0
    assert cache.lend(BLOCK) is None
    for block, _ in loans:
        cache.release_lent(block)
    cache.check()


def test_what_readers_hold_is_no_room_whatever_becomes_of_it(cache, owner):
    """Each way in which an extent changes while it is held."""
    whole = cache.free_bytes
    block = owner.put(0, 3 * BLOCK)
    assert cache.free_bytes == whole
    first, second = owner.lend(block)[1], owner.lend(block)[1]
    assert cache.free_bytes == whole - 4 * BLOCK
    for change in (cache.set_essential, cache.set_stored):
        change(block)
        cache.check()
        assert cache.free_bytes == whole - 4 * BLOCK
    cache.memory.lengths[block] = 2 * BLOCK
    cache.trim(block)
    cache.check()
    assert cache.free_bytes == whole - 2 * BLOCK
    first()
    cache.check()
    assert cache.free_bytes == whole - 2 * BLOCK
    second()
    cache.check()
    assert cache.free_bytes == whole


def test_an_essential_extent_that_is_stored_while_it_is_held_is_room_once_it_is_released(cache, owner):
    whole = cache.free_bytes
    block = owner.put(0, 2 * BLOCK, stored=False)
    release = owner.lend(block)[1]
    cache.set_stored(block)
    cache.check()
    assert cache.free_bytes == whole - 2 * BLOCK
    release()
    assert cache.free_bytes == whole
    release = owner.lend(block)[1]
    cache.set_essential(block)
    release()
    cache.check()
    assert cache.free_bytes == whole - 2 * BLOCK


@pytest.mark.parametrize("stored", [False, True])
def test_an_extent_freed_while_it_is_held_is_room_once_it_is_released(cache, owner, stored):
    whole = cache.free_bytes
    block = owner.put(0, 2 * BLOCK, stored=stored)
    release = owner.lend(block)[1]
    cache.free(owner.extents.pop(0))
    cache.check()
    assert cache.free_bytes == whole - 2 * BLOCK
    release()
    cache.check()
    assert cache.free_bytes == whole


def test_readers_hold_no_more_than_their_share_however_little_of_an_extent_they_want(cache, owner):
    """The share is four blocks."""
    large, small = owner.put(0, 3 * BLOCK), owner.put(8 * BLOCK, 2 * BLOCK)
    for block, size in ((small, BLOCK + 1), (large, BLOCK + 1), (small, 2 * BLOCK)):
        pieces = [cache.memory.view(block, 0, size)]
        cache.lend_views(pieces, [block], size)
        cache.check()
        assert cache.pinned_blocks == 2
        assert (pieces[0].nbytes, len(pieces)) == (size, 1)
    assert cache.pins[small] == 2
    assert cache.pins[large] == 0


def test_readers_leave_alone_what_is_set_aside(cache, owner):
    cache.set_aside_bytes += 6 * BLOCK
    owner.put(0, 8 * BLOCK, stored=False)
    stored = owner.put(8 * BLOCK, 4 * BLOCK)
    assert owner.lend(stored)[1] is None  # four blocks are free, six have to be there
    loan = cache.lend(2 * BLOCK)
    assert cache.lend(BLOCK) is None
    cache.check()
    cache.release_lent(loan[0])
    release = owner.lend(owner.put(12 * BLOCK, 2 * BLOCK))[1]
    assert cache.free_bytes == cache.set_aside_bytes
    for number in range(6):
        owner.put((20 + number) * BLOCK, BLOCK, stored=False)
    release()
