"""Tunes the garbage collector, whose pauses are latency that no profile of our own code shows.

Long-lived data of the data path is in buffers and arrays, which the collector does not track. The rest is
frozen after start-up, and young objects are collected rarely enough that most were freed by reference count.
"""

from __future__ import annotations

import gc
from typing import Final

#: Net allocations before a young collection; young per middle; middle per full collection.
THRESHOLDS: Final = (50_000, 20, 100)


def collect_rarely() -> None:
    """Make collections rare. Call it before imports: collections of their objects free nothing."""
    gc.set_threshold(*THRESHOLDS)


_is_tuned = False


def is_tuned() -> bool:
    """Whether this process has frozen what it has built. The collector would count it, object by object."""
    return _is_tuned


def tune_collector() -> None:
    """Collect once, freeze what start-up has built, and make collections rare.

    Call it when everything is imported and before the first connection is served.
    """
    global _is_tuned  # noqa: PLW0603 - of the process, as the collector is
    gc.collect()
    gc.freeze()
    collect_rarely()
    _is_tuned = True
