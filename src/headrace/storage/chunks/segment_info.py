"""What long-term storage says of a segment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoredSegmentInfo:
    """What long-term storage has of a segment. Lengths in bytes."""

    name: str
    length: int
    start_offset: int
    sealed: bool
    owner_epoch: int
    chunk_count: int
    rollover_bytes: int
