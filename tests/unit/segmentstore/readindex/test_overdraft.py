"""What was accepted finds room in the cache, however full it is by then; nobody accepts more meanwhile."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.segmentstore.readindex.cache.extent_memory import ExtentMemory
from tests.effort import examples
from tests.unit.segmentstore.readindex.world import BLOCK, World, pattern, small_cache

BLOCKS = 512


def crowd(cache, count: int, *, accepted_blocks: int = 0) -> list[World]:
    return [World(cache, accepted_bytes_max=accepted_blocks * BLOCK) for _ in range(count)]


def fill_up(worlds: list[World], count: int) -> None:
    """Append to one segment of each, in turn, while the gates are open."""
    backlogs = [world.create("backlog") for world in worlds]
    for _ in range(count):
        for world, backlog in zip(worlds, backlogs, strict=True):
            if world.has_free_capacity:
                world.append(backlog, BLOCK)


async def end(cache, worlds: list[World]) -> None:
    for world in worlds:
        assert not world.in_flight
        world.check()
    assert cache.set_aside_bytes == 0
    for world in worlds:
        await world.close()
    assert cache.free_bytes == cache.policy.blocks_max * BLOCK


async def test_appends_to_many_segments_find_room_beyond_the_bound_and_are_read():
    """Each takes up to a block more than its bytes, of which the gates know nothing."""
    cache = small_cache(BLOCKS)
    worlds = crowd(cache, 3, accepted_blocks=20)
    segments = [(world, world.create(f"s{number}")) for world in worlds for number in range(200)]
    for world, segment in segments:
        assert world.accept(segment, 100)
    fill_up(crowd(cache, 4), BLOCKS)
    for world in worlds:
        world.apply()
    assert 0 < cache.statistics().overdrawn_bytes <= len(segments) * BLOCK
    for world, segment in segments[::20]:
        assert await world.read_exactly(segment, 0, 100) == pattern(0, 100)
    for world in worlds:
        world.check()
    cache.check()


async def test_nobody_accepts_while_the_cache_is_overdrawn_but_who_has_nothing():
    cache = small_cache(64)
    world, other, idle = crowd(cache, 3, accepted_blocks=4)
    segment = world.create("s")
    assert other.accept(other.create("t"), BLOCK)
    for number in range(70):
        world.append(world.create(f"s{number}"), 1)
    assert cache.statistics().overdrawn_bytes
    assert not world.accept(segment, 1)
    assert not other.accept(other.create("u"), 1), "it has something on its way"
    assert idle.accept(idle.create("v"), 1)
    other.apply()
    idle.apply()
    for known in list(world.bytes):
        world.store(known)
    assert world.accept(segment, 1)
    world.apply()
    await end(cache, [world, other, idle])


@pytest.mark.slow
async def test_what_was_overdrawn_is_used_again_and_not_overdrawn_twice():
    cache = small_cache(64)
    world = World(cache)
    segments = [world.create(f"s{number}") for number in range(100)]
    overdrawn = []
    for _ in range(80):
        for segment in segments:
            world.append(segment, BLOCK)
        overdrawn.append(cache.statistics().overdrawn_bytes)
        for segment in segments:
            world.store(segment)
    assert overdrawn[-1] <= overdrawn[60] <= (2 * len(segments) - 64) * BLOCK
    await end(cache, [world])


@pytest.mark.parametrize("spare", ["enough", "too little"])
async def test_a_merged_segment_is_copied_only_if_there_is_a_block_for_it(spare):
    cache = small_cache(64)
    world = World(cache)
    target, source = world.create("t"), world.create("x")
    world.append(source, 100)
    world.append(world.create("backlog"), 48 * BLOCK)
    world.index.set_aside(cache.spare_bytes - (100 if spare == "too little" else BLOCK + 100))
    room = cache.free_bytes
    world.begin_merge(target, source)
    assert room - cache.free_bytes == (0 if spare == "too little" else BLOCK)
    assert await world.read_exactly(target, 0, 100) == pattern(0, 100)


async def test_no_memory_of_the_system_for_what_is_durable_is_an_error(monkeypatch):
    cache = small_cache(16)
    world = World(cache)
    world.append(world.create("full"), 16 * BLOCK)
    monkeypatch.setattr(ExtentMemory, "add_blocks", lambda *_: False)
    with pytest.raises(MemoryError, match="no memory"):
        world.append(world.create("more"), 1)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([64, 512]))
async def test_what_is_accepted_within_the_gates_is_applied_whatever_readers_hold(seed, containers, blocks):
    chance = random.Random(seed)
    cache = small_cache(blocks)
    worlds = crowd(cache, containers, accepted_blocks=blocks // 4)
    segments = [(world, world.create(f"s{number}")) for world in worlds for number in range(20)]
    held = []
    appends = 0
    for _ in range(300):
        world, segment = chance.choice(segments)
        match chance.randrange(5):
            case 0 | 1:
                if world.accept(segment, chance.choice([1, 100, BLOCK, 3 * BLOCK + 1])):
                    appends += 1
            case 2:
                world.apply(chance.randrange(4))
            case 3:
                if chance.random() < 0.5:
                    world.store(segment)
                elif segment.durable_length:
                    result = world.index.read_nowait(segment, 0, 32 * BLOCK)
                    if result is not None:
                        held.append(result)
            case 4 if held:
                held.pop(chance.randrange(len(held))).release()
        cache.check()
    for world in worlds:
        world.apply()
        world.check()
    assert cache.statistics().overdrawn_bytes <= appends * BLOCK + containers * (blocks // 4 + 4) * BLOCK
    for result in held:
        result.release()
    for world, segment in segments:
        length = segment.durable_length
        if length:
            assert await world.read_exactly(segment, 0, length) == pattern(0, length)
    await end(cache, worlds)
