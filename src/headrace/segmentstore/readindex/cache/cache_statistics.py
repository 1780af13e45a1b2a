"""What a cache holds and has done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CacheStatistics:
    """Sizes in bytes, of whole blocks."""

    bytes_max: int
    arena_bytes: int
    used_bytes: int
    essential_bytes: int
    tail_bytes: int
    history_bytes: int
    pinned_bytes: int
    lent_bytes: int
    extents: int
    owners: int
    tails: int
    evicted_extents: int
    evicted_bytes: int
    overdrawn_bytes: int
