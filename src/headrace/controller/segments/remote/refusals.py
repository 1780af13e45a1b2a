"""What a reply means that is not the good one: the errors that a store in this process would raise. Pure."""

from __future__ import annotations

import contextlib

from headrace.errors import (
    HeadraceError,
    InvalidArgumentError,
    NoSuchSegmentError,
    PermissionDeniedError,
    PreconditionError,
    ProtocolError,
    SegmentExistsError,
    SegmentSealedError,
    SegmentTruncatedError,
    StorageReadRefusedError,
    TableKeyMissingError,
    TableKeyVersionError,
    TableNotEmptyError,
    ThrottledError,
    TokenExpiredError,
    UnsupportedError,
    WrongHostError,
)
from headrace.model.endpoint import Endpoint
from headrace.wire import commands as c
from headrace.wire.commands.errors import ILLEGAL_ARGUMENT

_EXPIRED = 1


def refusal(segment: str, reply: object) -> HeadraceError:
    """Return what it means that a request about ``segment`` was answered so."""
    match reply:
        case c.NoSuchSegment():
            return NoSuchSegmentError(segment)
        case c.SegmentAlreadyExists():
            return SegmentExistsError(segment)
        case c.SegmentIsSealed():
            return SegmentSealedError(segment)
        case c.SegmentIsTruncated():
            return SegmentTruncatedError(segment, reply.start_offset, reply.offset)
        case c.TableSegmentNotEmpty():
            return TableNotEmptyError(segment)
        case c.TableKeyDoesNotExist():
            return TableKeyMissingError(segment)
        case c.TableKeyBadVersion():
            return TableKeyVersionError(segment)
        case c.SegmentAttributeUpdated():  # only of merges is that no good answer
            return PreconditionError(f"segment {segment!r}: a condition of an attribute does not hold")
        case c.WrongHost():
            return WrongHostError(segment)
        case c.OperationUnsupported():
            return UnsupportedError(f"segment {segment!r}: the segment store has no {reply.operation_name}")
        case c.AuthTokenCheckFailed(error_code=code):
            error = TokenExpiredError if code == _EXPIRED else PermissionDeniedError
            return error(f"segment {segment!r}: the segment store does not accept the token of this server")
        case c.ErrorMessage(error_code=code, message=message):
            return (
                InvalidArgumentError(message)
                if code == ILLEGAL_ARGUMENT
                else StorageReadRefusedError(message)
            )
        case _:
            return ProtocolError(f"segment {segment!r}: unexpected {type(reply).__name__}")


def refused_writer(segment: str, reply: object) -> HeadraceError:
    """Return what a refused append, or writer, means: long-term storage is not asked about any."""
    error = refusal(segment, reply)
    return ThrottledError(str(error)) if isinstance(error, StorageReadRefusedError) else error


def owner_of(reply: object) -> Endpoint | None:
    """Return who owns the segment, if a reply says so."""
    if isinstance(reply, c.WrongHost) and reply.correct_host:
        with contextlib.suppress(InvalidArgumentError):
            return Endpoint.parse(reply.correct_host, 0)
    return None
