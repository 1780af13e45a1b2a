"""Bounds and thresholds of the tables of one container."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import GIB, KIB, MIB
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesConfig:
    """How the tables of one container use memory, and when their logs are compacted."""

    index_bytes_max: int = tunable(
        256 * MIB,
        low=0,
        high=64 * GIB,
        simulate=(0, 4 * KIB),
        help="Memory of all indexes. Idle tables beyond it drop theirs and rebuild it when used again.",
    )
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
    utilization_percent_min: int = internal(
        75,
        simulate=(50, 90),
        help="A log of which fewer bytes are live is compacted.",
    )
    rollover_bytes: int = tunable(
        16 * MIB,
        low=64 * KIB,
        high=1 * GIB,
        simulate=(64 * KIB,),
        help="Size of a table's chunks if its creator names none: truncation frees whole chunks.",
    )
