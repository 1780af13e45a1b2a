"""The JSON documents of the REST interface: what they mean, both ways. Pure.

Two names differ between directions: tags are ``streamTags`` in requests and ``tags`` in answers. Members
without a value are left out of answers; unknown members of requests are ignored.

Source: protocol, "REST interface".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headrace.controller.store.rows.epoch_row import EpochRecord
from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
)
from headrace.model.segment_id import epoch_of

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

Document = dict[str, Any]


def configuration_from_document(document: Document, *, with_maximum: bool) -> StreamConfiguration:
    """Read a stream request; a maximum of retention counts only ``with_maximum`` (when a stream is created).

    Raises:
        InvalidArgumentError: a member is missing, of the wrong type or out of range.
    """
    scaling = _member(document, "scalingPolicy", dict)
    if scaling is None:
        raise InvalidArgumentError("scalingPolicy is missing")
    tags = _member(document, "streamTags", list) or []
    if not all(isinstance(tag, str) for tag in tags):
        raise InvalidArgumentError("streamTags are strings")
    retention = _member(document, "retentionPolicy", dict)
    return StreamConfiguration(
        scaling=_scaling_from_document(scaling),
        retention=_retention_from_document(retention, with_maximum=with_maximum),
        tags=frozenset(tags),
        timestamp_timeout_ms=_integer(document, "timestampAggregationTimeout"),
        rollover_size_bytes=_integer(document, "rolloverSizeBytes"),
    )


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


def scaling_events_document(records: Iterable[EpochRecord], from_ms: int, to_ms: int) -> list[Document]:
    """Render the epochs created in [from, to], oldest first, with the last one before them in front."""
    shown: list[EpochRecord] = []
    for record in records:
        if record.created_ms < from_ms:
            shown = [record]
        elif record.created_ms <= to_ms:
            shown.append(record)
    return [_epoch_document(record) for record in shown]


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
    kind = _SCALING_KINDS.get(document.get("type", ""))
    if kind is None:
        raise InvalidArgumentError(f"unknown scaling policy {document.get('type')!r}")
    if kind is ScalingKind.FIXED:
        return ScalingPolicy(segments_min=_integer(document, "minSegments"))
    return ScalingPolicy(
        kind,
        _integer(document, "targetRate"),
        _integer(document, "scaleFactor"),
        _integer(document, "minSegments"),
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
    match document.get("type"):
        case "LIMITED_SIZE_MB":
            kind, minimum, maximum = RetentionKind.SIZE, value * MEGABYTE, maximum * MEGABYTE
        case "LIMITED_DAYS":
            kind = RetentionKind.TIME
            minimum = value * DAY_MS or _period_ms(document, "timeBasedRetention")
            maximum = maximum * DAY_MS or _period_ms(document, "maxTimeBasedRetention")
        case other:
            raise InvalidArgumentError(f"unknown retention policy {other!r}")
    if not with_maximum or maximum <= 0 or maximum < minimum:
        maximum = INT64_MAX
    return RetentionPolicy(kind, minimum, maximum)


def _period_ms(document: Document, name: str) -> int:
    period = _member(document, name, dict)
    if period is None:
        return 0
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
    """Return a member, None if it is absent or null. Raises InvalidArgumentError for another type."""
    value = document.get(name)
    if value is not None and not isinstance(value, kind):
        raise InvalidArgumentError(f"{name} is not of the documented type")
    return value


def _integer(document: Document, name: str) -> int:
    value = _member(document, name, int)
    if value is None:
        return 0
    if isinstance(value, bool) or not 0 <= value <= INT64_MAX:
        raise InvalidArgumentError(f"{name} = {value!r} is out of range")
    return int(value)
