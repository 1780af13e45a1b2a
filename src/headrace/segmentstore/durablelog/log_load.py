"""The load of one container's log, in bytes and operations, compared with its bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.limits import MIB
from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.admission.throttle.load import Load, longest_delay
from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.durablelog.frame_dispatch import FrameDispatch
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.wal.contract import Wal


@dataclass(slots=True)
class ProcessorLimits:
    """Bounds of one operation processor."""

    requests_max: int = 10_000
    unstored_bytes_max: int = 256 * MIB
    throttle: ThrottleConfig = field(default_factory=ThrottleConfig)


class LogLoad:
    """Measures the parts of one container. Has no state of its own."""

    __slots__ = ("_dispatch", "_limits", "_memory_log", "_read_index", "_wal")

    def __init__(
        self,
        limits: ProcessorLimits,
        *,
        read_index: ReadIndex,
        memory_log: OperationMemoryLog,
        dispatch: FrameDispatch,
        wal: Wal,
    ) -> None:
        self._limits = limits
        self._read_index = read_index
        self._memory_log = memory_log
        self._dispatch = dispatch
        self._wal = wal

    def has_memory(self) -> bool:
        """Whether a fresh frame may be opened: memory log and cache can take its content."""
        return (
            len(self._memory_log) < self._memory_log.count_max
            and self._read_index.unstored_bytes() < self._limits.unstored_bytes_max
            and self._read_index.has_free_capacity()
        )

    def measure_delay(self) -> tuple[float, str]:
        """Return the current delay in seconds and its source."""
        memory_log, dispatch = self._memory_log, self._dispatch
        load = Load(
            unstored_bytes=self._read_index.unstored_bytes(),
            unstored_bytes_max=self._limits.unstored_bytes_max,
            cache_pressure=self._read_index.cache_pressure(),
            operations=len(memory_log),
            operations_max=memory_log.count_max,
            frames=dispatch.frames_in_use,
            frames_in_flight=dispatch.frames_in_flight,
            write_s=self._wal.write_seconds_last,
        )
        return longest_delay(load, self._limits.throttle)
