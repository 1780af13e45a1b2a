"""The files of one log on disk: made, recycled, zeroed, written, read, removed. Every method here blocks.

Writes are direct and synchronous (``O_DIRECT|O_DSYNC``) where the file system takes that, and ``pwrite`` with
``fdatasync`` where not; the first write of a file decides. Nothing here decides where a record goes or what a
record means.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import threading
from collections.abc import Iterable
from typing import Final

from headrace.errors import HeadraceError, StorageFullError, WalWriteError
from headrace.limits import MIB
from headrace.runtime.filesystem import Filesystem
from headrace.wal.config import BLOCK_BYTES
from headrace.wal.file.frame_write import FrameWrite
from headrace.wal.file.recovery_plan import FoundFile, ReadAt, UnprovenRecords
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_format import (
    DATA_OFFSET,
    MARK_OFFSETS,
    FileHead,
    TruncationMark,
    encode_head,
    encode_mark,
    format_draft_name,
    format_name,
    is_draft_name,
    parse_name,
)
from headrace.wal.record_format import seal_record

_PIECE_BYTES: Final = 1 * MIB
_zeros = memoryview(mmap.mmap(-1, _PIECE_BYTES))
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def translate_error(error: OSError, doing: str) -> HeadraceError:
    """Return the ``HeadraceError`` for an ``OSError`` of the log."""
    if error.errno in _FULL:
        return StorageFullError(f"no space left while {doing}")
    return WalWriteError(f"{doing} failed: {error}")


class SegmentFiles:
    """The directory of one log."""

    def __init__(self, directory: str, filesystem: Filesystem) -> None:
        self.directory = directory
        self._filesystem = filesystem
        self.direct = True
        """Whether writes bypass the page cache; decided by the first write."""
        self._sync_lock = threading.Lock()
        self._failed_sync: OSError | None = None

    def find(self) -> list[FoundFile]:
        """Return the segment files, as their names say."""
        found = []
        for name in self._filesystem.listdir(self.directory):
            parsed = parse_name(name)
            if parsed is not None:
                found.append(FoundFile(name, *parsed))
        return found

    def find_drafts(self) -> list[str]:
        """Return the names of files that were never finished."""
        return [name for name in self._filesystem.listdir(self.directory) if is_draft_name(name)]

    def create(self, head: FileHead, zeroed_until: int = DATA_OFFSET) -> SegmentFile:
        """Make a file, of its draft if there is one; name, size and head are durable when this returns.

        The head is written under the name of a draft, then the file gets its name. So a file with a name of
        the log always has a whole head; one without is damaged, not unfinished.
        """
        draft = self._path(format_draft_name(head.number, head.epoch))
        path = self._path(format_name(head.number, head.epoch))
        fd = -1
        try:
            fd = self._open(draft, os.O_RDWR | os.O_CREAT, synchronous=True)
            if head.file_bytes:
                self._filesystem.ftruncate(fd, head.file_bytes)
            data = _aligned(encode_head(head))
            try:
                self._write(fd, data, 0)
            except OSError as error:
                if error.errno != errno.EINVAL or not self.direct:
                    raise
                self.direct = False
                failed, fd = fd, -1
                self._filesystem.close(failed)
                fd = self._open(draft, os.O_RDWR, synchronous=True)
                self._write(fd, data, 0)
            self._filesystem.fsync(fd)
            self._filesystem.rename(draft, path)
            self._filesystem.fsync_directory(self.directory)
        except BaseException:
            if fd >= 0:
                with contextlib.suppress(OSError):  # the error that is raised says more
                    self._filesystem.close(fd)
            self._discard(draft)
            self._discard(path)  # its name may not be durable: nothing relies on it
            raise
        return SegmentFile(head.number, head.epoch, fd, zeroed_until)

    def make_draft(self, old: SegmentFile, head: FileHead) -> None:
        """Rename a file without living records to a draft, durably, so that it can be reused."""
        self._filesystem.rename(self._path(old.name), self._path(format_draft_name(head.number, head.epoch)))
        self._filesystem.fsync_directory(self.directory)

    def _discard(self, path: str) -> None:
        with contextlib.suppress(OSError):  # an earlier error is raised; the next owner removes drafts
            self._filesystem.unlink(path)

    def zero(self, file: SegmentFile, start: int, end: int) -> None:
        """Write zeros, durably. Blocks once written are quicker to write again: no metadata changes."""
        fd = self._open(self._path(file.name), os.O_RDWR, synchronous=False)
        try:
            for offset in range(start, end, _PIECE_BYTES):
                self._write_fully(fd, _zeros[: min(_PIECE_BYTES, end - offset)], offset)
            self._filesystem.fdatasync(fd)
        finally:
            self._filesystem.close(fd)

    def write_records(self, writes: list[FrameWrite]) -> None:
        """Seal the frames and write them, durably, where they were placed: one behind the other in one file.

        Runs in a writer thread. An error is stored in the first one: no frame has a known outcome then.
        ``starved`` says that it was lack of space and that writing the same once more is all it takes. That
        is not so if syncing failed: the system may have dropped what it could not store.
        """
        first = writes[0]
        file, address = first.file, first.frame.address
        assert file is not None
        first.error = None
        first.starved = False
        try:
            for write in writes:
                seal_record(write.frame.buffer, write.frame.length)
            if len(writes) == 1:
                self._write_fully(file.fd, first.frame.buffer[: first.padded], first.offset)
            else:
                buffers = [write.frame.buffer[: write.padded] for write in writes]
                self._write_many(file.fd, buffers, first.offset)
        except OSError as error:
            first.error = translate_error(error, f"writing the log record {address}")
            first.starved = error.errno in _FULL
            return
        if not self.direct:
            try:
                self._sync(file.fd)
            except OSError as error:
                first.error = WalWriteError(f"syncing the log record {address} failed: {error}")

    def write_mark(self, file: SegmentFile, mark: TruncationMark) -> None:
        """Store a truncation point, durably, over the older of the two marks."""
        self._write(file.fd, _aligned(encode_mark(mark)), MARK_OFFSETS[mark.mark_number % len(MARK_OFFSETS)])

    def prove(self, records: UnprovenRecords, read: ReadAt) -> None:
        """Make records durable that a former owner may have left unsynced: write the same bytes once more.

        Syncing alone would prove nothing. If a sync of that owner has failed, the system goes on showing what
        it could not store, and takes it to be stored.
        """
        try:
            self._write_again(records, read)
        except OSError as error:
            if error.errno != errno.EINVAL or not self.direct:
                raise
            self.direct = False
            self._write_again(records, read)

    def _write_again(self, records: UnprovenRecords, read: ReadAt) -> None:
        name, end = records.file.name, records.end
        fd = self._open(self._path(name), os.O_RDWR, synchronous=True)
        try:
            for offset in range(records.start, end, _PIECE_BYTES):
                data = bytearray(min(_PIECE_BYTES, end - offset))
                found = read(name, offset, len(data))  # the last padding may be missing
                data[: len(found)] = found
                self._write_fully(fd, _aligned(data), offset)
            self._filesystem.fsync(fd)
        finally:
            self._filesystem.close(fd)

    def remove(self, names: Iterable[str]) -> None:
        """Delete files, if they are there, and make that durable."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.unlink(self._path(name))
        self._filesystem.fsync_directory(self.directory)

    def close(self, file: SegmentFile) -> None:
        """Close the descriptor; idempotent."""
        if file.fd >= 0:
            fd, file.fd = file.fd, -1
            self._filesystem.close(fd)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _open(self, path: str, flags: int, *, synchronous: bool) -> int:
        if self.direct:
            direct = flags | os.O_DIRECT | (os.O_DSYNC if synchronous else 0)
            try:
                return self._filesystem.open(path, direct)
            except OSError as error:
                if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
                    raise
                self.direct = False
        return self._filesystem.open(path, flags)

    def _write(self, fd: int, data: memoryview, offset: int) -> None:
        self._write_fully(fd, data, offset)
        if not self.direct:
            self._sync(fd)

    def _sync(self, fd: int) -> None:
        """Make what was written durable; once that has failed, fail for ever.

        The writers share descriptors, and the system reports only once for each that it could not store
        something. A later sync succeeds, although the record of its own writer may have been dropped.
        """
        with self._sync_lock:
            if self._failed_sync is not None:
                raise OSError(errno.EIO, f"an earlier sync failed: {self._failed_sync}")
            try:
                self._filesystem.fdatasync(fd)
            except OSError as error:
                self._failed_sync = error
                raise

    def _write_many(self, fd: int, buffers: list[memoryview], offset: int) -> None:
        written = self._filesystem.pwritev(fd, buffers, offset)
        for data in buffers:
            if written < len(data):  # short: from here on one by one
                at = written & -BLOCK_BYTES
                self._write_fully(fd, data[at:], offset + at)
                written = 0
            else:
                written -= len(data)
            offset += len(data)

    def _write_fully(self, fd: int, data: memoryview, offset: int) -> None:
        written = self._filesystem.pwrite(fd, data, offset)
        while written < len(data):  # short: the disk is about to be full, or the call was interrupted
            step = written & -BLOCK_BYTES
            if step == 0:
                raise OSError(errno.ENOSPC, "short write")
            data, offset = data[step:], offset + step
            written = self._filesystem.pwrite(fd, data, offset)


