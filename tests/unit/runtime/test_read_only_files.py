import inspect
import os

import pytest

from headrace.runtime.filesystem import Filesystem
from headrace.runtime.read_only_files import ReadOnlyFiles

READING = {"close", "pread_into", "size", "stat_size", "exists", "is_link", "listdir", "free_bytes", "open"}
METHODS = [name for name, _ in inspect.getmembers(Filesystem, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", [name for name in METHODS if name not in READING])
def test_whatever_could_change_a_file_is_refused(name, tmp_path):
    method = getattr(ReadOnlyFiles(), name)
    count = len(inspect.signature(method).parameters)
    with pytest.raises(PermissionError):
        method(*[str(tmp_path)] * count)


@pytest.mark.parametrize(
    "flags",
    [os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_CREAT, os.O_RDONLY | os.O_TRUNC, os.O_RDWR | os.O_APPEND],
)
def test_nothing_is_opened_but_for_reading(flags, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with pytest.raises(PermissionError):
        ReadOnlyFiles().open(str(path), flags)
    assert path.read_bytes() == b"content"
    with pytest.raises(PermissionError):
        ReadOnlyFiles().open(str(tmp_path / "new"), flags)
    assert not (tmp_path / "new").exists()


def test_reading_works(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    files = ReadOnlyFiles()
    fd = files.open(str(tmp_path / "file"), os.O_RDONLY)
    buffer = bytearray(4)
    assert files.pread_into(fd, memoryview(buffer), 3) == 4
    assert (bytes(buffer), files.size(fd)) == (b"tent", 7)
    files.close(fd)
    assert files.listdir(str(tmp_path)) == ["file"]
    assert files.stat_size(str(tmp_path / "file")) == 7
    assert files.exists(str(tmp_path))
    assert not files.is_link(str(tmp_path))
    assert files.free_bytes(str(tmp_path)) > 0


def test_a_pipe_in_place_of_a_file_is_an_error_and_not_waited_for(tmp_path):
    """Opening one for reading lasts until somebody opens it for writing."""
    path = tmp_path / "000000000001-000000000001.wal"
    os.mkfifo(path)
    files = ReadOnlyFiles()
    fd = files.open(str(path), os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="seek"):
            files.pread_into(fd, memoryview(bytearray(1)), 0)
    finally:
        files.close(fd)
