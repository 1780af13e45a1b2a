"""A disk that fails while a log is read: errors are typed, and no descriptor is let go of twice."""

import errno
import os

import pytest

from headrace.errors import WalWriteError
from headrace.runtime.filesystem import OsFilesystem
from headrace.wal.file.segment_files import FileReader
from tests.unit.wal.world import DIRECTORY, History, Machine, append_some, read_all


def contents(count):
    return [b"%05d" % number for number in range(count)]


async def fill(machine):
    wal, history = await machine.open(), History()
    await append_some(wal, history, contents(8))
    await wal.close()


@pytest.mark.parametrize("path", [".wal", ""], ids=["log file", "log file and owner file"])
def test_a_log_that_cannot_be_read_says_so_whatever_else_cannot(path):
    machine = Machine()

    async def scenario():
        await fill(machine)
        wal = await machine.open()
        machine.disk.fail("pread_into", path=path, count=1000)
        with pytest.raises(WalWriteError):
            await read_all(wal)
        machine.disk.heal()
        await wal.close()

    machine.run(scenario())


def test_a_record_that_is_damaged_while_the_owner_file_cannot_be_read_proves_nothing():
    machine = Machine()

    async def scenario():
        await fill(machine)
        wal = await machine.open()
        machine.disk.flip_bit(f"{DIRECTORY}/{wal._log.recovered.extents[0].file.name}", 12288 + 66)
        machine.disk.fail("pread_into", path="owner", count=1000)
        with pytest.raises(WalWriteError):
            await read_all(wal)
        machine.disk.heal()
        await wal.close()

    machine.run(scenario())


def test_a_file_that_was_read_and_does_not_close_is_no_error():
    machine = Machine()

    async def scenario():
        await fill(machine)
        wal = await machine.open()
        machine.disk.fail("close", count=1000)
        assert [content for _, content in await read_all(wal)] == contents(8)
        machine.disk.heal()
        await wal.close()

    machine.run(scenario())


class BadCloses(OsFilesystem):
    """Each close fails, and the descriptor is gone all the same, as on Linux."""

    __slots__ = ("closed",)

    def __init__(self):
        self.closed = []

    def close(self, fd):
        super().close(fd)
        self.closed.append(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_descriptor_is_let_go_of_once(tmp_path):
    """Its number may be somebody else's file by the second time."""
    filesystem = BadCloses()
    for name in "ab":
        (tmp_path / name).write_bytes(b"content of " + name.encode())
    reader = FileReader(str(tmp_path), filesystem)
    assert bytes(reader.read_at("a", 0, 100)) == b"content of a"
    assert bytes(reader.read_at("b", 0, 100)) == b"content of b"
    assert len(filesystem.closed) == 1
    reader.close()
    reader.close()
    assert len(filesystem.closed) == 2
