import grpc
import pytest

from headrace.controller.api.auth import RULES, need_of
from headrace.controller.api.call_front import snake_case
from headrace.controller.server import GrpcServer
from headrace.errors import PermissionDeniedError, UnauthenticatedError
from headrace.rpc.generated import batch_commit_pb2, controller_pb2_grpc, stream_time_pb2
from headrace.rpc.generated import controller_pb2 as pb
from headrace.security.permission import Permission
from headrace.security.resources import ROOT
from tests.unit.controller.calls import info

READ, UPDATE = Permission.READ, Permission.READ_UPDATE


class Doorkeeper:
    """Knows one user, who may read one scope."""

    def check(self, authorization, resource, permission):
        if authorization != "Basic known":
            raise UnauthenticatedError("who are you?")
        if permission > READ or not resource.startswith("prn::/scope:s"):
            raise PermissionDeniedError(f"not {resource}")


def test_every_call_has_its_rule_but_the_one_made_without_credentials():
    names = [
        snake_case(method.name)
        for service in (
            pb.DESCRIPTOR.services_by_name["ControllerService"],
            batch_commit_pb2.DESCRIPTOR.services_by_name["BatchCommitService"],
            stream_time_pb2.DESCRIPTOR.services_by_name["StreamTimeService"],
        )
        for method in service.methods
    ]
    assert set(names) - {"get_controller_server_list"} == set(RULES)


@pytest.mark.parametrize(
    ("call", "request_", "need"),
    [
        ("create_scope", pb.ScopeInfo(scope="a"), (ROOT, UPDATE)),
        ("check_scope_exists", pb.ScopeInfo(scope="a"), ("prn::/scope:a", READ)),
        ("seal_stream", info(), ("prn::/scope:s/stream:t", UPDATE)),
        ("get_uri", pb.SegmentId(streamInfo=info("_RGg")), ("prn::/scope:s/reader-group:g", READ)),
        ("get_uri", pb.SegmentId(streamInfo=info("_MARKt")), ("prn::/scope:s/stream:t", READ)),
        ("create_stream", pb.StreamConfig(streamInfo=info()), ("prn::/scope:s", UPDATE)),
        ("create_stream", pb.StreamConfig(streamInfo=info("_RGg")), ("prn::/scope:s", READ)),
        ("get_current_segments", info(), ("prn::/scope:s/stream:t", UPDATE)),
        (
            "get_current_segments",
            pb.StreamInfo(scope="s", stream="t", accessOperation=pb.StreamInfo.NONE),
            ("prn::/scope:s/stream:t", READ),
        ),
        (
            "get_delegation_token",
            pb.StreamInfo(scope="s", stream="t", accessOperation=pb.StreamInfo.READ),
            ("prn::/scope:s/stream:t", READ),
        ),
        (
            "delete_key_value_table",
            pb.KeyValueTableInfo(scope="s", kvtName="k"),
            ("prn::/scope:s/key-value-table:k", UPDATE),
        ),
        ("get_controller_server_list", pb.ServerRequest(), None),
    ],
)
def test_calls_need_what_the_protocol_says(call, request_, need):
    assert need_of(call, request_) == need


async def test_a_server_with_a_doorkeeper_lets_in_whom_it_knows_to_what_he_may(world):
    async with world.running() as controller:
        server = GrpcServer(controller, "127.0.0.1", 0, Doorkeeper())
        port = await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = controller_pb2_grpc.ControllerServiceStub(channel)
            known = (("authorization", "Basic known"),)

            async def code(call, request, metadata=()):
                try:
                    await call(request, metadata=metadata)
                except grpc.aio.AioRpcError as error:
                    return error.code()
                return grpc.StatusCode.OK

            scope = pb.ScopeInfo(scope="s")
            assert await code(stub.checkScopeExists, scope) is grpc.StatusCode.UNAUTHENTICATED
            assert await code(stub.checkScopeExists, scope, known) is grpc.StatusCode.OK
            assert await code(stub.createScope, scope, known) is grpc.StatusCode.PERMISSION_DENIED
            assert await code(stub.sealStream, info(), known) is grpc.StatusCode.PERMISSION_DENIED
            assert await code(stub.getControllerServerList, pb.ServerRequest()) is grpc.StatusCode.OK
        await server.stop()
