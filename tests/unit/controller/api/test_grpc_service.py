import asyncio
import threading

import grpc
import pytest

from headrace.controller.api.grpc_service import GrpcServer, handlers_of, snake_case
from headrace.errors import StreamBusyError
from headrace.rpc.generated import controller_pb2, controller_pb2_grpc
from headrace.rpc.generated import controller_pb2 as pb


class Calls:
    """Handlers that do what the name of the scope says."""

    def __init__(self):
        self.entered = asyncio.Event()

    async def check_scope_exists(self, request):
        self.entered.set()
        match request.scope:
            case "busy":
                raise StreamBusyError("later")
            case "bug":
                raise KeyError("oops")
            case "forever":
                await asyncio.Event().wait()
        return pb.ExistsResponse(exists=True)


@pytest.fixture
async def server():
    services = [controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]]
    calls = Calls()
    running = GrpcServer(handlers_of(calls), services, asyncio.get_running_loop(), "127.0.0.1", 0)
    port = running.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield running, controller_pb2_grpc.ControllerServiceStub(channel), calls
    await asyncio.get_running_loop().run_in_executor(None, running.stop)


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("getURI", "get_uri"),
        ("createStream", "create_stream"),
        ("listKeyValueTablesInScope", "list_key_value_tables_in_scope"),
        ("getSegmentsImmediatlyFollowing", "get_segments_immediatly_following"),
        ("isStreamCutValid", "is_stream_cut_valid"),
    ],
)
def test_names_of_calls_become_names_of_functions(name, snake):
    assert snake_case(name) == snake


async def test_errors_leave_as_codes_that_say_whether_to_try_again(server):
    _, stub, _ = server
    assert (await stub.checkScopeExists(pb.ScopeInfo(scope="a"))).exists
    for scope, code in (
        ("busy", grpc.StatusCode.RESOURCE_EXHAUSTED),
        ("bug", grpc.StatusCode.INTERNAL),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.checkScopeExists(pb.ScopeInfo(scope=scope))
        assert refused.value.code() is code
        assert "oops" not in refused.value.details()


async def test_calls_that_nobody_serves_are_unimplemented(server):
    _, stub, _ = server
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.createScope(pb.ScopeInfo(scope="a"))
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "createScope" in refused.value.details()


async def test_stopping_leaves_calls_that_never_end_and_no_thread(server):
    running, stub, calls = server
    hanging = asyncio.ensure_future(stub.checkScopeExists(pb.ScopeInfo(scope="forever")))
    await calls.entered.wait()
    async with asyncio.timeout(120):
        await asyncio.get_running_loop().run_in_executor(None, running.stop, 0.05)
    with pytest.raises(grpc.aio.AioRpcError):
        await hanging
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("grpc_")]


class LateAuthorizer:
    """Holds the thread of a call before its handler is begun."""

    def __init__(self):
        self.arrived = threading.Event()
        self.go_on = threading.Event()

    def check(self, *_):
        self.arrived.set()
        self.go_on.wait()


async def test_a_call_whose_thread_is_late_does_not_hold_up_a_stop():
    services = [controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]]
    late, loop = LateAuthorizer(), asyncio.get_running_loop()
    running = GrpcServer(handlers_of(Calls()), services, loop, "127.0.0.1", 0, late)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{running.start()}") as channel:
        stub = controller_pb2_grpc.ControllerServiceStub(channel)
        call = asyncio.ensure_future(stub.checkScopeExists(pb.ScopeInfo(scope="forever")))
        await asyncio.to_thread(late.arrived.wait)
        stopping = asyncio.ensure_future(asyncio.to_thread(running.stop, 0.0))
        async with asyncio.timeout(30):
            with pytest.raises(grpc.aio.AioRpcError):
                await call
            while not running.is_over:  # noqa: ASYNC110 - it is another thread that says so
                await asyncio.sleep(0.001)
            late.go_on.set()
            await stopping


async def test_a_taken_port_is_an_error(server):
    running, _, _ = server
    port = running._server.add_insecure_port("127.0.0.1:0")
    services = [controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]]
    other = GrpcServer({}, services, asyncio.get_running_loop(), "127.0.0.1", port)
    with pytest.raises((OSError, RuntimeError)):
        other.start()
    other.stop()
