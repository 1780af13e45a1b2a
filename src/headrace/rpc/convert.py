"""Between the messages of the control plane and the model's nouns, in one place for clients and controllers.

``x_to_message`` and ``x_from_message`` are inverses. Nothing here validates: the side that receives a
request does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX, INT64_MIN
from headrace.model.endpoint import Endpoint
from headrace.model.key_space import KeyRange
from headrace.model.key_value_table import KeyValueTableConfiguration
from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
    check_retains,
)
from headrace.rpc.generated import controller_pb2 as pb

NO_TIMESTAMP: Final = INT64_MIN
"""``TxnRequest.timestamp`` of a commit that notes no time."""

_MASK: Final = (1 << 64) - 1


def signed64(value: int) -> int:
    """Return the signed 64-bit number with the low 64 bits of ``value``."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


# ------------------------------------------------------------------------------------------ endpoints


def endpoint_to_message(endpoint: Endpoint) -> pb.NodeUri:
    """An IPv6 address stands in brackets: the Rust client needs them, others accept them."""
    return pb.NodeUri(endpoint=endpoint.host_in_uri, port=endpoint.port)


def endpoint_from_message(message: pb.NodeUri) -> Endpoint:
    """Also servers that send an IPv6 address without brackets are understood."""
    return Endpoint(message.endpoint.removeprefix("[").removesuffix("]"), message.port)


# ------------------------------------------------------------------------------------------ names and ids


def stream_info(scope: str, stream: str) -> pb.StreamInfo:
    return pb.StreamInfo(scope=scope, stream=stream)


def segment_id_to_message(scope: str, stream: str, segment_id: int) -> pb.SegmentId:
    return pb.SegmentId(streamInfo=pb.StreamInfo(scope=scope, stream=stream), segmentId=segment_id)


def segment_range_to_message(
    scope: str, stream: str, segment_id: int, key_range: KeyRange
) -> pb.SegmentRange:
    return pb.SegmentRange(
        segmentId=segment_id_to_message(scope, stream, segment_id),
        minKey=key_range.low,
        maxKey=key_range.high,
    )


def segment_range_from_message(message: pb.SegmentRange) -> tuple[int, KeyRange]:
    """Return the segment id and its range."""
    return message.segmentId.segmentId, KeyRange(message.minKey, message.maxKey)


def txn_id_to_message(txn_id: int) -> pb.TxnId:
    """Split a 128-bit transaction id."""
    return pb.TxnId(highBits=signed64(txn_id >> 64), lowBits=signed64(txn_id))


def txn_id_from_message(message: pb.TxnId) -> int:
    """Return the 128-bit transaction id, unsigned."""
    return (message.highBits & _MASK) << 64 | (message.lowBits & _MASK)


def stream_cut_to_message(scope: str, stream: str, cut: Mapping[int, int]) -> pb.StreamCut:
    return pb.StreamCut(streamInfo=pb.StreamInfo(scope=scope, stream=stream), cut=cut)


# ------------------------------------------------------------------------------------------ configuration


def scaling_policy_to_message(policy: ScalingPolicy) -> pb.ScalingPolicy:
    return pb.ScalingPolicy(
        scaleType=pb.ScalingPolicy.ScalingPolicyType.ValueType(policy.kind),
        targetRate=policy.target_rate,
        scaleFactor=policy.scale_factor,
        minNumSegments=policy.segments_min,
    )


def scaling_policy_from_message(message: pb.ScalingPolicy) -> ScalingPolicy:
    """Raises InvalidArgumentError for an unknown type or an impossible number."""
    try:
        kind = ScalingKind(message.scaleType)
    except ValueError:
        raise InvalidArgumentError(f"unknown scaling policy type {message.scaleType}") from None
    return ScalingPolicy(kind, message.targetRate, message.scaleFactor, message.minNumSegments)


def retention_policy_to_message(policy: RetentionPolicy) -> pb.RetentionPolicy:
    return pb.RetentionPolicy(
        retentionType=pb.RetentionPolicy.RetentionPolicyType.ValueType(policy.kind),
        retentionParam=policy.minimum,
        retentionMax=policy.maximum,
    )


def retention_policy_from_message(message: pb.RetentionPolicy) -> RetentionPolicy:
    """Return the policy; a maximum that is not positive or lies below the minimum means no maximum.

    Type 0 means no retention even if the message is present: one client always sends it.

    Raises:
        InvalidArgumentError: the type does not exist, or the minimum is negative or zero.
    """
    try:
        kind = RetentionKind(message.retentionType)
    except ValueError:
        raise InvalidArgumentError(f"unknown retention policy type {message.retentionType}") from None
    if kind is RetentionKind.NONE:
        return RetentionPolicy()
    check_retains(message.retentionParam, "retentionParam = 0", "no retentionPolicy, or one of type 0,")
    maximum = message.retentionMax
    if maximum <= 0 or maximum < message.retentionParam:
        maximum = INT64_MAX
    return RetentionPolicy(kind, message.retentionParam, maximum)


def stream_config_to_message(scope: str, stream: str, config: StreamConfiguration) -> pb.StreamConfig:
    """Leave retention out when there is none; clients read its absence as none."""
    message = pb.StreamConfig(
        streamInfo=stream_info(scope, stream),
        scalingPolicy=scaling_policy_to_message(config.scaling),
        tags=pb.Tags(tag=sorted(config.tags)),
        timestampAggregationTimeout=config.timestamp_timeout_ms,
        rolloverSizeBytes=config.rollover_size_bytes,
    )
    if config.retention.kind is not RetentionKind.NONE:
        message.retentionPolicy.CopyFrom(retention_policy_to_message(config.retention))
    return message


def stream_config_from_answer(message: pb.StreamConfig) -> StreamConfiguration:
    """Return what a controller says of a stream. One of another kind may say that it retains zero, which
    counts as no retention here. Raises as :func:`stream_config_from_message`.
    """
    if message.retentionPolicy.retentionParam == 0:
        message.ClearField("retentionPolicy")
    return stream_config_from_message(message)


def stream_config_from_message(message: pb.StreamConfig) -> StreamConfiguration:
    """Raises InvalidArgumentError for anything outside its documented range."""
    return StreamConfiguration(
        scaling=scaling_policy_from_message(message.scalingPolicy),
        retention=retention_policy_from_message(message.retentionPolicy),
        tags=frozenset(message.tags.tag),
        timestamp_timeout_ms=message.timestampAggregationTimeout,
        rollover_size_bytes=message.rolloverSizeBytes,
    )


# ------------------------------------------------------------------------------------------ key-value tables


def table_config_to_message(
    scope: str, table: str, config: KeyValueTableConfiguration
) -> pb.KeyValueTableConfig:
    return pb.KeyValueTableConfig(
        scope=scope,
        kvtName=table,
        partitionCount=config.partitions,
        primaryKeyLength=config.primary_key_bytes,
        secondaryKeyLength=config.secondary_key_bytes,
        rolloverSizeBytes=config.rollover_bytes,
    )


def table_config_from_message(message: pb.KeyValueTableConfig) -> KeyValueTableConfiguration:
    return KeyValueTableConfiguration(
        partitions=message.partitionCount,
        primary_key_bytes=message.primaryKeyLength,
        secondary_key_bytes=message.secondaryKeyLength,
        rollover_bytes=message.rolloverSizeBytes,
    )
