import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.endpoint import Endpoint
from headrace.model.key_space import KeyRange
from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
)
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb


@given(st.integers(0, (1 << 128) - 1))
def test_transaction_ids_survive_the_two_signed_halves(txn_id):
    assert convert.txn_id_from_message(convert.txn_id_to_message(txn_id)) == txn_id


@pytest.mark.parametrize(
    ("host", "sent"), [("a.example", "a.example"), ("10.0.0.1", "10.0.0.1"), ("::1", "[::1]")]
)
def test_an_endpoint_survives_the_message_in_which_ipv6_has_brackets(host, sent):
    message = convert.endpoint_to_message(Endpoint(host, 5))
    assert (message.endpoint, message.port) == (sent, 5)
    assert convert.endpoint_from_message(message) == Endpoint(host, 5)
    assert convert.endpoint_from_message(pb.NodeUri(endpoint=host, port=5)) == Endpoint(host, 5)


def test_a_stream_configuration_survives_the_message():
    config = StreamConfiguration(
        scaling=ScalingPolicy(ScalingKind.EVENTS_PER_SECOND, 500, 2, 3),
        retention=RetentionPolicy(RetentionKind.TIME, 1000, INT64_MAX),
        tags=frozenset({"a", "b"}),
        timestamp_timeout_ms=7,
        rollover_size_bytes=1 << 20,
    )
    message = convert.stream_config_to_message("s", "t", config)
    assert (
        convert.stream_config_from_message(pb.StreamConfig.FromString(message.SerializeToString())) == config
    )


def test_a_stream_without_retention_sends_no_retention_message():
    assert not convert.stream_config_to_message("s", "t", StreamConfiguration()).HasField("retentionPolicy")


def test_retention_type_zero_means_none_even_with_numbers():
    message = pb.RetentionPolicy(retentionType=0, retentionParam=5, retentionMax=9)
    assert convert.retention_policy_from_message(message) == RetentionPolicy()


@pytest.mark.parametrize("kind", [pb.RetentionPolicy.TIME, pb.RetentionPolicy.SIZE])
def test_a_retention_of_zero_is_refused_of_clients_and_none_in_answers_of_other_controllers(kind):
    given = pb.RetentionPolicy(retentionType=kind, retentionMax=INT64_MAX)
    with pytest.raises(InvalidArgumentError, match="one of type 0, retains all"):
        convert.retention_policy_from_message(given)
    message = pb.StreamConfig(scalingPolicy=pb.ScalingPolicy(minNumSegments=1), retentionPolicy=given)
    assert convert.stream_config_from_answer(message).retention == RetentionPolicy.none()


def test_unknown_policy_types_are_refused():
    with pytest.raises(InvalidArgumentError):
        convert.scaling_policy_from_message(pb.ScalingPolicy(scaleType=9, minNumSegments=1))
    with pytest.raises(InvalidArgumentError):
        convert.retention_policy_from_message(pb.RetentionPolicy(retentionType=9))


def test_a_segment_range_carries_the_names_clients_need():
    message = convert.segment_range_to_message("s", "t", 5, KeyRange(0.25, 1.0))
    assert (message.segmentId.streamInfo.scope, message.segmentId.streamInfo.stream) == ("s", "t")
    assert convert.segment_range_from_message(message) == (5, KeyRange(0.25, 1.0))


@pytest.mark.parametrize("maximum", [0, -1, 4])
def test_a_retention_maximum_below_its_minimum_means_no_maximum(maximum):
    message = pb.RetentionPolicy(retentionType=2, retentionParam=5, retentionMax=maximum)
    assert convert.retention_policy_from_message(message) == RetentionPolicy(RetentionKind.SIZE, 5, INT64_MAX)


def test_impossible_numbers_are_refused():
    with pytest.raises(InvalidArgumentError):
        convert.scaling_policy_from_message(pb.ScalingPolicy(minNumSegments=0))
    with pytest.raises(InvalidArgumentError):
        convert.stream_config_from_message(
            pb.StreamConfig(scalingPolicy=pb.ScalingPolicy(minNumSegments=1), rolloverSizeBytes=-1)
        )
