"""Asking for a segment that is not in memory, while somebody tries to create it."""

import asyncio

import pytest

from headrace.errors import SegmentExistsError
from headrace.storage.providers.memory import MemoryChunkProvider
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

A = "s/a"


class SlowChunks(MemoryChunkProvider):
    """Answers some turns of the loop later, as a disk does."""

    async def read(self, name, offset, length):
        for _ in range(5):
            await asyncio.sleep(0)
        return await super().read(name, offset, length)

    def read_at_once(self, name, offset, buffer):
        return 0


@pytest.fixture
async def bench():
    """A segment that is not in memory, and whose row of the catalogue is in chunks only."""
    bench = Bench()
    bench.chunks = SlowChunks()
    container = await bench.start()
    await container.create(A, {})
    await append(container, A, b"acknowledged")
    await bench.evict(A)
    begin = await container.log.write_checkpoint()
    await container.flush_storage()
    await until(lambda: container.log.truncated_sequence >= begin)
    await bench.start()
    assert A not in bench.container.state.by_name
    yield bench
    await bench.stop()


async def test_facts_about_an_inactive_segment_are_told_while_somebody_tries_to_create_it(bench):
    container = bench.container
    asked = asyncio.ensure_future(container.read_info(A))
    await asyncio.sleep(0)
    created = asyncio.ensure_future(container.create(A, {}))
    info, refused = await asyncio.gather(asked, created, return_exceptions=True)
    assert isinstance(refused, SegmentExistsError)
    assert not isinstance(info, Exception), f"the segment exists, but {info!r}"
    assert info.length == 12


async def test_an_inactive_segment_comes_back_while_somebody_tries_to_create_it(bench):
    container = bench.container
    get, slow, calls = container.tables.get, asyncio.Event(), []

    async def table_get(segment, keys):
        """The second one who reads the row has to wait for a slow disk."""
        entries = await get(segment, keys)
        calls.append(keys)
        if len(calls) == 2:
            await slow.wait()
        return entries

    container.tables.get = table_get
    asked = asyncio.ensure_future(container.resolve(A))
    await asyncio.sleep(0)
    created = asyncio.ensure_future(container.create(A, {}))
    [segment] = await asyncio.gather(asked, return_exceptions=True)
    slow.set()
    [refused] = await asyncio.gather(created, return_exceptions=True)
    assert isinstance(refused, SegmentExistsError)
    assert not isinstance(segment, Exception), f"the segment exists, but {segment!r}"
    assert await read_all(container, A) == b"acknowledged"
