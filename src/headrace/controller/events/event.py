"""One request to the owner of a stream's bucket."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.model.names import SYSTEM_SCOPE, segment_name
from headrace.model.segment_id import make_segment_id

REQUEST_STREAM: Final = "_requeststream"
"""In the scope of the system; one segment for each bucket."""


def check_not_requests(scope: str, stream: str) -> None:
    """Raises InvalidArgumentError if the stream is the one on which controllers rely."""
    if (scope, stream) == (SYSTEM_SCOPE, REQUEST_STREAM):
        raise InvalidArgumentError(f"stream {scope}/{stream} belongs to the controllers: nothing was changed")


class EventKind(IntEnum):
    """What is asked. Numbers are those of the format."""

    STREAM_WORK = 1
    """The stream's row says what is to be done."""
    TXN_WORK = 2
    """A transaction's row says what is to be done: ``payload`` is its id, 16 bytes, big endian."""
    SCALE_REPORT = 3
    """A segment is hot or cold: ``payload`` is a report."""


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """A hint with parameters; what was promised to a caller is in a row."""

    kind: EventKind
    scope: str
    stream: str
    payload: bytes = b""


def request_segment(bucket: int) -> str:
    """Return the name of the segment with the requests to the owner of ``bucket``."""
    return segment_name(SYSTEM_SCOPE, REQUEST_STREAM, make_segment_id(bucket, 0))
