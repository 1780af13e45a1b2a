"""Whatever address a log is truncated at, only records go that are durable."""

import asyncio

import pytest

from tests.unit.wal.world import History, Machine, append_some, read_all


def contents(start, count):
    return [b"%05d" % number for number in range(start, start + count)]


@pytest.mark.parametrize("beyond", [1, 2, 1_000_000])
def test_a_log_truncated_beyond_its_end_goes_on_where_it_ended(beyond):
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 7))
        await wal.truncate(max(history.acknowledged) + beyond)
        await append_some(wal, history, contents(7, 3))
        await wal.close()
        again = await machine.open()
        assert read_all(again) == [(8 + number, content) for number, content in enumerate(contents(7, 3))]
        await again.close()

    machine.run(scenario())
    assert history.errors == []


def test_a_record_that_is_in_flight_is_not_truncated():
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 3))
        appending = asyncio.ensure_future(append_some(wal, history, contents(3, 4)))
        await asyncio.sleep(0)
        assert max(history.submitted) > max(history.acknowledged) == 3
        await wal.truncate(1000)
        await appending
        await wal.close()
        again = await machine.open()
        assert read_all(again) == list(history.acknowledged.items())[3:]
        await again.close()

    machine.run(scenario())
    assert history.errors == []
