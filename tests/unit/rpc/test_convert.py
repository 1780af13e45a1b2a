import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.key_space import KeyRange
from headrace.model.policies import RetentionPolicy, RetentionType, ScaleType, ScalingPolicy, StreamConfig
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb


@given(st.integers(0, (1 << 128) - 1))
def test_transaction_ids_survive_the_two_signed_halves(txn_id):
    assert convert.txn_id_from_message(convert.txn_id_to_message(txn_id)) == txn_id


def test_a_stream_configuration_survives_the_message():
    config = StreamConfig(
        ScalingPolicy(ScaleType.EVENTS_PER_SECOND, 500, 2, 3),
        RetentionPolicy(RetentionType.TIME, 1000, INT64_MAX),
        ("a", "b"),
        7,
        1 << 20,
    )
    message = convert.stream_config_to_message("s", "t", config)
    assert (
        convert.stream_config_from_message(pb.StreamConfig.FromString(message.SerializeToString())) == config
    )


def test_a_stream_without_retention_sends_no_retention_message():
    assert not convert.stream_config_to_message("s", "t", StreamConfig()).HasField("retentionPolicy")


def test_retention_type_zero_means_none_even_with_numbers():
    message = pb.RetentionPolicy(retentionType=0, retentionParam=5, retentionMax=9)
    assert convert.retention_policy_from_message(message) == RetentionPolicy()


def test_unknown_policy_types_are_refused():
    with pytest.raises(InvalidArgumentError):
        convert.scaling_policy_from_message(pb.ScalingPolicy(scaleType=9))
    with pytest.raises(InvalidArgumentError):
        convert.retention_policy_from_message(pb.RetentionPolicy(retentionType=9))


def test_a_segment_range_carries_the_names_clients_need():
    message = convert.segment_range_to_message("s", "t", 5, KeyRange(0.25, 1.0))
    assert (message.segmentId.streamInfo.scope, message.segmentId.streamInfo.stream) == ("s", "t")
    assert convert.segment_range_from_message(message) == (5, KeyRange(0.25, 1.0))
