"""What ``headrace stream update`` does: changes only what is given of a configuration."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.cli.output import print_json
from headrace.cli.servers import Connection, scoped
from headrace.errors import InvalidArgumentError
from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
)
from headrace.model.retention_text import parse_retention

_FACTOR_DEFAULT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamChanges:
    """What is to be changed; None, False and nothing mean: as it is."""

    segments_min: int | None = None
    events_per_second: int | None = None
    kib_per_second: int | None = None
    scale_factor: int | None = None
    fixed: bool = False
    """No scaling by load any more."""
    retention: RetentionPolicy | None = None
    tags_added: Collection[str] = ()
    tags_removed: Collection[str] = ()


def update_stream(
    *,
    stream: str,
    segments: int | None,
    events_per_second: int | None,
    kib_per_second: int | None,
    scale_factor: int | None,
    fixed: bool,
    retention: str | None,
    retain_time: str | None,
    retain_size: str | None,
    retain_all: bool,
    tags: Sequence[str],
    untag: Sequence[str],
    connection: Connection,
    as_json: bool,
) -> None:
    """Change what was given, and nothing else."""
    scope, name = scoped(stream)
    changes = StreamChanges(
        segments_min=segments,
        events_per_second=events_per_second,
        kib_per_second=kib_per_second,
        scale_factor=scale_factor,
        fixed=fixed,
        retention=_retention(retention, retain_time, retain_size, retain_all=retain_all),
        tags_added=tuple(tags),
        tags_removed=tuple(untag),
    )
    check_any(changes)
    with connection.connect() as client:
        former = client.stream_configuration(scope, name)
        wanted = changed(former, changes)
        if wanted != former:
            client.update_stream(scope, name, wanted)
    if as_json:
        print_json({"scope": scope, "stream": name, "updated": wanted != former})


def check_any(changes: StreamChanges) -> None:
    """Raises: InvalidArgumentError if nothing is to be changed."""
    if changes == StreamChanges():
        raise InvalidArgumentError("nothing is to be changed: give an option with its new value")


def changed(configuration: StreamConfiguration, changes: StreamChanges) -> StreamConfiguration:
    """Return the configuration with the changes.

    Raises:
        InvalidArgumentError: what is given contradicts itself or the stream.
    """
    both = set(changes.tags_added) & set(changes.tags_removed)
    if both:
        raise InvalidArgumentError(f"tag {min(both)!r} is both to be added and removed")
    return replace(
        configuration,
        scaling=_scaling(configuration.scaling, changes),
        retention=configuration.retention if changes.retention is None else changes.retention,
        tags=(configuration.tags | set(changes.tags_added)) - set(changes.tags_removed),
    )


def _scaling(policy: ScalingPolicy, changes: StreamChanges) -> ScalingPolicy:
    segments = policy.segments_min if changes.segments_min is None else changes.segments_min
    factor = policy.scale_factor or _FACTOR_DEFAULT
    if changes.scale_factor is not None:
        factor = changes.scale_factor
    if changes.events_per_second is not None:
        return ScalingPolicy.by_event_rate(changes.events_per_second, factor, segments)
    if changes.kib_per_second is not None:
        return ScalingPolicy.by_data_rate(changes.kib_per_second, factor, segments)
    if changes.fixed or policy.kind is ScalingKind.FIXED:
        if changes.scale_factor is not None:
            raise InvalidArgumentError("--scale-factor needs a stream with a rate: add --events-per-second")
        return ScalingPolicy.fixed(segments)
    if policy.kind is ScalingKind.EVENTS_PER_SECOND:
        return ScalingPolicy.by_event_rate(policy.target_rate, factor, segments)
    return ScalingPolicy.by_data_rate(policy.target_rate, factor, segments)


def _retention(
    text: str | None, time: str | None, size: str | None, *, retain_all: bool
) -> RetentionPolicy | None:
    if text is not None:
        return parse_retention(text)
    if retain_all:
        return RetentionPolicy.none()
    if time is not None:
        return parse_retention(time, RetentionKind.TIME, words_for_none="--retain-all")
    if size is not None:
        return parse_retention(size, RetentionKind.SIZE, words_for_none="--retain-all")
    return None
