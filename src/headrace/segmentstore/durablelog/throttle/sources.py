"""Asks every source for its delay: the longest counts, they do not add up.

There is no source for half-empty frames: a log that waits a moment to fill its frame pays with the latency of
every append for fewer writes. Here the open frame fills for as long as every writer of the log is busy, which
is exactly when fewer writes help, and is written at once when one is free.
"""

from __future__ import annotations

from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.durablelog.frame_dispatch import FrameDispatch
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.durablelog.throttle import (
    cache_pressure,
    memory_log_size,
    storage_backlog,
    wal_queue,
)
from headrace.segmentstore.durablelog.throttle.config import ThrottleConfig
from headrace.wal.contract import Wal


class ThrottleSources:
    """The sources of one container."""

    __slots__ = ("_config", "_dispatch", "_memory_log", "_read_index", "_unstored_bytes_max", "_wal")

    def __init__(
        self,
        config: ThrottleConfig,
        *,
        read_index: ReadIndex,
        memory_log: OperationMemoryLog,
        dispatch: FrameDispatch,
        wal: Wal,
        unstored_bytes_max: int,
    ) -> None:
        self._config = config
        self._read_index = read_index
        self._memory_log = memory_log
        self._dispatch = dispatch
        self._wal = wal
        self._unstored_bytes_max = unstored_bytes_max

    def measure(self) -> tuple[float, str]:
        """Return the delay of now in seconds and the name of the source that asks for it."""
        config, index, log = self._config, self._read_index, self._memory_log
        delay, source = 0.0, ""
        found = storage_backlog.delay_s(index.unstored_bytes(), self._unstored_bytes_max, config)
        if found > delay:
            delay, source = found, "storage backlog"
        found = cache_pressure.delay_s(index.cache_pressure(), config)
        if found > delay:
            delay, source = found, "cache pressure"
        found = memory_log_size.delay_s(len(log), log.count_max, config)
        if found > delay:
            delay, source = found, "memory log size"
        frames = self._dispatch.frames_held
        if frames > 1:
            in_flight = self._dispatch.frames_in_flight
            found = wal_queue.delay_s(frames, in_flight, self._wal.write_seconds_last, config)
            if found > delay:
                delay, source = found, "wal queue"
        return delay, source
