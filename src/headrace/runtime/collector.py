"""The garbage collector's pauses are latency that no profile of our own code shows: tune it once, watch it
always.

What lives long on the data path is kept in buffers and arrays, which the collector does not track. What
remains is frozen after start-up, and young objects are collected rarely enough that most have died by
reference count.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import Any, Final

#: Net allocations before a young collection; young per middle; middle per full collection.
THRESHOLDS: Final = (50_000, 20, 100)

#: Upper edges of the histogram of pauses, in milliseconds; longer ones fall into one more bucket.
PAUSE_EDGES_MS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)

_GENERATIONS: Final = 3


@dataclass(slots=True)
class CollectorStatistics:
    """Pauses since the watch was installed; lists of three are by generation, young first."""

    collections: list[int] = field(default_factory=lambda: [0] * _GENERATIONS)
    pause_seconds_total: list[float] = field(default_factory=lambda: [0.0] * _GENERATIONS)
    pause_seconds_max: list[float] = field(default_factory=lambda: [0.0] * _GENERATIONS)
    pauses_by_bucket: list[int] = field(default_factory=lambda: [0] * (len(PAUSE_EDGES_MS) + 1))
    collected: int = 0
    uncollectable: int = 0


def collect_rarely() -> None:
    """Make collections rare. Before modules are imported: what they make stays, and is looked at in vain."""
    gc.set_threshold(*THRESHOLDS)


def tune_collector() -> None:
    """Collect once, freeze what start-up has built, and make collections rare.

    Call it when everything is imported and before the first connection is served.
    """
    gc.collect()
    gc.freeze()
    collect_rarely()


class CollectorWatch:
    """Measures every collection of this process between ``install`` and ``remove``.

    The collector calls it in whatever thread triggers a collection, one at a time.
    """

    def __init__(self) -> None:
        self._statistics = CollectorStatistics()
        self._started_at = 0.0

    def install(self) -> None:
        """Start measuring. Idempotent."""
        if self._on_collection not in gc.callbacks:
            gc.callbacks.append(self._on_collection)

    def remove(self) -> None:
        """Stop measuring; the figures stay. Idempotent."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def statistics(self) -> CollectorStatistics:
        """Return the live counters: read, do not change."""
        return self._statistics

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._started_at = time.perf_counter()
            return
        if not self._started_at:
            return  # installed in the middle of a collection
        self.record(int(info["generation"]), time.perf_counter() - self._started_at)
        self._started_at = 0.0
        self._statistics.collected += info["collected"]
        self._statistics.uncollectable += info["uncollectable"]

    def record(self, generation: int, pause_s: float) -> None:
        """Count one pause of ``pause_s`` seconds."""
        statistics = self._statistics
        statistics.collections[generation] += 1
        statistics.pause_seconds_total[generation] += pause_s
        statistics.pause_seconds_max[generation] = max(statistics.pause_seconds_max[generation], pause_s)
        bucket = 0
        while bucket < len(PAUSE_EDGES_MS) and pause_s * 1000 > PAUSE_EDGES_MS[bucket]:
            bucket += 1
        statistics.pauses_by_bucket[bucket] += 1
