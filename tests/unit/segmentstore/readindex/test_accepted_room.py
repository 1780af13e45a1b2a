"""What was accepted finds room in the cache, however many blocks it takes beyond its bytes.

Containers accept what their gates allow; then others fill the cache up, and what was accepted is applied.
"""

from __future__ import annotations

import pytest

from headrace.segmentstore.readindex.segment_index import SLACK_BYTES
from tests.unit.segmentstore.readindex.world import BLOCK, World, pattern, small_cache

BLOCKS = 4096


def crowd(cache, count: int, *, accepted_blocks: int = 0) -> list[World]:
    return [World(cache, accepted_bytes_max=accepted_blocks * BLOCK) for _ in range(count)]


def fill_up(worlds: list[World], blocks: list[int]) -> None:
    """Append to one segment of each, in turn, while the gates are open."""
    backlogs = [world.create("backlog") for world in worlds]
    for count in blocks:
        for world, backlog in zip(worlds, backlogs, strict=True):
            if world.has_room:
                world.append(backlog, count * BLOCK)


async def end(cache, worlds: list[World]) -> None:
    for world in worlds:
        assert not world.in_flight
        world.check()
    assert cache.expected_bytes == 0
    for world in worlds:
        await world.close()


@pytest.mark.parametrize("at_once", [True, False], ids=["one frame", "frame by frame"])
@pytest.mark.parametrize(
    "sizes", [[2 * BLOCK + 1], [BLOCK, BLOCK, 1]], ids=["one append each", "several each"]
)
async def test_appends_behind_unstored_bytes_find_room(at_once, sizes):
    """The last extents of many segments are full: what follows takes up to a block more than its bytes."""
    cache = small_cache(BLOCKS)
    worlds = crowd(cache, 9, accepted_blocks=201)
    segments = [(world, world.create(f"s{number}")) for world in worlds for number in range(100)]
    for world, segment in segments:
        assert world.accept(segment, BLOCK)
        world.apply()
    for size in sizes:
        for world, segment in segments:
            assert world.accept(segment, size)
    others = crowd(cache, 4)
    fill_up(others, [1] * BLOCKS)
    while any(world.in_flight for world in worlds):
        for world in worlds:
            world.apply(None if at_once else 50)
    for world, segment in segments[::50]:
        assert await world.read_exactly(segment, 0, 3 * BLOCK + 1) == pattern(0, 3 * BLOCK + 1)
    await end(cache, worlds + others)


async def test_appends_between_merges_find_room():
    """Behind the bytes of a source that is not copied an append begins an extent of its own."""
    cache = small_cache(BLOCKS)
    worlds = crowd(cache, 9, accepted_blocks=8)
    for number in range(20):
        for world in worlds:
            target = world.create(f"t{number}")
            world.append(target, BLOCK)
            sources = [world.create(f"t{number}#{name}") for name in range(5)]
            for source in sources:
                world.append(source, 5 * BLOCK)
                world.store(source)
            assert world.accept(target, 1)
            for source in sources:
                assert world.accept_merge(target, source)
                assert world.accept(target, 1)
    others = crowd(cache, 4)
    fill_up(others, [1] * BLOCKS)
    for world in worlds:
        world.apply()
    await end(cache, worlds + others)


