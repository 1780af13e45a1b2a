"""Small objects that connections have in large numbers: charged to the budget and counted by kind."""

from __future__ import annotations

from typing import Final

from headrace.segmentstore.ingress.budget import ByteBudget

READ_BYTES: Final = 3072
"""A read that waits at the tail: its task and its request."""

WRITER_BYTES: Final = 1200

REFUSAL_BYTES: Final = 100
"""A refusal that waits, besides its wire frame."""

SHARE_OF_EACH: Final = 64
"""What a connection may have even while objects exceed their budget."""


class ChargedKind:
    """One kind, over all connections: each may have ``each_max``, or less while objects are tight."""

    __slots__ = ("_each_max", "budget", "bytes", "total")

    def __init__(self, budget: ByteBudget, each_max: int) -> None:
        self._each_max = each_max
        self.budget = budget
        self.total = self.bytes = 0

    @property
    def limit(self) -> int:
        """How many one connection may have now."""
        return min(SHARE_OF_EACH, self._each_max) if self.budget.objects_tight else self._each_max


class Charges:
    """Those of one connection."""

    __slots__ = ("_bytes", "_closed", "_kind", "count")

    def __init__(self, kind: ChargedKind) -> None:
        self._kind = kind
        self._closed = False
        self.count = self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether no further one is allowed."""
        return self._closed or self.count >= self._kind.limit

    def add(self, size_bytes: int) -> None:
        self._change(1, size_bytes)

    def remove(self, count: int, size_bytes: int) -> None:
        if not self._closed:
            self._change(-count, -size_bytes)

    def close(self) -> None:
        """The connection is lost, and has none any more. Idempotent."""
        self.remove(self.count, self._bytes)
        self._closed = True

    def _change(self, count: int, size_bytes: int) -> None:
        kind = self._kind
        self.count += count
        self._bytes += size_bytes
        kind.total += count
        kind.bytes += size_bytes
        kind.budget.charge_objects(size_bytes)
