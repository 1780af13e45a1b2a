"""How many bytes may be in memory at once, over all connections: of requests, and of large replies.

Of requests, appends are not counted: they are copied into frames of a bounded pool. Reads hold no bytes until
they are answered. The other memory is that of replies about tables: see ``table_replies``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.limits import KIB

SMALL_BYTES_MAX: Final = 64 * KIB
"""Requests up to this size may pass a larger one that waits."""


@dataclass(slots=True)
class AdmissionStatistics:
    """Bytes now, and how often somebody had to wait."""

    bytes_running: int = 0
    bytes_aside: int = 0
    waiting: int = 0
    waits: int = 0


class Admission:
    """Room for ``bytes_max`` bytes, given in the order in which it was asked for.

    A request that finds nothing running always fits. Small ones that fit pass whoever is the first in line,
    so that a large one which waits for a container that stands does not stop everybody else; but no more than
    ``bytes_max`` of them do: it would never find room beside them.
    """

    __slots__ = ("_bytes_max", "_line", "_passed_bytes", "_statistics")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._line: dict[Callable[[], None], int] = {}
        """How much each wants who waits, in their order."""
        self._passed_bytes = 0
        """What passed the first of them."""
        self._statistics = AdmissionStatistics()

    def enter(self, size_bytes: int, on_entered: Callable[[], None]) -> bool:
        """Take room and say so; or wait in line: ``on_entered`` is called once, when the room was taken."""
        assert on_entered not in self._line
        if not self._fits(size_bytes) or (self._line and not self._passes(size_bytes)):
            self._line[on_entered] = size_bytes
            self._statistics.waits += 1
            return False
        self._statistics.bytes_running += size_bytes
        return True

    def enter_at_once(self, size_bytes: int) -> bool:
        """Take room and say so, unless one would have to wait for it."""
        if self._line or not self._fits(size_bytes):
            return False
        self._statistics.bytes_running += size_bytes
        return True

    @property
    def waiting(self) -> int:
        """How many are in line."""
        return len(self._line)

    def leave(self, size_bytes: int) -> None:
        """Give room back, to those who wait if it is enough for the first of them."""
        self._statistics.bytes_running -= size_bytes
        self._serve()

    def step_aside(self, size_bytes: int) -> bool:
        """Give room back that is not needed for now, and say so; False if too much is aside already."""
        statistics = self._statistics
        if statistics.bytes_aside and statistics.bytes_aside + size_bytes > self._bytes_max:
            return False
        statistics.bytes_aside += size_bytes
        self.leave(size_bytes)
        return True

    def come_back(self, size_bytes: int) -> None:
        """Take room again at once: who comes back holds what others wait for, and must not wait for them.

        So more than ``bytes_max`` may run, but never more than twice as much run and are aside together.
        """
        self._statistics.bytes_aside -= size_bytes
        self._statistics.bytes_running += size_bytes

    def end_aside(self, size_bytes: int) -> None:
        """What stepped aside is gone."""
        self._statistics.bytes_aside -= size_bytes

    def leave_line(self, on_entered: Callable[[], None]) -> None:
        """Whoever waits with ``on_entered`` is gone. It may also not be in the line."""
        if self._line.pop(on_entered, None) is not None:
            self._passed_bytes = 0
            self._serve()  # those behind it may need less

    def _serve(self) -> None:
        while self._line:
            on_entered, size_bytes = next(iter(self._line.items()))
            if not self._fits(size_bytes):
                return
            del self._line[on_entered]
            self._passed_bytes = 0
            self._statistics.bytes_running += size_bytes
            on_entered()

    def _fits(self, size_bytes: int) -> bool:
        running = self._statistics.bytes_running
        return not running or running + size_bytes <= self._bytes_max

    def _passes(self, size_bytes: int) -> bool:
        if size_bytes > SMALL_BYTES_MAX or self._passed_bytes + size_bytes > self._bytes_max:
            return False
        self._passed_bytes += size_bytes
        return True

    def statistics(self) -> AdmissionStatistics:
        self._statistics.waiting = len(self._line)
        return self._statistics

    def check(self) -> None:
        """Assert that room is not given back twice, and that nobody waits without a reason."""
        assert self._statistics.bytes_running >= 0
        assert self._statistics.bytes_aside >= 0
        assert not self._line or not self._fits(next(iter(self._line.values())))


class Stay:
    """One request that was admitted, until it ends."""

    __slots__ = ("_admission", "_aside", "_size_bytes")

    def __init__(self, admission: Admission, size_bytes: int) -> None:
        self._admission = admission
        self._size_bytes = size_bytes
        self._aside = False

    def step_aside(self) -> bool:
        """Let others have the room until :meth:`come_back`; False if too much is aside. Idempotent."""
        self._aside = self._aside or self._admission.step_aside(self._size_bytes)
        return self._aside

    def come_back(self) -> None:
        """Have the room again. Idempotent."""
        if self._aside:
            self._aside = False
            self._admission.come_back(self._size_bytes)

    def end(self) -> None:
        """The request has ended, wherever it was."""
        if self._aside:
            self._admission.end_aside(self._size_bytes)
        else:
            self._admission.leave(self._size_bytes)