async def test_extents_that_are_larger_than_their_appends_leave_what_was_accepted_alone():
    """While half of the cache is not essential yet, appends may lie in extents that they do not fill."""
    cache = small_cache(BLOCKS)
    world = World(cache, accepted_bytes_max=BLOCKS // 2 * BLOCK)
    count = 128
    for number in range(count):
        assert world.accept(world.create(f"s{number}"), 4 * BLOCK + 1)  # five blocks, of an extent of eight
    backlog = world.create("backlog")
    while world.accept(backlog, BLOCK):
        pass
    assert world.accept(backlog, BLOCK - count)
    others = crowd(cache, 50)
    fill_up(others, [8, 16, 16, 16])  # each a whole extent
    assert cache.spare_bytes < 20 * BLOCK
    assert not cache.policy.is_tight(cache.essential_blocks)
    world.apply()
    await end(cache, [world, *others])


@pytest.mark.parametrize("spare", ["enough", "too little"])
async def test_a_merged_segment_is_copied_only_if_there_is_a_block_for_it(spare):
    cache = small_cache(64)
    world = World(cache, accepted_bytes_max=0)
    target, source = world.create("t"), world.create("x")
    world.append(source, 100)
    world.append(world.create("backlog"), 48 * BLOCK)
    cache.join(cache.spare_bytes - (100 if spare == "too little" else BLOCK + 100))
    room = cache.room_bytes
    world.begin_merge(target, source)
    assert cache.spare_bytes > 0
    assert room - cache.room_bytes == (0 if spare == "too little" else BLOCK)
    assert await world.read_exactly(target, 0, 100) == pattern(0, 100)


@pytest.mark.parametrize("spare", ["enough", "too little"])
async def test_a_merged_segment_is_copied_behind_stored_bytes_only_if_there_is_room_for_their_extent(spare):
    """It goes on in the last extent, all of which is lost as room, and needs more beyond it."""
    cache = small_cache(64)
    world = World(cache, accepted_bytes_max=0)
    target, source = world.create("t"), world.create("x")
    world.append(target, 16 * BLOCK - 1)
    world.store(target)
    world.append(source, 2 * BLOCK)
    world.append(world.create("backlog"), 16 * BLOCK)
    cache.join(cache.spare_bytes - (16 + (0 if spare == "too little" else 3)) * BLOCK)
    room = cache.room_bytes
    world.begin_merge(target, source)
    assert cache.spare_bytes >= 0
    assert (room > cache.room_bytes) == (spare == "enough")
    assert await world.read_exactly(target, 16 * BLOCK - 1, 2 * BLOCK) == pattern(0, 2 * BLOCK)
    world.check()


async def test_what_is_expected_counts_until_the_last_append_of_a_segment_is_applied():
    cache = small_cache(64)
    world, other = crowd(cache, 2, accepted_blocks=8)
    segments = [world.create("a"), world.create("b")]
    for size in (1, 0, BLOCK):
        for segment in segments:
            assert world.accept(segment, size)
    assert cache.expected_bytes == 2 * BLOCK
    world.apply(4)
    assert cache.expected_bytes == 2 * BLOCK
    world.apply(1)
    assert cache.expected_bytes == BLOCK
    world.apply()
    assert cache.expected_bytes == 0
    assert world.index.unstored_bytes() == 2 * (1 + BLOCK + SLACK_BYTES)
    assert world.accept(segments[0], 1)
    assert other.accept(other.create(), 1)
    assert cache.expected_bytes == 2 * BLOCK
    await world.close()
    assert cache.expected_bytes == BLOCK
    other.apply()
    await end(cache, [other])


def accept_all(world: World, size: int) -> int:
    """Accept appends to one segment while the gate is open; answer their bytes."""
    segment, before = world.create(), world.accepted_bytes
    while world.accept(segment, size):
        pass
    return world.accepted_bytes - before


async def test_no_more_is_accepted_than_the_reserve_of_a_cache_that_is_small_for_all_frames():
    """Of each container the frames hold half of the cache: all together they may fill a quarter."""
    cache = small_cache(BLOCKS)
    worlds = crowd(cache, 8, accepted_blocks=BLOCKS // 2)
    assert cache.reserved_bytes == BLOCKS // 2 * BLOCK
    sizes = [accept_all(world, 10 * BLOCK) for world in worlds]
    assert BLOCKS // 4 * BLOCK <= sizes[0] <= (BLOCKS // 4 + 10) * BLOCK
    assert sizes[1:] == [10 * BLOCK] * 7, "who has nothing may begin, or it would never have its turn"
    others = crowd(cache, 4)
    fill_up(others, [1] * BLOCKS)
    for world in worlds:
        world.apply()
    await end(cache, worlds + others)


async def test_who_begins_leaves_room_too():
    cache = small_cache(BLOCKS)
    worlds = crowd(cache, 8, accepted_blocks=BLOCKS // 2)
    size = BLOCKS // 16 * BLOCK
    sizes = [accept_all(world, size) for world in worlds]
    assert sizes == [4 * size, size, size, 0, 0, 0, 0, 0]
    worlds[0].apply(1)
    assert not worlds[0].has_room
    assert [accept_all(world, size) for world in worlds] == [0, 0, 0, size, 0, 0, 0, 0]
    for world in worlds:
        world.apply()
    await end(cache, worlds)


async def test_the_last_container_that_made_the_reserve_too_small_takes_the_bound_along():
    cache = small_cache(BLOCKS)
    worlds = crowd(cache, 2, accepted_blocks=BLOCKS // 2)
    assert accept_all(worlds[0], BLOCK) == BLOCKS // 4 * BLOCK
    await worlds[1].close()
    accept_all(worlds[0], BLOCK)
    assert worlds[0].accepted_bytes == worlds[0].accepted_bytes_max
    worlds[0].apply()
    await end(cache, worlds[:1])


async def test_what_is_on_its_way_is_counted_once_for_many_appends():
    cache = small_cache(BLOCKS)
    (world,) = crowd(cache, 1, accepted_blocks=BLOCKS)
    counts = []
    world.index.set_accepted(lambda: counts.append(1) or world.accepted_bytes)
    segment = world.create()
    for _ in range(BLOCKS // 4):
        assert world.accept(segment, BLOCK)
    assert len(counts) <= 2
    world.apply()
    await end(cache, [world])
