import asyncio

import grpc
import pytest

from headrace.controller.api import call_front
from headrace.controller.api.call_front import CallFront, handlers_of, snake_case
from headrace.controller.api.grpc_service import GrpcServer
from headrace.errors import StreamBusyError
from headrace.rpc.generated import controller_pb2, controller_pb2_grpc
from headrace.rpc.generated import controller_pb2 as pb


class Calls:
    """Handlers that do what the name of the scope says."""

    def __init__(self):
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        self.finished = asyncio.Event()

    async def check_scope_exists(self, request):
        self.entered.set()
        match request.scope:
            case "busy":
                raise StreamBusyError("later")
            case "bug":
                raise KeyError("oops")
            case "slow":
                await self.go_on.wait()
                self.finished.set()
            case "forever":
                await asyncio.Event().wait()
        return pb.ExistsResponse(exists=True)


@pytest.fixture
async def server():
    services = [controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]]
    calls = Calls()
    running = GrpcServer(CallFront(handlers_of(calls)), services, "127.0.0.1", 0)
    port = await running.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield running, controller_pb2_grpc.ControllerServiceStub(channel), calls
    await running.stop()


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


async def test_stopping_leaves_calls_that_never_end(server):
    running, stub, calls = server
    hanging = asyncio.ensure_future(stub.checkScopeExists(pb.ScopeInfo(scope="forever")))
    await calls.entered.wait()
    async with asyncio.timeout(120):
        await running.stop(0.05)
    with pytest.raises(grpc.aio.AioRpcError):
        await hanging


async def test_what_a_call_has_begun_goes_on_when_its_caller_leaves(server):
    _, stub, calls = server
    call = stub.checkScopeExists(pb.ScopeInfo(scope="slow"))
    await calls.entered.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await stub.checkScopeExists(pb.ScopeInfo(scope="a"))).exists  # it was told by now
    calls.go_on.set()
    async with asyncio.timeout(60):
        await calls.finished.wait()


async def test_calls_whose_callers_left_are_bounded_too(monkeypatch):
    monkeypatch.setattr(call_front, "CALLS_MAX", 3)
    calls = Calls()
    front = CallFront(handlers_of(calls))

    def ask(scope):
        data = pb.ScopeInfo(scope=scope).SerializeToString()
        return asyncio.ensure_future(front.answer("checkScopeExists", pb.ScopeInfo, data, ()))

    abandoned = [ask("slow") for _ in range(3)]
    await calls.entered.wait()
    for each in abandoned:
        each.cancel()
    await asyncio.wait(abandoned)
    refusal = await ask("a")
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    calls.go_on.set()
    await calls.finished.wait()
    await asyncio.sleep(0)
    assert (await ask("a")).reply.exists
    await front.stop()


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_bug_is_logged_once_whether_or_not_its_caller_stays(caplog, leaves):
    calls = Calls()
    front = CallFront(handlers_of(calls))
    data = pb.ScopeInfo(scope="bug").SerializeToString()
    answer = asyncio.ensure_future(front.answer("checkScopeExists", pb.ScopeInfo, data, ()))
    if leaves:
        asyncio.get_running_loop().call_soon(answer.cancel)
    await answer
    await calls.entered.wait()
    await asyncio.sleep(0)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    await front.stop()


async def test_a_call_that_takes_too_long_is_no_failure_of_ours(caplog, monkeypatch):
    monkeypatch.setattr(call_front, "CALL_TIMEOUT_S", 0)
    front = CallFront(handlers_of(Calls()))
    data = pb.ScopeInfo(scope="forever").SerializeToString()
    refusal = await front.answer("checkScopeExists", pb.ScopeInfo, data, ())
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert not caplog.records
    await front.stop()


async def test_a_taken_port_is_an_error(server):
    running, _, _ = server
    port = running.bind()
    services = [controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]]
    other = GrpcServer(CallFront({}), services, "127.0.0.1", port)
    with pytest.raises(OSError, match=str(port)):
        await other.start()
    await other.stop()
