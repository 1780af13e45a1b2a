"""Delay because the write-ahead log is slow: what is accepted has to wait long for its turn on the disk.

The pool of frames bounds how much can wait. This source bounds how *long*: the less lies in front of a
checkpoint or a delete, the sooner it is durable, and the less has an unknown outcome if the log fails.
"""

from __future__ import annotations

from headrace.segmentstore.durablelog.throttle.config import ThrottleConfig


def delay_s(frames: int, frames_in_flight: int, write_s: float, config: ThrottleConfig) -> float:
    """Return the delay with ``frames`` not durable, some of them in flight, which took ``write_s`` lately.

    It is the time the queue needs to shrink to ``wal_queue_s``: linear in its length.
    """
    if not frames_in_flight:
        return 0.0
    expected_s = write_s * frames / frames_in_flight
    return min(config.delay_max_s, max(0.0, expected_s - config.wal_queue_s))
