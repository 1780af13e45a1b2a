"""Replies that say why a request failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.wire.commands.kinds import Reply
from headrace.wire.fields import Int32, Int64, Text, Uuid


@dataclass(slots=True)
class WrongHost(Reply):
    """This server does not own the segment."""

    request_id: Int64
    segment: Text
    correct_host: Text
    server_stack_trace: Text = ""


@dataclass(slots=True)
class SegmentIsSealed(Reply):
    """The segment takes no more changes. ``offset``: of the read, or the number of the append."""

    request_id: Int64
    segment: Text
    server_stack_trace: Text = ""
    offset: Int64 = -1


@dataclass(slots=True)
class SegmentAlreadyExists(Reply):
    """A segment of that name exists."""

    request_id: Int64
    segment: Text
    server_stack_trace: Text = ""


@dataclass(slots=True)
class NoSuchSegment(Reply):
    """No segment of that name exists (any more)."""

    request_id: Int64
    segment: Text
    server_stack_trace: Text = ""
    offset: Int64 = -1


@dataclass(slots=True)
class InvalidEventNumber(Reply):
    """The appends do not continue the writer's event numbers in the segment; the connection is closed."""

    writer_id: Uuid
    request_id: Int64
    server_stack_trace: Text = ""
    event_number: Int64 = -1


@dataclass(slots=True)
class SegmentIsTruncated(Reply):
    """The offset is not available; the segment starts at ``start_offset``."""

    request_id: Int64
    segment: Text
    start_offset: Int64
    server_stack_trace: Text = ""
    offset: Int64 = -1


@dataclass(slots=True)
class OperationUnsupported(Reply):
    """The server does not support this operation."""

    request_id: Int64
    operation_name: Text
    server_stack_trace: Text = ""


@dataclass(slots=True)
class AuthTokenCheckFailed(Reply):
    """The token was refused. ``error_code``: -1 unspecified, 0 refused, 1 expired; nothing else."""

    request_id: Int64
    server_stack_trace: Text = ""
    error_code: Int32 = -1


UNSPECIFIED: Final = -1
ILLEGAL_ARGUMENT: Final = 0


@dataclass(slots=True)
class ErrorMessage(Reply):
    """Any other failure. ``error_code``: :data:`UNSPECIFIED` or :data:`ILLEGAL_ARGUMENT`."""

    request_id: Int64
    segment: Text
    message: Text
    error_code: Int32


@dataclass(slots=True)
class TableSegmentNotEmpty(Reply):
    """The table is not empty."""

    request_id: Int64
    segment: Text
    server_stack_trace: Text


@dataclass(slots=True)
class TableKeyDoesNotExist(Reply):
    """A key that a condition requires is missing."""

    request_id: Int64
    segment: Text
    server_stack_trace: Text


@dataclass(slots=True)
class TableKeyBadVersion(Reply):
    """A key has another version than its condition requires."""

    request_id: Int64
    segment: Text
    server_stack_trace: Text
