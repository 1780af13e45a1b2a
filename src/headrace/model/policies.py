"""Scaling and retention as data, and the configuration of a stream that carries them. Pure.

Source: protocol, "Stream configuration", "Retention", "Scaling policy and automatic scaling".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX

RETENTION_UNLIMITED: Final = INT64_MAX
"""``keep_max`` of a retention policy without an upper limit."""

TAGS_MAX: Final = 127
TAG_CHARS_MAX: Final = 255


class ScaleType(IntEnum):
    """What decides how many segments a stream has. Numbers are those of the control and the data plane."""

    FIXED = 0
    KILOBYTES_PER_SECOND = 1
    EVENTS_PER_SECOND = 2


class RetentionType(IntEnum):
    """What is bounded: nothing, age or size. Numbers are those of the control plane."""

    NONE = 0
    TIME = 1
    SIZE = 2


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """How the number of segments follows the load.

    ``target_rate`` is per segment, in KiB or events per second; ``scale_factor`` bounds the pieces of a
    split; ``segment_count_min`` is both the initial number of segments and the floor of merging.
    """

    scale_type: ScaleType = ScaleType.FIXED
    target_rate: int = 0
    scale_factor: int = 0
    segment_count_min: int = 1

    @staticmethod
    def fixed(segment_count: int) -> ScalingPolicy:
        """Return the policy that keeps ``segment_count`` segments."""
        return ScalingPolicy(segment_count_min=segment_count)

    @staticmethod
    def by_event_rate(target_rate: int, scale_factor: int = 2, segment_count_min: int = 1) -> ScalingPolicy:
        """Return the policy that aims at ``target_rate`` events/s per segment."""
        return ScalingPolicy(ScaleType.EVENTS_PER_SECOND, target_rate, scale_factor, segment_count_min)

    @staticmethod
    def by_data_rate(target_rate_kib: int, scale_factor: int = 2, segment_count_min: int = 1) ->
    ScalingPolicy:
        """Return the policy that aims at ``target_rate_kib`` KiB/s per segment."""
        return ScalingPolicy(ScaleType.KILOBYTES_PER_SECOND, target_rate_kib, scale_factor, segment_count_min)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What to keep at least and at most: milliseconds (TIME) or bytes (SIZE)."""

    retention_type: RetentionType = RetentionType.NONE
    keep_min: int = 0
    keep_max: int = RETENTION_UNLIMITED

    @staticmethod
    def none() -> RetentionPolicy:
        """Return the policy that keeps everything."""
        return RetentionPolicy()

    @staticmethod
    def by_time(keep_min_ms: int, keep_max_ms: int = RETENTION_UNLIMITED) -> RetentionPolicy:
        """Return the policy that keeps at least ``keep_min_ms`` milliseconds of events."""
        return RetentionPolicy(RetentionType.TIME, keep_min_ms, keep_max_ms)

    @staticmethod
    def by_size(keep_min_bytes: int, keep_max_bytes: int = RETENTION_UNLIMITED) -> RetentionPolicy:
        """Return the policy that keeps at least the last ``keep_min_bytes`` bytes."""
        return RetentionPolicy(RetentionType.SIZE, keep_min_bytes, keep_max_bytes)


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """Everything a user decides about a stream. ``tags`` are sorted and unique.

    ``timestamp_aggregation_timeout_ms`` is how long a silent writer that reports time is waited for;
    ``rollover_bytes`` bounds the chunks of its segments in long-term storage (0: the store decides).
    """

    scaling: ScalingPolicy = field(default_factory=ScalingPolicy)
    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    tags: tuple[str, ...] = ()
    timestamp_aggregation_timeout_ms: int = 0
    rollover_bytes: int = 0


def check_stream_config(config: StreamConfig) -> StreamConfig:
    """Return ``config`` if a stream can be kept that way.

    Raises:
        InvalidArgumentError: a number or a tag is outside its range.
    """
    scaling, retention = config.scaling, config.retention
    if scaling.segment_count_min < 1:
        raise InvalidArgumentError(f"a stream has at least one segment, not {scaling.segment_count_min}")
    if scaling.scale_factor < 0 or scaling.target_rate < (scaling.scale_type is not ScaleType.FIXED):
        raise InvalidArgumentError(f"a target rate of {scaling.target_rate} cannot be met")
    if retention.retention_type is not RetentionType.NONE and retention.keep_min < 0:
        raise InvalidArgumentError(f"a retention of {retention.keep_min} is impossible")
    if len(config.tags) > TAGS_MAX or any(not 1 <= len(tag) <= TAG_CHARS_MAX for tag in config.tags):
        raise InvalidArgumentError(f"a stream has at most {TAGS_MAX} tags of 1 to {TAG_CHARS_MAX} characters")
    if config.timestamp_aggregation_timeout_ms < 0 or config.rollover_bytes < 0:
        raise InvalidArgumentError("times and sizes are not negative")
    return config
