"""When to write the next metadata checkpoint: after so many frames or bytes of log. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB


@dataclass(slots=True)
class CheckpointPolicy:
    """Counts what has become durable since the last checkpoint began."""

    frames_max: int = 4096
    bytes_max: int = 64 * MIB
    frames: int = 0
    bytes: int = 0

    def on_frame(self, size_bytes: int) -> bool:
        """Count a durable frame; True when a checkpoint is due."""
        self.frames += 1
        self.bytes += size_bytes
        return self.frames >= self.frames_max or self.bytes >= self.bytes_max

    def on_begin(self) -> None:
        self.frames = 0
        self.bytes = 0
