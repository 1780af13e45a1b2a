"""How often the storage writer asks the memory log."""

import asyncio
import dataclasses

from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.testing.simulation import simulate
from tests.simulation.worlds.writer_world import WriterWorld

LATE = StorageWriterConfig(flush_age_s=600.0, take_operations_max=10, take_interval_s=0.01)


def takes(appends, *, pause_s, pressure=0.0, config=LATE):
    """Return how many operations each take of a running writer brought, while appends come one by one."""

    async def scenario(_):
        world = WriterWorld(writer_config=config)
        world.read_index.pressure = pressure
        honest, found = world.memory_log.take, []

        async def take(count_max, timeout_s):
            operations = await honest(count_max, timeout_s)
            if operations:
                found.append(len(operations))
            return operations

        world.memory_log.take = take
        writer = asyncio.ensure_future(world.writer.run())
        await asyncio.sleep(0.001)
        for _ in range(appends):
            world.append("s", b"event")
            if pause_s:
                await asyncio.sleep(pause_s)
        await asyncio.sleep(0.1)
        writer.cancel()
        await asyncio.wait([writer])
        assert sum(found) == appends
        return found

    return simulate(1, scenario).value


def test_the_first_append_is_taken_at_once_and_those_behind_it_together():
    assert takes(40, pause_s=0.002)[:3] == [1, 5, 5]


def test_nobody_waits_who_could_have_taken_more():
    assert takes(35, pause_s=0) == [10, 10, 10, 5]


def test_there_is_no_pause_while_the_cache_runs_out():
    assert takes(40, pause_s=0.002, pressure=1.0) == [1] * 40


def test_a_pause_of_nothing_is_none():
    config = dataclasses.replace(LATE, take_interval_s=0.0)
    assert takes(40, pause_s=0.002, config=config) == [1] * 40
