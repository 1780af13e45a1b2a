import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import DirectoryLockedError
from headrace.runtime.clock import SystemClock
from headrace.runtime.directory_lock import LOCK_NAME, DirectoryLock, describe_process
from headrace.runtime.filesystem import OsFilesystem

HOLDER = {"pid": 4711, "host": "mill", "since": "2026-01-02T03:04:05+00:00", "command": "headrace standalone"}


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def lock_of(directory, holder=HOLDER):
    return DirectoryLock(OsFilesystem(), str(directory), holder)


def test_the_second_holder_is_refused_and_told_who_the_first_is(tmp_path):
    first = lock_of(tmp_path / "data")
    first.acquire()
    with pytest.raises(
        DirectoryLockedError, match=r"pid 4711 on mill since .* .headrace standalone"
    ) as raised:
        lock_of(tmp_path / "data").acquire()
    assert raised.value.path == str(tmp_path / "data")
    first.release()
    first.release()
    second = lock_of(tmp_path / "data")
    second.acquire()
    assert second.held
    second.release()


def test_a_refused_attempt_leaves_no_descriptor_and_the_holder_unharmed(tmp_path):
    first = lock_of(tmp_path)
    first.acquire()
    before = descriptors()
    for _ in range(20):
        with pytest.raises(DirectoryLockedError, match="4711"):
            lock_of(tmp_path).acquire()
    assert descriptors() == before
    first.release()


def test_a_longer_description_of_an_earlier_holder_leaves_no_rest(tmp_path):
    long = lock_of(tmp_path, {**HOLDER, "command": "x" * 500})
    long.acquire()
    long._filesystem.close(long._fd)  # as kill -9 would: the text stays
    short = lock_of(tmp_path)
    short.acquire()
    with pytest.raises(DirectoryLockedError, match="headrace standalone"):
        lock_of(tmp_path).acquire()
    short.release()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": 1}', b"\xff\x00", b'"' + b"x" * 9000])
def test_an_unreadable_description_is_no_obstacle_to_a_clear_message(tmp_path, text):
    lock = lock_of(tmp_path)
    lock.acquire()
    (tmp_path / LOCK_NAME).write_bytes(text)
    with pytest.raises(DirectoryLockedError, match="another process"):
        lock_of(tmp_path).acquire()
    lock.release()


def test_kill_9_frees_the_directory_and_until_then_its_process_is_named(tmp_path):
    code = f"""
import sys, time
from headrace.runtime.clock import SystemClock
from headrace.runtime.directory_lock import DirectoryLock, describe_process
from headrace.runtime.filesystem import OsFilesystem
DirectoryLock(OsFilesystem(), {str(tmp_path)!r}, describe_process(SystemClock())).acquire()
print("locked", flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"locked\n"
        lock = lock_of(tmp_path)
        with pytest.raises(DirectoryLockedError, match=f"pid {child.pid} on "):
            lock.acquire()
        child.send_signal(signal.SIGKILL)
        child.wait(120)
        lock.acquire()
        lock.release()
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def test_a_child_started_by_exec_does_not_keep_the_lock(tmp_path):
    lock = lock_of(tmp_path)
    lock.acquire()
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False
    ) as child:
        assert child.stdout.readline() == b"up\n"
        lock.release()
        again = lock_of(tmp_path)
        again.acquire()
        again.release()


def test_a_process_describes_itself():
    about = describe_process(SystemClock())
    assert about["pid"] == os.getpid()
    assert set(about) == {"pid", "host", "since", "command"}


class FullDisk(OsFilesystem):
    def pwrite(self, fd, data, offset):
        raise OSError(errno.ENOSPC, "no space left on device")


def test_a_full_disk_keeps_nobody_from_the_lock(tmp_path):
    """The text only names the holder; a server that starts on a full disk waits for space instead."""
    former = lock_of(tmp_path / "other")
    former.acquire()
    former.release()  # leaves an empty file, whose block somebody else takes
    lock = DirectoryLock(FullDisk(), str(tmp_path / "other"), HOLDER)
    lock.acquire()
    with pytest.raises(DirectoryLockedError, match="not written its name"):
        lock_of(tmp_path / "other").acquire()
    lock.release()