class FileReader:
    """Reads pieces of segment files into one buffer of its own. One user at a time."""

    def __init__(self, directory: str, filesystem: Filesystem) -> None:
        self._directory = directory
        self._filesystem = filesystem
        self._buffer = memoryview(b"")
        self._name = ""
        self._fd = -1

    def read_at(self, name: str, offset: int, length: int) -> memoryview:
        """Return the bytes there, fewer only at the end of the file; valid until the next call."""
        path = f"{self._directory}/{name}"
        if name != self._name:
            self.close()
            self._fd = self._filesystem.open(path, os.O_RDONLY)
            self._name = name
        if len(self._buffer) < length:
            self._buffer = memoryview(mmap.mmap(-1, length))
        count = 0
        while count < length:
            try:
                step = self._filesystem.pread_into(self._fd, self._buffer[count:length], offset + count)
            except OSError as error:
                error.filename = path  # the system knows only the descriptor
                raise
            if step == 0:
                break
            count += step
        return self._buffer[:count]

    def close(self) -> None:
        """Close the file that was read last."""
        if self._fd >= 0:
            fd, self._fd, self._name = self._fd, -1, ""
            with contextlib.suppress(OSError):  # it is gone all the same, and nothing was written
                self._filesystem.close(fd)


def _aligned(data: bytes | bytearray) -> memoryview:
    """Return ``data`` in memory that starts on a page."""
    pages = mmap.mmap(-1, len(data))
    pages[:] = data
    return memoryview(pages)
