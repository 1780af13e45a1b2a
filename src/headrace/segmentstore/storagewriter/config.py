"""Settings of the storage writer."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageWriterConfig:
    """When durable bytes move to long-term storage. Sizes in bytes, times in seconds."""

    flush_bytes: int = 4 * MIB
    """A segment with so many bytes waiting is flushed at once."""

    flush_age_s: float = 2.0
    """A segment whose oldest waiting operation is older than this is flushed."""

    write_bytes_max: int = 16 * MIB
    """One write to storage holds at most this much; while storage is behind, writes grow up to it."""

    pressure_bytes: int = 64 * MIB
    """When so many bytes wait in all, the segments with the most are flushed whatever their age."""

    flushes_max: int = 16
    """Segments flushed at the same time."""

    take_operations_max: int = 1000
    """Operations taken from the memory log at once."""

    take_timeout_s: float = 0.25
    """How long to wait for operations; also the delay with which a clean stop sees that there are no more."""

    pending_operations_max: int = 200_000
    """Operations waiting here; more stay in the memory log, whose bound then holds up the container."""

    retry_initial_s: float = 0.1
    """Pause of a segment after its first failure; doubled by each further one."""

    retry_max_s: float = 30.0
    """Longest pause of a segment between attempts."""

    acknowledge_interval_s: float = 0.2
    """Pause between two looks at how far the log may be cut; a look costs a glance at every segment."""

    garbage_interval_s: float = 10.0
    """Pause between two rounds of deleting objects that nothing uses any more."""

    stop_flush_s: float = 10.0
    """How long a clean stop goes on flushing. What is left is recovered from the log."""

    def __post_init__(self) -> None:
        assert 0 < self.flush_bytes <= self.write_bytes_max
        assert self.flushes_max > 0
        assert self.take_operations_max > 0
        assert 0 < self.retry_initial_s <= self.retry_max_s
