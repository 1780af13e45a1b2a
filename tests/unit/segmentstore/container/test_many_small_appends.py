"""Appends to very many segments fit into a log frame; durable, each takes a block of the cache."""

import asyncio

import pytest

from headrace.limits import MIB
from headrace.model.attributes import ATTRIBUTE_NULL
from tests.unit.segmentstore.container.container_bench import Bench, HeldWal, Owner, read_all, until

SEGMENTS = 1500
BYTES = b"x" * 100


async def start(bench):
    """A container whose cache has fewer blocks than it has segments."""
    container = await bench.start()
    for first in range(0, SEGMENTS, 500):
        await asyncio.gather(*(container.create(f"s/{n}", {}) for n in range(first, first + 500)))
    return container


def make_bench():
    bench = Bench(active_segments_max=2 * SEGMENTS)
    bench.cache_bytes = 4 * MIB
    wals = []

    def make_wal(*args):
        wals.append(HeldWal(*args))
        return wals[-1]

    bench.make_wal = make_wal
    return bench, wals


@pytest.mark.slow
async def test_appends_to_more_segments_than_the_cache_has_blocks_end_nothing():
    bench, wals = make_bench()
    container = await start(bench)
    waiting = [(f"s/{number}", Owner(number + 1)) for number in range(SEGMENTS)]
    owners = [owner for _, owner in waiting]
    while waiting:
        wals[-1].held = True  # a disk that has a bad moment: nothing is applied, and the cache looks empty
        burst = 0
        while waiting and container.append_target(waiting[-1][0]).can_accept(len(BYTES)):
            name, owner = waiting.pop()
            container.append_target(name).append_block(
                owner,
                [BYTES],
                len(BYTES),
                previous_event_number=ATTRIBUTE_NULL,
                last_event_number=1,
                event_count=1,
                request_id=1,
            )
            burst += 1
        container.append_target("s/0").end_of_read()
        await asyncio.sleep(0)
        wals[-1].go_on()
        assert burst
        more = waiting[-1][0] if waiting else "s/0"
        await until(lambda name=more: bench.failures or container.append_target(name).can_accept(len(BYTES)))
        assert not bench.failures
    await until(lambda: all(owner.acks for owner in owners))
    assert not bench.failures
    container.check()
    again = await bench.start()
    for number in (0, 1, SEGMENTS // 2, SEGMENTS - 1):
        assert await read_all(again, f"s/{number}") == BYTES
    await bench.stop()


@pytest.mark.slow
async def test_requests_that_append_are_counted_too():
    """Updates of tables are appends that come as requests."""
    bench, wals = make_bench()
    container = await start(bench)
    wals[-1].held = True
    appends = []
    for number in range(SEGMENTS):
        segment = container.find_segment(f"s/{number}")
        appends.append(asyncio.ensure_future(container.append(segment, BYTES)))
    await asyncio.sleep(0)
    wals[-1].go_on()
    assert await asyncio.gather(*appends) == [0] * SEGMENTS
    assert not bench.failures
    container.check()
    await bench.stop()
