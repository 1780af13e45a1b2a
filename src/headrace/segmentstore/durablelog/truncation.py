"""Where the log may be cut: in front of a metadata checkpoint whose past is in long-term storage."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Checkpoint(NamedTuple):
    """A whole metadata checkpoint: the sequences of its ends, the address of the frame where it begins."""

    end_sequence: int
    begin_address: int
    begin_sequence: int


class TruncationPoints:
    """Remembers where each durable checkpoint begins, until the log is cut there. Pure."""

    def __init__(self) -> None:
        self._waiting: deque[Checkpoint] = deque()
        self.newest: Checkpoint | None = None
        """The last one, cut or not."""

    def add(self, checkpoint: Checkpoint) -> None:
        """The checkpoint is whole and durable, or is about to be if nothing fails."""
        assert self.newest is None or checkpoint.end_sequence > self.newest.end_sequence
        self._waiting.append(checkpoint)
        self.newest = checkpoint

    def find(self, sequence: int) -> Checkpoint | None:
        """Everything up to ``sequence`` is stored: return where to cut, or None if that gains nothing."""
        found = None
        for checkpoint in self._waiting:
            if checkpoint.end_sequence > sequence:
                break
            found = checkpoint
        return found

    def on_cut(self, checkpoint: Checkpoint) -> None:
        """The log was cut there: no operation before it is needed any more."""
        while self._waiting and self._waiting[0].end_sequence <= checkpoint.end_sequence:
            self._waiting.popleft()

    def __len__(self) -> int:
        return len(self._waiting)
