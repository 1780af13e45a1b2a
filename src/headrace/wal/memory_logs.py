"""The logs of a system in memory: what is left of it when the process ends is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.wal.config import WalConfig
from headrace.wal.contract import Wal
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.logs import LogFrame
from headrace.wal.memory import MemoryLog, MemoryLogStore, MemoryWal

_PREFIX: Final = "container-"


class MemoryLogSnapshot:
    """A ``LogSnapshot`` of a log in memory."""

    problem = ""

    def __init__(self, name: str, log: MemoryLog) -> None:
        self.place = name
        self.epoch = log.epoch
        self.first_address: int | None = log.truncation_address
        self.next_address: int | None = log.next_address
        self._records = list(log.records)

    def frames(self) -> Iterator[LogFrame]:
        for index, (address, epoch, content) in enumerate(self._records):
            yield LogFrame(self.place, index, address, epoch, memoryview(content))


class FoundMemoryLog:
    """A ``FoundLog`` named ``place`` in ``store``."""

    def __init__(self, place: str, store: MemoryLogStore) -> None:
        self.place = place
        self._store = store

    def is_begun(self) -> bool:
        log = self._store.find_log(self.place)
        return log is not None and log.was_opened

    def snapshot(self) -> MemoryLogSnapshot:
        log = self._store.find_log(self.place)
        if log is None:
            raise DataCorruptionError("the log of this container is missing", path=self.place)
        return MemoryLogSnapshot(self.place, log)


class MemoryLogs:
    """``Logs`` in ``store``; ``frames``: memory of all of them."""

    def __init__(
        self, store: MemoryLogStore, config: WalConfig | None = None, *, frames: FrameMemory | None = None
    ) -> None:
        self._store = store
        self._config = config
        self._frames = frames

    def numbers(self) -> list[int]:
        return sorted(int(name.removeprefix(_PREFIX)) for name in self._store.names())

    def log(self, container: int) -> FoundMemoryLog:
        return FoundMemoryLog(f"{_PREFIX}{container}", self._store)

    def make_wal(self, container: int) -> Wal:
        return MemoryWal(self._store, f"{_PREFIX}{container}", self._config, frames=self._frames)

    async def begin(self, container: int, container_epoch: int) -> None:
        self._store.get_log(f"{_PREFIX}{container}").epoch = container_epoch - 1

    async def delete(self, container: int) -> None:
        self._store.delete_log(f"{_PREFIX}{container}")

    async def close(self) -> None:
        """They share nothing that is open."""
