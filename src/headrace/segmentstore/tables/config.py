"""Bounds and thresholds of the tables of one container."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesConfig:
    """Settings of the tables of one container; sizes in bytes."""

    in_flight_bytes_max: int = 32 * MIB
    """Updates of one table that are appended and not yet durable; further ones wait. One update always
    fits.
    """

    waiting_count_max: int = 10_000
    """Updates of one table that wait for that room; further ones are refused with ThrottledError."""

    value_cache_bytes_max: int = 16 * MIB
    """Values kept in memory, all tables together."""

    index_bytes_max: int = 256 * MIB
    """Memory of all indexes together. Idle tables beyond it forget theirs and rebuild it when used again."""

    page_bytes_max: int = 2 * MIB
    """Keys and values in one answer of an iterator."""

    compaction_bytes_max: int = 4 * MIB
    """How much of a log one round of compaction reads, and the least number of dead bytes it starts for."""

    utilization_percent_min: int = 75
    """A log of which fewer bytes are live is compacted."""

    rollover_bytes: int = 16 * MIB
    """Size of the chunks of a table whose creator names none: truncation frees whole chunks."""

    def __post_init__(self) -> None:
        assert self.in_flight_bytes_max > 0
        assert self.waiting_count_max >= 0
        assert self.value_cache_bytes_max >= 0
        assert self.page_bytes_max > 0
        assert self.compaction_bytes_max > 0
        assert 0 <= self.utilization_percent_min <= 100
