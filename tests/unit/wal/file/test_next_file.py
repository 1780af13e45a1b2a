"""The next file of a log is made once, however often the owner file cannot name it."""

import asyncio
import errno

import pytest

from headrace.errors import StorageFullError, WalWriteError
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.wal.file.segment_files import SegmentFiles
from headrace.wal.file.segment_format import FileHead, is_draft_name, parse_name
from tests.unit.wal.world import DIRECTORY, History, Machine, append_some, read_all


def contents(start, count):
    return [b"%05d" % number for number in range(start, start + count)]


def file_names(machine):
    names = [path.rpartition("/")[2] for path, _ in machine.disk.files()]
    return [name for name in names if parse_name(name) or is_draft_name(name)]


async def hold_up(machine, wal, history):
    """Fill the files there are while the owner file takes nothing; return what waits for its answers."""
    machine.disk.fail("pwrite", error=errno.ENOSPC, path="/owner", count=1_000_000)
    appending = asyncio.ensure_future(append_some(wal, history, contents(len(history.submitted), 12)))
    await asyncio.sleep(10)
    assert wal.statistics().space_waiting == 1
    assert not appending.done()
    return appending


async def reopen(machine, history):
    wal = await machine.open()
    history.check(await read_all(wal))
    assert not any(is_draft_name(name) for name in file_names(machine))
    await wal.close()


@pytest.mark.slow
@pytest.mark.parametrize("truncated", [False, True])
def test_a_log_that_waits_to_name_its_next_file_makes_no_others(truncated):
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        if truncated:  # there is a file to recycle
            await append_some(wal, history, contents(0, 12))
            history.truncation_asked = 11
        appending = await hold_up(machine, wal, history)
        if truncated:
            await wal.truncate(11)
            history.truncation_done = 11
        names = file_names(machine)
        assert not any(is_draft_name(name) for name in names)
        await asyncio.sleep(60)
        assert file_names(machine) == names
        machine.disk.heal()
        await appending
        await append_some(wal, history, contents(30, 30))
        await wal.close()
        await reopen(machine, history)

    machine.run(scenario())
    assert history.errors == []
    assert all(process.open_files == [] for process in machine.processes)


def test_a_log_that_ends_while_it_waits_keeps_nothing_open():
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        appending = await hold_up(machine, wal, history)
        wal.stop_waiting()
        await appending
        await wal.close()
        assert {type(error) for error in history.errors} == {StorageFullError}
        machine.disk.heal()
        await reopen(machine, history)

    machine.run(scenario())
    assert all(process.open_files == [] for process in machine.processes)


def test_frames_that_wait_for_a_file_which_a_mistake_prevents_are_answered():
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()

        def refuse(*_args):
            raise MemoryError("no memory")

        wal._means.files.create = refuse
        await append_some(wal, history, contents(0, 12))
        assert {type(error) for error in history.errors} == {WalWriteError}
        await wal.close()
        history.errors.clear()
        await reopen(machine, history)

    machine.run(scenario())
    assert len(history.acknowledged) == 5


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("truncated", [False, True])
def test_a_log_that_waits_for_room_for_a_name_leaves_no_files_behind(truncated, error):
    """The directory has the name and cannot store it: each attempt takes back what it has made."""
    machine, history = Machine(), History()

    async def scenario():
        wal = await machine.open()
        if truncated:
            await append_some(wal, history, contents(0, 12))
            history.truncation_asked = history.truncation_done = 11
            await wal.truncate(11)
        machine.disk.fail("fsync_directory", error=error, count=1_000_000)
        appending = asyncio.ensure_future(append_some(wal, history, contents(20, 20)))
        await asyncio.sleep(10)
        assert wal.statistics().space_waiting == 1
        names = file_names(machine)
        await asyncio.sleep(60)
        assert file_names(machine) == names
        machine.disk.heal()
        await appending
        assert history.errors == []
        await wal.close()
        await reopen(machine, history)

    machine.run(scenario())


def test_a_file_that_neither_syncs_nor_closes_leaves_nothing_behind():
    machine = Machine()
    files = SegmentFiles(DIRECTORY, SimulatedFilesystem(machine.disk))
    SimulatedFilesystem(machine.disk).mkdir(DIRECTORY)
    machine.disk.fail("fsync", path=".draft")
    machine.disk.fail("close", path=".draft")
    with pytest.raises(OSError, match=r"draft"):
        files.create(FileHead(bytes(16), 1, 1, 1, 1, 1 << 20))
    assert file_names(machine) == []


def test_a_draft_that_does_not_close_is_closed_once():
    """It is opened again where direct writes fail; its number may be somebody else's file by then."""
    machine = Machine()
    filesystem = SimulatedFilesystem(machine.disk)
    filesystem.mkdir(DIRECTORY)
    closed = []
    close = filesystem.close
    filesystem.close = lambda fd: (closed.append(fd), close(fd))
    machine.disk.fail("pwrite", error=errno.EINVAL, path=".draft")
    machine.disk.fail("close", path=".draft")
    with pytest.raises(OSError, match=r"draft"):
        SegmentFiles(DIRECTORY, filesystem).create(FileHead(bytes(16), 1, 1, 1, 1, 1 << 20))
    assert len(closed) == 1
    assert file_names(machine) == []
