"""Containers whose frames could hold more than the cache they share: they slow down instead of ending."""

import asyncio

import pytest

from headrace.limits import MIB
from tests.unit.segmentstore.container.container_bench import HeldWal, append, read_all, until
from tests.unit.segmentstore.container.test_replay_turns import Process


@pytest.mark.slow
async def test_a_burst_that_the_cache_has_no_room_for_waits_before_it_is_accepted():
    process = Process(cache_bytes=16 * MIB, stores=True)
    containers = [process.make(number, HeldWal) for number in range(8)]
    for number, container in enumerate(containers):
        await container.start()
        await container.create(f"s/{number}", {})
        container.log._wal.held = True
    appends = [
        asyncio.ensure_future(append(container, f"s/{number}", bytes([turn]) * 200_000))
        for turn in range(25)
        for number, container in enumerate(containers)
    ]
    segments = [container.find_segment(f"s/{number}") for number, container in enumerate(containers)]
    await until(lambda: all(segment.accepted_length for segment in segments))
    for container in containers:
        container.log._wal.go_on()
    await asyncio.gather(*appends)
    assert not process.failures
    for number, container in enumerate(containers):
        assert await read_all(container, f"s/{number}") == b"".join(bytes([n]) * 200_000 for n in range(25))
        await container.stop()
    process.cache.check()
