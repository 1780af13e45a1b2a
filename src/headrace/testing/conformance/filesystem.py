"""What every file system must do: one method per sentence of ``headrace.runtime.filesystem``.

Subclass, override :meth:`FilesystemContract.make`, and let pytest collect the class.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headrace.runtime.filesystem import Filesystem

_NEW = os.O_RDWR | os.O_CREAT


class FilesystemContract:
    """The kit. Descriptors are closed by each test."""

    files: Filesystem
    root: str

    def make(self, directory: Path) -> tuple[Filesystem, str]:
        """Return a file system and an empty directory in it; ``directory`` is a real one that may be used."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _make(self, tmp_path: Path) -> None:
        self.files, self.root = self.make(tmp_path)

    def new(self, name: str, content: bytes = b"") -> int:
        """Make a file and return its descriptor."""
        fd = self.files.open(f"{self.root}/{name}", _NEW)
        self.files.pwrite(fd, content, 0)
        return fd

    def read(self, fd: int, count: int = 1 << 16, offset: int = 0) -> bytes:
        """Return up to ``count`` bytes."""
        buffer = bytearray(count)
        return bytes(buffer[: self.files.pread_into(fd, memoryview(buffer), offset)])

    def refused(self, number: int) -> pytest.RaisesExc[OSError]:
        """Expect an OSError with this number."""
        return pytest.raises(OSError, check=lambda error: error.errno == number)

    # ---- bytes

    def test_bytes_written_at_an_offset_are_read_back(self) -> None:
        fd = self.new("log")
        assert self.files.pwrite(fd, b"world", 5) == 5
        assert self.files.pwritev(fd, [b"he", memoryview(bytearray(b"llo"))], 0) == 5
        assert self.read(fd) == b"helloworld"
        assert self.read(fd, 3, 4) == b"owo"
        assert self.files.size(fd) == self.files.stat_size(f"{self.root}/log") == 10
        self.files.close(fd)

    def test_a_read_is_short_only_at_the_end_and_empty_behind_it(self) -> None:
        fd = self.new("log", b"0123456789")
        assert self.read(fd, 20, 8) == b"89"
        assert self.read(fd, 20, 10) == b""
        assert self.read(fd, 20, 99) == b""
        self.files.close(fd)

    def test_a_gap_reads_as_zeros(self) -> None:
        fd = self.new("log")
        self.files.pwrite(fd, b"x", 1000)
        assert self.read(fd) == bytes(1000) + b"x"
        self.files.close(fd)

    def test_truncating_cuts_or_adds_zeros(self) -> None:
        fd = self.new("log", b"0123456789")
        self.files.ftruncate(fd, 4)
        self.files.ftruncate(fd, 6)
        assert self.read(fd) == b"0123\x00\x00"
        self.files.close(fd)

    def test_allocating_grows_the_file_keeps_its_bytes_and_never_shrinks_it(self) -> None:
        fd = self.new("log", b"0123456789")
        self.files.allocate(fd, 0, 4096)
        self.files.allocate(fd, 0, 8)
        assert self.read(fd) == b"0123456789" + bytes(4086)
        self.files.close(fd)

    def test_two_descriptors_of_one_file_see_each_other_at_once(self) -> None:
        writer = self.new("log")
        reader = self.files.open(f"{self.root}/log", os.O_RDONLY)
        self.files.pwrite(writer, b"now", 0)
        assert self.read(reader) == b"now"
        self.files.close(writer)
        self.files.close(reader)

    def test_an_unlinked_file_lives_until_its_last_descriptor_is_closed(self) -> None:
        fd = self.new("log", b"still here")
        self.files.unlink(f"{self.root}/log")
        assert not self.files.exists(f"{self.root}/log")
        assert self.read(fd) == b"still here"
        self.files.close(fd)

    def test_syncing_is_possible_for_files_directories_and_synchronous_descriptors(self) -> None:
        fd = self.files.open(f"{self.root}/log", _NEW | os.O_DSYNC)
        self.files.pwrite(fd, b"x", 0)
        self.files.fdatasync(fd)
        self.files.fsync(fd)
        self.files.fsync_directory(self.root)
        self.files.close(fd)

    # ---- opening

    def test_opening_what_is_missing_is_refused_unless_it_may_be_made(self) -> None:
        with self.refused(errno.ENOENT):
            self.files.open(f"{self.root}/none", os.O_RDWR)
        with self.refused(errno.ENOENT):
            self.files.open(f"{self.root}/none/log", _NEW)

    def test_exclusive_creation_has_one_winner(self) -> None:
        self.files.close(self.files.open(f"{self.root}/log", _NEW | os.O_EXCL))
        with self.refused(errno.EEXIST):
            self.files.open(f"{self.root}/log", _NEW | os.O_EXCL)

    def test_opening_with_truncation_empties_the_file(self) -> None:
        self.files.close(self.new("log", b"old"))
        fd = self.files.open(f"{self.root}/log", os.O_RDWR | os.O_TRUNC)
        assert self.files.size(fd) == 0
        self.files.close(fd)

    def test_a_descriptor_does_what_it_was_opened_for(self) -> None:
        self.files.close(self.new("log", b"x"))
        reader = self.files.open(f"{self.root}/log", os.O_RDONLY)
        writer = self.files.open(f"{self.root}/log", os.O_WRONLY)
        with self.refused(errno.EBADF):
            self.files.pwrite(reader, b"y", 0)
        with self.refused(errno.EBADF):
            self.read(writer)
        with self.refused(errno.EINVAL):
            self.files.ftruncate(reader, 0)
        self.files.close(reader)
        self.files.close(writer)

    def test_a_closed_descriptor_is_refused(self) -> None:
        fd = self.new("log")
        self.files.close(fd)
        for call in (self.files.fsync, self.files.size, self.files.close):
            with self.refused(errno.EBADF):
                call(fd)

    def test_a_directory_is_no_file(self) -> None:
        self.files.mkdir(f"{self.root}/d")
        with self.refused(errno.EISDIR):
            self.files.open(f"{self.root}/d", os.O_RDWR)
        with self.refused(errno.EISDIR):
            self.files.unlink(f"{self.root}/d")
        self.files.close(self.new("log"))
        with self.refused(errno.ENOTDIR):
            self.files.listdir(f"{self.root}/log")
        with self.refused(errno.ENOTDIR):
            self.files.open(f"{self.root}/log/below", _NEW)

    # ---- names

    def test_names_are_listed_in_order(self) -> None:
        for name in ("z", "a", "m"):
            self.files.close(self.new(name))
        self.files.mkdir(f"{self.root}/b")
        assert self.files.listdir(self.root) == ["a", "b", "m", "z"]

    def test_files_and_directories_are_no_links(self) -> None:
        self.files.close(self.new("log"))
        assert not any(self.files.is_link(f"{self.root}/{name}") for name in ("log", "", "nothing"))

    def test_renaming_replaces_and_keeps_open_descriptors(self) -> None:
        old = self.new("old", b"new content")
        replaced = self.new("name", b"replaced")
        self.files.rename(f"{self.root}/old", f"{self.root}/name")
        assert self.files.listdir(self.root) == ["name"]
        assert self.read(old) == b"new content"
        assert self.read(replaced) == b"replaced"
        assert self.files.stat_size(f"{self.root}/name") == 11
        self.files.close(old)
        self.files.close(replaced)

    def test_renaming_onto_itself_changes_nothing(self) -> None:
        self.files.close(self.new("log", b"x"))
        self.files.rename(f"{self.root}/log", f"{self.root}/log")
        assert self.files.stat_size(f"{self.root}/log") == 1

    def test_making_directories_makes_their_parents_and_may_be_repeated(self) -> None:
        self.files.mkdir(f"{self.root}/a/b/c")
        self.files.mkdir(f"{self.root}/a/b/c")
        assert self.files.listdir(f"{self.root}/a/b") == ["c"]

    def test_only_empty_directories_are_removed(self) -> None:
        self.files.mkdir(f"{self.root}/a/b")
        with self.refused(errno.ENOTEMPTY):
            self.files.rmdir(f"{self.root}/a")
        self.files.rmdir(f"{self.root}/a/b")
        self.files.rmdir(f"{self.root}/a")
        assert not self.files.exists(f"{self.root}/a")

    def test_what_is_missing_cannot_be_asked_for(self) -> None:
        missing = f"{self.root}/none"
        files = self.files
        for call in (files.stat_size, files.unlink, files.rmdir, files.listdir, files.fsync_directory):
            with self.refused(errno.ENOENT):
                call(missing)
        with self.refused(errno.ENOENT):
            self.files.rename(missing, f"{self.root}/other")
        assert not self.files.exists(missing)

    # ---- the rest

    def test_the_lock_belongs_to_one_descriptor_until_it_is_closed(self) -> None:
        first, second = self.new("LOCK"), self.new("LOCK")
        assert self.files.lock(first)
        assert self.files.lock(first)
        assert not self.files.lock(second)
        self.files.close(second)
        second = self.new("LOCK")
        assert not self.files.lock(second)
        self.files.close(first)
        assert self.files.lock(second)
        self.files.close(second)

    def test_a_shared_lock_is_for_those_that_share_it(self) -> None:
        first, second, alone = self.new("LOCK"), self.new("LOCK"), self.new("LOCK")
        assert self.files.lock(first, shared=True)
        assert self.files.lock(second, shared=True)
        assert not self.files.lock(alone)
        self.files.close(first)
        assert not self.files.lock(alone)
        self.files.close(second)
        assert self.files.lock(alone)
        second = self.new("LOCK")
        assert not self.files.lock(second, shared=True)
        self.files.close(second)
        self.files.close(alone)

    def test_there_is_free_space(self) -> None:
        assert self.files.free_bytes(self.root) > 0
