"""How many bytes of replies clients have not taken, over all connections.

Each connection has a bound of its own, but thousands of slow clients together would fill a machine within
theirs. Beyond ``bytes_max`` a connection that has anything unsent takes no further request, and reads are
answered in small pieces.
"""

from __future__ import annotations

from typing import Final

from headrace.limits import KIB

TIGHT_READ_BYTES_MAX: Final = 64 * KIB
"""An answer to a read holds no more than this while too much is unsent."""


class UnsentBytes:
    """A sum that the outboxes keep. What a client took meanwhile is found out when its outbox looks again."""

    __slots__ = ("_bytes_max", "total")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.total = 0

    @property
    def tight(self) -> bool:
        return self.total > self._bytes_max
