"""What clients asked for, when, and the answers: the raw material of every claim about correctness.

An operation has a start and, unless its client died, an end; it ends as

* ``OK``: it happened, with this result;
* ``REFUSED``: it did not happen, for the reason given (a ``RequestError`` or ``OverloadError``, say);
* ``UNKNOWN``: it may have happened, at any time after its start, even after its client got that answer.

An operation without an end counts as unknown. Starts and ends are numbered in the order in which they
happened; two operations overlap if neither ended before the other started. The times beside the numbers are
for readers.

A history is written and read as JSON lines, so that one taken from a real cluster can be checked too (merge
the files of several clients by time first, with clocks that agree well enough).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from headrace.errors import HeadraceError, UnknownOutcomeError
from headrace.testing.segment_calls import Call, Result, call_from_json, result_from_json, to_json


class Outcome(Enum):
    """What the client knows in the end."""

    OK = "ok"
    REFUSED = "refused"
    UNKNOWN = "unknown"


#: The end of an operation that has none.
NEVER: Final = 1 << 62


@dataclass(slots=True)
class Operation:
    """One request of one client."""

    client: str
    call: Call
    started: int
    started_at: float
    ended: int = NEVER
    ended_at: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    result: Result | None = None
    reason: str = ""

    def __str__(self) -> str:
        answer = self.reason if self.outcome is Outcome.REFUSED else (self.result or "")
        end = "?" if self.ended == NEVER else self.ended
        return f"[{self.started}-{end}] {self.client}: {self.call} -> {self.outcome.value} {answer}".rstrip()


@dataclass(slots=True)
class History:
    """The operations of a run, in the order of their starts. One event loop."""

    now: Callable[[], float]
    operations: list[Operation] = field(default_factory=list)
    _moment: int = 0

    def start(self, client: str, call: Call) -> Operation:
        """Note that ``client`` is about to ask."""
        operation = Operation(client, call, self._next(), self.now())
        self.operations.append(operation)
        return operation

    def succeed(self, operation: Operation, result: Result | None = None) -> None:
        """Note that it happened."""
        self._end(operation, Outcome.OK)
        operation.result = result

    def refuse(self, operation: Operation, reason: str) -> None:
        """Note that it did not happen and never will."""
        self._end(operation, Outcome.REFUSED)
        operation.reason = reason

    def lose(self, operation: Operation, reason: str = "") -> None:
        """Note that its outcome stays unknown. It stays open: it may happen from now on, too."""
        assert operation.outcome is Outcome.UNKNOWN
        operation.ended_at = self.now()
        operation.reason = reason

    def fail(self, operation: Operation, error: HeadraceError) -> None:
        """Note a failure as what its family says it is."""
        reason = type(error).__name__.removesuffix("Error")
        if isinstance(error, UnknownOutcomeError):
            self.lose(operation, reason)
        else:
            self.refuse(operation, reason)

    def by_segment(self) -> dict[str, list[Operation]]:
        """Return the operations of each segment."""
        segments: dict[str, list[Operation]] = {}
        for operation in self.operations:
            segments.setdefault(operation.call.segment, []).append(operation)
        return segments

    # ---- as text

    def to_lines(self) -> Iterator[str]:
        """Yield one JSON object per start and end, in order."""
        events: list[tuple[int, dict[str, Any]]] = []
        for number, operation in enumerate(self.operations):
            start = {"start": number, "client": operation.client, "at": operation.started_at}
            events.append((operation.started, start | to_json(operation.call)))
            if operation.ended_at is not None:
                end: dict[str, Any] = {
                    "end": number,
                    "at": operation.ended_at,
                    "outcome": operation.outcome.value,
                }
                end["reason"] = operation.reason
                end["result"] = None if operation.result is None else to_json(operation.result)
                events.append((min(operation.ended, NEVER), end))
        events.sort(key=lambda event: event[0])
        for _, event in events:
            yield json.dumps(event)

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> History:
        """Return the history that ``lines`` describe.

        Raises:
            ValueError: the lines are no history.
        """
        history = cls(lambda: 0.0)
        by_number: dict[int, Operation] = {}
        for line in lines:
            event = json.loads(line)
            at = float(event["at"])
            history.now = lambda at=at: at  # type: ignore[misc]  # a default binds the value of this iteration
            if "start" in event:
                by_number[event["start"]] = history.start(event["client"], call_from_json(event))
                continue
            operation = by_number[event["end"]]
            outcome = Outcome(event["outcome"])
            if outcome is Outcome.OK:
                result = event["result"]
                history.succeed(operation, None if result is None else result_from_json(result))
            elif outcome is Outcome.REFUSED:
                history.refuse(operation, event["reason"])
            else:
                history.lose(operation, event["reason"])
        return history

    # ---- inside

    def _next(self) -> int:
        self._moment += 1
        return self._moment

    def _end(self, operation: Operation, outcome: Outcome) -> None:
        assert operation.outcome is Outcome.UNKNOWN
        assert operation.ended == NEVER
        operation.outcome = outcome
        operation.ended = self._next()
        operation.ended_at = self.now()
