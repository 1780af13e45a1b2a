"""Which part of a stream is read: between cuts or times, or the last events. Pure but for what it asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from headrace.client.control.stream_times import TimedCut, asked_ms
from headrace.client.reader.cuts import Edge
from headrace.errors import InvalidArgumentError
from headrace.model.stream_cut import StreamCut
from headrace.runtime.times import parse_time_ms

Time = datetime | timedelta | int | str
"""A ``datetime`` (of the local zone if it names none), or ms since 1970; a ``timedelta`` is so long ago; or a
text as the command line takes it: ``"2026-11-25T10:00"``, ``"1h"``.
"""


class StreamQuestions(Protocol):
    """What is asked about the stream that is read."""

    async def cut_at(self, time_ms: int) -> TimedCut:
        """Return where it was at a time."""

    async def find_last(self, wanted: int) -> tuple[StreamCut, StreamCut]:
        """Return the cut behind which the last events lie, and the tail; without segments if it is sealed."""


@dataclass(frozen=True, slots=True)
class ReadPart:
    """What a caller says of the part to read.

    Raises:
        InvalidArgumentError: it is said twice, or makes no sense.
    """

    start: Edge
    end: Edge | None
    since: Time | None = None
    until: Time | None = None
    last: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        begins = _said(start=self.start != "head", since=self.since is not None, last=self.last is not None)
        if len(begins) > 1:
            raise InvalidArgumentError(f"{' and '.join(begins)} each say where to begin: give one")
        is_cut = self.end is not None and self.end != "tail"
        ends = _said(end=is_cut, until=self.until is not None)
        if len(ends) > 1:
            raise InvalidArgumentError("end and until each say where to end: give one")
        if self.last is not None and ends:
            raise InvalidArgumentError(f"last is about the tail: with {ends[0]}, give limit instead")
        limit: object = self.limit
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise InvalidArgumentError(f"limit is a number of events, at least 1, not {limit!r:.100}")

    async def edges(self, questions: StreamQuestions, now_ms: int) -> tuple[Edge, Edge | None]:
        """Look up where to begin and where to end. Raises InvalidArgumentError: a time is none."""
        start, end = self.start, self.end
        since_ms = None if self.since is None else time_ms(self.since, now_ms)
        until_ms = None if self.until is None else time_ms(self.until, now_ms)
        if since_ms is not None and until_ms is not None and since_ms > until_ms:
            raise InvalidArgumentError(f"since {self.since} is later than until {self.until}")
        if since_ms is not None:
            start = (await questions.cut_at(since_ms)).cut
        if until_ms is not None:
            end = "tail" if until_ms >= now_ms else (await questions.cut_at(until_ms)).cut
        if self.last is not None:
            start, tail = await questions.find_last(self.last)
            if end is not None and tail.offsets:
                end = tail  # it has not moved since
        return start, end


def _said(**words: bool) -> Sequence[str]:
    return [word for word, is_said in words.items() if is_said]


def time_ms(given: Time, now_ms: int) -> int:
    """Return milliseconds since 1970. Raises InvalidArgumentError: it is no such time."""
    if isinstance(given, str):
        return parse_time_ms(given, now_ms)
    if isinstance(given, timedelta):
        return max(0, now_ms - given // timedelta(milliseconds=1))
    return asked_ms(given)
