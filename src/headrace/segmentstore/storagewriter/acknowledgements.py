"""Decides how far the log may be cut: the newest metadata checkpoint behind which nothing is still needed."""

from __future__ import annotations

from collections import deque
from typing import Final

from headrace.errors import DataCorruptionError

CHECKPOINTS_MAX: Final = 4096
"""More are thinned out: with storage so far behind, cutting a little less exactly costs nothing."""


class Acknowledgements:
    """Sequence numbers on their way to being acknowledged. No I/O."""

    def __init__(self) -> None:
        self._checkpoints: deque[int] = deque()
        self._taken = -1
        self.acknowledged = -1
        """The newest sequence number that was acknowledged."""

    def on_taken(self, sequence: int) -> None:
        """An operation came from the memory log.

        Raises:
            DataCorruptionError: it is not behind the one before.
        """
        if sequence <= self._taken:
            raise DataCorruptionError(
                f"operation {sequence} follows operation {self._taken} in the memory log"
            )
        self._taken = sequence

    def on_checkpoint(self, sequence: int) -> None:
        self._checkpoints.append(sequence)
        if len(self._checkpoints) > CHECKPOINTS_MAX:
            self._checkpoints = deque(list(self._checkpoints)[::2])

    def candidate(self, lowest_pending: int | None) -> int | None:
        """Return the newest checkpoint with every operation before it stored, if it is news.

        Args:
            lowest_pending: sequence number of the oldest operation not yet stored; None if there is none.
        """
        found = None
        for sequence in self._checkpoints:
            if lowest_pending is not None and sequence > lowest_pending:
                break
            found = sequence
        return found

    def on_acknowledged(self, sequence: int) -> None:
        assert sequence > self.acknowledged
        self.acknowledged = sequence
        while self._checkpoints and self._checkpoints[0] <= sequence:
            self._checkpoints.popleft()

    @property
    def taken(self) -> int:
        """The newest sequence number taken, -1 before the first."""
        return self._taken

    @property
    def first_checkpoint(self) -> int | None:
        """The oldest checkpoint that was not acknowledged."""
        return self._checkpoints[0] if self._checkpoints else None

    def check(self) -> None:
        """Assert the invariants."""
        assert self.acknowledged <= self._taken
        assert list(self._checkpoints) == sorted(set(self._checkpoints))
        assert all(self.acknowledged < sequence <= self._taken for sequence in self._checkpoints)
