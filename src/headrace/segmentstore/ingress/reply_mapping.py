"""Which reply an error becomes. One table; an error that is not in it closes the connection.

Closing is right for an error without a reply of its own: the client reconnects, retries, and for appends
learns what became durable. A store that refuses reads goes on to: that is said, but not to a writer that is
being set up, which in Rust takes no other answer than one. Source: ``docs/formats/wire.md``, "Replies".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headrace import errors as e
from headrace.wire import commands as c
from headrace.wire.commands.errors import ILLEGAL_ARGUMENT, UNSPECIFIED
from headrace.wire.commands.kinds import Reply, Request

MESSAGE_CHARS_MAX: Final = 1000

TOKEN_REFUSED: Final = 0
TOKEN_EXPIRED: Final = 1


@dataclass(slots=True)
class Question:
    """What a reply repeats of its request. ``offset`` is -1 where a request has none."""

    request_id: int
    segment: str
    offset: int
    operation: str


def question_of(request: Request) -> Question:
    """Return what an error reply to ``request`` has to repeat."""
    segment, offset = "", -1
    match request:
        case c.ReadSegment():
            segment, offset = request.segment, request.offset
        case c.TruncateSegment():
            segment, offset = request.segment, request.truncation_offset
        case c.UpdateTableEntries() | c.RemoveTableKeys():
            segment, offset = request.segment, request.table_segment_offset
        case c.MergeSegments():
            segment = request.source  # whatever the cause
        case c.MergeSegmentsBatch():
            segment = request.target_segment_id
        case c.CreateTransientSegment():
            segment = request.parent_segment
        case _:
            segment = getattr(request, "segment", "")
    return Question(getattr(request, "request_id", -1), segment, offset, operation_name(type(request)))


def operation_name(request: type[Request]) -> str:
    """Return the name under which a request is reported as unsupported: ``deleteTableSegment``."""
    return request.__name__[0].lower() + request.__name__[1:]


def plain_text(message: str) -> str:
    """Return ``message`` shortened, with ``?`` for what not every peer reads: NUL, more than 16 bits."""
    return "".join(
        char if "\0" < char <= "\uffff" and not "\ud800" <= char <= "\udfff" else "?"
        for char in message[:MESSAGE_CHARS_MAX]
    )


def _illegal_argument(question: Question, error: e.HeadraceError) -> Reply:
    return c.ErrorMessage(question.request_id, question.segment, plain_text(str(error)), ILLEGAL_ARGUMENT)


def _refused_by_store(question: Question, error: e.StorageReadRefusedError) -> Reply | None:
    if question.operation == operation_name(c.SetupAppend):
        return None
    return c.ErrorMessage(question.request_id, question.segment, plain_text(str(error)), UNSPECIFIED)


Answer = Callable[[Question, Any], Reply | None]

ANSWERS: Final[dict[type[e.HeadraceError], Answer]] = {
    e.SegmentExistsError: lambda q, _: c.SegmentAlreadyExists(q.request_id, q.segment, ""),
    e.NoSuchSegmentError: lambda q, _: c.NoSuchSegment(q.request_id, q.segment, "", q.offset),
    e.SegmentMergedError: lambda q, _: c.NoSuchSegment(q.request_id, q.segment, "", q.offset),
    e.SegmentSealedError: lambda q, _: c.SegmentIsSealed(q.request_id, q.segment, "", q.offset),
    e.SegmentTruncatedError: lambda q, error: c.SegmentIsTruncated(
        q.request_id, q.segment, error.start_offset, "", q.offset
    ),
    e.OffsetMismatchError: lambda q, error: c.SegmentIsTruncated(
        q.request_id, q.segment, error.actual, "", q.offset
    ),
    e.AttributeMismatchError: lambda q, _: c.SegmentAttributeUpdated(q.request_id, False),
    e.TableNotEmptyError: lambda q, _: c.TableSegmentNotEmpty(q.request_id, q.segment, ""),
    e.TableKeyMissingError: lambda q, _: c.TableKeyDoesNotExist(q.request_id, q.segment, ""),
    e.TableKeyVersionError: lambda q, _: c.TableKeyBadVersion(q.request_id, q.segment, ""),
    e.SegmentNotSealedError: _illegal_argument,
    e.InvalidArgumentError: _illegal_argument,
    e.TooManyWritersError: lambda q, error: c.ErrorMessage(
        q.request_id, q.segment, plain_text(str(error)), UNSPECIFIED
    ),
    e.StorageReadRefusedError: _refused_by_store,
    e.UnsupportedError: lambda q, _: c.OperationUnsupported(q.request_id, q.operation, ""),
    e.TokenExpiredError: lambda q, _: c.AuthTokenCheckFailed(q.request_id, "", TOKEN_EXPIRED),
    e.AccessDeniedError: lambda q, _: c.AuthTokenCheckFailed(q.request_id, "", TOKEN_REFUSED),
    e.PermissionDeniedError: lambda q, _: c.AuthTokenCheckFailed(q.request_id, "", TOKEN_REFUSED),
    e.UnauthenticatedError: lambda q, _: c.AuthTokenCheckFailed(q.request_id, "", TOKEN_REFUSED),
    e.WrongHostError: lambda q, error: c.WrongHost(q.request_id, q.segment, error.owner, ""),
    e.OwnershipError: lambda q, _: c.WrongHost(q.request_id, q.segment, "", ""),
}
"""By class; a subclass without an entry uses that of its base."""


def reply_to(error: BaseException, question: Question) -> Reply | None:
    """Return the reply to a request that failed with ``error``; None means that the connection is closed."""
    for kind in type(error).__mro__:
        answer = ANSWERS.get(kind)
        if answer is not None:
            return answer(question, error)
    return None
