"""Delay because long-term storage is behind: bytes that only this container's log and memory hold."""

from __future__ import annotations

from headrace.segmentstore.durablelog.throttle.config import ThrottleConfig
from headrace.segmentstore.durablelog.throttle.curve import bounded_delay_s


def delay_s(unstored_bytes: int, unstored_bytes_max: int, config: ThrottleConfig) -> float:
    """Return the delay while ``unstored_bytes`` of ``unstored_bytes_max`` wait for storage."""
    begin = config.backlog_share * unstored_bytes_max
    return bounded_delay_s(unstored_bytes, begin, unstored_bytes_max, config.delay_half_s, config.delay_max_s)
