"""Decides how far the log may be cut: the newest metadata checkpoint behind which nothing is still needed."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from headrace.errors import DataCorruptionError

CHECKPOINTS_MAX: Final = 4096
"""More are thinned out: with storage so far behind, cutting a little less exactly costs nothing."""


class _Waiting(NamedTuple):
    """A checkpoint that was not acknowledged."""

    sequence: int
    bytes_before: int
    """Taken before it."""


class Acknowledgements:
    """Sequence numbers on their way to being acknowledged. No I/O."""

    def __init__(self) -> None:
        self._checkpoints: deque[_Waiting] = deque()
        self._taken = -1
        self._bytes_taken = 0
        self.acknowledged = -1
        """The newest sequence number that was acknowledged."""

    def on_taken(self, sequence: int, bytes_appended: int = 0) -> None:
        """An operation came from the memory log.

        Raises:
            DataCorruptionError: it is not behind the one before.
        """
        if sequence <= self._taken:
            raise DataCorruptionError(
                f"operation {sequence} follows operation {self._taken} in the memory log"
            )
        self._taken = sequence
        self._bytes_taken += bytes_appended

    def on_checkpoint(self, sequence: int) -> None:
        self._checkpoints.append(_Waiting(sequence, self._bytes_taken))
        if len(self._checkpoints) > CHECKPOINTS_MAX:
            self._checkpoints = deque(list(self._checkpoints)[::2])

    def candidate(self, lowest_pending: int | None) -> int | None:
        """Return the newest checkpoint with every operation before it stored, if it is news.

        Args:
            lowest_pending: sequence number of the oldest operation not yet stored; None if there is none.
        """
        found = None
        for sequence, _ in self._checkpoints:
            if lowest_pending is not None and sequence > lowest_pending:
                break
            found = sequence
        return found

    def on_acknowledged(self, sequence: int) -> None:
        assert sequence > self.acknowledged
        self.acknowledged = sequence
        while self._checkpoints and self._checkpoints[0].sequence <= sequence:
            self._checkpoints.popleft()

    @property
    def taken(self) -> int:
        """The newest sequence number taken, -1 before the first."""
        return self._taken

    @property
    def first_checkpoint(self) -> int | None:
        """The oldest checkpoint that was not acknowledged."""
        return self._checkpoints[0].sequence if self._checkpoints else None

    @property
    def bytes_behind(self) -> int:
        """How many bytes were appended behind the first of these: so long, at least, the log is."""
        return self._bytes_taken - self._checkpoints[0].bytes_before if self._checkpoints else 0

    def check(self) -> None:
        """Assert the invariants."""
        assert self.acknowledged <= self._taken
        sequences = [waiting.sequence for waiting in self._checkpoints]
        assert sequences == sorted(set(sequences))
        assert all(self.acknowledged < sequence <= self._taken for sequence in sequences)
        before = [waiting.bytes_before for waiting in self._checkpoints]
        assert [*before, self._bytes_taken] == sorted([*before, self._bytes_taken])
