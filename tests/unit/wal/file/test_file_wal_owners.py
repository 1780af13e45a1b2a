"""Several owners at the same log at the same time: whatever the interleaving, one acknowledges and nothing is
lost.
"""

import asyncio

import pytest

from headrace.errors import FencedOutError
from headrace.testing.disk import DiskConfig
from tests.unit.wal.world import Machine, MeddledFilesystem, read_all


class Contest:
    """What all owners did to one log, and the rules."""

    def __init__(self, machine):
        self.machine = machine
        self.newest_opened = 0
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
            self.newest_opened = max(self.newest_opened, wal.epoch)
            records = self.found[wal.epoch] = dict(read_all(wal))
        except FencedOutError:
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
                    assert self.newest_opened >= wal.epoch
        while waiting:
            await answered.acquire()
            waiting -= 1
        await wal.close()

    async def check_end(self):
        wal = await self.machine.open()
        records = read_all(wal)
        await wal.close()
        found = dict(records)
        assert (
            [address for address, _ in records] == list(range(min(found), max(found) + 1)) if found else True
        )
        for address, (_, content) in self.acknowledged.items():
            assert found.get(address) == content or address < self.truncation_asked, (address, content)
        for address, content in found.items():
            assert content in self.submitted[address]


@pytest.mark.parametrize("seed", range(40))
def test_owners_that_interleave_at_random_lose_nothing_and_acknowledge_nothing_a_successor_lacks(seed):
    machine = Machine(seed, DiskConfig(direct=seed % 4 != 0))
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
