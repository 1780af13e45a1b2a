"""Several owners at the same log at the same time: whatever the interleaving, one acknowledges and nothing is
lost.
"""

import asyncio
import os

import pytest

from headrace.errors import DirectoryLockedError, FencedOutError
from headrace.testing.disk import DiskConfig
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.wal.file.owner_format import SLOT_BYTES, decode_owner
from headrace.wal.file.owner_record import OWNER_FILE
from headrace.wal.file.owner_wait import LOCK_WAIT_S
from tests.effort import seeds
from tests.unit.wal.world import (
    DIRECTORY,
    History,
    Machine,
    MeddledFilesystem,
    append_some,
    read_all,
)


class Contest:
    """What all owners did to one log, and the rules."""

    def __init__(self, machine):
        self.machine = machine
        self.found = {}
        self.acknowledged = {}
        self.submitted = {}
        self.truncation_asked = 0

    async def own(self, name, frames, delay):
        """Take the log, append until fenced or done, truncate now and then."""
        await asyncio.sleep(delay)
        wal = self.machine.make_wal(filesystem=MeddledFilesystem(self.machine))
        try:
            await wal.open()
            records = self.found[wal.epoch] = dict(await read_all(wal))
        except FencedOutError:
            assert self.newest_published() > wal.epoch, "it gave up to nobody"
            await wal.close()
            return
        for address, (epoch, content) in self.acknowledged.items():
            assert epoch != wal.epoch
            if epoch < wal.epoch:
                assert address in records or address < self.truncation_asked, (name, address)
                assert records.get(address, content) == content
        answered = asyncio.Semaphore(0)
        errors = []

        def done(frame, error):
            content = bytes(frame.view[: frame.length])
            if error is None:
                for epoch, found in self.found.items():  # an answer may be late, but only if it is true
                    assert epoch <= wal.epoch or found.get(frame.address) == content, "a successor lacks it"
                assert not errors, "an acknowledgement after an error"
                assert frame.address not in self.acknowledged, "two owners acknowledged one address"
                self.acknowledged[frame.address] = (wal.epoch, content)
            else:
                assert isinstance(error, FencedOutError), error
                errors.append(error)
            wal.release_frame(frame)
            wal.check()
            answered.release()

        waiting = 0
        for number in range(frames):
            while (frame := wal.acquire_frame()) is None:
                await answered.acquire()
                waiting -= 1
            content = b"%s-%d" % (name, number) + b"." * (number * 61 % 450)
            frame.view[: len(content)] = content
            frame.length = len(content)
            wal.append(frame, done)
            self.submitted.setdefault(frame.address, set()).add(content)
            waiting += 1
            if number % 7 == 6:
                address = max(self.acknowledged, default=1) - 2
                self.truncation_asked = max(self.truncation_asked, address)
                try:
                    await wal.truncate(address)
                except FencedOutError:
                    assert self.newest_published() > wal.epoch, "it gave up to nobody"
        while waiting:
            await answered.acquire()
            waiting -= 1
        await wal.close()

    def newest_published(self):
        content = self.machine.disk.find_file(f"{DIRECTORY}/{OWNER_FILE}").content
        slots = [decode_owner(memoryview(content)[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES)]
        return max(record.epoch for record in slots if record is not None)

    async def check_end(self):
        wal = await self.machine.open()
        records = await read_all(wal)
        await wal.close()
        found = dict(records)
        assert (
            [address for address, _ in records] == list(range(min(found), max(found) + 1)) if found else True
        )
        for address, (_, content) in self.acknowledged.items():
            assert found.get(address) == content or address < self.truncation_asked, (address, content)
        for address, content in found.items():
            assert content in self.submitted[address]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(48))
def test_owners_that_interleave_at_random_lose_nothing_and_acknowledge_nothing_a_successor_lacks(seed):
    machine = Machine(seed, DiskConfig(direct=seed % 4 != 0), loop_writes=seed % 3 == 0)
    contest = Contest(machine)
    draw = machine.entropy.fork("contest")

    async def compete():
        async with asyncio.TaskGroup() as group:
            for name in (b"one", b"two", b"three", b"four")[: 2 + seed % 3]:
                group.create_task(contest.own(name, 5 + draw.randbelow(25), draw.random() * 0.2))
        await contest.check_end()

    machine.run(compete())
    assert not machine.loop.failures
    leaked = [path for process in machine.processes for path in process.open_files]
    assert leaked == []


