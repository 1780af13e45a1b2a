"""How loaded a container is, and the delay that asks for: the longest of four counts, they do not add up.

Bounded loads share one curve. Between two delays a fixed number of bytes is let in, so the rate is that
number over the delay. A delay that grows in a straight line would cut the rate to a crawl right behind its
beginning and leave most of the band unused: stop and go. With ``half * x / (1 - x)`` every part of the band
belongs to as many rates as any other, and a container settles wherever storage keeps pace.

Half-empty frames are no load: a log that waits a moment to fill its frame pays with the latency of every
append for fewer writes. Here the open frame fills for as long as every writer of the log is busy, which is
exactly when fewer writes help, and is written at once when one is free.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.segmentstore.admission.throttle.config import ThrottleConfig


@dataclass(slots=True)
class Load:
    """What weighs on one container now."""

    unstored_bytes: int = 0
    """Bytes that only the container's log and memory hold."""
    unstored_bytes_max: int = 1
    cache_pressure: float = 0.0
    """The part of what the cache leaves to the container that it uses."""
    operations: int = 0
    """Operations that wait for the storage writer, however small they are."""
    operations_max: int = 1
    frames: int = 0
    """Frames that are not durable, ``frames_in_flight`` of them handed to the log."""
    frames_in_flight: int = 0
    write_s: float = 0.0
    """How long frames took lately to become durable."""


def longest_delay(load: Load, config: ThrottleConfig) -> tuple[float, str]:
    """Return the delay in seconds and what asks for it; 0 and an empty name if nothing does."""
    half_s, max_s = config.delay_half_s, config.delay_max_s
    backlog = load.unstored_bytes / load.unstored_bytes_max
    operations = load.operations / load.operations_max
    delays = (
        (bounded_delay_s(backlog, config.backlog_share, 1.0, half_s, max_s), "storage backlog"),
        (bounded_delay_s(load.cache_pressure, config.cache_share, 1.0, half_s, max_s), "cache pressure"),
        (bounded_delay_s(operations, config.memory_log_share, 1.0, half_s, max_s), "memory log size"),
        (_queue_delay_s(load, config), "wal queue"),
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

    The pool of frames bounds how much can wait, this how *long*: the less lies in front of a checkpoint or a
    delete, the sooner it is durable, and the less has an unknown outcome if the log fails.
    """
    if load.frames <= 1 or not load.frames_in_flight:
        return 0.0
    expected_s = load.write_s * load.frames / load.frames_in_flight
    return min(config.delay_max_s, max(0.0, expected_s - config.wal_queue_s))
