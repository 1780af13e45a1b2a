"""Reads from long-term storage for readers: each range once, few at a time, cached afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    HeadraceError,
    StorageReadError,
)
from headrace.limits import READ_BYTES_MAX
from headrace.segmentstore.contract import StorageReader
from headrace.segmentstore.readindex.prefetch_policy import PIECE_BYTES
from headrace.segmentstore.readindex.segment_index import SegmentIndex


class Spawner(Protocol):
    """Starts a coroutine that is not lost: a supervisor."""

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None], /) -> object: ...


@dataclass(slots=True, eq=False)
class Fetch:
    """A storage read of ``[start, end)`` of a segment, queued or in flight."""

    index: SegmentIndex
    start: int
    end: int
    done: asyncio.Future[memoryview]
    foreground: bool


@dataclass(slots=True)
class FetchStatistics:
    in_flight: int = 0
    queued: int = 0
    reads: int = 0
    bytes_read: int = 0
    ahead_reads: int = 0
    shared: int = 0
    failures: int = 0


class StorageFetches:
    """All storage reads of one container.

    At most ``fetches_max`` are in flight; further ones wait for a slot, first come, first served. Waiting and
    reading together fail after ``timeout_s``. Reading ahead neither waits nor blocks a reader: it is skipped
    while it uses half of the slots.
    """

    def __init__(self, storage: StorageReader, spawner: Spawner, fetches_max: int, timeout_s: float) -> None:
        self._storage = storage
        self._spawner = spawner
        self._fetches_max = fetches_max
        self._timeout_s = timeout_s
        self._pending: dict[SegmentIndex, list[Fetch]] = {}
        self._slots = asyncio.Semaphore(fetches_max)
        self._ahead = 0  # reads ahead that have not ended
        self._closed = False
        self.statistics = FetchStatistics()

    async def fetch(self, index: SegmentIndex, offset: int, end: int) -> memoryview:
        """Return bytes of ``[offset, end)`` from ``offset`` on, maybe fewer than all.

        A caller that begins inside a range in flight gets its part of it: none, if storage had only bytes
        in front of it; then it has to retry. Cancelling a caller does not stop the read.
        """
        fetch = self._find(index, offset)
        if fetch is None:
            fetch = self._start(index, offset, self._next_pending(index, offset, end), foreground=True)
        else:
            self.statistics.shared += 1
        data = await asyncio.shield(fetch.done)
        return data[offset - fetch.start : end - fetch.start]

    def fetch_ahead(self, index: SegmentIndex, start: int, end: int) -> None:
        """Begin to read stored parts of ``[start, end)`` not cached nor in flight, as slots allow."""
        end = min(end, index.state.stored_length)
        position = start
        while position < end:
            covered = index.covered_until(position, end)
            pending = self._find(index, position)
            redirect = index.redirects.find(position)
            if covered > position:
                position = covered
            elif pending is not None:
                position = pending.end
            elif redirect is not None:
                position = redirect.end
            elif self._ahead >= self._fetches_max // 2 or self.statistics.queued:
                return
            else:
                piece_end = min(end, (position // PIECE_BYTES + 1) * PIECE_BYTES)
                piece_end = self._next_pending(index, position, index.next_cached(position, piece_end))
                position = self._start(index, position, piece_end, foreground=False).end

    def is_pending(self, index: SegmentIndex, offset: int) -> bool:
        """Whether the byte at ``offset`` is being fetched."""
        return self._find(index, offset) is not None

    def forget(self, index: SegmentIndex, error: HeadraceError) -> None:
        """The index was removed: fail its readers with ``error``; bytes that still arrive are not cached."""
        for fetch in self._pending.pop(index, ()):
            self._fail(fetch, error)

    def close(self) -> None:
        """Fail every waiting read. Reads in flight end by themselves, or when the spawner stops."""
        self._closed = True
        for index in list(self._pending):
            self.forget(index, ContainerOfflineError("the container stops"))

    def _find(self, index: SegmentIndex, offset: int) -> Fetch | None:
        for fetch in self._pending.get(index, ()):
            if fetch.start <= offset < fetch.end:
                return fetch
        return None

    def _next_pending(self, index: SegmentIndex, offset: int, end: int) -> int:
        for fetch in self._pending.get(index, ()):
            if offset < fetch.start < end:
                end = fetch.start
        return end

    def _start(self, index: SegmentIndex, start: int, end: int, *, foreground: bool) -> Fetch:
        assert start < end
        assert not self._closed
        end = min(end, start + READ_BYTES_MAX)
        done: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        fetch = Fetch(index, start, end, done, foreground)
        self._pending.setdefault(index, []).append(fetch)
        try:
            self._spawner.spawn(f"read {index.state.name} {start}-{end}", self._perform(fetch))
        except HeadraceError:
            self._remove(fetch)
            raise
        if not foreground:
            self._ahead += 1
            self.statistics.ahead_reads += 1
        return fetch

    async def _perform(self, fetch: Fetch) -> None:
        """Perform one read and resolve its future. Raises only CancelledError."""
        statistics = self.statistics
        try:
            data = await self._read(fetch)
        except asyncio.CancelledError:
            self._remove(fetch)
            self._fail(fetch, ContainerOfflineError("the container stops"))
            raise
        except Exception as error:  # noqa: BLE001 - every error is the readers' answer
            statistics.failures += 1
            self._remove(fetch)
            self._fail(fetch, error)
        else:
            statistics.reads += 1
            statistics.bytes_read += len(data)
            if self._remove(fetch):
                fetch.done.set_result(data)
                fetch.index.insert_history(fetch.start, data)
        finally:
            self._ahead -= not fetch.foreground

    async def _read(self, fetch: Fetch) -> memoryview:
        """Return the bytes of a fetch, or those in front of what storage cannot read."""
        name, size = fetch.index.state.storage_name, fetch.end - fetch.start
        statistics, lacking = self.statistics, "slot to read in"
        try:
            # One timeout for both: a reader waits for a slot as it waits for storage.
            async with asyncio.timeout(self._timeout_s):
                statistics.queued += 1
                try:
                    await self._slots.acquire()
                finally:
                    statistics.queued -= 1
                statistics.in_flight += 1
                lacking = "answer"
                try:
                    data = memoryview(await self._storage.read_some(name, fetch.start, size)).toreadonly()
                finally:
                    statistics.in_flight -= 1
                    self._slots.release()
        except TimeoutError as error:
            raise StorageReadError(
                f"{name!r} at {fetch.start}: no {lacking} in {self._timeout_s} s"
            ) from error
        if not 0 < len(data) <= size:
            raise DataCorruptionError(
                f"storage answered {len(data)} of {size} bytes", path=name, offset=fetch.start
            )
        return data

    def _remove(self, fetch: Fetch) -> bool:
        """Remove a fetch from the list; return False if its index was removed meanwhile."""
        pending = self._pending.get(fetch.index)
        if pending is None or fetch not in pending:
            return False
        pending.remove(fetch)
        if not pending:
            del self._pending[fetch.index]
        return True

    @staticmethod
    def _fail(fetch: Fetch, error: Exception) -> None:
        if not fetch.done.done():
            fetch.done.set_exception(error)
            fetch.done.exception()  # a read ahead may have no waiter

    def check(self) -> None:
        """Assert that no byte is fetched twice."""
        for index, fetches in self._pending.items():
            ordered = sorted(fetches, key=lambda fetch: fetch.start)
            assert all(fetch.index is index for fetch in ordered)
            assert all(left.end <= right.start for left, right in pairwise(ordered))
