"""Bounds and thresholds of the tables of one container."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.limits import GIB, KIB, MIB
from headrace.runtime.settings import internal, tunable

_EXCEEDED_TIMES: Final = 4

_SCALE_MAX: Final = 8
"""How much larger the rounds of large tables are, at most."""

_ROUND_SHARE: Final = 64
"""Rounds are larger for tables of which one part in so many is more than the least round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnindexedConfig:
    """How much of a table's log its index may lack: that is in memory, and read when the table is opened."""

    entries_max: int = internal(
        16 * KIB,
        simulate=(1, 4, 100),
        help="Keys of one table for which an index round starts, eight times as many if it has millions; "
        "updates wait while there are four times as many, or sixteen times.",
    )
    bytes_max: int = internal(
        8 * MIB,
        simulate=(1, 200, 64 * KIB),
        help="Bytes of its log for which an index round starts, and updates wait, likewise.",
    )
    wait_s: float = internal(
        5.0,
        simulate=(0.1, 1.0),
        help="How long an update waits for an index round before it is refused.",
    )
    retry_s: float = internal(
        1.0,
        simulate=(0.01, 0.3),
        help="Pause before a failed index round is tried again.",
    )

    def is_due(self, count: int, size_bytes: int, indexed: int) -> bool:
        """Whether an index round is due with so many keys and bytes of the log, and ``indexed`` keys in the
        index.

        A round writes most pages of an index anew, unless they are far more than its keys: those of large
        tables have more keys, so that less is written for each.
        """
        scale = self._scale(indexed)
        return count >= scale * self.entries_max or size_bytes >= scale * self.bytes_max

    def is_exceeded(self, count: int, size_bytes: int, indexed: int) -> bool:
        """Whether the table takes no more updates."""
        times = max(_EXCEEDED_TIMES, 2 * self._scale(indexed))
        return count >= times * self.entries_max or size_bytes >= times * self.bytes_max

    def _scale(self, indexed: int) -> int:
        return max(1, min(_SCALE_MAX, indexed // (_ROUND_SHARE * self.entries_max)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesConfig:
    """How the tables of one container use memory, and when their logs are indexed and compacted."""

    index_bytes_max: int = tunable(
        256 * MIB,
        low=0,
        high=64 * GIB,
        simulate=(0, 4 * KIB),
        help="Memory of what the indexes of all tables do not have yet. From a quarter of it on they are "
        "written earlier; beyond it idle tables are forgotten, and opened when used again.",
    )
    unindexed: UnindexedConfig = field(default_factory=UnindexedConfig)
    page_bytes_max: int = internal(
        2 * MIB,
        simulate=(1, 200),
        help="Keys and values in one answer of an iterator; at least one item is in it. Clients get 2 MiB at "
        "most.",
    )
    compaction_bytes_max: int = internal(
        4 * MIB,
        simulate=(50, 2 * KIB),
        help="How much of a log one round reads, and the least number of dead bytes it starts for.",
    )
    compaction_append_bytes: int = internal(
        256 * KIB,
        simulate=(50, 2 * KIB),
        help="How many bytes of copies a round appends together, unless one entry alone is larger.",
    )
    utilization_percent_min: int = internal(
        75,
        simulate=(50, 90),
        help="A log of which fewer bytes are live is compacted.",
    )
    rollover_bytes: int = internal(
        16 * MIB,
        simulate=(64 * KIB,),
        help="Size of a table's chunks if its creator names none: truncation frees whole chunks.",
    )
