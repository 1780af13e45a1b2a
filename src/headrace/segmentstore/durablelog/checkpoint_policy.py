"""When to write the next metadata checkpoint: after so many frames, bytes or retired segments. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB


@dataclass(slots=True)
class CheckpointPolicy:
    """Counts what has become durable since the last checkpoint began, without that checkpoint itself.

    The weight of a frame is its bytes, at least ``bytes_max / frames_max``. A checkpoint larger than the
    bounds is followed by at least as much other log before the next one, so that checkpoints are at most
    half of what is written.
    """

    frames_max: int = 4096
    bytes_max: int = 64 * MIB
    retired_max: int = 25_000
    """Retired segments stay in memory until the log is truncated, and recovery restores those in the log;
    many of them take few bytes of log."""

    weight: int = 0
    retired_total: int = 0
    """Segments retired since the start, when the last checkpoint began."""
    checkpoint_weight: int = 0

    def on_frame(self, size_bytes: int, retired_total: int = 0) -> bool:
        """Count a durable frame; ``retired_total`` counts since the start. True when a checkpoint is due."""
        self.weight += self._weigh(1, size_bytes)
        is_due = self.weight >= self.bytes_max or retired_total - self.retired_total >= self.retired_max
        return is_due and self.weight >= self.checkpoint_weight

    def on_begin(self, retired_total: int = 0) -> None:
        """A checkpoint begins: it covers all that was counted."""
        self.weight = 0
        self.retired_total = retired_total

    def on_end(self, frames: int, size_bytes: int) -> None:
        """The checkpoint is durable, and about so many of the frames and bytes counted since are its own."""
        self.checkpoint_weight = self._weigh(frames, size_bytes)
        self.weight = max(0, self.weight - self.checkpoint_weight)

    def _weigh(self, frames: int, size_bytes: int) -> int:
        return max(frames * -(-self.bytes_max // self.frames_max), size_bytes)
