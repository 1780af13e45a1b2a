"""The shape all bounded sources share: the rate, not the delay, falls evenly towards the bound.

Between two delays a fixed number of bytes is let in, so the rate is that number over the delay. A delay that
grows in a straight line would cut the rate to a crawl right behind its beginning and leave most of the band
unused: stop and go. With ``half * x / (1 - x)`` every part of the band belongs to as many rates as any other,
and a container settles wherever storage keeps pace.
"""

from __future__ import annotations


def bounded_delay_s(level: float, begin: float, end: float, half_s: float, max_s: float) -> float:
    """Return the delay at ``level``: 0 up to ``begin``, ``half_s`` half way, ``max_s`` from ``end`` on."""
    if level <= begin:
        return 0.0
    if level >= end:
        return max_s
    above, below = level - begin, end - level
    return min(max_s, half_s * above / below)
