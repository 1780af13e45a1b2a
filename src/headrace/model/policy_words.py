"""Configurations of streams in words, for people. Pure."""

from __future__ import annotations

from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
)


def configuration_text(configuration: StreamConfiguration) -> str:
    """Return everything that a user decides about a stream, but what is as by default."""
    parts = [
        scaling_text(configuration.scaling),
        f"retention {retention_text(configuration.retention)}",
    ]
    if configuration.tags:
        parts.append(f"tags {', '.join(sorted(configuration.tags))}")
    if configuration.timestamp_timeout_ms:
        parts.append(f"timestamp timeout {duration_text(configuration.timestamp_timeout_ms)}")
    if configuration.rollover_size_bytes:
        parts.append(f"rollover at {size_text(configuration.rollover_size_bytes)}")
    return ", ".join(parts)


def difference_text(stream: str, wanted: StreamConfiguration, present: StreamConfiguration) -> str:
    """Return what to tell somebody who creates a stream that exists; empty if it is as it is wanted."""
    if wanted == present:
        return ""
    return (
        f"stream {stream} exists already and stays as it is: {configuration_text(present)}; "
        f"wanted was: {configuration_text(wanted)}"
    )


def scaling_text(policy: ScalingPolicy) -> str:
    segments = "1 segment" if policy.segments_min == 1 else f"{policy.segments_min} segments"
    if policy.kind is ScalingKind.FIXED:
        return f"fixed, {segments}"
    unit = "events/s" if policy.kind is ScalingKind.EVENTS_PER_SECOND else "KiB/s"
    return f"{policy.target_rate} {unit} per segment, factor {policy.scale_factor}, at least {segments}"


def retention_text(policy: RetentionPolicy) -> str:
    if policy.kind is RetentionKind.NONE:
        return "everything"
    return duration_text(policy.minimum) if policy.kind is RetentionKind.TIME else size_text(policy.minimum)


def duration_text(milliseconds: int) -> str:
    """Return a duration in the largest unit that divides it, as the command line reads it."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def size_text(size_bytes: int) -> str:
    """Return a size in the largest unit that divides it, as the command line reads it."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes and size_bytes % size == 0:
            return f"{size_bytes // size} {unit}"
    return f"{size_bytes} B"
