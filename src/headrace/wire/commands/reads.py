"""Commands that read events and ask about segments."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.fields import Bool, Int32, Int64, Text, View


@dataclass(slots=True)
class ReadSegment(Request):
    """Read from ``offset``; at the tail the answer waits for data, the seal or deletion."""

    segment: Text
    offset: Int64
    suggested_length: Int32
    delegation_token: Text
    request_id: Int64 = -1


@dataclass(slots=True)
class SegmentRead(Reply):
    """Bytes of a segment from the requested ``offset``."""

    segment: Text
    offset: Int64
    at_tail: Bool
    end_of_segment: Bool
    data: View
    request_id: Int64 = -1


@dataclass(slots=True)
class GetStreamSegmentInfo(Request):
    """Ask for the properties of a segment."""

    request_id: Int64
    segment: Text
    delegation_token: Text


@dataclass(slots=True)
class StreamSegmentInfo(Reply):
    """Properties of a segment; time in epoch ms, offsets in bytes."""

    request_id: Int64
    segment: Text
    exists: Bool
    is_sealed: Bool
    is_deleted: Bool
    last_modified: Int64
    write_offset: Int64
    start_offset: Int64 = 0


@dataclass(slots=True)
class LocateOffset(Request):
    """Ask for an event boundary at or after ``target_offset``."""

    request_id: Int64
    segment: Text
    target_offset: Int64
    delegation_token: Text


@dataclass(slots=True)
class OffsetLocated(Reply):
    """An event boundary."""

    request_id: Int64
    segment: Text
    offset: Int64
