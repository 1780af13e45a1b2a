"""The plan of one ledger that is written: what is acknowledged, when a bookie is given up, when to stop.

A ledger has its bookies for life, and each of them one connection: a bookie that is lost (an error, a lost
connection, no answer in time, too many bytes behind) never gets an entry of this ledger again. So a bookie
that comes back after it forgot a fence, or everything, is no danger. The ledger goes on while each entry can
still be confirmed by ``ack`` bookies, and should be left for another one soon.

Once it is stopped nothing is acknowledged any more, whatever answers still come: where the ledger ends is
then decided by its metadata (:meth:`LedgerWriter.end_at`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from headrace.errors import DataCorruptionError
from headrace.wal.bookkeeper.entry_format import NO_ENTRY
from headrace.wal.bookkeeper.quorums import Quorums, is_covered, write_set
from headrace.wal.bookkeeper.wire_format import Verdict


class Stop(Enum):
    """Why a ledger is not written any more."""

    ASKED = "asked"
    """By its owner."""
    FENCED = "fenced"
    """Somebody recovers it: another owner, or the repair of BookKeeper. The node of the log knows."""
    TOO_FEW = "too few"
    """Too few bookies are left to confirm an entry."""


class Add(NamedTuple):
    """An entry that is to be sent to ``bookies``."""

    entry: int
    last_confirmed: int
    length: int
    bookies: tuple[str, ...]


@dataclass(slots=True)
class Progress:
    """What follows from an event."""

    confirmed: list[int] = field(default_factory=list)
    """Entries that are acknowledged now, in order."""
    released: list[int] = field(default_factory=list)
    """Entries whose bytes no connection uses any more."""
    given_up: list[str] = field(default_factory=list)
    """Bookies whose connection is to be aborted: it may still send bytes of entries in ``released``."""


class End(NamedTuple):
    """Where a ledger ended."""

    confirmed: list[int]
    """Entries without an acknowledgement that are in the ledger all the same."""
    again: list[int]
    """Entries that are not in it: the next ledger has to begin with them, in order."""


@dataclass(slots=True)
class _Entry:
    entry: int
    size: int
    length: int
    waiting: set[str]
    """Bookies that have it, or have yet to get it, and have not answered."""
    acks: int = 0


class LedgerWriter:
    """Decides about one ledger.

    ``behind_bytes_max``: how many bytes that are acknowledged a bookie may not have answered yet. If all are
    slow, nothing is acknowledged, and none is behind.
    """

    def __init__(
        self, ledger: int, bookies: Sequence[str], quorums: Quorums, *, behind_bytes_max: int
    ) -> None:
        assert len(bookies) == quorums.ensemble
        self.ledger = ledger
        self.bookies = tuple(bookies)
        self.quorums = quorums
        self.stop_cause: Stop | None = None
        self.confirmed = NO_ENTRY
        """The last entry that was acknowledged."""
        self.confirmed_length = 0
        """Bytes of all payloads up to that one."""
        self.next_entry = 0
        self.length = 0
        self.lost: set[str] = set()
        """Bookies that get nothing more."""
        self._behind_bytes_max = behind_bytes_max
        self._behind = dict.fromkeys(self.bookies, 0)
        self._unconfirmed: deque[_Entry] = deque()
        self._sent: dict[int, _Entry] = {}  # entries that some connection may still use

    @property
    def should_roll(self) -> bool:
        """Whether another ledger would be better: a bookie of this one is lost."""
        return self.stop_cause is not None or bool(self.lost)

    def add(self, size: int) -> Add:
        """Number an entry with ``size`` bytes of payload. The ledger is not stopped."""
        assert self.stop_cause is None
        entry, self.next_entry = self.next_entry, self.next_entry + 1
        self.length += size
        targets = tuple(
            bookie for bookie in write_set(self.bookies, self.quorums.write, entry) if bookie not in self.lost
        )
        added = _Entry(entry, size, self.length, set(targets))
        self._unconfirmed.append(added)
        self._sent[entry] = added
        return Add(entry, self.confirmed, self.length, targets)

    def find_slow(self) -> list[str]:
        """Return the bookies that are too many bytes behind: they are to be given up, see :meth:`on_lost`."""
        return [
            bookie
            for bookie in self.bookies
            if self._behind[bookie] > self._behind_bytes_max and bookie not in self.lost
        ]

    def on_answer(self, bookie: str, entry: int, verdict: Verdict) -> Progress:
        """``bookie`` has answered the add of ``entry``, or its answer has been missing for too long."""
        found = self._sent.get(entry)
        if bookie in self.lost or found is None or bookie not in found.waiting:
            return Progress()
        if verdict is not Verdict.OK:
            if verdict is Verdict.FENCED:
                self.stop(Stop.FENCED)
            return self.on_lost(bookie)
        progress = Progress()
        if entry <= self.confirmed:
            self._behind[bookie] -= found.size
        found.acks += 1
        self._let_go(bookie, found, progress)
        self._confirm(progress)
        return progress

    def on_lost(self, bookie: str) -> Progress:
        """``bookie`` gets nothing more: its connection is lost, or is to be aborted now."""
        if bookie in self.lost:
            return Progress()
        progress = Progress(given_up=[bookie])
        self.lost.add(bookie)
        self._behind[bookie] = 0
        for found in list(self._sent.values()):
            if bookie in found.waiting:
                self._let_go(bookie, found, progress)
        if not self._can_confirm():
            self.stop(Stop.TOO_FEW)
        return progress

    def stop(self, cause: Stop) -> None:
        """Acknowledge nothing any more. The first cause stays, unless it is a fence that comes later."""
        if self.stop_cause is None or cause is Stop.FENCED:
            self.stop_cause = cause

    def end_at(self, last_entry: int) -> End:
        """The metadata of the ledger say that it ends with ``last_entry``.

        Raises:
            DataCorruptionError: it has lost entries that were acknowledged, or has some of somebody else.
        """
        assert self.stop_cause is not None
        if not self.confirmed <= last_entry < self.next_entry:
            raise DataCorruptionError(
                f"ledger {self.ledger} was closed at entry {last_entry} by somebody else, though "
                f"{self.confirmed} was acknowledged and {self.next_entry - 1} the last one that was sent"
            )
        entries = [found.entry for found in self._unconfirmed]
        self._unconfirmed.clear()
        return End(
            [entry for entry in entries if entry <= last_entry],
            [entry for entry in entries if entry > last_entry],
        )

    def _confirm(self, progress: Progress) -> None:
        while self.stop_cause is None and self._unconfirmed:
            first = self._unconfirmed[0]
            if first.acks < self.quorums.ack:
                break
            self._unconfirmed.popleft()
            self.confirmed, self.confirmed_length = first.entry, first.length
            progress.confirmed.append(first.entry)
            for bookie in first.waiting:
                self._behind[bookie] += first.size

    def _can_confirm(self) -> bool:
        ack = self.quorums.ack
        left = [bookie for bookie in self.bookies if bookie not in self.lost]
        return is_covered(self.bookies, self.quorums.write, ack, left) and all(
            found.acks + len(found.waiting) >= ack for found in self._unconfirmed
        )

    def _let_go(self, bookie: str, found: _Entry, progress: Progress) -> None:
        found.waiting.discard(bookie)
        if not found.waiting:
            del self._sent[found.entry]
            progress.released.append(found.entry)
