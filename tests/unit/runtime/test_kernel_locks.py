"""Who holds a lock is seen without trying it."""

import fcntl
import os

import pytest

from headrace.runtime import kernel_locks
from headrace.runtime.kernel_locks import is_locked


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "LOCK"
    path.touch()
    return path


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of our own making."""
    table = tmp_path / "locks"
    monkeypatch.setattr(kernel_locks, "_TABLE", str(table))
    return table


def test_the_kernel_is_asked(file):
    if is_locked(str(file)) is None:
        pytest.skip("this system does not tell")
    with file.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        assert is_locked(str(file)) is True
        copy = file.with_name("copy")
        copy.touch()
        assert is_locked(str(copy)) is False
    assert is_locked(str(file)) is False


def test_lines_are_compared_by_device_and_inode(file, table):
    status = file.stat()
    here = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    elsewhere = f"ff:ff:{status.st_ino}"
    for line, pid, locked in [
        ("", None, False),
        (f"1: FLOCK  ADVISORY  WRITE 7 {here} 0 EOF", None, True),
        (f"1: POSIX  ADVISORY  WRITE 7 {here} 0 EOF", None, False),
        (f"1: -> FLOCK  ADVISORY  WRITE 7 {here} 0 EOF", None, False),
        (f"1: FLOCK  ADVISORY  WRITE 7 {here}1 0 EOF", 7, False),
        (f"1: FLOCK  ADVISORY  WRITE 7 {elsewhere} 0 EOF", None, False),
        (f"1: FLOCK  ADVISORY  WRITE 7 {elsewhere} 0 EOF", 7, True),
    ]:
        table.write_text(f"2: LEASE  ACTIVE    READ 1 00:01:5 0 EOF\n{line}\n")
        assert is_locked(str(file), pid) is locked, line


def test_a_system_without_a_table_does_not_tell(file, table):
    assert not table.exists()
    assert is_locked(str(file)) is None
