"""Commands that create, change and remove segments."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.fields import AttributeUpdates, Int8, Int32, Int64, MergedSegments, Text, Texts


@dataclass(slots=True)
class CreateSegment(Request):
    """Create an empty segment. ``scale_type``: 0 none, 1 KB per second, 2 events per second."""

    request_id: Int64
    segment: Text
    target_rate: Int32
    scale_type: Int8
    delegation_token: Text
    rollover_size_bytes: Int64 = 0


@dataclass(slots=True)
class SegmentCreated(Reply):
    """The segment exists now, under this name."""

    request_id: Int64
    segment: Text


@dataclass(slots=True)
class SealSegment(Request):
    """Allow no more appends."""

    request_id: Int64
    segment: Text
    delegation_token: Text


@dataclass(slots=True)
class SegmentSealed(Reply):
    """The segment was sealed by this request."""

    request_id: Int64
    segment: Text


@dataclass(slots=True)
class DeleteSegment(Request):
    """Remove a segment with all its bytes."""

    request_id: Int64
    segment: Text
    delegation_token: Text


@dataclass(slots=True)
class SegmentDeleted(Reply):
    """The segment does not exist any more."""

    request_id: Int64
    segment: Text


@dataclass(slots=True)
class UpdateSegmentPolicy(Request):
    """Change the scaling hints of a segment."""

    request_id: Int64
    segment: Text
    target_rate: Int32
    scale_type: Int8
    delegation_token: Text


@dataclass(slots=True)
class SegmentPolicyUpdated(Reply):
    """The scaling hints are stored."""

    request_id: Int64
    segment: Text


@dataclass(slots=True)
class TruncateSegment(Request):
    """Drop everything in front of ``truncation_offset``."""

    request_id: Int64
    segment: Text
    truncation_offset: Int64
    delegation_token: Text


@dataclass(slots=True)
class SegmentTruncated(Reply):
    """The start of the segment moved."""

    request_id: Int64
    segment: Text


@dataclass(slots=True)
class MergeSegments(Request):
    """Append the content of ``source`` to ``target`` and remove ``source``, atomically."""

    request_id: Int64
    target: Text
    source: Text
    delegation_token: Text
    attribute_updates: AttributeUpdates = field(default_factory=list)


@dataclass(slots=True)
class SegmentsMerged(Reply):
    """The merge happened; the target has this length now."""

    request_id: Int64
    target: Text
    source: Text
    new_target_write_offset: Int64 = -1


@dataclass(slots=True)
class MergeSegmentsBatch(Request):
    """Merge several sources into one target, in this order."""

    request_id: Int64
    target_segment_id: Text
    source_segment_ids: Texts
    delegation_token: Text


@dataclass(slots=True)
class SegmentsBatchMerged(Reply):
    """The merges happened; each source with the length of the target after it."""

    request_id: Int64
    target: Text
    merged: MergedSegments
