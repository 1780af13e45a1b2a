"""The settings of a write-ahead log, file or memory, so that both are bounded by the same names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import GIB, KIB, MIB
from headrace.runtime.settings import tunable

#: Unit of placement on disk: addresses, lengths and offsets of direct writes are multiples of it.
BLOCK_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class WalConfig:
    """How one container's log is laid out and how much of it may be in flight."""

    frame_bytes_max: int = tunable(
        2 * MIB, low=64, high=16 * MIB, simulate=(512, 4 * KIB), help="Content of one log frame, in bytes."
    )
    frames_max: int = tunable(
        8,
        low=3,
        high=1024,
        simulate=(3, 6),
        help="Log frames in use at a time: the back-pressure of the append path and its bound on memory.",
    )
    frames_in_flight_max: int = tunable(
        2, low=1, high=8, simulate=(1, 2, 3), help="Writes in flight to the disk, one thread each."
    )
    segment_file_bytes: int = tunable(
        64 * MIB,
        low=32 * KIB,
        high=16 * GIB,
        simulate=(32 * KIB, 64 * KIB),
        help="Size of one file of the log, a multiple of 4096. Whole files are dropped and recycled.",
    )
    zero_step_bytes: int = tunable(
        4 * MIB,
        low=4 * KIB,
        high=64 * MIB,
        simulate=(4 * KIB,),
        help="Largest step of zeroing a new file, a multiple of 4096; steps of an idle log are smaller.",
    )
    zero_ahead_bytes: int = tunable(
        16 * MIB,
        low=0,
        high=1 * GIB,
        simulate=(0, 8 * KIB),
        help="How far zeroing of a new file runs ahead of the write position.",
    )
    spare_files_max: int = tunable(
        4,
        low=0,
        high=64,
        simulate=(0, 1),
        help="Truncated files retained for recycling; the rest is deleted.",
    )

    def check(self) -> None:
        """Check relations between settings."""
        if self.frames_in_flight_max > self.frames_max:
            raise InvalidArgumentError("frames_in_flight_max exceeds frames_max")
        if self.segment_file_bytes % BLOCK_BYTES or self.zero_step_bytes % BLOCK_BYTES:
            raise InvalidArgumentError(f"sizes of files and zero steps are multiples of {BLOCK_BYTES}")
        # The head of a file is three blocks; a record adds its header and padding to its content.
        if self.segment_file_bytes < 4 * BLOCK_BYTES + self.frame_bytes_max + 64:
            raise InvalidArgumentError("segment_file_bytes is too small for a frame of frame_bytes_max")
