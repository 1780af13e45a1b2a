"""The plan of a recovery: how a ledger that may still be written by another process is fenced and ended.

It asks, is given all answers, and asks again, until it knows where the ledger ends (:attr:`end`). It may be
given up and begun anew at any point, and several may be at work on the same ledger: each writes the same
entries again, and the metadata decide by compare-and-set which end counts.

Why no acknowledged entry is lost:

* An entry is acknowledged when ``ack`` of its ``write`` bookies have it. ``proof`` of them are so many that
  the others are fewer than ``ack``.
* The fence is answered by ``proof`` bookies of every entry's: from then on nothing new can be acknowledged
  but what is in flight.
* That there is no such entry is believed from ``proof`` bookies, and each was fenced by the very read that
  it answered: so what is in flight cannot reach ``ack`` bookies later, either. (Were these reads without a
  fence, what is in flight could still reach a bookie that had said no, and be acknowledged.)
* An error, a lost connection or no answer is unknown, and never a no.
* What is found is on ``ack`` bookies again before the ledger is closed behind it. If too few of its bookies
  are left for that, others take the places of the lost ones for what is not confirmed: all of it is written
  again, and the metadata say so with the end, in one write. Until then none of it is called confirmed: who
  recovers the ledger next looks where the metadata say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from headrace.errors import DataCorruptionError, WalWriteError
from headrace.wal.bookkeeper.entry_format import NO_ENTRY, Entry
from headrace.wal.bookkeeper.ledger_metadata import Ensemble, LedgerMetadata
from headrace.wal.bookkeeper.quorums import Quorums, is_covered, write_set
from headrace.wal.bookkeeper.wire_format import LAST_ENTRY, Verdict


class Asked(Enum):
    READ = "read"
    """Read an entry, or the last one, and fence the ledger by that."""
    WRITE = "write"
    """Add an entry although the ledger is fenced."""


class Ask(NamedTuple):
    """What each of ``bookies`` is to be asked, each once."""

    what: Asked
    entry: int
    bookies: tuple[str, ...]
    payload: bytes = b""
    """Of a write; with what is known of the entry:"""
    last_confirmed: int = NO_ENTRY
    length: int = 0


class Reply(NamedTuple):
    """What a bookie answered; of a read that was OK with the entry. A damaged entry is ``UNKNOWN``."""

    verdict: Verdict
    entry: Entry | None = None


class LedgerEnd(NamedTuple):
    """Where a ledger is to be closed."""

    last_entry: int
    length: int
    moved: Ensemble | None = None
    """Where the last entries are, if others took the places of lost bookies."""


UNKNOWN: Final = Reply(Verdict.UNKNOWN)


class LedgerRecovery:
    """The recovery of one ledger that is not closed. ``ledger``: what its node says.

    Each of its bookies is asked over one connection from first to last: one that was started anew meanwhile
    does not answer any more.

    ``must_answer``: bookies that are said to be alive. That there is no entry is believed only if each of
    them that may have it says so, too. A quorum would be right as well, as long as no bookie comes back
    without what it had: this is for those that do. Callers do without it after a while.

    ``replacements``: other bookies, that may take the places of those that are lost.
    """

    def __init__(
        self,
        number: int,
        ledger: LedgerMetadata,
        *,
        must_answer: Collection[str] = frozenset(),
        replacements: Sequence[str] = (),
    ) -> None:
        self.number = number
        self.end: LedgerEnd | None = None
        """Set at last: where to close the ledger, by compare-and-set."""
        self._ledger = ledger
        self._must_answer = frozenset(must_answer)
        self._replacements = [each for each in replacements if each not in ledger.bookies]
        self._moved: Ensemble | None = None
        self._quorums = Quorums(len(ledger.bookies), ledger.write_quorum, ledger.ack_quorum)
        self._given_up: set[str] = set()
        self._last = NO_ENTRY
        self._length: int | None = None  # up to _last; None: not known
        self._is_searching = False
        self.ask = Ask(Asked.READ, LAST_ENTRY, ledger.bookies)
        """What is to be asked next, while there is no :attr:`end`."""

    def proceed(self, replies: Mapping[str, Reply]) -> None:
        """Take what the bookies of :attr:`ask` answered. One that is missing is unknown, and not asked again.

        Raises:
            WalWriteError: too few bookies answered; begin anew. Nothing is lost by that.
            DataCorruptionError: an acknowledged entry is gone.
        """
        assert self.end is None
        ask = self.ask
        found = {bookie: replies.get(bookie, UNKNOWN) for bookie in ask.bookies}
        self._given_up |= {
            bookie for bookie, reply in found.items() if reply.verdict in {Verdict.UNKNOWN, Verdict.FENCED}
        }
        if ask.what is Asked.WRITE:
            self._go_on_behind(ask, found)
        elif ask.entry == LAST_ENTRY:
            self._begin(found)
        else:
            self._go_on_with(ask.entry, found)

    def _begin(self, found: Mapping[str, Reply]) -> None:
        fenced = {bookie for bookie, reply in found.items() if reply.verdict in {Verdict.OK, Verdict.ABSENT}}
        if not is_covered(self._ledger.bookies, self._quorums.write, self._quorums.proof, fenced):
            raise self._too_few("could be fenced", found)
        # Whoever replaced a bookie closed what lay in front: all of that is confirmed.
        self._last = max(
            [self._ledger.ensembles[-1].first_entry - 1]
            + [reply.entry.last_confirmed for reply in found.values() if reply.entry is not None]
        )
        self._replace_lost()
        self._is_searching = True
        self._read(self._last + 1)

    def _replace_lost(self) -> None:
        """Let others take the places of bookies that do not answer, if too few take entries again."""
        bookies = self._ledger.bookies
        left = set(bookies) - self._given_up
        if self._replacements and not is_covered(bookies, self._quorums.write, self._quorums.ack, left):
            others = iter(self._replacements)
            places = tuple(each if each in left else next(others, each) for each in bookies)
            self._moved = Ensemble(self._last + 1, places)

    def _go_on_with(self, number: int, found: Mapping[str, Reply]) -> None:
        entry = next((reply.entry for reply in found.values() if reply.entry is not None), None)
        if entry is None:
            absent = {bookie for bookie, reply in found.items() if reply.verdict is Verdict.ABSENT}
            needed = self._must_answer.intersection(self._targets(number))
            if len(absent) < self._quorums.proof or not needed <= absent:
                raise self._too_few(f"say whether there is an entry {number}", found)
            if not self._is_searching:
                raise DataCorruptionError(
                    f"entry {number} of ledger {self.number} was confirmed, and its bookies have it no more"
                )
            self._finish()
        elif self._is_searching:
            self.ask = Ask(
                Asked.WRITE,
                number,
                self._asked(self._places(number)),
                bytes(entry.payload),
                self._last if self._moved is None else self._moved.first_entry - 1,
                entry.length,
            )
        else:
            self._length = entry.length
            self._finish()

    def _go_on_behind(self, ask: Ask, found: Mapping[str, Reply]) -> None:
        if sum(reply.verdict is Verdict.OK for reply in found.values()) < self._quorums.ack:
            raise self._too_few(f"took entry {ask.entry} again", found)
        self._last, self._length = ask.entry, ask.length
        self._read(ask.entry + 1)

    def _finish(self) -> None:
        """No entry follows. How many bytes there are is said by the last entry."""
        self._is_searching = False
        if self._last == NO_ENTRY:
            self._length = 0
        if self._length is None:
            self._read(self._last)
        else:
            moved = self._moved if self._moved and self._moved.first_entry <= self._last else None
            self.end = LedgerEnd(self._last, self._length, moved)

    def _read(self, number: int) -> None:
        self.ask = Ask(Asked.READ, number, self._asked(self._targets(number)))

    def _targets(self, number: int) -> tuple[str, ...]:
        return write_set(self._ledger.ensemble_of(number), self._quorums.write, number)

    def _places(self, number: int) -> tuple[str, ...]:
        """Return where an entry is written again."""
        if self._moved is None:
            return self._targets(number)
        return write_set(self._moved.bookies, self._quorums.write, number)

    def _asked(self, bookies: Sequence[str]) -> tuple[str, ...]:
        return tuple(bookie for bookie in bookies if bookie not in self._given_up)

    def _too_few(self, what: str, found: Mapping[str, Reply]) -> WalWriteError:
        told = ", ".join(f"{bookie}: {reply.verdict.value}" for bookie, reply in found.items())
        return WalWriteError(
            f"ledger {self.number} cannot be recovered now: too few of its bookies {what} ({told}); nothing "
            "is lost, and it is tried again when more of them answer"
        )
