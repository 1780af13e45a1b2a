"""The JSON objects of the REST interface, by their types: bodies of requests are checked by them, answers are
made of them, and the OpenAPI document describes them. Pure.

Names in JSON are these in camel case. A member of a request may be null wherever it may be absent; unknown
members are ignored. A member of an answer that is unset is left out. Two names differ between directions:
tags are ``streamTags`` in requests and ``tags`` in answers.

Source: protocol, "REST interface".
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from headrace.limits import INT64_MAX
from headrace.web.models import Model

INT32_MAX: Final = (1 << 31) - 1
"""What the control protocol can say of numbers of segments and rates."""

SCALING_TYPES: Final = ("FIXED_NUM_SEGMENTS", "BY_RATE_IN_KBYTES_PER_SEC", "BY_RATE_IN_EVENTS_PER_SEC")
RETENTION_TYPES: Final = ("LIMITED_DAYS", "LIMITED_SIZE_MB")
SEALED: Final = "SEALED"
ENCODINGS: Final = ("text", "hex")

Int32 = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Int64 = Annotated[int, Meta(ge=0, le=INT64_MAX)]


# ---------------------------------------------------------------------------------------- requests and parts


class CreateScopeRequest(Model):
    """A scope to create: 1 to 255 letters, digits, '.' or '-'."""

    scope_name: str


class ScalingConfig(Model):
    """How a stream scales. A target rate is that of one segment, in kilobytes or events per second."""

    type: Annotated[str, Meta(extra_json_schema={"enum": SCALING_TYPES})]
    target_rate: Int32 | UnsetType | None = UNSET
    scale_factor: Int32 | UnsetType | None = UNSET
    min_segments: Int32 | None = None


class TimeBasedRetention(Model):
    """A period."""

    days: Int64 | None = None
    hours: Int64 | None = None
    minutes: Int64 | None = None


class RetentionConfig(Model):
    """What a stream retains: the last ``value`` days or megabytes, or a period if the days are 0."""

    type: Annotated[str, Meta(extra_json_schema={"enum": RETENTION_TYPES})]
    value: Int64 | None = None
    max_value: Int64 | UnsetType | None = UNSET
    time_based_retention: TimeBasedRetention | UnsetType | None = UNSET
    max_time_based_retention: TimeBasedRetention | UnsetType | None = UNSET


class UpdateStreamRequest(Model, kw_only=True):
    """The configuration of a stream, as a whole."""

    scaling_policy: ScalingConfig
    retention_policy: RetentionConfig | None = None
    stream_tags: list[str] | None = None
    timestamp_aggregation_timeout: Int64 | None = None
    rollover_size_bytes: Int64 | None = None


class CreateStreamRequest(UpdateStreamRequest, kw_only=True):
    """A stream to create, with its configuration."""

    stream_name: str


class StreamState(Model):
    """The state of a stream; only SEALED can be requested."""

    stream_state: Annotated[str, Meta(extra_json_schema={"enum": [SEALED]})]


class TruncateRequest(Model):
    """Where a stream is to begin: the text of a cut, or offsets by segment id."""

    cut: str | dict[str, int]


class AppendRequest(Model):
    """One event: its bytes as text or in hexadecimal, and its routing key, if it has one."""

    data: str
    key: str | None = None
    encoding: Annotated[str, Meta(extra_json_schema={"enum": ENCODINGS})] = "text"


# ---------------------------------------------------------------------------------------- answers


class ScopeProperty(Model):
    """A scope."""

    scope_name: str


class ScopesList(Model):
    """Scopes, by name."""

    scopes: list[ScopeProperty]


class StreamProperty(Model):
    """A stream with its configuration."""

    scope_name: str
    stream_name: str
    scaling_policy: ScalingConfig
    retention_policy: RetentionConfig | UnsetType
    tags: list[str]
    timestamp_aggregation_timeout: int
    rollover_size_bytes: int


class StreamsList(Model):
    """Streams, by name."""

    streams: list[StreamProperty]


class StreamFacts(Model):
    """A stream: its state, its active segments, and the bytes in these that are not truncated.

    Times in ms since 1970; ``stream_epoch`` counts its scales.
    """

    scope_name: str
    stream_name: str
    state: str
    created: int
    segments: int
    stream_epoch: int
    bytes: int
    scaling_policy: ScalingConfig
    retention_policy: RetentionConfig | UnsetType
    tags: list[str]


class StreamFactsPage(Model):
    """Some streams, and where the next page begins; no token: there is none. A page may be empty before
    the last one.
    """

    streams: list[StreamFacts]
    token: str


class EventFacts(Model):
    """An event: its segment as number#epoch, where it begins, its bytes, and these as ``encoding`` says."""

    segment: str
    offset: int
    bytes: int
    encoding: str
    data: Any
    is_whole: bool
    """False: ``data`` has only its beginning."""


class EventsPage(Model):
    """Events, those of a segment in their order; the cut behind them; which bound ended the page.

    ``ended_by``: tail (there are no more), end (of a sealed stream), events, bytes or seconds.
    """

    events: list[EventFacts]
    next_cut: str
    ended_by: str


class AppendedEvent(Model):
    """Where an event was appended; no offset if the answer that said it was lost: it is durable."""

    segment: str
    offset: int | None


class Segment(Model):
    """A segment of a stream epoch, with its range of keys and the time of its creation in ms."""

    number: int
    epoch: int
    start: int
    key_start: float
    key_end: float


class ScaleMetadata(Model):
    """A stream epoch: when it began, in ms since 1970, its segments, how many were split and merged."""

    timestamp: int
    segments: list[Segment]
    splits: int
    merges: int


class SegmentOffset(Model):
    """A position in a segment."""

    number: int
    epoch: int
    offset: int


class Cut(Model):
    """A cut: as text for clients, and segment by segment."""

    cut: str
    segments: list[SegmentOffset]


class CutAtTime(Cut):
    """Where a stream was at a time, in ms since 1970; null for the head."""

    timestamp: int | None
    is_head: bool


class PurgedStream(Model):
    """The head of a stream, before which nothing is left; no cut if nothing was truncated."""

    scope_name: str
    stream_name: str
    cut: str | UnsetType
    segments: list[SegmentOffset]


class ReaderGroupName(Model):
    """A reader group."""

    reader_group_name: str


class ReaderGroupsList(Model):
    """Reader groups of a scope, by name."""

    reader_groups: list[ReaderGroupName]


class GroupSegment(Model):
    """A segment that a group reads, and where; no reader: it waits for one. At -1 it is read to its end."""

    segment: str
    reader_id: str | UnsetType
    offset: int


class ReaderGroupProperty(Model):
    """A reader group with its streams, its readers that are online, and where they were last."""

    scope_name: str
    reader_group_name: str
    stream_list: list[str]
    online_reader_ids: list[str]
    segments: list[GroupSegment]


class FailedEvent(Model):
    """A request between controllers that was set aside; no kind and stream if its bytes are damaged."""

    time: str
    bucket: int
    offset: int
    kind: str
    stream: str
    controller: str
    reason: str
    data: str


class FailedEvents(Model):
    """Requests that were set aside, the oldest first, and how many older ones are not retained."""

    events: list[FailedEvent]
    dropped: int
