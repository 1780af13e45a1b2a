"""The simulated disk as one process sees it: descriptors, flags, locks; the twin of ``OsFilesystem``.

Both pass the same tests. Once its process was killed, or its machine lost power, every call raises
``ProcessGoneError``, which is no ``Exception``: the code that called is no longer running.
"""

from __future__ import annotations

import ctypes
import errno
import os
import posixpath
from collections.abc import Sequence
from typing import Final

from headrace.runtime.filesystem import Buffer
from headrace.testing.disk import SimulatedDisk, parts_of
from headrace.testing.disk_files import SECTOR_BYTES, SimulatedDirectory, SimulatedFile
from headrace.testing.failures import ProcessGoneError

#: Descriptors start here, so that one which strays into a real call is no real descriptor.
_FD_FIRST: Final = 1_000_000

_ACCESS_MASK: Final = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

_BUFFERS_MAX: Final = 1024

#: More than enough for CPython's ``Py_buffer``.
_PY_BUFFER_BYTES: Final = 512


class _Handle:
    """An open file description."""

    __slots__ = ("_losses_reported", "entry", "flags", "path")

    def __init__(self, entry: SimulatedFile | SimulatedDirectory, flags: int, path: str) -> None:
        self.entry = entry
        self.flags = flags
        self.path = path
        self._losses_reported = self._losses

    @property
    def _losses(self) -> int:
        return self.entry.losses if isinstance(self.entry, SimulatedFile) else 0

    def report_losses(self) -> bool:
        """Say whether changes of the file were lost that were not reported to this descriptor."""
        reported, self._losses_reported = self._losses_reported, self._losses
        return reported != self._losses_reported

    @property
    def reads(self) -> bool:
        return self.flags & _ACCESS_MASK != os.O_WRONLY

    @property
    def writes(self) -> bool:
        return self.flags & _ACCESS_MASK != os.O_RDONLY


