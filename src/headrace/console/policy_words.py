"""Policies of streams in words. Pure."""

from __future__ import annotations

from msgspec import UnsetType

from headrace.controller.rest.models import RetentionConfig, ScalingConfig, TimeBasedRetention


def scaling_words(policy: ScalingConfig) -> str:
    """``1 to 4 segments ...``: how a stream scales."""
    count = policy.min_segments or 1
    if not policy.target_rate:
        return f"{count} segment{'s' if count > 1 else ''}, fixed"
    unit = "KiB/s" if "KBYTES" in policy.type else "events/s"
    return f"{policy.target_rate:,} {unit} per segment, at least {count}"


def retention_words(policy: RetentionConfig | UnsetType) -> str:
    """What a stream retains."""
    if not isinstance(policy, RetentionConfig):
        return "everything"
    if policy.type == "LIMITED_SIZE_MB":
        return f"the last {policy.value:,} MiB"
    if policy.value:
        return f"the last {policy.value:,} d"
    period = policy.time_based_retention
    if not isinstance(period, TimeBasedRetention):
        return "the last days"
    named = ((period.days, "d"), (period.hours, "h"), (period.minutes, "min"))
    return f"the last {' '.join(f'{count:,} {unit}' for count, unit in named if count) or 'moments'}"
