"""When to write the next metadata checkpoint: after so many frames, bytes or departures of log. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB


@dataclass(slots=True)
class CheckpointPolicy:
    """Counts what has become durable since the last checkpoint began, without that checkpoint itself.

    A checkpoint larger than the bounds is not followed by the next one at once: as much log as it took comes
    in between, so that checkpoints are never more than half of what is written.
    """

    frames_max: int = 4096
    bytes_max: int = 64 * MIB
    frames_min: int = 16
    """No checkpoint is written for fewer frames, however large they are."""
    departures_max: int = 25_000
    """Merged and deleted segments stay in memory until the log is cut, and come back with a recovery of what
    it holds: many of them are few bytes of log."""

    frames: int = 0
    bytes: int = 0
    departures: int = 0
    """How many there had been, ever, when the last checkpoint began."""
    checkpoint_frames: int = 0
    checkpoint_bytes: int = 0

    def on_frame(self, size_bytes: int, departures: int = 0) -> bool:
        """Count a durable frame, and ``departures`` ever; True when a checkpoint is due."""
        self.frames += 1
        self.bytes += size_bytes
        if self.frames < min(self.frames_min, self.frames_max):
            return False
        if departures - self.departures >= self.departures_max and self.bytes >= self.checkpoint_bytes:
            return True
        return self.frames >= max(self.frames_max, self.checkpoint_frames) or self.bytes >= max(
            self.bytes_max, self.checkpoint_bytes
        )

    def on_begin(self, departures: int = 0) -> None:
        """A checkpoint begins: it covers all that was counted."""
        self.frames = 0
        self.bytes = 0
        self.departures = departures

    def on_end(self, frames: int, size_bytes: int) -> None:
        """The checkpoint is durable; about so many frames and bytes of what was counted since are its own."""
        self.frames = max(0, self.frames - frames)
        self.bytes = max(0, self.bytes - size_bytes)
        self.checkpoint_frames = frames
        self.checkpoint_bytes = size_bytes
