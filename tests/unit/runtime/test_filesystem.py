import errno
import os

import pytest

from headrace.runtime.filesystem import OsFilesystem

RW = os.O_RDWR | os.O_CREAT


@pytest.fixture
def files():
    return OsFilesystem()


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path)


def test_bytes_written_at_an_offset_are_read_back(files, directory):
    fd = files.open(f"{directory}/log", RW)
    assert files.pwrite(fd, b"world", 5) == 5
    assert files.pwritev(fd, [b"he", memoryview(b"llo")], 0) == 5
    buffer = bytearray(20)
    assert files.pread_into(fd, memoryview(buffer)[:10], 0) == 10
    assert buffer[:10] == b"helloworld"
    assert files.pread_into(fd, memoryview(buffer), 8) == 2
    assert files.pread_into(fd, memoryview(buffer), 99) == 0
    assert files.size(fd) == files.stat_size(f"{directory}/log") == 10
    files.fdatasync(fd)
    files.fsync(fd)
    files.close(fd)
    files.fsync_directory(directory)


def test_truncate_and_allocate_set_the_length_and_read_as_zeros(files, directory):
    fd = files.open(f"{directory}/log", RW)
    files.allocate(fd, 0, 8192)
    assert files.size(fd) == 8192
    buffer = bytearray(b"x" * 8192)
    files.pread_into(fd, memoryview(buffer), 0)
    assert buffer == bytes(8192)
    files.ftruncate(fd, 3)
    assert files.size(fd) == 3
    files.close(fd)


def test_names_are_made_listed_renamed_and_removed(files, directory):
    files.mkdir(f"{directory}/a/b")
    files.mkdir(f"{directory}/a/b")
    for name in ("z", "m"):
        files.close(files.open(f"{directory}/a/{name}", RW))
    assert files.listdir(f"{directory}/a") == ["b", "m", "z"]
    files.rename(f"{directory}/a/m", f"{directory}/a/z")
    assert files.listdir(f"{directory}/a") == ["b", "z"]
    assert files.exists(f"{directory}/a/z")
    files.unlink(f"{directory}/a/z")
    assert not files.exists(f"{directory}/a/z")
    files.rmdir(f"{directory}/a/b")
    assert files.listdir(f"{directory}/a") == []


def test_the_lock_belongs_to_one_descriptor_until_it_is_closed(files, directory):
    first = files.open(f"{directory}/LOCK", RW)
    second = files.open(f"{directory}/LOCK", RW)
    assert files.lock(first)
    assert not files.lock(second)
    files.close(first)
    assert files.lock(second)
    files.close(second)


def test_failures_are_os_errors(files, directory):
    with pytest.raises(FileNotFoundError):
        files.open(f"{directory}/none", os.O_RDONLY)
    with pytest.raises(OSError) as raised:
        files.pwrite(987_654, b"x", 0)
    assert raised.value.errno == errno.EBADF
    with pytest.raises(OSError):
        files.fsync_directory(f"{directory}/none")


def test_free_space_is_a_positive_number(files, directory):
    assert files.free_bytes(directory) > 0
