"""What may start and what is done, among the events of one bucket. Pure.

At most one event of a stream runs at a time, in their order; one that is postponed goes behind the others of
its stream. Events of different streams end in any order: the checkpoint is where the first unfinished one
begins.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Ticket(Generic[E]):
    """An event that is not done, with its place in the segment."""

    offset: int
    stream: str
    event: E


class EventProgress(Generic[E]):
    """Events arrive in the order of their offsets, without gaps."""

    def __init__(self, checkpoint: int) -> None:
        self._end = checkpoint
        self._unfinished: dict[int, None] = {}
        """Offsets, in their order."""
        self._queues: dict[str, deque[Ticket[E]]] = {}
        """Of each stream with unfinished events: those that do not run."""
        self._running: dict[str, Ticket[E]] = {}

    @property
    def checkpoint(self) -> int:
        """The offset below which everything is done."""
        return next(iter(self._unfinished), self._end)

    @property
    def end(self) -> int:
        """The offset behind everything that arrived."""
        return self._end

    @property
    def unfinished(self) -> int:
        return len(self._unfinished)

    def arrive(self, offset: int, end: int, stream: str, event: E) -> bool:
        """Queue an event; return whether it is the only one of its stream: then it may be started."""
        assert offset == self._end < end
        self._end = end
        self._unfinished[offset] = None
        is_first = stream not in self._queues
        self._queues.setdefault(stream, deque()).append(Ticket(offset, stream, event))
        return is_first

    def start(self, stream: str) -> Ticket[E] | None:
        """Return the next event of the stream, which runs from now on; None if all are done."""
        assert stream not in self._running
        queue = self._queues.get(stream)
        if not queue:
            return None
        ticket = self._running[stream] = queue.popleft()
        return ticket

    def postpone(self, ticket: Ticket[E]) -> None:
        """Put an event that runs behind the others of its stream."""
        self._end_run(ticket)
        self._queues[ticket.stream].append(ticket)

    def retry(self, ticket: Ticket[E]) -> None:
        """Put an event that runs in front of the others of its stream."""
        self._end_run(ticket)
        self._queues[ticket.stream].appendleft(ticket)

    def complete(self, ticket: Ticket[E]) -> None:
        """An event that runs is done, or set aside for good."""
        self._end_run(ticket)
        del self._unfinished[ticket.offset]
        if not self._queues[ticket.stream]:
            del self._queues[ticket.stream]

    def _end_run(self, ticket: Ticket[E]) -> None:
        running = self._running.pop(ticket.stream)
        assert running is ticket
