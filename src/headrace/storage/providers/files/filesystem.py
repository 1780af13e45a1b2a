"""Chunks as files below one directory: a local disk, NFS, any mounted file system.

Writes return when data and, for a new file, its name are durable. Blocking calls (:mod:`.chunk_files`) run
in threads (:mod:`.chunk_threads`) and share no state with the loop. Only the loop keeps descriptors, for
reads of what is in the page cache: those are tried without blocking first, because a hop to a thread costs
twice as much as a warm read.

What was written longest ago is dropped from the page cache (:mod:`.written_window`).

Directories are never removed: one per stream that ever had a chunk here.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.errors import ChunkOffsetError, ClosedError, MailboxFullError
from headrace.limits import GIB, MIB
from headrace.runtime.filesystem import Filesystem, OsFilesystem
from headrace.runtime.open_file import OpenFile
from headrace.runtime.settings import internal, tunable
from headrace.storage.providers.contract import (
    Buffer,
    ChunkObject,
    check_chunk_name,
)
from headrace.storage.providers.files.chunk_files import (
    DescriptorHandover,
    Wanted,
    append_file,
    close_quietly,
    create_file,
    delete_file,
    drop_from_cache,
    list_some,
    read_file,
    stat_file,
)
from headrace.storage.providers.files.chunk_paths import encode_chunk_path, prefix_directory
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.local_chunks import LocalChunks
from headrace.storage.providers.files.written_window import WrittenWindow

_SYNCED_DIRECTORIES_MAX: Final = 10_000
_RWF_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemProviderConfig:
    """Which chunk files are kept open, and what of them stays in the page cache."""

    descriptors_max: int = tunable(
        256,
        low=1,
        high=100_000,
        simulate=(1, 3),
        help="Files open for reads; fewer if the limit of open files is low.",
    )
    read_at_once_bytes_max: int = internal(MIB, simulate=(0, 100))
    """Longer reads go to a thread even if they are warm: copying would block the loop."""

    written_cache_bytes: int = tunable(
        GIB,
        low=0,
        high=1 << 50,
        simulate=(0, 4096),
        help="Newest written bytes that stay in the page cache; older ones are read from the disk.",
    )


@dataclass(slots=True)
class ChunkFilesStatistics:
    """Counts since creation."""

    bytes_dropped: int = 0
    """Written bytes that were dropped from the page cache: later reads of them go to the medium."""


class FilesystemChunkProvider:
    """Files below ``root``, which must exist. Belongs to one event loop.

    While there is no file ``proof``, if one is named, no directory is made: its absence means that a file
    system is not mounted.
    """

    def __init__(
        self,
        root: str,
        filesystem: Filesystem,
        threads: ChunkThreads,
        config: FilesystemProviderConfig | None = None,
        *,
        proof: str = "",
    ) -> None:
        self._root = root
        self._proof = proof
        self._files = filesystem
        self._threads = threads
        self._config = config or FilesystemProviderConfig()
        self._open: OrderedDict[str, OpenFile] = OrderedDict()
        self._opening: dict[str, set[DescriptorHandover]] = {}
        """Descriptors that threads may still hand over. A deletion removes them: they are closed then."""
        self._synced_directories: set[str] = set()
        self._written = WrittenWindow(self._config.written_cache_bytes)
        self._dropping: frozenset[str] = frozenset()
        """Chunks of which something is being dropped from the page cache, in a thread."""
        # The simulated disk has no page cache.
        self._reads_at_once = bool(_RWF_NOWAIT) and isinstance(filesystem, OsFilesystem)
        self._statistics = ChunkFilesStatistics()

    @property
    def supports_append(self) -> bool:
        return True

    @property
    def local(self) -> LocalChunks:
        return self

    # ---------------------------------------------------------------------------------- writing

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        check_chunk_name(name)
        path = self._path(name)
        directory = path.rpartition("/")[0]
        unsynced: Sequence[str] = () if directory in self._synced_directories else self._lineage(directory)
        wanted = Wanted()
        try:
            await self._threads.write(
                create_file, self._files, name, path, unsynced, self._proof, buffers, beside, wanted
            )
        except asyncio.CancelledError:
            wanted.still = False
            raise
        if len(self._synced_directories) >= _SYNCED_DIRECTORIES_MAX:
            self._synced_directories.clear()
        self._synced_directories.add(directory)
        self._note_written(name, 0, sum(map(len, buffers)))

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        path = self._path(name)
        await self._threads.write(append_file, self._files, name, path, offset, buffers, beside)
        self._note_written(name, offset, sum(map(len, buffers)))

    async def delete(self, name: str) -> None:
        self._forget(name)
        await self._threads.remove(delete_file, self._files, name, self._path(name))
        self._forget(name)  # a read may have opened it meanwhile, or a late write noted it

    def _note_written(self, name: str, offset: int, length: int) -> None:
        self._written.note(name, offset, length)
        stale = self._written.take_stale() if not self._dropping else []
        if not stale:
            return
        self._dropping = frozenset(each.name for each in stale)
        try:
            self._threads.begin(drop_from_cache, (self._files, self._root, stale), self._dropped)
        except (MailboxFullError, ClosedError):
            self._dropping = frozenset()  # the system drops them when it likes

    def _dropped(self, dropped: int | None, error: BaseException | None) -> None:
        del error  # it changes nothing but what is in memory
        self._dropping = frozenset()
        self._statistics.bytes_dropped += dropped or 0

    # ---------------------------------------------------------------------------------- reading

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        view, done = self._read_cached(name, offset, length)
        if done < length:
            view, more = await self._read_in_thread(name, view, done, offset, length)
            done += more
        if done < length:
            raise ChunkOffsetError(name, offset + length, offset + done)
        return view

    async def _read_in_thread(
        self, name: str, view: memoryview, done: int, offset: int, length: int
    ) -> tuple[memoryview, int]:
        handover: DescriptorHandover | None = None
        if self._reads_at_once and name not in self._open:
            handover = DescriptorHandover(self._files)
            self._opening.setdefault(name, set()).add(handover)
        path = self._path(name)
        try:
            answer = await self._threads.read(
                read_file, self._files, name, path, view, done, offset, length, handover
            )
            if handover is not None and handover in self._opening.get(name, ()):
                self._cache_file(name, handover.take())
        finally:
            if handover is not None:
                handover.abandon()
                self._stop_opening(name, handover)
        return answer

    def _stop_opening(self, name: str, handover: DescriptorHandover) -> None:
        opening = self._opening.get(name, set())
        opening.discard(handover)
        if not opening:
            self._opening.pop(name, None)

    def _read_cached(self, name: str, offset: int, length: int) -> tuple[memoryview, int]:
        """Return memory for the bytes, and how many are in it; none if a thread has to read them."""
        if name not in self._open or length > self._config.read_at_once_bytes_max:
            return memoryview(b""), 0
        view = memoryview(bytearray(length))
        return view, self.read_at_once(name, offset, view)

    def read_at_once(self, name: str, offset: int, buffer: memoryview) -> int:
        """Copy what the page cache holds; only of files that an earlier read has left open."""
        file = self._open.get(name)
        if file is None or offset < 0 or not 0 < len(buffer) <= self._config.read_at_once_bytes_max:
            return 0
        try:
            done = os.preadv(file.descriptor, (buffer,), offset, _RWF_NOWAIT)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # some mounted file systems cannot
                self._reads_at_once = False
                self._close_files()
            return 0  # not cached, or a failure the thread will meet and translate
        self._open.move_to_end(name)
        return done

    def open_file(self, name: str) -> OpenFile | None:
        # What was just read may have been dropped from the page cache since: it would be read from the disk.
        return None if name in self._dropping else self._open.get(name)

    def reopen(self, name: str) -> None:
        for handover in self._opening.pop(name, ()):
            handover.abandon()  # so that the thread closes it, if it still reads
        file = self._open.pop(name, None)
        if file is not None:
            self._close_file(file)

    async def info(self, name: str) -> ChunkObject:
        length = await self._threads.look(stat_file, self._files, name, self._path(name))
        return ChunkObject(name, length)

    async def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        pending = [prefix_directory(prefix)]
        while pending:
            page = await self._threads.look(list_some, self._files, self._root, pending, prefix)
            if page:
                yield page

    # ---------------------------------------------------------------------------------- ending

    async def close(self) -> None:
        self._reads_at_once = False  # reads that end after this keep no descriptor
        self._close_files()

    def _close_files(self) -> None:
        while self._open:
            self._close_file(self._open.popitem()[1])

    def _close_file(self, file: OpenFile) -> None:
        descriptor, file.descriptor = file.descriptor, -1
        close_quietly(self._files, descriptor)

    def statistics(self) -> ChunkFilesStatistics:
        return replace(self._statistics)

    # ---------------------------------------------------------------------------------- inside

    def _path(self, name: str) -> str:
        return f"{self._root}/{encode_chunk_path(name)}"

    def _lineage(self, directory: str) -> Sequence[str]:
        """Return ``directory`` and those above it up to the root: each must be synced for a file to last."""
        lineage = []
        while len(directory) > len(self._root):
            lineage.append(directory)
            directory = directory.rpartition("/")[0]
        lineage.append(self._root)
        return lineage

    def _cache_file(self, name: str, descriptor: int) -> None:
        """Keep a descriptor open for the next read, unless another read was faster."""
        if not self._reads_at_once or name in self._open:
            close_quietly(self._files, descriptor)
            return
        self._open[name] = OpenFile(descriptor)
        if len(self._open) > self._config.descriptors_max:
            self._close_file(self._open.popitem(last=False)[1])

    def _forget(self, name: str) -> None:
        self._written.forget(name)
        self.reopen(name)  # an open file keeps its space
