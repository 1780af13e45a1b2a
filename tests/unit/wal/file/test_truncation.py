"""Whatever address a log is truncated at, only records go that are durable."""

import asyncio
import os

import pytest

from headrace.testing.filesystem import SimulatedFilesystem
from tests.unit.wal.world import DIRECTORY, History, Machine, append_some, read_all


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


def test_a_log_that_goes_on_while_the_lock_is_taken_is_marked_where_it_is_then():
    """The file that was written when the truncation began is full, and closed, when it may do its work."""
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 12))
        other = SimulatedFilesystem(machine.disk)
        lock = other.open(f"{DIRECTORY}/owner", os.O_RDWR)
        assert other.lock(lock)
        truncating = asyncio.ensure_future(wal.truncate(8))
        await asyncio.sleep(0.05)
        await append_some(wal, history, contents(12, 12))
        await asyncio.sleep(0.5)
        assert not truncating.done()
        other.close(lock)
        await truncating
        await wal.close()
        again = await machine.open()
        assert read_all(again) == list(history.acknowledged.items())[7:]
        await again.close()

    machine.run(scenario())
    assert history.errors == []
