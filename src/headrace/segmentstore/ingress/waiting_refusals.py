"""How many answers wait for acknowledgements in front of them: on one connection, and on all of them.

Refused appends cost their client next to nothing, and no room in a log: while one stands, those of a few
thousand writers would fill a machine.
"""

from __future__ import annotations

from headrace.segmentstore.ingress.shared_bound import SharedBound


class WaitingRefusals:
    """Those of one connection. It is closed if it has one too many."""

    __slots__ = ("_bound", "_closed", "count")

    def __init__(self, bound: SharedBound) -> None:
        self._bound = bound
        self._closed = False
        self.count = 0

    def add(self) -> bool:
        """Say whether one more may wait; it is counted then."""
        if self._closed or self.count >= self._bound.limit:
            return False
        self.count += 1
        self._bound.total += 1
        return True

    def remove(self, count: int) -> None:
        """So many were sent, or dropped."""
        if not self._closed:
            self.count -= count
            self._bound.total -= count

    def close(self) -> None:
        """The connection is lost: nobody waits for any. Idempotent."""
        self.remove(self.count)
        self._closed = True
