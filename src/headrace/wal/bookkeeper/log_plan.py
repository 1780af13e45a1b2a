"""The plan of the log of one owner: which frame is which entry of which ledger, and what becomes of it.

::

    append ──▶ written in the open ledger ──▶ acknowledged, in order ──▶ released by the caller
                  │ a bookie is lost, the ledger is full or fenced           and by every connection
                  ▼
               rolling: the ledger is stopped, then closed: at its last acknowledged entry, or, if it was
               fenced while the log is still ours, at the end that its recovery finds. What it holds is
               acknowledged, what it does not hold begins the next ledger.

A ledger that is fenced does not say that another owner exists. The node of the log does: whoever rolls reads
it, and writes it to add the next ledger. If it is not ours any more, every frame fails with FencedOutError.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from headrace.wal.bookkeeper.ledger_writer import Add, LedgerWriter, Progress, Stop

F = TypeVar("F")
"""A frame of the log: the plan does not look into it."""


class Phase(Enum):
    WRITING = "writing"
    ROLLING = "rolling"
    """There is no open ledger: frames wait for the next one."""
    FAILED = "failed"


@dataclass(slots=True)
class Placed(Generic[F]):
    """A frame and its place in the log, whichever ledger it is in."""

    frame: F
    size: int
    address: int
    uses: int = 0
    """Attempts whose connections may still use its bytes."""
    is_answered: bool = False


@dataclass(slots=True)
class Outcome(Generic[F]):
    """What follows from an event."""

    send: list[tuple[Placed[F], Add]] = field(default_factory=list)
    acknowledged: list[Placed[F]] = field(default_factory=list)
    """In order of their addresses."""
    released: list[Placed[F]] = field(default_factory=list)
    """Answered, and used by no connection any more: their memory may be used again."""
    given_up: list[str] = field(default_factory=list)
    """Bookies whose connections of the open, or last, ledger are to be aborted."""


class LogPlan(Generic[F]):
    """Decides for one owner of a log whose next record has ``next_address``."""

    def __init__(self, next_address: int, *, ledger_bytes_max: int) -> None:
        self.next_address = next_address
        self.phase = Phase.ROLLING
        self.writer: LedgerWriter | None = None
        self.first_address = next_address
        """Of the open, or last, ledger."""
        self._ledger_bytes_max = ledger_bytes_max
        self._unanswered: deque[Placed[F]] = deque()  # in order; those in the ledger, then those that wait
        self._used: dict[tuple[int, int], Placed[F]] = {}  # by ledger and entry: what connections may use

    @property
    def in_flight(self) -> int:
        """Frames without an answer."""
        return len(self._unanswered)

    @property
    def frames_queued(self) -> int:
        """Frames that wait for the next ledger."""
        is_written = (
            self.phase is Phase.WRITING and self.writer is not None and self.writer.stop_cause is None
        )
        return 0 if is_written else self.in_flight

    @property
    def bytes_in_flight(self) -> int:
        return sum(placed.size for placed in self._unanswered)

    @property
    def wants_roll(self) -> bool:
        """Whether the open ledger is full, or stopped, or has lost a bookie."""
        writer = self.writer
        return self.phase is Phase.WRITING and (
            writer is None or writer.should_roll or writer.length >= self._ledger_bytes_max
        )

    @property
    def wants_ledger(self) -> bool:
        """Whether frames wait for a ledger that nobody makes yet."""
        return self.phase is Phase.ROLLING and bool(self._unanswered)

    def append(self, frame: F, size: int) -> tuple[Placed[F], Outcome[F]]:
        """Place a frame: send it, or let it wait for the next ledger."""
        assert self.phase is not Phase.FAILED
        placed = Placed(frame, size, self.next_address)
        self.next_address += 1
        self._unanswered.append(placed)
        outcome: Outcome[F] = Outcome()
        if self.phase is Phase.WRITING and self.writer is not None:
            self._send(self.writer, placed, outcome)
        return placed, outcome

    def on_progress(self, writer: LedgerWriter, progress: Progress) -> Outcome[F]:
        """Take what an event did to a ledger, the open one or one before it."""
        outcome = Outcome[F](given_up=progress.given_up)
        if writer is self.writer:
            for _ in progress.confirmed:
                self._acknowledge(outcome)
        self._release(writer, progress.released, outcome)
        return outcome

    def begin_roll(self) -> None:
        """Acknowledge nothing any more in the open ledger, and send nothing to it: it will be closed."""
        assert self.phase is Phase.WRITING
        self.phase = Phase.ROLLING
        if self.writer is not None:
            self.writer.stop(Stop.ASKED)

    def end_ledger(self, last_entry: int) -> Outcome[F]:
        """The last ledger is closed at ``last_entry``, and the log is still ours.

        Raises:
            DataCorruptionError: see ``LedgerWriter.end_at``.
        """
        assert self.phase is Phase.ROLLING
        assert self.writer is not None
        end = self.writer.end_at(last_entry)
        outcome: Outcome[F] = Outcome()
        for _ in end.confirmed:
            self._acknowledge(outcome)
        return outcome

    def begin_ledger(self, writer: LedgerWriter) -> Outcome[F]:
        """The node of the log has a new ledger: send what waits, in order."""
        assert self.phase is Phase.ROLLING
        self.writer = writer
        self.phase = Phase.WRITING
        self.first_address = self.first_unanswered
        outcome: Outcome[F] = Outcome()
        for placed in self._unanswered:
            self._send(writer, placed, outcome)
        return outcome

    @property
    def first_unanswered(self) -> int:
        """The address with which the next ledger begins."""
        return self._unanswered[0].address if self._unanswered else self.next_address

    def fail(self) -> Outcome[F]:
        """The log is not ours any more, or cannot go on: return the frames that have no answer, in order.

        They are in ``acknowledged``; their answer is an error.
        """
        self.phase = Phase.FAILED
        if self.writer is not None:
            self.writer.stop(Stop.ASKED)
        outcome: Outcome[F] = Outcome()
        while self._unanswered:
            self._acknowledge(outcome)
        return outcome

    def _send(self, writer: LedgerWriter, placed: Placed[F], outcome: Outcome[F]) -> None:
        if writer.stop_cause is not None:
            return  # it waits for the next ledger
        add = writer.add(placed.size)
        placed.uses += 1
        self._used[writer.ledger, add.entry] = placed
        outcome.send.append((placed, add))

    def _acknowledge(self, outcome: Outcome[F]) -> None:
        placed = self._unanswered.popleft()
        placed.is_answered = True
        outcome.acknowledged.append(placed)
        if not placed.uses:
            outcome.released.append(placed)

    def _release(self, writer: LedgerWriter, entries: list[int], outcome: Outcome[F]) -> None:
        for entry in entries:
            placed = self._used.pop((writer.ledger, entry))
            placed.uses -= 1
            if placed.is_answered and not placed.uses:
                outcome.released.append(placed)
