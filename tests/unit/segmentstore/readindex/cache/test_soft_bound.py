"""Memory beyond the soft bound is for what storage does not have, and only while nothing can leave for it."""

from __future__ import annotations

import random

import pytest

from tests.effort import seeds
from tests.unit.segmentstore.readindex.cache.test_cache import Owner
from tests.unit.segmentstore.readindex.world import BLOCK, small_cache

ARENA = 8


def soft_cache(blocks: int, soft: int, **config):
    return small_cache(
        blocks,
        arena_bytes=ARENA * BLOCK,
        extent_bytes_max=4 * BLOCK,
        soft_bytes_max=soft * BLOCK,
        history_share_max=0.5,
        history_share_min=0.0,
        **config,
    )


def arenas(cache) -> int:
    return cache.statistics().arena_bytes // (ARENA * BLOCK)


def test_stored_bytes_leave_before_the_cache_grows():
    cache = soft_cache(32, 16)
    owner = Owner(cache)
    for number in range(100):
        owner.put(number * BLOCK, BLOCK)
    assert arenas(cache) == 2
    assert owner.evicted == [number * BLOCK for number in range(84)]


def test_it_grows_for_what_is_not_stored_up_to_the_hard_bound():
    cache = soft_cache(32, 16)
    owner = Owner(cache)
    for number in range(32):
        owner.put(number * BLOCK, BLOCK, stored=False)
    assert arenas(cache) == 4
    assert not cache.statistics().overdrawn_bytes
    owner.put(32 * BLOCK, BLOCK, stored=False)
    assert cache.statistics().overdrawn_bytes == BLOCK


def test_what_is_stored_leaves_first_also_beyond_the_soft_bound():
    cache = soft_cache(32, 16)
    owner = Owner(cache)
    for number in range(20):
        owner.put(number * BLOCK, BLOCK, stored=False)
    owner.put(20 * BLOCK, BLOCK)
    for number in range(21, 40):
        owner.put(number * BLOCK, BLOCK)
    assert arenas(cache) == 3
    assert not set(owner.evicted) & {number * BLOCK for number in range(20)}


def test_each_segment_that_is_written_lets_it_grow():
    cache = soft_cache(96, 16)
    owner = Owner(cache)
    cache.count_tails(1)
    for number in range(200):
        owner.put(number * BLOCK, BLOCK)
    assert arenas(cache) == (16 + 32) // ARENA
    cache.count_tails(9)
    for number in range(200, 400):
        owner.put(number * BLOCK, BLOCK)
    assert arenas(cache) == 96 // ARENA


def test_history_has_its_share_of_the_soft_bound():
    cache = soft_cache(64, 16)
    owner = Owner(cache)
    for number in range(20):
        owner.put_history(number * BLOCK, BLOCK)
    assert cache.statistics().history_bytes == 8 * BLOCK
    assert arenas(cache) == 1


def test_history_finds_room_although_all_of_the_soft_bound_is_not_stored():
    cache = soft_cache(64, 16)
    owner = Owner(cache)
    for number in range(24):
        owner.put(number * BLOCK, BLOCK, stored=False)
    assert cache.layout.free_blocks == 0
    owner.put_history(100 * BLOCK, BLOCK)
    owner.put_history(101 * BLOCK, BLOCK)
    assert 101 * BLOCK in owner.extents


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20))
def test_appends_that_were_let_in_always_find_memory(seed):
    chance = random.Random(seed)
    cache = soft_cache(48, chance.choice([8, 16, 40]))
    owners = [Owner(cache) for _ in range(4)]
    cache.count_tails(chance.randrange(2))
    waiting: list[tuple[Owner, int]] = []
    held = []
    for offset in range(0, 1500 * BLOCK, BLOCK):
        owner = chance.choice(owners)
        match chance.randrange(8):
            case 0 | 1 | 2 | 3:
                if cache.free_bytes >= BLOCK:
                    waiting.append((owner, owner.put(offset, BLOCK, stored=False)))
            case 4 | 5:
                for stored_owner, block in waiting[: chance.randrange(12)]:
                    if block in stored_owner.extents.values():
                        cache.set_stored(block)
                del waiting[: len(waiting) // 2]
            case 6:
                owner.put_history(offset, BLOCK)
            case _:
                lent = cache.lend(2 * BLOCK)
                if lent is not None:
                    held.append(lent[0])
                if held and chance.randrange(2):
                    cache.release_lent(held.pop())
        cache.check()
        assert cache.statistics().arena_bytes <= 48 * BLOCK
