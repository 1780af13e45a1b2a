"""How many bytes may be lent to connections for frames that do not fit their buffers, over all of them.

A frame may have 16 MiB, and its head is only a promise: a thousand clients that each send most of one would
fill a machine. So a connection takes room for all of a large frame before its buffer grows for it, and does
not read while there is none. The room stays with the connection for its next frame until somebody else wants
it.

The end of an append may be as large as its block, and is known only behind it. Who then needs more waits too,
with what it has, in front of those who have nothing. When all who have room wait for more, the first of them
goes on, whatever the bound says: it then needs nothing more to finish. So at most one frame is beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class Borrower(Protocol):
    """A connection, as the lender sees it."""

    def received_bytes(self) -> int:
        """Say how much has arrived until now."""

    def give_back_memory(self) -> int:
        """Do without the room: its large frame was taken. Return how much is needed for what followed it."""

    def on_memory(self) -> None:
        """The room that was asked for is there."""

    def on_overdue(self, held_s: float) -> None:
        """Others have waited for long enough, since it has had its room for ``held_s``."""


@dataclass(slots=True)
class ReceiveMemoryStatistics:
    """Bytes and connections now, and how often somebody had to wait."""

    bytes_lent: int = 0
    borrowers: int = 0
    waiting: int = 0
    waits: int = 0


class Loan:
    """Room that a connection has: how much, since when for its frame of now, whether it has none."""

    __slots__ = ("moved_at", "received_bytes", "since", "size_bytes", "spare")

    def __init__(self, size_bytes: int, since: float) -> None:
        self.size_bytes = size_bytes
        self.begin(since)

    def begin(self, now: float) -> None:
        """The room is for a frame that begins."""
        self.since = now
        self.spare = False
        self.received_bytes = -1
        """What had arrived when that was last found to have grown, at ``moved_at``."""
        self.moved_at = now


class ReceiveMemory:
    """Lends ``bytes_max`` bytes, and more only to one who could not go on otherwise, nor anybody else."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._loans: dict[Borrower, Loan] = {}
        self._waiting: dict[Borrower, int] = {}
        """How much each wants who has nothing, in the order in which they asked."""
        self._growing: dict[Borrower, int] = {}
        """The same of those who have room for less than their frame turned out to need."""
        self._bytes_lent = 0
        self._waits = 0

    def take(self, borrower: Borrower, size_bytes: int, now: float) -> bool:
        """Lend room for a frame, of which there was none or less; or remember to tell ``borrower`` later.

        Args:
            borrower: has begun to receive a frame, or learnt that the one it receives is larger.
            size_bytes: all of the room that it needs.
            now: in seconds, for :meth:`overdue`.
        """
        loan = self._loans.get(borrower)
        if loan is not None and size_bytes <= loan.size_bytes:
            if loan.spare:
                loan.begin(now)
            return True
        if loan is not None and not loan.spare:
            return self._grow(borrower, loan, size_bytes, now)
        if not self._waiting and not self._growing and self._make_room(borrower, size_bytes, now):
            self._lend(borrower, size_bytes, now)
            return True
        if loan is not None:
            self._take_back(borrower, now)
            if borrower in self._loans:
                return self.take(borrower, size_bytes, now)
        if borrower not in self._waiting:
            self._waiting[borrower] = size_bytes
            self._waits += 1
        return False

    def _grow(self, borrower: Borrower, loan: Loan, size_bytes: int, now: float) -> bool:
        """Lend more to who is in a frame, at once or later."""
        if not self._growing and self._make_room(borrower, size_bytes, now):
            self._bytes_lent += size_bytes - loan.size_bytes
            loan.size_bytes = size_bytes
            return True
        self._growing[borrower] = size_bytes
        self._waits += 1
        self.serve(now)  # it may have been the last one who could finish without more
        return False

    def finish(self, borrower: Borrower, now: float) -> None:
        """The frame was taken. The room is kept for the next one, unless somebody waits."""
        loan = self._loans.get(borrower)
        if loan is None:
            return
        loan.spare = True
        if self._waiting or self._growing:
            self._take_back(borrower, now)
            self.serve(now)

    def leave(self, borrower: Borrower, now: float) -> None:
        """The borrower is gone, with whatever it had or waited for."""
        self._waiting.pop(borrower, None)
        self._growing.pop(borrower, None)
        loan = self._loans.pop(borrower, None)
        if loan is not None:
            self._bytes_lent -= loan.size_bytes
        self.serve(now)

    def serve(self, now: float) -> None:
        """Lend to those who wait, in their order, as far as there is room."""
        while line := self._growing or self._waiting:
            borrower, size_bytes = next(iter(line.items()))
            if not self._make_room(borrower, size_bytes, now):
                return
            del line[borrower]
            self._lend(borrower, size_bytes, now)
            borrower.on_memory()

    def overdue(self, now: float, patience_s: float, stall_s: float) -> Iterator[tuple[Borrower, float]]:
        """Name those for whom others have waited too long, and for how long each has had its room.

        Args:
            now: in seconds.
            patience_s: one frame may take as long as this.
            stall_s: and nothing of it may arrive for as long as this, as far as looks like this one can tell.
        """
        for borrower, loan in list(self._loans.items() if self._waiting or self._growing else ()):
            if loan.spare or borrower in self._growing:  # it is others who keep that one waiting
                continue
            received_bytes = borrower.received_bytes()
            if received_bytes != loan.received_bytes:
                loan.received_bytes, loan.moved_at = received_bytes, now
            if now - loan.since >= patience_s or now - loan.moved_at >= stall_s:
                yield borrower, now - loan.since

    def _make_room(self, borrower: Borrower, size_bytes: int, now: float) -> bool:
        """Whether ``size_bytes`` in all can be lent to ``borrower``, if need be after others gave back."""
        own = self._loans.get(borrower)
        needed = size_bytes - (0 if own is None else own.size_bytes)
        if self._bytes_lent + needed > self._bytes_max:
            for other, loan in list(self._loans.items()):
                if loan.spare and other is not borrower:
                    self._take_back(other, now)
                    if self._bytes_lent + needed <= self._bytes_max:
                        break
        if self._bytes_lent + needed <= self._bytes_max:
            return True
        cannot_finish = len(self._growing) + (own is not None and borrower not in self._growing)
        return len(self._loans) == cannot_finish  # nobody else is left who would give anything back

    def _lend(self, borrower: Borrower, size_bytes: int, now: float) -> None:
        former = self._loans.pop(borrower, None)
        self._bytes_lent += size_bytes - (0 if former is None else former.size_bytes)
        self._loans[borrower] = Loan(size_bytes, now)

    def _take_back(self, borrower: Borrower, now: float) -> None:
        """Have the room back, except for what arrived behind the frame and waits to be taken."""
        loan = self._loans[borrower]
        self._bytes_lent -= loan.size_bytes
        loan.size_bytes = borrower.give_back_memory()
        self._bytes_lent += loan.size_bytes
        if loan.size_bytes:
            loan.begin(now)
        else:
            del self._loans[borrower]

    def statistics(self) -> ReceiveMemoryStatistics:
        waiting = len(self._waiting) + len(self._growing)
        return ReceiveMemoryStatistics(self._bytes_lent, len(self._loans), waiting, self._waits)

    def check(self) -> None:
        """Assert that room is counted right, and that nobody waits without a reason."""
        assert self._bytes_lent == sum(loan.size_bytes for loan in self._loans.values())
        assert not self._waiting.keys() & self._loans.keys()
        assert not self._waiting or self._loans
        assert self._growing.keys() <= self._loans.keys()
        assert not self._growing or len(self._growing) < len(self._loans), "nobody could ever go on"
        if self._waiting or self._growing:
            assert not any(loan.spare for loan in self._loans.values())
