"""The weight of each container, from what stores report of its load. Pure.

Reports are hints: one that is lost or doubled changes little. A container of which nothing is known weighs 1,
so that idle ones are spread evenly, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_SMOOTHED_S: Final = 120.0
"""A load that begins is known by two thirds after this time."""
_BYTES_PER_S: Final = 4 * 1024 * 1024
_SEGMENTS: Final = 1000
"""A container with so much of either weighs as much as an idle one and 1 more."""


@dataclass(frozen=True, slots=True)
class ContainerLoad:
    """Of one container, as its store measures it."""

    bytes_per_s: float
    active_segments: int


class ContainerLoads:
    """Weights of a fixed number of containers, smoothed over minutes."""

    def __init__(self, containers: int) -> None:
        self._weights = [1.0] * containers
        self._heard_s: list[float | None] = [None] * containers

    @property
    def weights(self) -> list[float]:
        return list(self._weights)

    def report(self, container_id: int, load: ContainerLoad, now_s: float) -> None:
        """A store has measured this; ``now_s`` is on a monotonic clock."""
        weight = 1.0 + load.bytes_per_s / _BYTES_PER_S + load.active_segments / _SEGMENTS
        heard_s = self._heard_s[container_id]
        self._heard_s[container_id] = now_s
        part = 1.0 if heard_s is None else 1.0 - math.exp((heard_s - now_s) / _SMOOTHED_S)
        self._weights[container_id] += part * (weight - self._weights[container_id])
