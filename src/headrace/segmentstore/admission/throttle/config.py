"""Settings of the throttle."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import KIB, MIB
from headrace.runtime.settings import internal


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleConfig:
    """When a container throttles, and how much. Shares are fractions of the hard bound of each source.

    None of it is a setting: an operator bounds bytes (``unstored_bytes_max``, the cache).
    """

    delay_max_s: float = internal(
        25.0,
        simulate=(0.5, 5.0),
        help="Longest delay between two bursts of appends, in seconds; at it nothing is let in.",
    )
    delay_half_s: float = internal(
        0.01,
        simulate=(0.01, 0.5),
        help="Delay half way between the share at which a source begins and its hard bound, in seconds.",
    )
    burst_bytes: int = internal(
        1 * MIB,
        simulate=(1, 2 * KIB),
        help="How much is let in between two delays.",
    )
    backlog_share: float = internal(
        0.5,
        simulate=(0.0, 0.3),
        help="Share of unstored_bytes_max at which bytes that wait for storage begin to slow appends down.",
    )
    cache_share: float = internal(
        0.5,
        simulate=(0.0, 0.1),
        help="Share of what the cache leaves to a container at which its unstored bytes begin to do so.",
    )
    memory_log_share: float = internal(
        0.95,
        simulate=(0.0, 0.5),
        help="Share of memory_log_max at which operations that wait for the storage writer begin to do so.",
    )
    wal_queue_s: float = internal(
        1.0,
        simulate=(0.0, 0.1),
        help="Expected seconds until accepted frames are durable from which on the log begins to do so.",
    )
