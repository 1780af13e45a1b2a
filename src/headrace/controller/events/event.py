"""One request to the owner of a stream's bucket."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class EventKind(IntEnum):
    """What is asked. Numbers are those of the format."""

    STREAM_WORK = 1
    """The stream's row says what is to be done."""
    TXN_WORK = 2
    """A transaction's row says what is to be done: ``payload`` is its id."""
    SCALE_REPORT = 3
    """A segment is hot or cold: ``payload`` is a report."""


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """A hint with parameters; what was promised to a caller is in a row."""

    kind: EventKind
    scope: str
    stream: str
    payload: bytes = b""
