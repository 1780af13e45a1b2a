"""When to write the next metadata checkpoint: after so many frames or bytes of log. Pure."""

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

    frames: int = 0
    bytes: int = 0
    checkpoint_frames: int = 0
    checkpoint_bytes: int = 0

    def on_frame(self, size_bytes: int) -> bool:
        """Count a durable frame; True when a checkpoint is due."""
        self.frames += 1
        self.bytes += size_bytes
        if self.frames < min(self.frames_min, self.frames_max):
            return False
        return self.frames >= max(self.frames_max, self.checkpoint_frames) or self.bytes >= max(
            self.bytes_max, self.checkpoint_bytes
        )

    def on_begin(self) -> None:
        """A checkpoint begins: it covers all that was counted."""
        self.frames = 0
        self.bytes = 0

    def on_end(self, frames: int, size_bytes: int) -> None:
        """The checkpoint is durable; about so many frames and bytes of what was counted since are its own."""
        self.frames = max(0, self.frames - frames)
        self.bytes = max(0, self.bytes - size_bytes)
        self.checkpoint_frames = frames
        self.checkpoint_bytes = size_bytes
