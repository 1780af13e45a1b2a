"""When to write the next metadata checkpoint: after so many frames, bytes or departures of log. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB


@dataclass(slots=True)
class CheckpointPolicy:
    """Counts what has become durable since the last checkpoint began, without that checkpoint itself.

    Frames weigh as many bytes as they have, and no less than their part of ``frames_max``. A checkpoint
    larger than the bounds is not followed by the next one at once: as much log as it took comes in between,
    so that checkpoints are never more than half of what is written.
    """

    frames_max: int = 4096
    bytes_max: int = 64 * MIB
    departures_max: int = 25_000
    """Merged and deleted segments stay in memory until the log is cut, and come back with a recovery of what
    it holds: many of them are few bytes of log."""

    weight: int = 0
    departures: int = 0
    """How many there had been, ever, when the last checkpoint began."""
    checkpoint_weight: int = 0

    def on_frame(self, size_bytes: int, departures: int = 0) -> bool:
        """Count a durable frame, and ``departures`` ever; True when a checkpoint is due."""
        self.weight += self._weigh(1, size_bytes)
        is_due = self.weight >= self.bytes_max or departures - self.departures >= self.departures_max
        return is_due and self.weight >= self.checkpoint_weight

    def on_begin(self, departures: int = 0) -> None:
        """A checkpoint begins: it covers all that was counted."""
        self.weight = 0
        self.departures = departures

    def on_end(self, frames: int, size_bytes: int) -> None:
        """The checkpoint is durable; about so many frames and bytes of what was counted since are its own."""
        self.checkpoint_weight = self._weigh(frames, size_bytes)
        self.weight = max(0, self.weight - self.checkpoint_weight)

    def _weigh(self, frames: int, size_bytes: int) -> int:
        return max(frames * -(-self.bytes_max // self.frames_max), size_bytes)
