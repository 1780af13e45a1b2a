"""Scaling and retention as data, and the configuration of a stream that carries them. Pure.

Source: protocol, stream configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headrace.limits import INT64_MAX

RETENTION_UNLIMITED: Final = INT64_MAX
"""``keep_max`` of a retention policy without an upper limit."""


class ScaleType(IntEnum):
    """What decides how many segments a stream has. Numbers are those of the control and the data plane."""

    FIXED = 0
    KILOBYTES_PER_SECOND = 1
    EVENTS_PER_SECOND = 2


class RetentionType(IntEnum):
    NONE = 0
    TIME = 1
    SIZE = 2


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """``target_rate`` is per segment, in KiB or events per second; ``scale_factor`` bounds the pieces of a
    split.
    """

    scale_type: ScaleType = ScaleType.FIXED
    target_rate: int = 0
    scale_factor: int = 0
    segment_count_min: int = 1

    @staticmethod
    def fixed(segment_count: int) -> ScalingPolicy:
        return ScalingPolicy(segment_count_min=segment_count)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What to keep at least and at most: milliseconds (TIME) or bytes (SIZE)."""

    retention_type: RetentionType = RetentionType.NONE
    keep_min: int = 0
    keep_max: int = RETENTION_UNLIMITED


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """Everything a user decides about a stream. ``tags`` are sorted and unique."""

    scaling: ScalingPolicy = field(default_factory=ScalingPolicy)
    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    tags: tuple[str, ...] = ()
    timestamp_aggregation_timeout_ms: int = 0
    rollover_bytes: int = 0
