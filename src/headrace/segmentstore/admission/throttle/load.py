"""The load of a container, and the delay for it: the longest of four delays, not their sum.

Bounded loads share one curve. Between two delays a fixed number of bytes is admitted, so the rate is that
number divided by the delay. A linear delay would lower the rate to a minimum right behind its beginning and
leave most of the band unused: rates would oscillate. With ``half * x / (1 - x)`` the rate falls evenly over
the band, and a container settles at the rate of its storage.

Half-empty frames are no load. A delay to fill them would add latency to every append for fewer writes. The
open frame is filled while every writer of the log is busy, which is when fewer writes help, and is written at
once when one is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.segmentstore.admission.throttle.config import ThrottleConfig

WAL_QUEUE: Final = "wal queue"
"""The only source of a delay that storing does not end."""


@dataclass(slots=True)
class Load:
    """The current load of one container."""

    unstored_bytes: int = 0
    """Bytes that only the log and the cache have."""
    unstored_bytes_max: int = 1
    cache_pressure: float = 0.0
    """Fraction of its part of the cache that the container uses."""
    operations: int = 0
    """Operations that wait for the storage writer, however small they are."""
    operations_max: int = 1
    frames: int = 0
    """Frames that are not durable, ``frames_in_flight`` of them handed to the log."""
    frames_in_flight: int = 0
    write_s: float = 0.0
    """Recent time for a frame to become durable."""


def longest_delay(load: Load, config: ThrottleConfig) -> tuple[float, str]:
    """Return the delay in seconds and its source; 0 and an empty name if there is none."""
    half_s, max_s = config.delay_half_s, config.delay_max_s
    backlog = load.unstored_bytes / load.unstored_bytes_max
    operations = load.operations / load.operations_max
    delays = (
        (bounded_delay_s(backlog, config.backlog_share, 1.0, half_s, max_s), "storage backlog"),
        (bounded_delay_s(load.cache_pressure, config.cache_share, 1.0, half_s, max_s), "cache pressure"),
        (bounded_delay_s(operations, config.memory_log_share, 1.0, half_s, max_s), "memory log size"),
        (_queue_delay_s(load, config), WAL_QUEUE),
    )
    delay, source = max(delays, key=lambda each: each[0])
    return (delay, source) if delay else (0.0, "")


def bounded_delay_s(level: float, begin: float, end: float, half_s: float, max_s: float) -> float:
    """Return the delay at ``level``: 0 up to ``begin``, ``half_s`` half way, ``max_s`` from ``end`` on."""
    if level <= begin:
        return 0.0
    if level >= end:
        return max_s
    above, below = level - begin, end - level
    return min(max_s, half_s * above / below)


def _queue_delay_s(load: Load, config: ThrottleConfig) -> float:
    """Return the time the log's queue needs to shrink to ``wal_queue_s``: linear in its length.

    The pool of frames bounds how much can wait, this bounds how *long*: with a shorter queue a checkpoint or
    a delete is durable sooner, and fewer operations have an unknown outcome if the log fails.
    """
    if load.frames <= 1 or not load.frames_in_flight:
        return 0.0
    expected_s = load.write_s * load.frames / load.frames_in_flight
    return min(config.delay_max_s, max(0.0, expected_s - config.wal_queue_s))
