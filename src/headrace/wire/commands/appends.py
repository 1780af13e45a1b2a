"""Commands of the append path. The request id is the last field of most of them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.fields import Event, Int32, Int64, Rest, Text, Uuid, View


@dataclass(slots=True)
class SetupAppend(Request):
    """Open a writer on a segment."""

    request_id: Int64
    writer_id: Uuid
    segment: Text
    delegation_token: Text


@dataclass(slots=True)
class AppendSetup(Reply):
    """The writer is open; everything up to ``last_event_number`` is durable already."""

    request_id: Int64
    segment: Text
    writer_id: Uuid
    last_event_number: Int64


@dataclass(slots=True)
class AppendBlock(Request):
    """The first part of an append; an AppendBlockEnd follows at once."""

    writer_id: Uuid
    data: Rest


@dataclass(slots=True)
class AppendBlockEnd(Request):
    """The end of an append, or all of it."""

    writer_id: Uuid
    size_of_whole_events: Int32
    data: View
    num_events: Int32
    last_event_number: Int64
    request_id: Int64 = -1


@dataclass(slots=True)
class Padding(Request):
    """Fills the rest of an append block whose size was announced too large."""

    zeros: Rest


@dataclass(slots=True)
class PartialEvent(Request):
    """The first part of an event that continues in the AppendBlockEnd."""

    data: Rest


@dataclass(slots=True)
class ConditionalAppend(Request):
    """Append one event, with its header, if the segment has exactly the expected length."""

    writer_id: Uuid
    event_number: Int64
    expected_offset: Int64
    event: Event
    request_id: Int64 = -1


@dataclass(slots=True)
class ConditionalBlockEnd(Request):
    """Append raw bytes if the segment has exactly the expected length."""

    writer_id: Uuid
    event_number: Int64
    expected_offset: Int64
    data: View
    request_id: Int64


@dataclass(slots=True)
class DataAppended(Reply):
    """Every event of the writer up to ``event_number`` is durable."""

    writer_id: Uuid
    event_number: Int64
    previous_event_number: Int64 = -1
    request_id: Int64 = -1
    current_segment_write_offset: Int64 = -1


@dataclass(slots=True)
class ConditionalCheckFailed(Reply):
    """The segment had another length than expected; nothing was appended."""

    writer_id: Uuid
    event_number: Int64
    request_id: Int64 = -1


@dataclass(slots=True)
class CreateTransientSegment(Request):
    """Create a transient segment, which lives as long as this connection."""

    request_id: Int64
    writer_id: Uuid
    parent_segment: Text
    delegation_token: Text
