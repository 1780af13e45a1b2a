"""A row of the catalogue that arrives when its segment is long gone and its name stands for another one."""

import asyncio

from headrace.segmentstore.container.retired_segments import RetiredSegments
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

A = "s/a"


class SlowFirstRead:
    """Reads of tables, of which the first answers late, as from a disk that stands still for a while."""

    def __init__(self, tables):
        self._get = tables.get
        self.calls = 0
        self.arrives = asyncio.Event()
        tables.get = self.table_get

    async def table_get(self, segment, keys):
        entries = await self._get(segment, keys)
        self.calls += 1
        if self.calls == 1:
            await self.arrives.wait()
        return entries


async def test_a_row_that_comes_late_does_not_bring_a_deleted_segment_back():
    bench = Bench()
    container = await bench.start()
    first = await container.create(A, {})
    await append(container, A, b"deleted")
    await bench.evict(A)
    await container.delete(await container.resolve(A))
    slow = SlowFirstRead(container.tables)
    late = asyncio.ensure_future(container.resolve(A))
    await until(lambda: slow.calls)
    await bench.evict()
    await until(lambda: first.segment_id not in container.state.by_id)
    second = await container.create(A, {})
    await container.append(second, b"acknowledged")
    await bench.evict(A)
    slow.arrives.set()
    await asyncio.gather(late, return_exceptions=True)
    assert await read_all(container, A) == b"acknowledged"
    assert (await container.resolve(A)).segment_id == second.segment_id
    container = await bench.start()
    assert await read_all(container, A) == b"acknowledged"
    await bench.stop()


async def test_nor_does_one_that_was_replaced_by_the_row_of_the_next_segment_of_its_name(monkeypatch):
    """The deleted segment is still in state when its successor is evicted, so its row is never removed."""
    bench = Bench()
    container = await bench.start()

    async def wait_for_storage(_):
        return False

    first = await container.create(A, {})
    await append(container, A, b"deleted")
    await bench.evict(A)
    forget = RetiredSegments.forget
    monkeypatch.setattr(RetiredSegments, "forget", wait_for_storage)
    await container.delete(await container.resolve(A))
    slow = SlowFirstRead(container.tables)
    late = asyncio.ensure_future(container.resolve(A))
    asked = asyncio.ensure_future(container.resolve(A))
    await until(lambda: slow.calls)
    second = await container.create(A, {})
    await container.append(second, b"acknowledged")
    await bench.evict(A)
    monkeypatch.setattr(RetiredSegments, "forget", forget)
    await container.log.write_checkpoint()
    await until(lambda: first.segment_id not in container.state.by_id)
    slow.arrives.set()
    for found in await asyncio.gather(late, asked):
        assert found.segment_id == second.segment_id
    assert await read_all(container, A) == b"acknowledged"
    container = await bench.start()
    assert await read_all(container, A) == b"acknowledged"
    await bench.stop()
