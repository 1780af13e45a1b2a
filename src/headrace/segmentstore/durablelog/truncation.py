"""Where the log may be truncated: in front of a checkpoint before which everything is stored."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Checkpoint(NamedTuple):
    """A whole metadata checkpoint: sequence numbers of its ends, address of the frame where it begins."""

    end_sequence: int
    begin_address: int
    begin_sequence: int


class TruncationPoints:
    """Where each durable checkpoint begins, until the log is truncated there. Pure."""

    def __init__(self) -> None:
        self._waiting: deque[Checkpoint] = deque()
        self.newest: Checkpoint | None = None
        """The last one, whether or not the log is truncated there."""

    def add(self, checkpoint: Checkpoint) -> None:
        """The checkpoint is whole and durable, or will be if the log does not fail."""
        assert self.newest is None or checkpoint.end_sequence > self.newest.end_sequence
        self._waiting.append(checkpoint)
        self.newest = checkpoint

    def find(self, sequence: int) -> Checkpoint | None:
        """Return where to truncate when everything up to ``sequence`` is stored, or None for nowhere."""
        found = None
        for checkpoint in self._waiting:
            if checkpoint.end_sequence > sequence:
                break
            found = checkpoint
        return found

    def on_truncated(self, checkpoint: Checkpoint) -> None:
        """The log was truncated there: earlier checkpoints are forgotten."""
        while self._waiting and self._waiting[0].end_sequence <= checkpoint.end_sequence:
            self._waiting.popleft()

    def __len__(self) -> int:
        return len(self._waiting)
