"""Settings of chunked segment storage."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStorageConfig:
    """How segments become chunks. Sizes in bytes, times in seconds."""

    rollover_bytes: int = 128 * MIB
    """A chunk that holds this much is not appended to; also the most a segment may ask for."""

    block_bytes: int = 64 * KIB
    """Bytes under one checksum, in new chunks. Reads fetch whole blocks."""

    concat_copy_bytes_max: int = 1 * MIB
    """A source up to this long is copied behind its target's last chunk rather than linked as chunks."""

    read_parallel_max: int = 8
    """Chunks that one read fetches at the same time."""

    provider_timeout_s: float = 60.0
    """A provider call that takes longer counts as failed, its outcome as unknown."""

    garbage_delay_s: float = 60.0
    """Objects outlive the metadata that dropped them so long, for readers that still hold the old layout."""

    garbage_retry_s: float = 30.0
    """Pause after an object could not be deleted."""

    garbage_runs_max: int = 100_000
    """Dropped runs of chunks waiting to be deleted; more make truncation and deletion wait."""

    garbage_batch_chunks: int = 64
    """Objects deleted, several at a time, before their rows are."""

    leftovers_pause_s: float = 0.02
    """Pause between two pages of the listing that looks for what dead owners left."""

    layouts_max: int = 10_000
    """Layouts kept ready; others are built from their rows when they are needed."""

    def __post_init__(self) -> None:
        assert 0 < self.block_bytes <= self.rollover_bytes
        assert self.read_parallel_max > 0
        assert self.garbage_batch_chunks > 0
        assert self.layouts_max > 0
