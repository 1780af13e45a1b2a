"""The JSON documents of the REST interface: what they mean, both ways. Pure.

Two names differ between directions: tags are ``streamTags`` in requests and ``tags`` in answers. Members
without a value are left out of answers; unknown members of requests are ignored.

Source: protocol, "REST interface".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from headrace.controller.rest.refusals import InvalidFieldError
from headrace.controller.store.rows.epoch_row import EpochRecord
from headrace.controller.workflows.cuts_in_time import CutAtTime
from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
)
from headrace.model.segment_id import epoch_of, number_of
from headrace.model.stream_cut import COMPLETED, StreamCut

MEGABYTE: Final = 1 << 20
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_SCALING_NAMES: Final = {
    ScalingKind.FIXED: "FIXED_NUM_SEGMENTS",
    ScalingKind.KILOBYTES_PER_SECOND: "BY_RATE_IN_KBYTES_PER_SEC",
    ScalingKind.EVENTS_PER_SECOND: "BY_RATE_IN_EVENTS_PER_SEC",
}
_SCALING_KINDS: Final = {name: kind for kind, name in _SCALING_NAMES.items()}

INT32_MAX: Final = (1 << 31) - 1
"""What the control protocol can say of numbers of segments and rates."""

EVENTS_MIN: Final = 3
EVENTS_MAX: Final = 1000
EVENT_SEGMENTS_MAX: Final = 20_000
"""Bounds of one answer about scaling events: the first repeats what was before; at least two follow it."""

_SHOWN_CHARS: Final = 40
_CUT_CHARS: Final = 200
_SEGMENT_ID: Final = re.compile(r"[0-9]{1,19}\Z")
_KINDS: Final = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "a truth value",
}

Document = dict[str, Any]


def configuration_from_document(document: Document, *, with_maximum: bool) -> StreamConfiguration:
    """Read a stream request; a maximum of retention counts only ``with_maximum`` (when a stream is created).

    Raises:
        InvalidFieldError: a member is missing, of the wrong type or out of range.
    """
    scaling = _member(document, "scalingPolicy", dict)
    if scaling is None:
        raise InvalidFieldError("scalingPolicy", "scalingPolicy is missing")
    tags = _member(document, "streamTags", list) or []
    if not all(isinstance(tag, str) for tag in tags):
        raise InvalidFieldError("streamTags", "streamTags are strings")
    retention = _member(document, "retentionPolicy", dict)
    with naming("scalingPolicy"):
        scaling_policy = _scaling_from_document(scaling)
    with naming("retentionPolicy"):
        retention_policy = _retention_from_document(retention, with_maximum=with_maximum)
    timeout_ms = _integer(document, "timestampAggregationTimeout")
    rollover_bytes = _integer(document, "rolloverSizeBytes")
    with naming("streamTags"):
        return StreamConfiguration(
            scaling=scaling_policy,
            retention=retention_policy,
            tags=frozenset(tags),
            timestamp_timeout_ms=timeout_ms,
            rollover_size_bytes=rollover_bytes,
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


def stream_document(scope: str, stream: str, config: StreamConfiguration) -> Document:
    """Render a stream."""
    document: Document = {
        "scopeName": scope,
        "streamName": stream,
        "scalingPolicy": _scaling_document(config.scaling),
    }
    retention = _retention_document(config.retention)
    if retention is not None:
        document["retentionPolicy"] = retention
    document["tags"] = sorted(config.tags)
    document["timestampAggregationTimeout"] = config.timestamp_timeout_ms
    document["rolloverSizeBytes"] = config.rollover_size_bytes
    return document


class EventsPage:
    """The epochs created in [from, to], oldest first, with the last one before them in front.

    At most ``EVENTS_MAX`` with about ``EVENT_SEGMENTS_MAX`` segments, unless fewer than ``EVENTS_MIN``. Who
    wants what follows asks again from the time of the last one on.
    """

    def __init__(self, from_ms: int, to_ms: int) -> None:
        self.documents: list[Document] = []
        self._from_ms = from_ms
        self._to_ms = to_ms
        self._segments = 0

    def take(self, record: EpochRecord) -> bool:
        """Render the next epoch if it belongs to the page; return whether another may."""
        if record.created_ms < self._from_ms:
            self.documents.clear()
        elif record.created_ms > self._to_ms:
            return False
        self.documents.append(_epoch_document(record))
        self._segments += len(record.segments)
        is_full = len(self.documents) >= EVENTS_MAX or self._segments >= EVENT_SEGMENTS_MAX
        return len(self.documents) < EVENTS_MIN or not is_full


def cut_document(scope: str, stream: str, found: CutAtTime) -> Document:
    """Render where a stream was: as text for clients, and segment by segment."""
    return {
        **offsets_document(StreamCut.from_offsets(scope, stream, found.offsets)),
        "timestamp": None if found.is_head else found.time_ms,
        "isHead": found.is_head,
    }


def offsets_document(cut: StreamCut) -> Document:
    """Render a cut: as text for clients, and segment by segment."""
    return {
        "cut": cut.as_text(),
        "segments": [
            {"number": number_of(segment_id), "epoch": epoch_of(segment_id), "offset": offset}
            for segment_id, offset in sorted(cut.offsets.items())
        ],
    }


def cut_from_document(scope: str, stream: str, document: Document) -> StreamCut:
    """Read a bounded cut of the stream: its text, or an object of offsets by segment id.

    Raises:
        InvalidFieldError: it is missing, malformed, unbounded or of another stream.
    """
    given = document.get("cut")
    with naming("cut"):
        if isinstance(given, dict):
            return StreamCut.from_offsets(scope, stream, _offsets(given))
        if not isinstance(given, str):
            raise InvalidArgumentError("cut is the text of a cut, or an object of offsets by segment id")
        cut = StreamCut.from_text(given)
        if (cut.scope, cut.stream) != (scope, stream):
            raise InvalidArgumentError(f"that is no cut of {scope}/{stream} but {str(cut)[:_CUT_CHARS]}")
        return cut


def _offsets(given: Document) -> dict[int, int]:
    for name, offset in given.items():
        if not _SEGMENT_ID.match(name) or int(name) > INT64_MAX:
            raise InvalidFieldError(name[:_SHOWN_CHARS], "offsets are given by segment id, in decimal")
        if type(offset) is not int or not COMPLETED <= offset <= INT64_MAX:
            raise InvalidFieldError(name, f"offsets are whole numbers, {COMPLETED} or more")
    return {int(name): offset for name, offset in given.items()}


def _epoch_document(record: EpochRecord) -> Document:
    return {
        "timestamp": record.created_ms,
        "segments": [
            {
                "number": segment.number,
                "epoch": epoch_of(segment.segment_id),
                "start": segment.created_ms,
                "keyStart": segment.key_range.low,
                "keyEnd": segment.key_range.high,
            }
            for segment in record.segments
        ],
        "splits": record.splits,
        "merges": record.merges,
    }


def _scaling_from_document(document: Document) -> ScalingPolicy:
    name = _member(document, "type", str)
    kind = _SCALING_KINDS.get(name or "")
    if kind is None:
        raise InvalidFieldError("type", f"type = {name!r} is none of {', '.join(_SCALING_KINDS)}")
    if kind is ScalingKind.FIXED:
        return ScalingPolicy(segments_min=_integer(document, "minSegments", INT32_MAX))
    return ScalingPolicy(
        kind,
        _integer(document, "targetRate", INT32_MAX),
        _integer(document, "scaleFactor", INT32_MAX),
        _integer(document, "minSegments", INT32_MAX),
    )


def _scaling_document(policy: ScalingPolicy) -> Document:
    document: Document = {"type": _SCALING_NAMES[policy.kind]}
    if policy.kind is not ScalingKind.FIXED:
        document |= {"targetRate": policy.target_rate, "scaleFactor": policy.scale_factor}
    return document | {"minSegments": policy.segments_min}


def _retention_from_document(document: Document | None, *, with_maximum: bool) -> RetentionPolicy:
    if document is None:
        return RetentionPolicy()
    value, maximum = _integer(document, "value"), _integer(document, "maxValue")
    name = _member(document, "type", str)
    match name:
        case "LIMITED_SIZE_MB":
            kind, minimum, maximum = RetentionKind.SIZE, value * MEGABYTE, maximum * MEGABYTE
            is_given = document.get("value") is not None
        case "LIMITED_DAYS":
            kind = RetentionKind.TIME
            minimum = value * DAY_MS or _period_ms(document, "timeBasedRetention")
            maximum = maximum * DAY_MS or _period_ms(document, "maxTimeBasedRetention")
            is_given = value > 0 or document.get("timeBasedRetention") is not None
        case _:
            raise InvalidFieldError("type", f"type = {name!r} is none of LIMITED_DAYS, LIMITED_SIZE_MB")
    if not is_given:  # taken for 0, all data would be dropped
        raise InvalidFieldError("value", f"how much {name} retains is missing")
    if not with_maximum or maximum <= 0 or maximum < minimum:
        maximum = INT64_MAX
    maximum = min(maximum, INT64_MAX)
    return RetentionPolicy(kind, minimum, maximum)


def _period_ms(document: Document, name: str) -> int:
    period = _member(document, name, dict)
    if period is None:
        return 0
    with naming(name):
        return (
            _integer(period, "days") * DAY_MS
            + _integer(period, "hours") * HOUR_MS
            + _integer(period, "minutes") * MINUTE_MS
        )


def _retention_document(policy: RetentionPolicy) -> Document | None:
    match policy.kind:
        case RetentionKind.NONE:
            return None
        case RetentionKind.SIZE:
            return {"type": "LIMITED_SIZE_MB", "value": policy.minimum // MEGABYTE}
        case RetentionKind.TIME:
            days, rest = divmod(policy.minimum, DAY_MS)
            hours, rest = divmod(rest, HOUR_MS)
            minutes = rest // MINUTE_MS
            return {
                "type": "LIMITED_DAYS",
                "value": days if hours == minutes == 0 else 0,
                "timeBasedRetention": {"days": days, "hours": hours, "minutes": minutes},
            }


def _member(document: Document, name: str, kind: type) -> Any:
    """Return a member, None if it is absent or null. Raises InvalidFieldError for another type."""
    value = document.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise InvalidFieldError(name, f"{name} is {_KINDS[kind]}, not {_KINDS.get(type(value), 'that')}")
    return value


def _integer(document: Document, name: str, value_max: int = INT64_MAX) -> int:
    value = _member(document, name, int)
    if value is None:
        return 0
    if not 0 <= value <= value_max:
        raise InvalidFieldError(name, f"{name} = {str(value)[:_SHOWN_CHARS]} is outside 0 to {value_max}")
    return int(value)
