"""Appends records to a log, as many at once as the log lends frames."""

from __future__ import annotations

import asyncio

from headrace.errors import DataCorruptionError
from headrace.wal.contract import Wal, WalFrame


class RecordWriter:
    """Records of ``wal``, which is open. After an error nothing more is written."""

    def __init__(self, wal: Wal) -> None:
        self._wal = wal
        self._changed = asyncio.Event()
        self._in_flight = 0
        self._failure: Exception | None = None

    async def write(self, record: bytes | memoryview) -> None:
        """Append a record, which is copied; wait for a frame if need be.

        Raises:
            DataCorruptionError: it is too long for a log.
            FencedOutError, StorageFullError, WalWriteError: an earlier one was not written.
        """
        if len(record) > self._wal.frame_bytes_max:
            raise DataCorruptionError(f"a record of {len(record)} bytes is too long for a log")
        frame = self._wal.acquire_frame()
        while frame is None and self._failure is None:
            await self._wait()
            frame = self._wal.acquire_frame()
        if frame is None or self._failure is not None:
            assert self._failure is not None
            if frame is not None:
                self._wal.release_frame(frame)
            raise self._failure
        frame.view[: len(record)] = record
        frame.length = len(record)
        self._in_flight += 1
        self._wal.append(frame, self._on_done)

    async def finish(self) -> None:
        """Return when all are durable. Raises as :meth:`write`."""
        while self._in_flight:
            await self._wait()
        if self._failure is not None:
            raise self._failure

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _on_done(self, frame: WalFrame, error: Exception | None) -> None:
        self._in_flight -= 1
        self._wal.release_frame(frame)
        if self._failure is None:
            self._failure = error
        self._changed.set()
