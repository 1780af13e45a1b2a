"""Settings of the storage writer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.errors import InvalidArgumentError
from headrace.limits import GIB, KIB, MIB
from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageWriterConfig:
    """When durable bytes move to long-term storage. Sizes in bytes, times in seconds."""

    flush_bytes: int = tunable(
        4 * MIB,
        low=1,
        high=64 * MIB,
        simulate=(1, 1 * KIB),
        help="A segment with this many unstored bytes is flushed at once.",
    )
    flush_age_s: float = tunable(
        30.0,
        low=0.0,
        high=600.0,
        simulate=(0.0, 0.05),
        help="A segment whose oldest unstored byte is older than this is flushed.",
    )
    change_age_s: float = internal(2.0, simulate=(0.0, 0.05))
    """The same for a seal, merge or truncation, if less: they wait this long for each other."""

    checkpoint_age_s: float = internal(2.0, simulate=(0.0, 0.05))
    """A checkpoint that waits longer to truncate the log flushes the segments that prevent it."""

    checkpoint_distance_bytes: int = tunable(
        128 * MIB,
        low=1,
        high=16 * GIB,
        simulate=(1, 16 * KIB),
        help="So does a checkpoint of any age that is followed by this many bytes of log.",
    )
    write_bytes_max: int = tunable(
        16 * MIB,
        low=1,
        high=256 * MIB,
        simulate=(8 * KIB,),
        help="Largest write to storage; while storage is behind, writes grow up to it.",
    )
    pressure_bytes: int = internal(32 * MIB, simulate=(16 * KIB,))
    """With this many unstored bytes in all, the segments with the most are flushed at any age."""

    object_bytes: int = tunable(
        16 * MIB,
        low=1,
        high=256 * MIB,
        simulate=(1, 1 * KIB),
        help="In place of flush_bytes in a store that cannot append, where every flush is an object.",
    )
    object_age_s: float = tunable(
        900.0,
        low=0.0,
        high=86_400.0,
        simulate=(0.0, 0.05),
        help="In place of flush_age_s in such a store, for seals, merges and truncations as well; the log "
        "retains the bytes meanwhile.",
    )
    own_object_age_s: float = internal(3600.0, simulate=(0.0, 0.1))
    """The same for the tables that a container keeps for itself, and for a waiting checkpoint."""

    object_pressure_bytes: int = internal(64 * MIB, simulate=(16 * KIB,))
    """In place of pressure_bytes in such a store: below what slows appends down."""

    waiting_checkpoints_max: int = internal(8, simulate=(1, 3))
    """So many waiting checkpoints flush what prevents them: each stands for much log, whatever is in it."""

    flushes_max: int = tunable(
        16,
        low=1,
        high=1000,
        simulate=(1, 2),
        help="Segments flushed at the same time; as many again that failed before or are slow.",
    )
    slow_flush_s: float = internal(2.0, simulate=(0.0, 0.1))
    """A flush that takes longer releases its slot to another segment."""

    take_operations_max: int = internal(1000, simulate=(1, 7))
    """Operations taken from the memory log in one batch."""

    take_interval_s: float = internal(0.01, simulate=(0.0, 0.005))
    """Pause between two batches, unless the cache is nearly full: consecutive appends are joined."""

    take_timeout_s: float = internal(0.25, simulate=(0.01,))
    """How long to wait for operations before it is seen again how full the cache is."""

    pending_operations_max: int = internal(200_000, simulate=(5, 50))
    """Operations waiting here; more stay in the memory log, whose bound then blocks the container."""

    retry_initial_s: float = internal(0.1, simulate=(0.01,))
    """Pause of a segment after its first failure; doubled by each further one."""

    retry_max_s: float = internal(30.0, simulate=(1.0,))
    """Longest pause of a segment between attempts."""

    acknowledge_interval_s: float = internal(0.2, simulate=(0.0, 0.01))
    """Pause between two checks of how far the log may be truncated; each visits every segment."""

    garbage_interval_s: float = internal(10.0, simulate=(0.05,))
    """Pause between two rounds of deleting garbage."""

    stop_flush_s: float = tunable(
        10.0,
        low=0.0,
        high=3600.0,
        simulate=(1.0,),
        help="How long a clean stop flushes. Bytes that are unstored then are recovered from the log.",
    )

    def for_objects(self) -> StorageWriterConfig:
        """Return the settings for a store where every flush is an object: few of them, and large.

        What is idle waits in the log, as long as that may be: bytes and checkpoints bound it, hardly age.
        """
        return replace(
            self,
            flush_bytes=self.object_bytes,
            flush_age_s=self.object_age_s,
            change_age_s=self.object_age_s,
            checkpoint_age_s=self.own_object_age_s,
            write_bytes_max=max(self.write_bytes_max, self.object_bytes),
            pressure_bytes=self.object_pressure_bytes,
        )

    def check(self) -> None:
        """Check relations between settings."""
        if self.flush_bytes > self.write_bytes_max:
            raise InvalidArgumentError("flush_bytes exceeds write_bytes_max")