class SimulatedFilesystem:
    """A ``Filesystem`` on a simulated disk, for one process."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self._handles: dict[int, _Handle] = {}
        self._fd_next = _FD_FIRST
        self._gone = False
        disk.on_power_loss(self.kill)

    def kill(self) -> None:
        """End with the process: descriptors and locks go, what was written stays. Idempotent."""
        self._gone = True
        for handle in self._handles.values():
            _unlock(handle)
        self._handles.clear()

    @property
    def open_files(self) -> list[str]:
        """Paths of the open descriptors, for tests that look for leaks."""
        return [handle.path for handle in self._handles.values()]

    # ---- descriptors

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        del mode
        self._begin("open", path)
        directory, name = self._parent_of(path)
        entry = directory.entries.get(name) if name else directory
        if entry is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            entry = SimulatedFile()
            directory.change({name: entry})
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        if flags & os.O_DIRECT and not self.disk.config.direct:
            raise _error(errno.EINVAL, path)  # as Linux does it: after the file was created
        handle = _Handle(entry, flags, path)
        self._check_kind(handle)
        if flags & os.O_TRUNC and isinstance(entry, SimulatedFile) and entry.content:
            self._set_length(entry, 0)
        fd = self._fd_next
        self._fd_next += 1
        self._handles[fd] = handle
        return fd

    def close(self, fd: int) -> None:
        handle = self._handle(fd)
        self._begin("close", handle.path)
        _unlock(handle)
        del self._handles[fd]

    def size(self, fd: int) -> int:
        handle = self._handle(fd)
        self._begin("size", handle.path)
        return _size_of(handle.entry)

    def lock(self, fd: int, *, shared: bool = False) -> bool:
        handle = self._handle(fd)
        self._begin("lock", handle.path)
        others = [shares for each, shares in handle.entry.locked_by.items() if each is not handle]
        if others and not (shared and all(others)):
            return False
        handle.entry.locked_by[handle] = shared
        return True

    # ---- bytes

    def pread_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        handle, file = self._file(fd, os.O_RDONLY)
        self._begin("pread_into", handle.path, offset=offset, length=len(buffer))
        self._check_alignment(handle, buffer, offset)
        data = memoryview(file.content)[offset : offset + buffer.nbytes]
        count = len(data)
        buffer.cast("B")[:count] = data
        data.release()
        self.disk.count_bytes(count)
        return count

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        handle, file = self._file(fd, os.O_WRONLY)
        self._begin("pwrite", handle.path, offset=offset, length=memoryview(data).nbytes)
        self._check_alignment(handle, data, offset)
        return self._write(handle, file, bytes(data), offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        handle, file = self._file(fd, os.O_WRONLY)
        if len(buffers) > _BUFFERS_MAX:
            raise _error(errno.EINVAL, handle.path)
        length = sum(memoryview(buffer).nbytes for buffer in buffers)
        self._begin("pwritev", handle.path, offset=offset, length=length)
        for buffer in buffers:
            self._check_alignment(handle, buffer, offset)
        return self._write(handle, file, b"".join(bytes(buffer) for buffer in buffers), offset)

    def ftruncate(self, fd: int, length: int) -> None:
        handle, file = self._file(fd, os.O_WRONLY, refusal=errno.EINVAL)
        self._begin("ftruncate", handle.path, length=length)
        self._grow(file, length, handle.path)
        self._set_length(file, length)

    def allocate(self, fd: int, offset: int, length: int) -> None:
        handle, file = self._file(fd, os.O_WRONLY)
        self._begin("allocate", handle.path, offset=offset, length=length)
        end = offset + length
        self._grow(file, end, handle.path)
        if end > len(file.content):
            file.set_length(end)

    # ---- durability

    def start_writing_back(self, fd: int, offset: int, length: int) -> None:  # noqa: ARG002 - a mere hint
        self._file(fd, os.O_WRONLY)

    def drop_cached(self, fd: int, offset: int, length: int) -> None:
        handle = self._file(fd, os.O_RDONLY)[0]
        self._begin("drop_cached", handle.path, offset=offset, length=length)

    def fdatasync(self, fd: int) -> None:
        self._sync("fdatasync", fd)

    def fsync(self, fd: int) -> None:
        self._sync("fsync", fd)

    def fsync_directory(self, path: str) -> None:
        self._check_alive()
        self._sync_entry("fsync_directory", path, self.disk.find_directory(path))

    # ---- names

    def stat_size(self, path: str) -> int:
        self._begin("stat_size", path)
        return _size_of(self.disk.find(path))

    def exists(self, path: str) -> bool:
        self._begin("exists", path)
        try:
            self.disk.find(path)
        except OSError:
            return False
        return True

    def is_link(self, path: str) -> bool:
        self._begin("is_link", path)
        return False  # nothing makes one here

    def rename(self, old: str, new: str) -> None:
        self._begin("rename", old, to=new)
        source, source_name = self._parent_of(old)
        target, target_name = self._parent_of(new)
        entry = source.entries.get(source_name)
        if entry is None:
            raise _error(errno.ENOENT, old)
        if source is not target:
            raise _error(errno.EXDEV, new)
        replaced = target.entries.get(target_name)
        if replaced is entry:
            return
        if isinstance(replaced, SimulatedDirectory) and not isinstance(entry, SimulatedDirectory):
            raise _error(errno.EISDIR, new)
        if isinstance(replaced, SimulatedDirectory) and replaced.entries:
            raise _error(errno.ENOTEMPTY, new)
        if replaced is not None and isinstance(entry, SimulatedDirectory) is not isinstance(
            replaced, SimulatedDirectory
        ):
            raise _error(errno.ENOTDIR, new)
        self._free(replaced)
        target.change({source_name: None, target_name: entry})

    def unlink(self, path: str) -> None:
        self._begin("unlink", path)
        directory, name = self._parent_of(path)
        entry = directory.entries.get(name)
        if entry is None:
            raise _error(errno.ENOENT, path)
        if isinstance(entry, SimulatedDirectory):
            raise _error(errno.EISDIR, path)
        self._free(entry)
        directory.change({name: None})

    def mkdir(self, path: str) -> None:
        self._begin("mkdir", path)
        directory = self.disk.root
        parts = parts_of(path)
        for depth, part in enumerate(parts, start=1):
            entry = directory.entries.get(part)
            if entry is None:
                entry = SimulatedDirectory()
                directory.change({part: entry})
            if not isinstance(entry, SimulatedDirectory):
                raise _error(errno.EEXIST if depth == len(parts) else errno.ENOTDIR, path)
            directory = entry

    def rmdir(self, path: str) -> None:
        self._begin("rmdir", path)
        directory, name = self._parent_of(path)
        entry = self.disk.find_directory(path)
        if entry.entries:
            raise _error(errno.ENOTEMPTY, path)
        directory.change({name: None})

    def listdir(self, path: str) -> list[str]:
        self._begin("listdir", path)
        return sorted(self.disk.find_directory(path).entries)

    def free_bytes(self, path: str) -> int:
        self._begin("free_bytes", path)
        return self.disk.free_bytes

    # ---- inside

    def _begin(self, operation: str, path: str, **fields: object) -> None:
        self._check_alive()
        self.disk.begin(operation, path, **fields)

    def _check_alive(self) -> None:
        if self._gone:
            raise ProcessGoneError(self.disk.name)

    def _handle(self, fd: int) -> _Handle:
        self._check_alive()
        handle = self._handles.get(fd)
        if handle is None:
            raise _error(errno.EBADF, f"descriptor {fd}")
        return handle

    def _file(self, fd: int, access: int, refusal: int = errno.EBADF) -> tuple[_Handle, SimulatedFile]:
        handle = self._handle(fd)
        if not (handle.writes if access == os.O_WRONLY else handle.reads):
            raise _error(refusal, handle.path)
        if not isinstance(handle.entry, SimulatedFile):
            raise _error(errno.EISDIR, handle.path)
        return handle, handle.entry

    def _parent_of(self, path: str) -> tuple[SimulatedDirectory, str]:
        parts = parts_of(path)
        if not parts:
            return self.disk.root, ""
        return self.disk.find_directory(posixpath.join("/", *parts[:-1])), parts[-1]

    def _write(self, handle: _Handle, file: SimulatedFile, data: bytes, offset: int) -> int:
        if not data:
            return 0  # and the file does not grow
        data = data[: self._fitting_length(file, offset, len(data), handle.path)]
        self.disk.count_bytes(len(data))
        if handle.flags & (os.O_DSYNC | os.O_SYNC):
            self.disk.change_durably(
                lambda: file.write_durably(offset, data), lambda: self.disk.tear_write(file, offset, data)
            )
            _report_losses(handle)
        else:
            file.write(offset, data)
        return len(data)

    def _fitting_length(self, file: SimulatedFile, offset: int, length: int, path: str) -> int:
        """Return how much of a write fits: all, the part up to the last whole sector, or ENOSPC."""
        growth = offset + length - len(file.content)
        if growth <= 0:
            return length
        granted = self.disk.take_space(growth)
        if granted == growth:
            return length
        end = (len(file.content) + granted) // SECTOR_BYTES * SECTOR_BYTES
        fits = max(0, end - offset)
        self.disk.give_space(granted - max(0, offset + fits - len(file.content)) if fits else granted)
        if not fits:
            raise _error(errno.ENOSPC, path)
        return fits

    def _grow(self, file: SimulatedFile, length: int, path: str) -> None:
        growth = length - len(file.content)
        if growth > 0:
            granted = self.disk.take_space(growth)
            if granted < growth:
                self.disk.give_space(granted)
                raise _error(errno.ENOSPC, path)

    def _set_length(self, file: SimulatedFile, length: int) -> None:
        self.disk.give_space(max(0, len(file.content) - length))
        file.set_length(length)

    def _free(self, entry: SimulatedFile | SimulatedDirectory | None) -> None:
        if isinstance(entry, SimulatedFile):
            self.disk.give_space(len(entry.content))

    def _sync(self, operation: str, fd: int) -> None:
        handle = self._handle(fd)
        try:
            self._sync_entry(operation, handle.path, handle.entry)
        except OSError:
            handle.report_losses()
            raise
        _report_losses(handle)

    def _sync_entry(self, operation: str, path: str, entry: SimulatedFile | SimulatedDirectory) -> None:
        try:
            self._begin(operation, path)
        except OSError:
            entry.lose_changes()
            raise
        self.disk.change_durably(entry.sync, lambda: self.disk.tear_sync(entry))

    def _check_kind(self, handle: _Handle) -> None:
        is_directory = isinstance(handle.entry, SimulatedDirectory)
        if is_directory and handle.writes:
            raise _error(errno.EISDIR, handle.path)
        if handle.flags & os.O_DIRECTORY and not is_directory:
            raise _error(errno.ENOTDIR, handle.path)

    def _check_alignment(self, handle: _Handle, buffer: Buffer, offset: int) -> None:
        if not handle.flags & os.O_DIRECT:
            return
        view = memoryview(buffer)
        if (offset | view.nbytes | _address_of(view)) % self.disk.config.alignment_bytes:
            raise _error(errno.EINVAL, handle.path)


def _address_of(view: memoryview) -> int:
    """Return where the bytes of ``view`` lie in memory."""
    info = ctypes.create_string_buffer(_PY_BUFFER_BYTES)
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), info, 0)
    address = ctypes.c_void_p.from_buffer(info).value or 0  # the first field of CPython's Py_buffer
    ctypes.pythonapi.PyBuffer_Release(info)
    return address


def _size_of(entry: SimulatedFile | SimulatedDirectory) -> int:
    return len(entry.content) if isinstance(entry, SimulatedFile) else 4096


def _report_losses(handle: _Handle) -> None:
    """Report a failed sync of one descriptor to another one. What is new is durable."""
    if handle.report_losses():
        raise _error(errno.EIO, handle.path)


def _unlock(handle: _Handle) -> None:
    handle.entry.locked_by.pop(handle, None)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
