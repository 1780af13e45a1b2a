"""Settings of chunked segment storage."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import KIB, MIB
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStorageConfig:
    """How segments become chunks. Sizes in bytes, times in seconds."""

    rollover_bytes: int = tunable(
        128 * MIB,
        low=1,
        high=1 << 40,
        simulate=(4 * KIB, 64 * KIB),
        help="Length from which a chunk is not appended to, 64 KiB at least; also the largest that a segment "
        "may choose.",
    )
    block_bytes: int = internal(64 * KIB, simulate=(64, 1 * KIB))
    """Bytes under one checksum, in new chunks. Reads fetch whole blocks."""

    concat_copy_bytes_max: int = internal(1 * MIB, simulate=(0, 1 * KIB))
    """A source up to this long is copied to the end of its target's last chunk, a longer one linked."""

    read_parallel_max: int = internal(8, simulate=(1, 2))
    """Chunks that one read fetches at the same time."""

    provider_timeout_s: float = tunable(
        60.0,
        low=0.001,
        high=3600.0,
        simulate=(1.0,),
        help="A provider call that takes longer has failed, its outcome is unknown; a read has a fifth.",
    )
    garbage_delay_s: float = tunable(
        60.0,
        low=0.0,
        high=86_400.0,
        simulate=(0.0, 1.0),
        help="Objects are retained this long after they were dropped, for readers with the old layout.",
    )
    garbage_retry_s: float = internal(30.0, simulate=(0.05,))
    """Pause after a failed deletion of an object."""

    garbage_runs_max: int = internal(100_000, simulate=(3,))
    """Garbage batches waiting for deletion; beyond them truncation and deletion wait."""

    garbage_batch_chunks: int = internal(64, simulate=(1, 3))
    """Objects deleted, several at a time, before their rows are."""

    leftovers_pause_s: float = internal(0.02, simulate=(0.0,))
    """Pause between two pages of the listing that finds the orphans of former owners."""

    commit_bytes_max: int = internal(64 * KIB, simulate=(1, 1 * KIB))
    """Bytes of one commit batch: changes of metadata requested at the same time, or rows of deleted
    objects.
    """

    merge_bytes_max: int = internal(32 * MIB, simulate=(1 * KIB, 4 * KIB))
    """Longest chunk that is made of small ones, if the rollover size is not less; a rewrite takes that much
    memory.
    """

    merge_chunks_min: int = internal(4, simulate=(2, 4))
    """Chunks that are merged into one, at least; chunks below this part of the longest are small."""

    layouts_max: int = internal(10_000, simulate=(1, 5))
    """Layouts cached; others are built from their rows when they are needed."""

    walk_rows_max: int = internal(256)
    """Rows of chunks that the search for a byte of a segment reads before it yields to the loop."""
