"""The write-ahead log in memory: the same contract without a disk, for ``--in-memory`` and for tests.

A ``MemoryLogStore`` stands for the disk: it outlives its logs, so a second ``open`` of a name finds
what the first one had acknowledged, and fences it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import FencedOutError, StorageFullError
from headrace.limits import GIB
from headrace.wal.config import WalConfig
from headrace.wal.contract import WalFrame, WalRecord, WalStatistics
from headrace.wal.frame import Done, Frame
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.frame_pool import FrameLender, FramePool
from headrace.wal.record_format import FIRST_SEQUENCE

_COPIED_AT_ONCE: Final = 8
"""Records of one step of a copy: several steps, as a log on files yields them."""


@dataclass(slots=True)
class MemoryLog:
    """What is durable of one log."""

    epoch: int = 0
    """Container epoch of its newest owner."""
    was_opened: bool = False
    records: deque[tuple[int, int, bytes]] = field(default_factory=deque)
    """Address, container epoch, content."""

    next_address: int = FIRST_SEQUENCE
    truncation_address: int = FIRST_SEQUENCE


class MemoryLogStore:
    """Logs by name, with one bound in bytes for all of them: beyond it appends wait as on a full disk."""

    def __init__(self, bytes_max: int = 4 * GIB) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self._logs: dict[str, MemoryLog] = {}
        self._waiting: list[Callable[[], None]] = []

    def get_log(self, name: str) -> MemoryLog:
        """Return the log ``name``, a new one if it was not opened before."""
        return self._logs.setdefault(name, MemoryLog())

    def find_log(self, name: str) -> MemoryLog | None:
        """Return the log ``name``, None if there is none."""
        return self._logs.get(name)

    def names(self) -> list[str]:
        """Return the names of all logs."""
        return list(self._logs)

    def delete_log(self, name: str) -> None:
        """Delete the log ``name``, which has no owner; if there is none, nothing."""
        log = self._logs.pop(name, None)
        if log is not None:
            self.bytes_used -= sum(len(content) for *_, content in log.records)
            self.changed()

    def when_changed(self, retry: Callable[[], None]) -> None:
        """Call ``retry`` once, when there may be space or another owner."""
        self._waiting.append(retry)

    def changed(self) -> None:
        """Call the retries that wait for space."""
        waiting, self._waiting = self._waiting, []
        for retry in waiting:
            retry()


class MemoryWal(FrameLender):
    """A ``Wal`` named ``name`` in ``store``. A frame is durable one iteration of the loop after ``append``.

    ``frames``: memory shared with other logs of this loop.
    """

    def __init__(
        self,
        store: MemoryLogStore,
        name: str,
        config: WalConfig | None = None,
        *,
        frames: FrameMemory | None = None,
    ) -> None:
        self._store = store
        self._log = store.get_log(name)
        self._config = WalConfig() if config is None else config
        super().__init__(FramePool(self._config.frame_bytes_max, self._config.frames_max, frames))
        self._container_epoch = 0
        self._in_flight: deque[Frame] = deque()
        self._next_address = 0
        self._failure: Exception | None = None
        self._is_blocked = False
        self._waits = True
        self._appended = False
        self._closed = False
        self._idle: asyncio.Future[None] | None = None
        self._statistics = WalStatistics()

    @property
    def epoch(self) -> int:
        assert self._container_epoch  # valid after open
        return self._container_epoch

    async def open(self) -> None:
        assert not self._container_epoch
        assert not self._closed
        self._log.epoch += 1
        self._log.was_opened = True
        self._container_epoch = self._log.epoch
        self._next_address = self._log.next_address
        self._statistics.log_bytes = sum(len(content) for *_, content in self._log.records)
        self._store.changed()

    async def records(self) -> AsyncGenerator[WalRecord, None]:
        assert self._container_epoch
        assert not self._appended
        for address, _, content in list(self._log.records):
            yield WalRecord(address, memoryview(content))

    async def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        records = list(self._log.records)
        for start in range(0, len(records), _COPIED_AT_ONCE):
            yield [content for *_, content in records[start : start + _COPIED_AT_ONCE]]

    @property
    def slots_free(self) -> int:
        return max(0, self._config.frames_in_flight_max - len(self._in_flight))

    @property
    def write_seconds_last(self) -> float:
        return self._statistics.write_seconds_last

    def append(self, frame: WalFrame, done: Done) -> None:
        frame = self._pool.lent(frame)
        assert self._container_epoch
        assert not self._closed
        self._appended = True
        frame.address = self._next_address
        frame.done = done
        self._next_address += 1
        self._in_flight.append(frame)
        loop = asyncio.get_running_loop()
        frame.started_at = loop.time()
        if not self._is_blocked:
            loop.call_soon(self._store_next)

    async def is_fenced(self) -> bool:
        """See ``Wal.is_fenced``."""
        return self._container_epoch > 0 and self._log.epoch != self._container_epoch

    def stop_waiting(self) -> None:
        """See ``Wal.stop_waiting``."""
        self._waits = False
        self._store.changed()

    def _store_next(self) -> None:
        """Make the oldest frame in flight durable, unless it must not be or there is no space, and answer."""
        if not self._in_flight:
            return
        frame = self._in_flight[0]
        if self._failure is None:
            self._failure = self._find_failure(frame)
        if isinstance(self._failure, StorageFullError) and self._waits:
            self._failure = None
            self._block()
            return
        self._in_flight.popleft()
        if self._failure is None:
            self._store_frame(frame)
        done = frame.done
        frame.done = None
        assert done is not None
        if self._idle is not None and not self._in_flight:
            self._idle.set_result(None)
            self._idle = None
        done(frame, self._failure)

    def _store_frame(self, frame: Frame) -> None:
        content = bytes(frame.view[: frame.length])
        self._log.records.append((frame.address, self._container_epoch, content))
        self._log.next_address = frame.address + 1
        self._store.bytes_used += len(content)
        self._statistics.log_bytes += len(content)
        self._statistics.count_frame(len(content), asyncio.get_running_loop().time() - frame.started_at)

    def _find_failure(self, frame: Frame) -> Exception | None:
        if self._log.epoch != self._container_epoch:
            return FencedOutError("a newer owner has taken the log")
        if self._store.bytes_used + frame.length > self._store.bytes_max:
            return StorageFullError("the memory of the log store is used up")
        return None

    def _block(self) -> None:
        """Keep all frames in flight waiting until something changes; their answers follow then."""
        if not self._is_blocked:
            self._is_blocked = True
            self._statistics.space_waits += 1
            self._statistics.space_waiting = 1
            self._store.when_changed(self._resume)

    def _resume(self) -> None:
        self._is_blocked = False
        self._statistics.space_waiting = 0
        loop = asyncio.get_running_loop()
        for _ in self._in_flight:
            loop.call_soon(self._store_next)

    async def purge_freed(self) -> bool:
        return True

    async def separate(self) -> None:
        """See ``Wal.separate``: every record is stored apart here."""

    async def truncate(self, address: int) -> None:
        if self._log.epoch != self._container_epoch:
            raise FencedOutError("a newer owner has taken the log")
        log = self._log
        log.truncation_address = max(log.truncation_address, min(address, log.next_address))
        while log.records and log.records[0][0] < log.truncation_address:
            *_, content = log.records.popleft()
            self._store.bytes_used -= len(content)
            self._statistics.log_bytes -= len(content)
        self._store.changed()

    async def close(self) -> None:
        self._closed = True
        self.stop_waiting()
        while self._in_flight:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        self._pool.close()

    def statistics(self) -> WalStatistics:
        statistics = self._statistics.copy()
        statistics.frames_in_flight = statistics.frames_queued = len(self._in_flight)
        statistics.bytes_in_flight = sum(frame.length for frame in self._in_flight)
        statistics.frames_free = self._pool.frames_free
        return statistics

    def check(self) -> None:
        """Assert the invariants."""
        self._pool.check()
        addresses = [address for address, *_ in self._log.records]
        assert addresses == sorted(set(addresses))
        assert all(self._log.truncation_address <= address < self._log.next_address for address in addresses)
