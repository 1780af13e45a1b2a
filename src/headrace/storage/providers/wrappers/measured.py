"""Counts and times the calls of a chunk provider."""

from __future__ import annotations

from asyncio import get_running_loop
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.errors import StorageReadRefusedError, StorageWriteRefusedError
from headrace.runtime.latency import LATENCY_EDGES_S, no_latencies
from headrace.runtime.open_file import OpenFile
from headrace.storage.providers.contract import Buffer, ChunkObject, ChunkProvider
from headrace.storage.providers.files.local_chunks import LocalChunks
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper

REFUSED_S: Final = 120.0
"""A refusal counts until a call of its kind succeeds, or for so long after the last one: perhaps nobody asks
again. What cannot be stored is tried more often than that.
"""


@dataclass(slots=True)
class CallStatistics:
    """Of one kind of call: counts since creation of those that ended, and gauges of now."""

    calls: int = 0
    """Those that failed among them."""

    errors: dict[str, int] = field(default_factory=dict)
    """Failed calls by the class of the error; ``CancelledError``: the caller gave up, at a timeout mostly."""

    bytes: int = 0
    """That were written or read by those that succeeded."""

    in_flight: int = 0
    in_flight_max: int = 0
    seconds_total: float = 0.0
    seconds_max: float = 0.0
    by_bucket: list[int] = field(default_factory=no_latencies)
    """Calls by ``LATENCY_EDGES_S``."""

    refused: str = ""
    """Why the store refuses such calls; empty if it does not."""
    refused_at: float = 0.0
    """By the clock of the loop."""

    @property
    def succeeded(self) -> int:
        return self.calls - sum(self.errors.values())

    def begin(self) -> float:
        """Count a call that begins; return what its end has to be given."""
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        return get_running_loop().time()

    def end(self, begin_s: float, size: int = 0) -> None:
        """Count a call that succeeded, with so many bytes."""
        self.refused = ""
        self._end(begin_s, size)

    def _end(self, begin_s: float, size: int) -> None:
        seconds = get_running_loop().time() - begin_s
        self.in_flight -= 1
        self.calls += 1
        self.bytes += size
        self.seconds_total += seconds
        self.seconds_max = max(self.seconds_max, seconds)
        self.by_bucket[bisect_left(LATENCY_EDGES_S, seconds)] += 1

    def fail(self, begin_s: float, error: BaseException) -> None:
        """Count a call that failed."""
        self._end(begin_s, 0)
        if isinstance(error, StorageReadRefusedError | StorageWriteRefusedError):
            self.refused, self.refused_at = error.reason, get_running_loop().time()
        name = type(error).__name__
        self.errors[name] = self.errors.get(name, 0) + 1

    def copy(self) -> CallStatistics:
        """Return what they are now."""
        now = get_running_loop().time()
        refused = self.refused if now - self.refused_at < REFUSED_S else ""
        return replace(self, refused=refused, errors=dict(self.errors), by_bucket=list(self.by_bucket))


@dataclass(slots=True)
class ProviderStatistics:
    """Counts since creation, of what succeeded; and each kind of call."""

    objects_created: int = 0
    objects_deleted: int = 0
    bytes_written: int = 0
    bytes_read: int = 0
    reads: int = 0
    reads_at_once: int = 0
    """Reads answered on the loop, without a thread."""

    calls: dict[str, CallStatistics] = field(default_factory=dict)
    """``create``, ``append``, ``read``, ``delete``, ``info``, and ``list`` with a call for each page."""

    def refusals(self) -> dict[str, str]:
        """Return why the store refuses calls, by kind."""
        return {kind: counted.refused for kind, counted in self.calls.items() if counted.refused}


class MeasuredChunkProvider(ChunkProviderWrapper):
    def __init__(self, provider: ChunkProvider) -> None:
        super().__init__(provider)
        self._create = CallStatistics()
        self._append = CallStatistics()
        self._read = CallStatistics()
        self._delete = CallStatistics()
        self._info = CallStatistics()
        self._list = CallStatistics()
        local = provider.local
        self._local = None if local is None else _MeasuredLocalChunks(local)

    @property
    def local(self) -> LocalChunks | None:
        return self._local

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        begin_s = self._create.begin()
        try:
            await self.provider.create(name, buffers, beside)
        except BaseException as error:
            self._create.fail(begin_s, error)
            raise
        self._create.end(begin_s, sum(map(len, buffers)))

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        begin_s = self._append.begin()
        try:
            await self.provider.append(name, offset, buffers, beside)
        except BaseException as error:
            self._append.fail(begin_s, error)
            raise
        self._append.end(begin_s, sum(map(len, buffers)))

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        begin_s = self._read.begin()
        try:
            data = await self.provider.read(name, offset, length)
        except BaseException as error:
            self._read.fail(begin_s, error)
            raise
        self._read.end(begin_s, len(data))
        return data

    async def delete(self, name: str) -> None:
        begin_s = self._delete.begin()
        try:
            await self.provider.delete(name)
        except BaseException as error:
            self._delete.fail(begin_s, error)
            raise
        self._delete.end(begin_s)

    async def info(self, name: str) -> ChunkObject:
        begin_s = self._info.begin()
        try:
            found = await self.provider.info(name)
        except BaseException as error:
            self._info.fail(begin_s, error)
            raise
        self._info.end(begin_s)
        return found

    async def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        pages = self.provider.list(prefix)
        while True:
            begin_s = self._list.begin()
            try:
                page = await anext(pages, None)
            except BaseException as error:
                self._list.fail(begin_s, error)
                raise
            self._list.end(begin_s)
            if page is None:
                return
            yield page

    def statistics(self) -> ProviderStatistics:
        local = self._local
        return ProviderStatistics(
            objects_created=self._create.succeeded,
            objects_deleted=self._delete.succeeded,
            bytes_written=self._create.bytes + self._append.bytes,
            bytes_read=self._read.bytes + (0 if local is None else local.bytes_read),
            reads=self._read.succeeded,
            reads_at_once=0 if local is None else local.reads_at_once,
            calls={
                "create": self._create.copy(),
                "append": self._append.copy(),
                "read": self._read.copy(),
                "delete": self._delete.copy(),
                "info": self._info.copy(),
                "list": self._list.copy(),
            },
        )


class _MeasuredLocalChunks:
    def __init__(self, local: LocalChunks) -> None:
        self._read_at_once = local.read_at_once
        self.open_file: Callable[[str], OpenFile | None] = local.open_file
        self.reopen: Callable[[str], None] = local.reopen
        self.reads_at_once = 0
        self.bytes_read = 0

    def read_at_once(self, name: str, offset: int, buffer: memoryview) -> int:
        done = self._read_at_once(name, offset, buffer)
        self.reads_at_once += done == len(buffer)
        self.bytes_read += done
        return done
