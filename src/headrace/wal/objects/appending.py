"""The frames of an owner until their answers: records are created beside each other, answered in order."""

from __future__ import annotations

import asyncio
from bisect import bisect_left

from headrace.errors import DataCorruptionError, FencedOutError, HeadraceError, StorageFullError
from headrace.runtime.latency import LATENCY_EDGES_S
from headrace.wal.contract import WalStatistics
from headrace.wal.frame import Done, Frame
from headrace.wal.objects.append_window import AppendWindow, NewRecord
from headrace.wal.objects.config import ObjectLogConfig
from headrace.wal.objects.living_log import LivingLog
from headrace.wal.objects.object_calls import ObjectCalls
from headrace.wal.objects.object_format import Kind, LogObject, ObjectHeader, object_bytes
from headrace.wal.objects.object_names import Position, record_name


class Appending:
    """Made once a log is taken. Used on one loop."""

    def __init__(
        self,
        calls: ObjectCalls,
        living: LivingLog,
        container_epoch: int,
        write_id: bytes,
        config: ObjectLogConfig,
        statistics: WalStatistics,
    ) -> None:
        self._calls = calls
        self._living = living
        self._container_epoch = container_epoch
        self._write_id = write_id
        self._config = config
        self._statistics = statistics
        self._window: AppendWindow[Frame] = AppendWindow(
            next_address=living.next_address, window=config.window, record_bytes_max=config.record_bytes_max
        )
        self._creations: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        self._waits = True
        self._idle: asyncio.Future[None] | None = None

    def append(self, frame: Frame, done: Done) -> None:
        """See ``Wal.append``."""
        loop = asyncio.get_running_loop()
        frame.done = done
        frame.started_at = loop.time()
        frame.address = self._window.add(frame, frame.length)
        if self._window.failure is None:
            self._create_next()
        else:
            loop.call_soon(self._answer)

    def separate(self) -> None:
        """See ``Wal.separate``."""
        self._window.separate()

    def stop_waiting(self) -> None:
        """See ``Wal.stop_waiting``."""
        self._waits = False
        if self._window.waits_for_space:
            self._window.fail(StorageFullError("the store of the log has no space"))
            asyncio.get_running_loop().call_soon(self._answer)

    async def wait_idle(self) -> None:
        """Wait until every frame is answered."""
        while self._window.frames_pending:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def end(self) -> None:
        """Nothing is in flight any more, and nothing follows."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def frames_pending(self) -> int:
        """Frames without an answer."""
        return self._window.frames_pending

    def fill_statistics(self, statistics: WalStatistics) -> None:
        """Enter gauges of now."""
        statistics.frames_in_flight = self._window.frames_pending
        statistics.frames_queued = self._window.frames_queued
        statistics.space_waiting = int(self._window.waits_for_space)
        if self._window.waits_for_space:
            statistics.frames_queued = statistics.frames_in_flight
        statistics.bytes_in_flight = self._window.bytes_pending
        statistics.log_bytes = self._living.record_bytes

    # ---------------------------------------------------------------------------------- records

    def _create_next(self) -> None:
        """Create what may be created now; come back when more may."""
        loop = asyncio.get_running_loop()
        linger_s = self._config.linger_s
        if self._timer is not None and self._window.has_full_record and not self._window.waits_for_space:
            self._timer.cancel()
            self._timer = None
        while self._timer is None:
            lingers = loop.time() < self._next_at and not self._window.has_full_record
            if linger_s and lingers:
                self._timer = loop.call_at(self._next_at, self._on_timer)
                return
            record = self._window.next_record()
            if record is None:
                return
            self._next_at = loop.time() + linger_s
            self._start(record)

    def _on_timer(self) -> None:
        self._timer = None
        for record in self._window.retry_full():
            self._start(record)
        self._create_next()

    def _start(self, record: NewRecord[Frame]) -> None:
        task = asyncio.get_running_loop().create_task(self._create(record))
        self._creations.add(task)
        task.add_done_callback(self._creations.discard)

    async def _create(self, record: NewRecord[Frame]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._create_once(record)
            self._window.on_created(record)
        except StorageFullError as error:
            self._on_full(record, error)
        except HeadraceError as error:
            self._window.on_failed(record, error)
        seconds = loop.time() - began
        self._statistics.disk_writes += 1
        self._statistics.disk_seconds_total += seconds
        self._statistics.disk_by_bucket[bisect_left(LATENCY_EDGES_S, seconds)] += 1
        self._answer()
        self._create_next()

    async def _create_once(self, record: NewRecord[Frame]) -> None:
        position = Position(self._container_epoch, record.sequence)
        name = record_name(self._living.container, position)
        header = ObjectHeader(
            Kind.RECORD,
            self._living.container,
            *position,
            address=record.address,
            acknowledged=record.acknowledged,
            write_id=self._write_id,
        )
        frames = [frame.view[: frame.length] for frame in record.frames]
        other = await self._calls.create(name, header, frames)
        if other is None:
            return
        if other.header.kind is Kind.FENCE:
            raise FencedOutError("a newer owner has taken the log")
        raise DataCorruptionError("another owner has written in this container epoch", path=name)

    def _on_full(self, record: NewRecord[Frame], error: StorageFullError) -> None:
        if not self._waits or self._window.failure is not None:
            self._window.on_failed(record, error)
            return
        self._window.on_full(record)
        self._statistics.space_waits += 1
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._config.full_pause_s, self._on_timer)

    # ---------------------------------------------------------------------------------- answers

    def _answer(self) -> None:
        """Answer what can be answered, in order."""
        while True:
            frames, record = self._window.next_answered()
            if not frames:
                break
            if record is not None:
                header = ObjectHeader(Kind.RECORD, 0, 0)
                contents = [frame.view[: frame.length] for frame in frames]
                self._living.add(object_bytes(LogObject(header, contents)), len(frames))
            now = asyncio.get_running_loop().time()
            for frame in frames:
                done, frame.done = frame.done, None
                assert done is not None
                if record is not None:
                    self._statistics.count_frame(frame.length, now - frame.started_at)
                done(frame, None if record is not None else self._window.failure)
        if self._idle is not None and not self._window.frames_pending:
            self._idle.set_result(None)
            self._idle = None

    def check(self) -> None:
        """Assert the invariants."""
        self._window.check()
