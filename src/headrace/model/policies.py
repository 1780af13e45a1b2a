"""How a stream scales, how long its data are retained, and the rest of its configuration: plain values.

Source: protocol, "Stream life cycle", "Retention", "Scaling policy and automatic scaling".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX

SEGMENTS_MAX: Final = 10_000
"""Active at a time in one stream: an epoch and a plan to replace it must fit into one row of 1 MiB."""

SCALING_NUMBER_MAX: Final = (1 << 31) - 1
"""Of rates and factors, in the protocol and in rows."""

TAGS_MAX: Final = 127
TAG_CHARS_MAX: Final = 255


class ScalingKind(IntEnum):
    """What is measured per segment. Numbers are those of the control protocol and of the data plane."""

    FIXED = 0
    KILOBYTES_PER_SECOND = 1
    EVENTS_PER_SECOND = 2


class RetentionKind(IntEnum):
    """What is bounded. Numbers are those of the control protocol."""

    NONE = 0
    TIME = 1
    SIZE = 2


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """How the number of segments follows the load.

    ``target_rate`` is per segment, in events/s or KiB/s; ``scale_factor`` is the largest number of pieces
    of one split; ``segments_min`` is both the initial number of segments and the floor of merging.
    """

    kind: ScalingKind = ScalingKind.FIXED
    target_rate: int = 0
    scale_factor: int = 0
    segments_min: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.segments_min <= SEGMENTS_MAX:
            raise InvalidArgumentError(f"a stream has 1 to {SEGMENTS_MAX} segments, not {self.segments_min}")
        if self.kind is not ScalingKind.FIXED and self.target_rate < 1:
            raise InvalidArgumentError(
                f"a target rate of {self.target_rate} cannot be met: it is 1 or more; "
                "a stream of a fixed number of segments has none"
            )
        if self.target_rate < 0 or self.scale_factor < 0:
            raise InvalidArgumentError("rates and factors are not negative")
        if max(self.target_rate, self.scale_factor) > SCALING_NUMBER_MAX:
            raise InvalidArgumentError(f"rates and factors are at most {SCALING_NUMBER_MAX}")

    @classmethod
    def fixed(cls, segments: int) -> ScalingPolicy:
        """Return the policy that keeps ``segments`` segments."""
        return cls(ScalingKind.FIXED, 0, 0, segments)

    @classmethod
    def by_event_rate(cls, target_rate: int, scale_factor: int = 2, segments_min: int = 1) -> ScalingPolicy:
        """Return the policy that aims at ``target_rate`` events/s per segment."""
        _check_scale_factor(scale_factor)
        return cls(ScalingKind.EVENTS_PER_SECOND, target_rate, scale_factor, segments_min)

    @classmethod
    def by_data_rate(
        cls, target_rate_kib: int, scale_factor: int = 2, segments_min: int = 1
    ) -> ScalingPolicy:
        """Return the policy that aims at ``target_rate_kib`` KiB/s per segment."""
        _check_scale_factor(scale_factor)
        return cls(ScalingKind.KILOBYTES_PER_SECOND, target_rate_kib, scale_factor, segments_min)


def _check_scale_factor(scale_factor: int) -> None:
    """Raises InvalidArgumentError. Other clients of the protocol may store 0, which counts as 2."""
    if scale_factor < 1:
        raise InvalidArgumentError(
            f"a scale factor of {scale_factor} allows no split: it is the most pieces of one, 2 or more"
        )


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How much of a stream is retained: at least ``minimum``, and at most ``maximum`` however consumers lag.

    Both in ms or bytes, as ``kind`` says. A minimum of zero would delete everything that nobody needs yet: it
    is no policy.
    """

    kind: RetentionKind = RetentionKind.NONE
    minimum: int = 0
    maximum: int = INT64_MAX

    def __post_init__(self) -> None:
        if max(self.minimum, self.maximum) > INT64_MAX:
            raise InvalidArgumentError(f"what is retained is at most {INT64_MAX} bytes or ms")
        if self.kind is not RetentionKind.NONE and not 0 <= self.minimum <= self.maximum:
            raise InvalidArgumentError(f"retention from {self.minimum} to {self.maximum} is impossible")
        if self.kind is not RetentionKind.NONE:
            unit = "ms" if self.kind is RetentionKind.TIME else "bytes"
            check_retains(self.minimum, f"{self.minimum} {unit}", "RetentionPolicy.none()")

    @classmethod
    def none(cls) -> RetentionPolicy:
        return cls()

    @classmethod
    def stored(cls, kind: RetentionKind, minimum: int, maximum: int) -> RetentionPolicy:
        """Return what a row, or another system, has: there may be a zero, which counts as no policy."""
        return cls() if minimum == 0 else cls(kind, minimum, maximum)

    @classmethod
    def by_time(cls, minimum_ms: int, maximum_ms: int = INT64_MAX) -> RetentionPolicy:
        return cls(RetentionKind.TIME, minimum_ms, maximum_ms)

    @classmethod
    def by_size(cls, minimum_bytes: int, maximum_bytes: int = INT64_MAX) -> RetentionPolicy:
        return cls(RetentionKind.SIZE, minimum_bytes, maximum_bytes)


def check_retains(minimum: int, given: str, words_for_none: str) -> None:
    """Refuse a retention of zero, which is mostly meant to be none, and would delete everything.

    Raises:
        InvalidArgumentError: it is one; with how the interface that was used writes none.
    """
    if minimum == 0:
        raise InvalidArgumentError(
            f"a retention of {given} would delete everything: {words_for_none} retains all"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfiguration:
    """Everything a user decides about a stream.

    ``timestamp_timeout_ms`` is how long a silent writer that reports time is waited for;
    ``rollover_size_bytes`` bounds the chunks of its segments in long-term storage (0: the store decides).
    """

    scaling: ScalingPolicy = field(default_factory=ScalingPolicy)
    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    tags: frozenset[str] = frozenset()
    timestamp_timeout_ms: int = 0
    rollover_size_bytes: int = 0

    def __post_init__(self) -> None:
        if len(self.tags) > TAGS_MAX or any(not 1 <= len(tag) <= TAG_CHARS_MAX for tag in self.tags):
            raise InvalidArgumentError(
                f"a stream has at most {TAGS_MAX} tags of 1 to {TAG_CHARS_MAX} characters"
            )
        if self.timestamp_timeout_ms < 0 or self.rollover_size_bytes < 0:
            raise InvalidArgumentError("times and sizes are not negative")
        if max(self.timestamp_timeout_ms, self.rollover_size_bytes) > INT64_MAX:
            raise InvalidArgumentError(f"times and sizes are at most {INT64_MAX}")
