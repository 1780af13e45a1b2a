"""The system gives no further memory to the cache before its bound: it makes do with what it has."""

from __future__ import annotations

import errno
import mmap

import pytest

from headrace.segmentstore.readindex.cache import extent_memory
from tests.unit.segmentstore.readindex.world import BLOCK, World, pattern, settle, small_cache

ARENA = 64 * BLOCK


@pytest.fixture
def arenas(monkeypatch):
    """How many arenas the system gives from now on."""
    left = [1]
    make = extent_memory._map

    def give(size_bytes: int) -> mmap.mmap:
        if not left[0]:
            raise OSError(errno.ENOMEM, "no memory")
        left[0] -= 1
        return make(size_bytes)

    monkeypatch.setattr(extent_memory, "_map", give)
    return left


def fill(world: World, blocks: int) -> None:
    """Have so many blocks of bytes in the cache that storage does not hold."""
    segment = world.create("unstored")
    for _ in range(blocks):
        world.append(segment, BLOCK)


async def test_a_read_whose_bytes_cannot_be_kept_is_answered_and_gives_its_memory_back(arenas):
    world = World(small_cache(256, history_share_max=0.5))
    fill(world, 48)
    segment = world.create_stored("s", 64 * BLOCK)
    world.storage.warm_bytes = 64 * BLOCK
    result = world.index.read_nowait(segment, 0, 10 * BLOCK)  # less than what is read at once: that is kept
    assert result is not None
    data = result.to_bytes()
    assert 0 < len(data) <= 10 * BLOCK
    assert data == pattern(0, len(data))
    assert world.cache.statistics().lent_bytes == 0
    world.check()
    await world.close()
    assert world.cache.statistics().used_bytes == 0


async def test_a_fetch_whose_bytes_cannot_be_kept_answers_its_reader_and_ends_nobody(arenas):
    world = World(small_cache(256))
    fill(world, 64)
    segment = world.create_stored("s", 4 * BLOCK)
    assert await world.read(segment, 0, BLOCK) == pattern(0, BLOCK)
    await settle()
    assert world.task_failures == []
    world.check()
    await world.close()


async def test_an_append_takes_the_place_of_what_is_stored(arenas):
    world = World(small_cache(256))
    old, segment = world.create("old"), world.create("s")
    world.append(old, 64 * BLOCK)
    world.store(old)
    world.append(segment, 20 * BLOCK)
    assert await world.read_exactly(segment, 0, 20 * BLOCK) == pattern(0, 20 * BLOCK)
    world.check()
    await world.close()


async def test_an_append_that_finds_no_room_leaves_nothing_behind(arenas):
    world = World(small_cache(256))
    fill(world, 60)
    segment = world.create("s")
    with pytest.raises(MemoryError):
        world.append(segment, 20 * BLOCK)
    world.cache.check()
    await world.close()
    assert world.cache.statistics().used_bytes == 0


async def test_memory_that_the_system_gives_later_is_used_then(arenas):
    world = World(small_cache(256))
    fill(world, 64)
    segment = world.create("s")
    with pytest.raises(MemoryError):
        world.index.append(segment, 0, memoryview(pattern(0, BLOCK)))
    arenas[0] = 1
    world.append(segment, BLOCK)
    assert world.cache.statistics().arena_bytes == 2 * ARENA
    await world.close()
