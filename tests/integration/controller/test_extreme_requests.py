"""A real server answers extreme, empty and garbage fields, and none of them is a bug of ours.

Of every third method, unless this is the long form; ``tests/unit/controller/api`` asks without a process.
"""

import uuid

import grpc
import pytest

from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.testing import LocalServer
from tests.effort import sampled
from tests.unit.controller.api.extreme_requests import GARBAGE, METHODS, valid_request, variants
from tests.unit.controller.api.test_reader_group_calls import config as group_config

NEVER = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE}
INFO = pb.StreamInfo(scope="s", stream="t")


def prepare(stub):
    """Make what valid requests name, unless it is there; return the id of an open transaction."""
    stub.createScope(pb.ScopeInfo(scope="s"))
    policy = pb.ScalingPolicy(minNumSegments=2)
    config = pb.StreamConfig(streamInfo=INFO, scalingPolicy=policy)
    if stub.createStream(config).status != pb.CreateStreamStatus.SUCCESS:
        stub.sealStream(INFO)
        stub.deleteStream(INFO)
        stub.createStream(config)
    stub.createKeyValueTable(
        pb.KeyValueTableConfig(scope="s", kvtName="k", partitionCount=1, primaryKeyLength=8)
    )
    stub.createReaderGroup(group_config("g", ["t"], retention=1, group_id=str(uuid.UUID(int=1))))
    return stub.createTransaction(pb.CreateTxnRequest(streamInfo=INFO, lease=30_000)).txnId


@pytest.mark.cluster
@pytest.mark.slow
def test_a_server_never_answers_with_a_bug(tmp_path):
    faults = []
    with LocalServer(tmp_path, "--in-memory") as server:
        target = server.uri.removeprefix("tcp://")
        with grpc.insecure_channel(target) as channel:
            stub = ControllerServiceStub(channel)
            for name, method in sampled(METHODS.items()):
                call = channel.unary_unary(f"/{method.containing_service.full_name}/{name}")
                request = valid_request(name, prepare(stub))
                cases = [(what, each.SerializeToString()) for what, each in variants(request)]
                for what, data in [*cases, *((repr(raw), raw) for raw in GARBAGE)]:
                    try:
                        call(data, timeout=120)
                    except grpc.RpcError as error:
                        if error.code() in NEVER:
                            faults.append(f"{name}: {what}: {error.code().name} {error.details()}")
            assert stub.checkScopeExists(pb.ScopeInfo(scope="_system")).exists
        log = (tmp_path / "server.log").read_text()
    assert faults == []
    assert "Traceback" not in log
