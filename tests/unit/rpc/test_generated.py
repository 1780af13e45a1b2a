"""The checked-in modules are what the compiler makes of the .proto files, the service the protocol's."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.rpc.generated import batch_commit_pb2, controller_pb2

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_generated_files_are_fresh():
    pytest.importorskip("grpc_tools")
    done = subprocess.run(
        [sys.executable, "tools/generate_rpc.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_service_has_the_47_calls_of_the_protocol_all_unary():
    service = controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]
    assert service.full_name == "io.pravega.controller.stream.api.grpc.v1.ControllerService"
    assert len(service.methods) == 47
    assert not any(method.client_streaming or method.server_streaming for method in service.methods)


def test_field_numbers_that_are_easy_to_get_wrong():
    messages = controller_pb2.DESCRIPTOR.message_types_by_name
    assert messages["ListCompletedTxnResponse"].fields_by_name["response"].number == 2
    assert messages["StreamsInScopeResponse"].fields_by_name["status"].number == 3
    assert messages["ReaderGroupConfigResponse"].fields_by_name["status"].number == 2
    assert messages["CreateReaderGroupResponse"].fields_by_name["status"].number == 1
    retention = messages["ReaderGroupConfiguration"].fields_by_name["retentionType"]
    assert retention.type == retention.TYPE_INT32


def test_a_segment_id_encodes_to_the_expected_bytes():
    message = controller_pb2.SegmentId(
        streamInfo=controller_pb2.StreamInfo(scope="s", stream="t"), segmentId=(1 << 32) + 4
    )
    assert message.SerializeToString() == bytes.fromhex("0a060a01731201741084808080" + "10")


def test_unset_status_of_our_own_answers_is_never_success():
    for name in ("CreateTaggedTransactionResponse", "CommitTransactionBatchResponse"):
        status = getattr(batch_commit_pb2, name).Status
        assert status.Name(0) == "UNKNOWN"
