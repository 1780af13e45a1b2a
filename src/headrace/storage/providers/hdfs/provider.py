"""Chunks as files of HDFS, named as on any file system, through a name node and hdfs-native (no Java here).

Blocking calls (:mod:`.hdfs_files`) run in threads (``HDFS_THREADS``). The library has coroutines too, but
they do their work on the event loop, and panic where they should wait for a name node that is away.

A write that returned is synced by every data node that has the block.

While a file is appended to, its last block cannot be read. Reads wait for writes of this provider, therefore,
and have a file closed that another process left open: by then that is dead, or has lost the container, and
is fenced. A provider that only looks waits until the name node has not heard of it for a minute.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from headrace.errors import InvalidArgumentError, StorageReadError, StorageWriteError, UnsupportedError
from headrace.storage.providers.contract import Buffer, ChunkObject, check_chunk_name
from headrace.storage.providers.files.chunk_files import Wanted
from headrace.storage.providers.files.chunk_paths import encode_chunk_path, prefix_directory
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.hdfs.hdfs_files import (
    HdfsClient,
    LeaseHeldError,
    append_file,
    close_abandoned_file,
    create_file,
    delete_file,
    list_some,
    read_file,
    recover_file,
    stat_file,
)
from headrace.storage.providers.location import StorageLocation

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_RETRIES: Final = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "1000",
}
"""Of a single name node: a thread waits a second for it, not three minutes. Callers retry by themselves."""

_USER: Final = "HADOOP_USER_NAME"

_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Between looks at a file that another process writes: an append takes less, if its process lives."""

_RECOVERY_S: Final = 30.0
_RECOVERY_PAUSE_S: Final = 0.2

_THREADS_END_S: Final = 10.0


class HdfsChunkProvider:
    """Files below the directory of ``location``. Belongs to one event loop.

    ``fences``: whether files that other processes left open are closed although these may live, which ends
    their writes.
    ``closes_threads``: whether ``threads`` are its own.
    """

    def __init__(
        self,
        location: StorageLocation,
        threads: ChunkThreads,
        *,
        closes_threads: bool = False,
        fences: bool = True,
    ) -> None:
        """Raises:
        InvalidArgumentError: the name service is not known, or the process is another user already.
        UnsupportedError: the library is not installed.
        """
        self._client = _make_client(location)
        self._root = f"/{location.prefix}" if location.prefix else ""
        self._threads = threads
        self._closes_threads = closes_threads
        self._fences = fences
        self._locks: dict[str, _NameLock] = {}
        """Of chunks that are written now, and of those that somebody waits for."""

    @property
    def supports_append(self) -> bool:
        return True

    @property
    def local(self) -> None:
        return None

    # ---------------------------------------------------------------------------------- writing

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        check_chunk_name(name)
        wanted = Wanted()
        try:
            async with self._alone(name):
                await self._threads.write(
                    create_file, self._client, name, self._path(name), buffers, beside, wanted
                )
        except asyncio.CancelledError:
            wanted.still = False
            raise

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        call = partial(
            self._threads.write,
            append_file,
            self._client,
            name,
            self._path(name),
            offset,
            buffers,
            beside,
        )
        async with self._alone(name):
            await self._when_closed(name, call, StorageWriteError)

    async def delete(self, name: str) -> None:
        await self._threads.remove(delete_file, self._client, name, self._path(name))

    # ---------------------------------------------------------------------------------- reading

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        call = partial(self._threads.read, read_file, self._client, name, self._path(name), offset, length)
        try:
            return await call()
        except LeaseHeldError:
            async with self._alone(name):
                return await self._when_closed(name, call, StorageReadError)

    async def info(self, name: str) -> ChunkObject:
        length = await self._threads.look(stat_file, self._client, name, self._path(name))
        return ChunkObject(name, length)

    async def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        directory = f"{self._root}/{prefix_directory(prefix)}".rstrip("/") or "/"
        entries = self._client.list_status(directory, recursive=True)
        is_first = True
        while True:
            page = await self._threads.look(list_some, entries, directory, self._root, prefix, is_first)
            if page is None:
                return
            is_first = False
            if page:
                yield page

    # ---------------------------------------------------------------------------------- ending

    async def close(self) -> None:
        if not self._closes_threads:
            return
        self._threads.close()
        try:
            async with asyncio.timeout(_THREADS_END_S):
                await self._threads.wait_closed()
        except TimeoutError:
            _logger.warning("a call to HDFS is stalled and abandoned")

    # ---------------------------------------------------------------------------------- inside

    def _path(self, name: str) -> str:
        return f"{self._root}/{encode_chunk_path(name)}"

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """Let nobody else here write the chunk, or wait for its end: first come, first served."""
        lock = self._locks.setdefault(name, _NameLock())
        lock.users += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.users -= 1
            if not lock.users:
                del self._locks[name]

    async def _when_closed(
        self,
        name: str,
        call: Callable[[], Awaitable[T]],
        kind: type[StorageReadError | StorageWriteError],
    ) -> T:
        """Make a call as soon as no other process writes the file; have it closed if that takes long."""
        for pause_s in _PAUSES_S:
            try:
                return await call()
            except LeaseHeldError:
                await asyncio.sleep(pause_s)
        try:
            await self._recover(name, kind)
            return await call()
        except LeaseHeldError as error:
            raise kind(
                f"{name}: another process writes it, or died within the last minute: {error}"
            ) from error

    async def _recover(self, name: str, kind: type[StorageReadError | StorageWriteError]) -> None:
        """Raises: LeaseHeldError: the process that writes may live, and must not be fenced."""
        _logger.info("closing %s, which another process left open", name)
        close = recover_file if self._fences else close_abandoned_file
        clock = asyncio.get_running_loop()
        begin_s = clock.time()
        while not await self._threads.read(close, self._client, name, self._path(name)):
            if clock.time() - begin_s > _RECOVERY_S:
                raise kind(f"{name}: another process left it open, and it was not closed in {_RECOVERY_S} s")
            await asyncio.sleep(_RECOVERY_PAUSE_S)


class _NameLock:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


def _make_client(location: StorageLocation) -> HdfsClient:
    try:
        library: Any = importlib.import_module("hdfs_native")
    except ImportError as error:
        raise UnsupportedError("hdfs:// needs a library: pip install 'headrace[hdfs]'") from error
    _be_user(location.option("user"))
    is_one_node = location.bucket.rpartition(":")[2].isdigit()
    try:
        client: HdfsClient = library.Client(f"hdfs://{location.bucket}", _RETRIES if is_one_node else None)
    except Exception as error:
        raise InvalidArgumentError(
            f"{location}: {error}; a name service is found by hdfs-site.xml in HADOOP_CONF_DIR"
        ) from error
    return client


def _be_user(user: str) -> None:
    """Name the user, for a cluster without Kerberos. The library takes it from the environment, whenever it
    connects.
    """
    if not user:
        return
    if os.environ.setdefault(_USER, user) != user:
        raise InvalidArgumentError(f"user={user}, but this process is {os.environ[_USER]} to HDFS ({_USER})")