class Bystander:
    """A process that holds the lock of the owner file, and owns nothing."""

    def __init__(self, machine):
        self.files = SimulatedFilesystem(machine.disk)
        self.fd = -1

    def lock(self):
        self.fd = self.files.open(f"{DIRECTORY}/{OWNER_FILE}", os.O_RDWR)
        assert self.files.lock(self.fd)

    def unlock_later(self, delay_s):
        asyncio.get_running_loop().call_later(delay_s, self.files.close, self.fd)


class BusyFilesystem(SimulatedFilesystem):
    """A process that finds the lock taken by somebody else at its second try."""

    def __init__(self, machine, held_s):
        super().__init__(machine.disk)
        self.other = Bystander(machine)
        self.held_s = held_s
        self.locks = 0

    def lock(self, fd, **how):
        self.locks += 1
        if self.locks == 2:
            self.other.lock()
            self.other.unlock_later(self.held_s)
        return super().lock(fd, **how)


def test_an_opener_that_finds_the_lock_taken_waits_for_it_and_opens():
    machine = Machine()

    async def scenario():
        first = machine.make_wal(filesystem=(files := BusyFilesystem(machine, 0.8 * LOCK_WAIT_S)))
        began = machine.loop.time()
        await first.open()
        assert machine.loop.time() - began > 0.8 * LOCK_WAIT_S
        assert files.locks > 10
        await append_some(first, history := History(), [b"one", b"two"])
        assert not history.errors
        await first.close()
        again = await machine.open()
        history.check(await read_all(again))
        await again.close()

    machine.run(scenario())


@pytest.mark.slow
def test_an_opener_gives_up_a_lock_that_is_never_free_and_whoever_comes_next_finds_everything():
    machine = Machine()

    async def scenario():
        first = await machine.open()
        await append_some(first, history := History(), [b"one", b"two"])
        second = machine.make_wal(filesystem=BusyFilesystem(machine, 2 * LOCK_WAIT_S))
        with pytest.raises(FencedOutError, match="this process has not taken the log"):
            await second.open()
        await second.close()
        await asyncio.sleep(LOCK_WAIT_S)
        third = await machine.open()
        history.check(await read_all(third))
        await third.close()
        await first.close()

    machine.run(scenario())


def test_a_truncation_that_finds_the_lock_taken_waits_and_one_that_waits_in_vain_may_be_repeated():
    machine = Machine()

    async def scenario():
        wal = await machine.open()
        history = History()
        await append_some(wal, history, [bytes([65 + n]) * 400 for n in range(20)])
        bystander = Bystander(machine)
        for held_s, waits in ((0.8 * LOCK_WAIT_S, True), (2 * LOCK_WAIT_S, False)):
            bystander.lock()
            bystander.unlock_later(held_s)
            size = wal.statistics().log_bytes
            history.truncation_asked += 7
            if waits:
                await wal.truncate(history.truncation_asked)
            else:
                with pytest.raises(DirectoryLockedError):
                    await wal.truncate(history.truncation_asked)
                assert wal.statistics().log_bytes == size
                await append_some(wal, history, [b"still here"])
                await asyncio.sleep(LOCK_WAIT_S + 1)
                await wal.truncate(history.truncation_asked)
            assert wal.statistics().log_bytes < size
            history.truncation_done = history.truncation_asked
        await wal.close()
        assert not history.errors
        again = await machine.open()
        history.check(await read_all(again))
        await again.close()

    machine.run(scenario())


def test_appends_go_on_in_new_files_while_truncated_ones_cannot_be_recycled():
    machine = Machine()

    async def scenario():
        wal = await machine.open()
        history = History()
        await append_some(wal, history, [b"." * 400] * 20)
        history.truncation_asked = history.truncation_done = 18
        await wal.truncate(18)
        before = wal_files(machine)
        bystander = Bystander(machine)
        bystander.lock()
        await append_some(wal, history, [b":" * 400] * 40)
        assert not history.errors
        grown = wal_files(machine)
        assert before < grown, "none was recycled"
        bystander.files.close(bystander.fd)
        await append_some(wal, history, [b"-" * 400] * 30)
        assert not (before <= wal_files(machine)), "some were recycled"
        await wal.close()
        again = await machine.open()
        history.check(await read_all(again))
        await again.close()

    machine.run(scenario())
    leaked = [path for process in machine.processes for path in process.open_files]
    assert leaked == []


def wal_files(machine):
    return {name for name in SimulatedFilesystem(machine.disk).listdir(DIRECTORY) if name.endswith(".wal")}
