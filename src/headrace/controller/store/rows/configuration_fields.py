"""The configuration of a stream inside other rows. Source: ``docs/formats/controller-rows.md``."""

from __future__ import annotations

from headrace.model.fields import FieldReader, FieldWriter
from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
)


def write_configuration(writer: FieldWriter, config: StreamConfiguration) -> None:
    writer.uint(config.scaling.kind)
    writer.uint(config.scaling.target_rate)
    writer.uint(config.scaling.scale_factor)
    writer.uint(config.scaling.segments_min)
    writer.uint(config.retention.kind)
    writer.uint(config.retention.minimum)
    writer.uint(config.retention.maximum)
    writer.uint(config.timestamp_timeout_ms)
    writer.uint(config.rollover_size_bytes)
    writer.uint(len(config.tags))
    for tag in sorted(config.tags):
        writer.text(tag)


def read_configuration(reader: FieldReader) -> StreamConfiguration:
    """Raises ValueError or InvalidArgumentError for numbers no policy can have; the row's reader reports.

    A retention of zero, which early releases took, is none.
    """
    scaling = ScalingPolicy(ScalingKind(reader.uint()), reader.uint(), reader.uint(), reader.uint())
    retention = RetentionPolicy.stored(RetentionKind(reader.uint()), reader.uint(), reader.uint())
    timestamp_timeout_ms, rollover_size_bytes = reader.uint(), reader.uint()
    tags = frozenset(reader.text() for _ in range(reader.count()))
    return StreamConfiguration(
        scaling=scaling,
        retention=retention,
        tags=tags,
        timestamp_timeout_ms=timestamp_timeout_ms,
        rollover_size_bytes=rollover_size_bytes,
    )
