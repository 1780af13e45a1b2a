"""How long calls take, in few numbers: a count for each of some ranges of seconds."""

from __future__ import annotations

from typing import Final

LATENCY_EDGES_S: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Upper edges of the ranges; longer calls fall into one more."""


def no_latencies() -> list[int]:
    """Return a count of 0 for each range."""
    return [0] * (len(LATENCY_EDGES_S) + 1)
