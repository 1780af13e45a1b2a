"""Settings of the throttle."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import GIB, KIB, MIB
from headrace.runtime.settings import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleConfig:
    """When a container slows down, and how far. Shares are parts of the hard bound behind each source."""

    delay_max_s: float = tunable(
        25.0,
        low=0.0,
        high=600.0,
        simulate=(0.5, 5.0),
        help="Longest delay between two bursts of appends, in seconds; at it nothing is let in.",
    )
    delay_half_s: float = tunable(
        0.01,
        low=0.0,
        high=60.0,
        simulate=(0.01, 0.5),
        help="Delay half way between the share at which a source begins and its hard bound, in seconds.",
    )
    burst_bytes: int = tunable(
        1 * MIB,
        low=1,
        high=1 * GIB,
        simulate=(1, 2 * KIB),
        help="How much is let in between two delays.",
    )
    backlog_share: float = tunable(
        0.5,
        low=0.0,
        high=1.0,
        simulate=(0.0, 0.3),
        help="Share of unstored_bytes_max at which bytes that wait for storage begin to slow appends down.",
    )
    cache_share: float = tunable(
        0.5,
        low=0.0,
        high=1.0,
        simulate=(0.0, 0.1),
        help="Share of what the cache leaves to a container at which its unstored bytes begin to do so.",
    )
    memory_log_share: float = tunable(
        0.95,
        low=0.0,
        high=1.0,
        simulate=(0.0, 0.5),
        help="Share of memory_log_max at which operations that wait for the storage writer begin to do so.",
    )
    wal_queue_s: float = tunable(
        1.0,
        low=0.0,
        high=600.0,
        simulate=(0.0, 0.1),
        help="Expected seconds until accepted frames are durable from which on the log begins to do so.",
    )
