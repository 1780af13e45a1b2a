"""The models of the REST interface: what they mean, both ways.

Source: protocol, "REST interface".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec import UNSET, UnsetType

from headrace.controller.rest.models import (
    RETENTION_TYPES,
    SCALING_TYPES,
    Cut,
    CutAtTime,
    RetentionConfig,
    ScaleMetadata,
    ScalingConfig,
    Segment,
    SegmentOffset,
    StreamProperty,
    TimeBasedRetention,
    TruncateRequest,
    UpdateStreamRequest,
)
from headrace.controller.store.rows.epoch_row import EpochRecord
from headrace.controller.workflows import cuts_in_time
from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
    check_retains,
)
from headrace.model.segment_id import epoch_of, number_of
from headrace.model.stream_cut import COMPLETED, StreamCut
from headrace.web.refusals import InvalidFieldError

MEGABYTE: Final = 1 << 20
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_SCALING_NAMES: Final = dict(
    zip(
        (ScalingKind.FIXED, ScalingKind.KILOBYTES_PER_SECOND, ScalingKind.EVENTS_PER_SECOND),
        SCALING_TYPES,
        strict=True,
    )
)
_SCALING_KINDS: Final = {name: kind for kind, name in _SCALING_NAMES.items()}

EVENTS_MIN: Final = 3
EVENTS_MAX: Final = 1000
EVENT_SEGMENTS_MAX: Final = 20_000
"""Bounds of one answer about scaling events: the first repeats what was before; at least two follow it."""

_SHOWN_CHARS: Final = 40
_CUT_CHARS: Final = 200
_SEGMENT_ID: Final = re.compile(r"[0-9]{1,19}\Z")


def configuration_of(request: UpdateStreamRequest, *, with_maximum: bool) -> StreamConfiguration:
    """Read a stream request; a maximum of retention counts only ``with_maximum`` (when a stream is created).

    Raises:
        InvalidFieldError: a member has a value that means nothing.
    """
    with naming("scalingPolicy"):
        scaling_policy = _scaling_of(request.scaling_policy)
    with naming("retentionPolicy"):
        retention_policy = _retention_of(request.retention_policy, with_maximum=with_maximum)
    with naming("streamTags"):
        return StreamConfiguration(
            scaling=scaling_policy,
            retention=retention_policy,
            tags=frozenset(request.stream_tags or ()),
            timestamp_timeout_ms=request.timestamp_aggregation_timeout or 0,
            rollover_size_bytes=request.rollover_size_bytes or 0,
        )


@contextmanager
def naming(member: str) -> Iterator[None]:
    """Let a refusal that is raised here name the member of the request that it is about."""
    try:
        yield
    except InvalidFieldError as error:
        raise InvalidFieldError(f"{member}.{error.field}", str(error)) from None
    except InvalidArgumentError as error:
        raise InvalidFieldError(member, str(error)) from None


def stream_property(scope: str, stream: str, config: StreamConfiguration) -> StreamProperty:
    """Describe a stream."""
    return StreamProperty(
        scope,
        stream,
        _scaling_config(config.scaling),
        _retention_config(config.retention),
        sorted(config.tags),
        config.timestamp_timeout_ms,
        config.rollover_size_bytes,
    )


class EventsPage:
    """The epochs created in [from, to], oldest first, with the last one before them in front.

    At most ``EVENTS_MAX`` with about ``EVENT_SEGMENTS_MAX`` segments, unless fewer than ``EVENTS_MIN``. Who
    wants what follows asks again from the time of the last one on.
    """

    def __init__(self, from_ms: int, to_ms: int) -> None:
        self.events: list[ScaleMetadata] = []
        self._from_ms = from_ms
        self._to_ms = to_ms
        self._segments = 0

    def take(self, record: EpochRecord) -> bool:
        """Take the next epoch if it belongs to the page; return whether another may."""
        if record.created_ms < self._from_ms:
            self.events.clear()
        elif record.created_ms > self._to_ms:
            return False
        self.events.append(_scale_metadata(record))
        self._segments += len(record.segments)
        is_full = len(self.events) >= EVENTS_MAX or self._segments >= EVENT_SEGMENTS_MAX
        return len(self.events) < EVENTS_MIN or not is_full


def cut_at_time(scope: str, stream: str, found: cuts_in_time.CutAtTime) -> CutAtTime:
    """Describe where a stream was."""
    cut = StreamCut.from_offsets(scope, stream, found.offsets)
    time_ms = None if found.is_head else found.time_ms
    return CutAtTime(cut.as_text(), segment_offsets(cut.offsets), time_ms, found.is_head)


def cut_model(cut: StreamCut) -> Cut:
    """Describe a cut."""
    return Cut(cut.as_text(), segment_offsets(cut.offsets))


def segment_offsets(offsets: Mapping[int, int]) -> list[SegmentOffset]:
    """Describe offsets by segment id."""
    return [
        SegmentOffset(number_of(segment_id), epoch_of(segment_id), offset)
        for segment_id, offset in sorted(offsets.items())
    ]


def cut_of(scope: str, stream: str, request: TruncateRequest) -> StreamCut:
    """Read a bounded cut of the stream.

    Raises:
        InvalidFieldError: it is malformed, unbounded or of another stream.
    """
    given = request.cut
    with naming("cut"):
        if isinstance(given, dict):
            return StreamCut.from_offsets(scope, stream, _offsets(given))
        cut = StreamCut.from_text(given)
        if (cut.scope, cut.stream) != (scope, stream):
            raise InvalidArgumentError(f"that is no cut of {scope}/{stream} but {str(cut)[:_CUT_CHARS]}")
        return cut


def _offsets(given: dict[str, int]) -> dict[int, int]:
    for name, offset in given.items():
        if not _SEGMENT_ID.match(name) or int(name) > INT64_MAX:
            raise InvalidFieldError(name[:_SHOWN_CHARS], "offsets are given by segment id, in decimal")
        if not COMPLETED <= offset <= INT64_MAX:
            raise InvalidFieldError(name, f"offsets are whole numbers, {COMPLETED} or more")
    return {int(name): offset for name, offset in given.items()}


def _scale_metadata(record: EpochRecord) -> ScaleMetadata:
    segments = [
        Segment(
            segment.number,
            epoch_of(segment.segment_id),
            segment.created_ms,
            segment.key_range.low,
            segment.key_range.high,
        )
        for segment in record.segments
    ]
    return ScaleMetadata(record.created_ms, segments, record.splits, record.merges)


def _scaling_of(given: ScalingConfig) -> ScalingPolicy:
    kind = _SCALING_KINDS.get(given.type)
    if kind is None:
        raise _unknown_type(given.type, SCALING_TYPES)
    if kind is ScalingKind.FIXED:
        return ScalingPolicy(segments_min=given.min_segments or 0)
    return ScalingPolicy(kind, given.target_rate or 0, given.scale_factor or 0, given.min_segments or 0)


def _unknown_type(name: str, known: tuple[str, ...]) -> InvalidFieldError:
    return InvalidFieldError("type", f"type = {name[:_SHOWN_CHARS]!r} is none of {', '.join(known)}")


def _scaling_config(policy: ScalingPolicy) -> ScalingConfig:
    name = _SCALING_NAMES[policy.kind]
    if policy.kind is ScalingKind.FIXED:
        return ScalingConfig(name, min_segments=policy.segments_min)
    return ScalingConfig(name, policy.target_rate, policy.scale_factor, policy.segments_min)


def _retention_of(given: RetentionConfig | None, *, with_maximum: bool) -> RetentionPolicy:
    if given is None:
        return RetentionPolicy()
    value, maximum = given.value or 0, given.max_value or 0
    match given.type:
        case "LIMITED_SIZE_MB":
            kind, minimum, maximum = RetentionKind.SIZE, value * MEGABYTE, maximum * MEGABYTE
            is_given = given.value is not None
        case "LIMITED_DAYS":
            kind = RetentionKind.TIME
            minimum = value * DAY_MS or _period_ms(given.time_based_retention)
            maximum = maximum * DAY_MS or _period_ms(given.max_time_based_retention)
            is_given = value > 0 or _has_period(given.time_based_retention)
        case _:
            raise _unknown_type(given.type, RETENTION_TYPES)
    if not is_given:
        raise InvalidFieldError("value", f"how much {given.type} retains is missing")
    check_retains(minimum, "0 days" if kind is RetentionKind.TIME else "0 MB", "leaving retentionPolicy out")
    if not with_maximum or maximum <= 0 or maximum < minimum:
        maximum = INT64_MAX
    return RetentionPolicy(kind, minimum, min(maximum, INT64_MAX))


def _has_period(period: TimeBasedRetention | UnsetType | None) -> bool:
    """Tell whether a period has a member: unknown ones, such as misspelled ones, were ignored."""
    if not period:
        return False
    return any(each is not None for each in (period.days, period.hours, period.minutes))


def _period_ms(period: TimeBasedRetention | UnsetType | None) -> int:
    if not period:
        return 0
    return (period.days or 0) * DAY_MS + (period.hours or 0) * HOUR_MS + (period.minutes or 0) * MINUTE_MS


def _retention_config(policy: RetentionPolicy) -> RetentionConfig | UnsetType:
    match policy.kind:
        case RetentionKind.NONE:
            return UNSET
        case RetentionKind.SIZE:
            return RetentionConfig("LIMITED_SIZE_MB", policy.minimum // MEGABYTE)
        case RetentionKind.TIME:
            days, rest = divmod(policy.minimum, DAY_MS)
            hours, rest = divmod(rest, HOUR_MS)
            minutes = rest // MINUTE_MS
            return RetentionConfig(
                "LIMITED_DAYS",
                days if hours == minutes == 0 else 0,
                time_based_retention=TimeBasedRetention(days, hours, minutes),
            )
