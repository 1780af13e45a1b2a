"""A log that goes on in a file of its own, so that all before it can be dropped."""

import errno

import pytest

from headrace.wal.file.segment_format import parse_name
from tests.unit.wal.world import (
    DIRECTORY,
    History,
    Machine,
    MortalFilesystem,
    SimulatedFilesystem,
    append_some,
    read_all,
)


def contents(start, count):
    return [b"%05d" % number for number in range(start, start + count)]


def used_files(wal):
    return [file.number for file in wal._log.commit.used_files]


def test_what_is_appended_next_lies_in_a_file_of_its_own_and_the_rest_can_be_dropped():
    machine, history = Machine(), History()

    async def scenario():
        for size in (0, 1, 3, 7):
            wal = await machine.open()
            history.check(await read_all(wal))
            history.adopt([])
            begin = len(history.submitted)
            await append_some(wal, history, contents(begin, size))
            for _ in range(2):  # once more changes nothing
                await wal.separate()
            await append_some(wal, history, contents(begin + size, 1))
            last = max(history.acknowledged)
            assert len(used_files(wal)) == 1 + -(-size // 5)
            history.truncation_asked = last
            await wal.truncate(last)
            history.truncation_done = last
            assert len(used_files(wal)) == 1
            assert wal.statistics().log_bytes == 4096
            wal.check()
            await wal.close()

    machine.run(scenario())


def test_where_there_is_no_room_for_a_file_the_log_goes_on_in_this_one():
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 1))
        fault = machine.disk.fail("ftruncate", "pwrite", error=errno.ENOSPC, path=".draft", count=1000)
        await wal.separate()
        await append_some(wal, history, contents(1, 2))
        assert len(used_files(wal)) == 1
        assert not history.errors
        machine.disk.heal()
        del fault
        await wal.separate()
        await append_some(wal, history, contents(3, 1))
        assert len(used_files(wal)) == 2
        await wal.close()
        await wal.close()

    machine.run(scenario())


def test_it_returns_although_the_log_ends_meanwhile():
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 1))
        successor = await machine.open()
        await wal.separate()
        await wal.close()
        await wal.separate()
        history.check(await read_all(successor))
        await successor.close()

    machine.run(scenario())


class Mortal(MortalFilesystem):
    def call_at_death(self, end):
        self.on_death = end


@pytest.mark.slow
def test_a_process_killed_at_any_call_of_it_loses_nothing():
    calls = 0
    while True:
        calls += 1
        machine, history = Machine(), History()
        mortal = Mortal(machine.disk, 10**9)

        async def scenario(machine=machine, history=history, mortal=mortal, calls=calls):
            wal = machine.make_wal(filesystem=mortal)
            await wal.open()
            await append_some(wal, history, contents(0, 3))
            mortal.last_call = mortal.calls + calls
            await wal.separate()
            await append_some(wal, history, contents(3, 1))
            history.truncation_asked = 4
            await wal.truncate(4)
            await append_some(wal, history, contents(4, 1))

        died = machine.run_until(scenario(), mortal.call_at_death)
        machine.processes[-1].kill()

        async def prove(machine=machine, history=history):
            for _ in range(2):
                wal = await machine.open()
                history.check(await read_all(wal))
                await wal.close()

        machine.run(prove())
        if not died:
            break
    assert calls > 10
    files = SimulatedFilesystem(machine.disk)
    assert len([name for name in files.listdir(DIRECTORY) if parse_name(name)]) <= 2
