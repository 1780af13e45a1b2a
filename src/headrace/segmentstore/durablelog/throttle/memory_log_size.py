"""Delay because the storage writer has too many operations before it, however small they are."""

from __future__ import annotations

from headrace.segmentstore.durablelog.throttle.config import ThrottleConfig
from headrace.segmentstore.durablelog.throttle.curve import bounded_delay_s


def delay_s(operations: int, operations_max: int, config: ThrottleConfig) -> float:
    """Return the delay while ``operations`` of ``operations_max`` wait in the memory log."""
    begin = config.memory_log_share * operations_max
    return bounded_delay_s(operations, begin, operations_max, config.delay_half_s, config.delay_max_s)
