"""Whatever address a log is truncated at, only records go that are durable."""

import asyncio
import contextlib
import dataclasses
import errno
import os
import threading

import pytest

from headrace.errors import HeadraceError, WalWriteError
from headrace.runtime.filesystem import OsFilesystem
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.wal.config import BLOCK_BYTES
from headrace.wal.file import FileWal
from headrace.wal.file.log_snapshot import FileLogSnapshot
from headrace.wal.file.segment_format import DATA_OFFSET
from headrace.wal.record_format import RECORD_HEADER_BYTES
from tests.unit.wal.world import DIRECTORY, SMALL, History, Machine, append_some, read_all

NO_SPARES = dataclasses.replace(SMALL, spare_files_max=0)


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
        assert await read_all(again) == [
            (8 + number, content) for number, content in enumerate(contents(7, 3))
        ]
        await again.close()

    machine.run(scenario())
    assert history.errors == []


def test_reading_back_begins_at_the_truncation_point_however_much_of_its_file_lies_before_it():
    """It goes on on the loop, and what nobody needs has no turns."""
    machine, history, reads = Machine(), History(), []

    class Watched(SimulatedFilesystem):
        def pread_into(self, fd, buffer, offset):
            reads.append(offset)
            return super().pread_into(fd, buffer, offset)

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 4))
        await wal.truncate(4)
        await wal.close()
        again = machine.make_wal(filesystem=Watched(machine.disk))
        await again.open()
        reads.clear()
        assert await read_all(again) == [(4, b"00003")]
        assert min(reads) == DATA_OFFSET + 3 * BLOCK_BYTES
        await again.close()

    machine.run(scenario())


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
        assert await read_all(again) == list(history.acknowledged.items())[3:]
        await again.close()

    machine.run(scenario())
    assert history.errors == []


@pytest.mark.parametrize("spares", [0, 1, 2, 4])
def test_a_log_opens_after_all_was_truncated_and_the_first_record_behind_it_was_lost_in_flight(spares):
    """Some of the truncated files are kept, some removed: the log does not begin in those that are left."""
    machine, history = Machine(wal=dataclasses.replace(SMALL, spare_files_max=spares)), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 25))
        await asyncio.sleep(1)  # the next file is there
        appending = asyncio.ensure_future(append_some(wal, history, contents(25, 1)))
        await asyncio.sleep(0)
        assert wal._log.commit.used_files[-1].first_sequence == max(history.submitted) == 26
        machine.jobs = [job for job in machine.jobs if job.work is not wal._means.writers]  # it stands still
        history.truncation_asked = 1000
        await wal.truncate(1000)
        history.truncation_done = 26
        machine.processes[-1].kill()
        appending.cancel()
        again = await machine.open()
        assert await read_all(again) == []
        history.truncation_asked = 0
        await append_some(again, history, contents(26, 3))
        await again.close()
        third = await machine.open()
        assert await read_all(third) == [(26 + n, content) for n, content in enumerate(contents(26, 3))]
        await third.close()

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
        assert await read_all(again) == list(history.acknowledged.items())[7:]
        await again.close()

    machine.run(scenario())
    assert history.errors == []


class FailingFilesystem(SimulatedFilesystem):
    """One call fails: that of number ``fails_at``, counted from when it is set; without an effect, but for a
    ``close``."""

    fails_at = 0

    def _begin(self, operation, path, **fields):
        if self.fails_at:
            self.fails_at -= 1
            if self.fails_at == 0:
                raise OSError(errno.EIO, "input/output error")
        super()._begin(operation, path, **fields)

    def close(self, fd):
        fails, self.fails_at = self.fails_at == 1, max(0, self.fails_at - 1)
        after, self.fails_at = self.fails_at, 0
        super().close(fd)  # systems let go of it in any case
        self.fails_at = after
        if fails:
            raise OSError(errno.EIO, "input/output error")


async def rest_twice(wal, history, number):
    """Both marks of the file that is written are written again."""
    for more in range(2):
        await append_some(wal, history, contents(number + more, 1))
        await asyncio.sleep(3)


@pytest.mark.slow
@pytest.mark.parametrize("spares", [0, 2])
@pytest.mark.parametrize("call", range(1, 12))
def test_a_log_opens_whichever_call_of_a_truncation_failed_before_it_rested(call, spares):
    """Files may be gone already that only the mark of this truncation explains."""
    machine, history = Machine(wal=dataclasses.replace(SMALL, spare_files_max=spares)), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 12))  # files of an earlier owner are deleted in any case
        await wal.close()
        filesystem = FailingFilesystem(machine.disk)
        wal = machine.make_wal(filesystem=filesystem)
        await wal.open()
        await append_some(wal, history, contents(12, 12))
        await asyncio.sleep(3)
        history.truncation_asked = 20
        filesystem.fails_at = call
        with contextlib.suppress(HeadraceError):
            await wal.truncate(20)
        filesystem.fails_at = 0
        await rest_twice(wal, history, 24)
        await wal.close()
        again = await machine.open()
        history.check(await read_all(again))
        await again.truncate(22)
        await again.close()

    machine.run(scenario())
    assert history.errors == []


