from __future__ import annotations

import asyncio

import pytest

from headrace.errors import ClosedError, ContainerOfflineError, StorageReadError
from headrace.limits import MIB
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.readindex.segment_index import SegmentIndex, UnstoredBytes
from headrace.segmentstore.readindex.storage_fetches import StorageFetches
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.testing.simulation import simulate
from tests.unit.segmentstore.readindex.world import FakeStorage, pattern, settle


class Setting:
    """One segment of 16 MiB in storage, and the fetches of its container."""

    def __init__(self, fetches_max: int = 16) -> None:
        self.storage = FakeStorage()
        self.supervisor = Supervisor("test")
        self.fetches = StorageFetches(self.storage, self.supervisor, fetches_max, 30.0)
        cache = BlockCache(CacheConfig(bytes_max=128 * MIB))
        state = SegmentState(1, "s", stored_length=16 * MIB, durable_length=16 * MIB)
        self.index = SegmentIndex(state, cache, UnstoredBytes())
        self.storage.segments[state.storage_name] = bytearray(pattern(0, 16 * MIB))

    def ranges(self) -> list[tuple[int, int]]:
        return sorted((offset, offset + length) for _, offset, length in self.storage.reads)


async def test_reading_ahead_goes_in_pieces_and_stops_at_what_is_stored():
    setting = Setting()
    setting.fetches.fetch_ahead(setting.index, 14 * MIB + 5, 20 * MIB)
    await settle()
    assert setting.ranges() == [(14 * MIB + 5, 15 * MIB), (15 * MIB, 16 * MIB)]


async def test_reading_ahead_leaves_out_what_is_cached_or_on_its_way():
    setting = Setting()
    setting.index.insert_history(2 * MIB, memoryview(pattern(2 * MIB, 1000)))
    setting.storage.stall()
    foreground = asyncio.ensure_future(setting.fetches.fetch(setting.index, 3 * MIB + 500, 4 * MIB))
    await settle()
    setting.fetches.fetch_ahead(setting.index, 2 * MIB, 5 * MIB)
    setting.fetches.check()
    await settle()
    assert setting.ranges() == [
        (2 * MIB + 1000, 3 * MIB),
        (3 * MIB, 3 * MIB + 500),
        (3 * MIB + 500, 4 * MIB),
        (4 * MIB, 5 * MIB),
    ]
    setting.storage.resume()
    assert await foreground == pattern(3 * MIB + 500, MIB - 500)
    await settle()
    setting.index.check()
    assert setting.index.covered_until(2 * MIB, 8 * MIB) == 5 * MIB


async def test_reading_ahead_takes_half_of_the_places_and_none_while_readers_wait_for_one():
    setting = Setting(fetches_max=4)
    setting.storage.stall()
    setting.fetches.fetch_ahead(setting.index, 0, 16 * MIB)
    await settle()
    assert setting.ranges() == [(0, MIB), (MIB, 2 * MIB)]
    readers = [
        asyncio.ensure_future(setting.fetches.fetch(setting.index, offset * MIB, offset * MIB + 10))
        for offset in (5, 6, 7)
    ]
    await settle()
    assert setting.fetches.statistics.queued == 1
    setting.storage.resume()
    await asyncio.gather(*readers)
    await settle()
    setting.storage.stall()
    setting.fetches.fetch_ahead(setting.index, 8 * MIB, 16 * MIB)
    await settle()
    assert setting.ranges()[-2:] == [(8 * MIB, 9 * MIB), (9 * MIB, 10 * MIB)]
    setting.storage.resume()
    await settle()


async def test_nothing_is_read_ahead_while_readers_wait_for_a_place():
    setting = Setting(fetches_max=2)
    setting.storage.stall()
    readers = [
        asyncio.ensure_future(setting.fetches.fetch(setting.index, offset * MIB, offset * MIB + 10))
        for offset in range(3)
    ]
    await settle()
    setting.fetches.fetch_ahead(setting.index, 8 * MIB, 16 * MIB)
    assert setting.fetches.statistics.ahead_reads == 0
    setting.storage.resume()
    await asyncio.gather(*readers)


async def test_a_spawner_that_is_stopped_leaves_nothing_behind():
    setting = Setting()
    await setting.supervisor.stop()
    with pytest.raises(ClosedError):
        await setting.fetches.fetch(setting.index, 0, 10)
    setting.fetches.check()
    assert not setting.fetches._pending


async def test_stopping_the_spawner_ends_who_waits():
    setting = Setting()
    setting.storage.stall()
    reader = asyncio.ensure_future(setting.fetches.fetch(setting.index, 0, 10))
    await settle()
    await setting.supervisor.stop()
    with pytest.raises(ContainerOfflineError):
        await reader
    assert setting.fetches.statistics.in_flight == 0


async def test_what_arrives_after_its_segment_left_is_thrown_away():
    setting = Setting()
    setting.storage.stall()
    reader = asyncio.ensure_future(setting.fetches.fetch(setting.index, 0, 10))
    await settle()
    setting.fetches.forget(setting.index, ContainerOfflineError("gone"))
    with pytest.raises(ContainerOfflineError):
        await reader
    setting.storage.resume()
    await settle()
    assert setting.index.entries.count == 0
    assert setting.supervisor.statistics().failed == 0


def test_waiting_for_a_place_and_reading_take_no_longer_than_their_limit_together():
    async def ask_all(_):
        setting = Setting(fetches_max=2)
        setting.storage.stall()
        time = asyncio.get_running_loop().time
        begun_s = time()

        async def ask(offset):
            with pytest.raises(StorageReadError):
                await setting.fetches.fetch(setting.index, offset, offset + 10)
            return time() - begun_s

        assert max(await asyncio.gather(*[ask(number * MIB) for number in range(10)])) < 30.1
        statistics = setting.fetches.statistics
        assert (statistics.queued, statistics.in_flight, statistics.failures) == (0, 0, 10)
        setting.storage.resume()
        assert await setting.fetches.fetch(setting.index, 5, 6) == pattern(5, 1)

    simulate(0, ask_all)


def test_a_read_that_got_no_place_says_nothing_about_what_storage_can_answer():
    async def wait_in_vain(_):
        setting = Setting(fetches_max=1)
        await setting.fetches._slots.acquire()
        with pytest.raises(StorageReadError, match="no slot"):
            await setting.fetches.fetch(setting.index, 0, MIB)
        setting.fetches._slots.release()
        assert setting.storage.reads == []
        assert await setting.fetches.fetch(setting.index, 0, MIB) == pattern(0, MIB)

    simulate(0, wait_in_vain)
