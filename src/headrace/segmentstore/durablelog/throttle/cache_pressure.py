"""Delay because the cache, which all containers of the process share, fills with what cannot be evicted."""

from __future__ import annotations

from headrace.segmentstore.durablelog.throttle.config import ThrottleConfig
from headrace.segmentstore.durablelog.throttle.curve import bounded_delay_s


def delay_s(pressure: float, config: ThrottleConfig) -> float:
    """Return the delay at ``pressure``: the part of what the cache leaves to a container that it uses."""
    return bounded_delay_s(pressure, config.cache_share, 1.0, config.delay_half_s, config.delay_max_s)