@pytest.mark.parametrize("after_s", [0.0, 0.0002, 0.0005, 0.001, 0.002])
def test_a_log_opens_after_rests_behind_a_truncation_that_nobody_waited_for(after_s):
    machine, history = Machine(wal=NO_SPARES), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 12))
        await asyncio.sleep(3)
        history.truncation_asked = 11
        truncating = asyncio.ensure_future(wal.truncate(11))
        await asyncio.sleep(after_s)
        truncating.cancel()
        await asyncio.wait([truncating])
        await rest_twice(wal, history, 12)
        await wal.close()
        again = await machine.open()
        history.check(await read_all(again))
        await again.close()

    machine.run(scenario())
    assert history.errors == []


class SlowMarks(OsFilesystem):
    """Marks wait before they are written, while ``gate`` is closed."""

    __slots__ = ("gate", "inside")

    def __init__(self):
        self.gate, self.inside = threading.Event(), threading.Event()
        self.gate.set()

    def pwrite(self, fd, data, offset):
        if offset in (4096, 8192) and len(data) == 4096 and not self.gate.is_set():
            self.inside.set()
            assert self.gate.wait(120)
        return super().pwrite(fd, data, offset)


async def test_a_rest_that_waited_behind_a_truncation_does_not_take_its_place(tmp_path):
    """The owner stops, so nobody waits for the truncation any more; what it does, it does."""
    filesystem, history = SlowMarks(), History()
    wal = FileWal(str(tmp_path / "log"), NO_SPARES, filesystem=filesystem)
    await wal.open()
    await append_some(wal, history, contents(0, 12))
    filesystem.gate.clear()
    history.truncation_asked = 11
    truncating = asyncio.ensure_future(wal.truncate(11))
    assert await asyncio.to_thread(filesystem.inside.wait, 120)
    marking = asyncio.ensure_future(wal._log.truncation.write_durable_mark())
    await asyncio.sleep(0)
    truncating.cancel()
    await asyncio.wait([truncating])
    await asyncio.sleep(0)
    filesystem.gate.set()
    await marking
    await wal.close()
    again = FileWal(str(tmp_path / "log"), NO_SPARES)
    await again.open()
    history.check(await read_all(again))
    await again.close()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_truncation_that_fails_says_that_its_outcome_is_unknown(error):
    """Also for lack of space: what the directory cannot store is gone all the same, or not."""
    machine, history = Machine(wal=NO_SPARES), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 12))
        machine.disk.fail("fsync_directory", error=error, count=1)
        with pytest.raises(WalWriteError):
            await wal.truncate(11)
        await wal.truncate(11)
        await wal.close()

    machine.run(scenario())
    assert history.errors == []


def test_a_log_goes_on_whose_damage_lies_below_its_truncation_point():
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 5))
        await wal.truncate(4)
        await wal.close()
        (path,) = [path for path, _ in machine.disk.files() if path.endswith("000000000001-000000000001.wal")]
        machine.disk.flip_bit(path, DATA_OFFSET + BLOCK_BYTES + RECORD_HEADER_BYTES)
        frames = [
            frame.address for frame in FileLogSnapshot(DIRECTORY, SimulatedFilesystem(machine.disk)).frames()
        ]
        assert frames == [4, 5]
        for expected in (4, 5, 6, 7):
            wal = await machine.open()
            assert await read_all(wal) == [(at, b"%05d" % (at - 1)) for at in range(expected, expected + 2)]
            await append_some(wal, history, contents(expected + 1, 1))
            await wal.truncate(expected + 1)
            await wal.close()

    machine.run(scenario())
    assert history.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("fails_at", range(1, 9))
def test_a_file_that_a_failed_truncation_removed_is_not_recycled(fails_at):
    """It was removed because there were spare ones; when the truncation is repeated there are none."""
    wal_config = dataclasses.replace(SMALL, spare_files_max=1, zero_ahead_bytes=0)
    machine, history = Machine(wal=wal_config), History()

    async def scenario():
        filesystem = FailingFilesystem(machine.disk)
        wal = machine.make_wal(filesystem=filesystem)
        await wal.open()
        await append_some(wal, history, contents(0, 16))
        await wal.truncate(6)  # the first file is the spare one from now on
        filesystem.fails_at = fails_at
        with contextlib.suppress(WalWriteError):
            await wal.truncate(11)
        filesystem.fails_at = 0
        await append_some(wal, history, contents(16, 4))  # the spare one becomes the next one
        await wal.truncate(11)
        await append_some(wal, history, contents(20, 80))
        await wal.close()

    machine.run(scenario())
    assert history.errors == []
