"""Settings of chunked segment storage."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import InvalidArgumentError
from headrace.limits import KIB, MIB
from headrace.runtime.settings import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStorageConfig:
    """How segments become chunks. Sizes in bytes, times in seconds."""

    rollover_bytes: int = tunable(
        128 * MIB,
        low=1,
        high=1 << 40,
        simulate=(4 * KIB, 64 * KIB),
        help="Length from which a chunk is not appended to; also the largest that a segment may choose.",
    )
    block_bytes: int = tunable(
        64 * KIB,
        low=1,
        high=64 * MIB,
        simulate=(64, 1 * KIB),
        help="Bytes under one checksum, in new chunks. Reads fetch whole blocks.",
    )
    concat_copy_bytes_max: int = tunable(
        1 * MIB,
        low=0,
        high=64 * MIB,
        simulate=(0, 1 * KIB),
        help="A source up to this long is copied to the end of its target's last chunk, a longer one linked.",
    )
    read_parallel_max: int = tunable(
        8,
        low=1,
        high=256,
        simulate=(1, 2),
        help="Chunks that one read fetches at the same time.",
    )
    provider_timeout_s: float = tunable(
        60.0,
        low=0.001,
        high=3600.0,
        simulate=(1.0,),
        help="A provider call that takes longer counts as failed, its outcome as unknown.",
    )
    garbage_delay_s: float = tunable(
        60.0,
        low=0.0,
        high=86_400.0,
        simulate=(0.0, 1.0),
        help="Objects are retained this long after they were dropped, for readers with the old layout.",
    )
    garbage_retry_s: float = tunable(
        30.0,
        low=0.0,
        high=3600.0,
        simulate=(0.05,),
        help="Pause after a failed deletion of an object.",
    )
    garbage_runs_max: int = tunable(
        100_000,
        low=1,
        high=10_000_000,
        simulate=(3,),
        help="Garbage batches waiting for deletion; beyond them truncation and deletion wait.",
    )
    garbage_batch_chunks: int = tunable(
        64,
        low=1,
        high=1000,
        simulate=(1, 3),
        help="Objects deleted, several at a time, before their rows are.",
    )
    leftovers_pause_s: float = tunable(
        0.02,
        low=0.0,
        high=60.0,
        simulate=(0.0,),
        help="Pause between two pages of the listing that finds the orphans of former owners.",
    )
    commit_bytes_max: int = tunable(
        64 * KIB,
        low=1,
        high=1 * MIB,
        simulate=(1, 1 * KIB),
        help="Bytes of one commit batch: changes of metadata requested at the same time, or rows of deleted "
        "objects.",
    )
    layouts_max: int = tunable(
        10_000,
        low=1,
        high=10_000_000,
        simulate=(1, 5),
        help="Layouts cached; others are built from their rows when they are needed.",
    )
    walk_rows_max: int = tunable(
        256,
        low=1,
        high=100_000,
        help="Rows of chunks that the search for a byte of a segment reads before it yields to the loop.",
    )

    def check(self) -> None:
        """Check relations between settings."""
        if self.block_bytes > self.rollover_bytes:
            raise InvalidArgumentError("block_bytes exceeds rollover_bytes")
