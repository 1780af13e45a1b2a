"""What long-term storage says of a segment, and of itself."""

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


@dataclass(slots=True)
class ChunkInfo:
    """One chunk of a segment: ``length`` bytes from ``start_offset`` of the segment are at 0 of the object.

    The first chunk may begin below the segment's start offset; those bytes are truncated.
    """

    name: str
    start_offset: int
    length: int
    epoch: int
    """Container epoch."""


@dataclass(slots=True)
class SegmentStorageStatistics:
    """Counts since creation, and gauges of now."""

    writes: int = 0
    bytes_written: int = 0
    reads: int = 0
    bytes_read: int = 0
    commits: int = 0
    row_commits: int = 0
    """Commits of the row store: those of several segments at the same time are one."""

    chunks_created: int = 0
    concats_copied: int = 0
    concats_linked: int = 0
    objects_deleted: int = 0
    leftovers_deleted: int = 0
    write_failures: int = 0
    checksum_failures: int = 0
    garbage_runs: int = 0
    garbage_runs_damaged: int = 0
    """Set aside until the next start: their objects stay."""

    orphans: int = 0
    layouts: int = 0
    segments_busy: int = 0
