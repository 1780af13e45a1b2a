"""The garbage collector's pauses are latency that no profile of our own code shows: tune it once.

What lives long on the data path is kept in buffers and arrays, which the collector does not track. What
remains is frozen after start-up, and young objects are collected rarely enough that most have died by
reference count.
"""

from __future__ import annotations

import gc
from typing import Final

#: Net allocations before a young collection; young per middle; middle per full collection.
THRESHOLDS: Final = (50_000, 20, 100)


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
