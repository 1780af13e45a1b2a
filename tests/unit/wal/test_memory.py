import asyncio

import pytest

from headrace.errors import StorageFullError
from headrace.wal.memory import MemoryLogStore, MemoryWal
from tests.unit.wal.world import History, append_some, read_all


def contents(count):
    return [b"%05d" % number + bytes(95) for number in range(count)]


async def test_the_store_is_bounded_and_truncation_makes_room():
    store, history = MemoryLogStore(bytes_max=1000), History()
    wal = MemoryWal(store, "log")
    await wal.open()
    appending = asyncio.ensure_future(append_some(wal, history, contents(14)))
    while not wal.statistics().space_waiting:  # noqa: ASYNC110 - a gauge tells nobody
        await asyncio.sleep(0)
    assert len(history.acknowledged) == 10
    await wal.truncate(9)
    assert store.bytes_used == 200
    await appending
    assert history.errors == []
    assert store.bytes_used == 600
    again = MemoryWal(store, "log")
    await again.open()
    assert [address for address, _ in await read_all(again)] == [9, 10, 11, 12, 13, 14]
    again.stop_waiting()
    await append_some(again, history, contents(8))
    assert [type(error) for error in history.errors] == [StorageFullError] * 4
    again.check()


async def test_logs_of_one_store_do_not_meet():
    store, history = MemoryLogStore(), History()
    one, two = MemoryWal(store, "one"), MemoryWal(store, "two")
    await one.open()
    await two.open()
    await append_some(one, history, contents(3))
    again = MemoryWal(store, "two")
    await again.open()
    assert await read_all(again) == []
    await append_some(one, history, contents(3))
    assert history.errors == []


@pytest.mark.slow
async def test_ten_thousand_records_survive_their_owner():
    store, history = MemoryLogStore(), History()
    wal = MemoryWal(store, "log")
    await wal.open()
    await append_some(wal, history, contents(10_000))
    again = MemoryWal(store, "log")
    await again.open()
    assert [content for _, content in await read_all(again)] == contents(10_000)
