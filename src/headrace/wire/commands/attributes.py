"""Commands about the attributes of a segment."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.fields import Bool, Int64, Text, Uuid


@dataclass(slots=True)
class GetSegmentAttribute(Request):
    """Read one attribute."""

    request_id: Int64
    segment: Text
    attribute_id: Uuid
    delegation_token: Text


@dataclass(slots=True)
class SegmentAttribute(Reply):
    """The value of an attribute; ATTRIBUTE_NULL if it is not set."""

    request_id: Int64
    value: Int64


@dataclass(slots=True)
class UpdateSegmentAttribute(Request):
    """Set an attribute if it has the expected value."""

    request_id: Int64
    segment: Text
    attribute_id: Uuid
    new_value: Int64
    expected_value: Int64
    delegation_token: Text


@dataclass(slots=True)
class SegmentAttributeUpdated(Reply):
    """Whether the condition was met and the attribute was updated."""

    request_id: Int64
    success: Bool
