"""Every call of every service, made by callers that have what it needs and by others."""

from contextlib import asynccontextmanager

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from headrace.controller.api.auth import make_rules
from headrace.controller.api.call_front import Answer, CallFront, Refusal, snake_case
from headrace.controller.server import GrpcServer
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import controller_pb2_grpc
from headrace.security.internal_identity import InternalCallers, InternalTokens
from headrace.security.permission import Permission
from headrace.security.tokens import TokenKey, issue
from tests.unit.controller.api.extreme_requests import METHODS, valid_request
from tests.unit.controller.api.test_extreme_requests import idle, prepare, watch_effects
from tests.unit.controller.calls import info
from tests.unit.controller.conftest import ManualClock, World, serve, stream_config
from tests.unit.controller.known_users import EVERYTHING, NOT_AUTHENTICATED, KnownUsers, basic, users_for

RULES = make_rules()
OPEN = {"getControllerServerList"}
REMOVALS = sorted((name for name in METHODS if name.startswith(("delete", "seal"))), key="deleteScope".__eq__)
NO, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
READ, UPDATE = Permission.READ, Permission.READ_UPDATE
KEY, CLOCK = TokenKey(b"internal" * 8), ManualClock()
INTERNAL_CALLERS = InternalCallers(KEY, CLOCK, 10)
PROCESS = InternalTokens(KEY, CLOCK).header()


@asynccontextmanager
async def inhabited():
    """A controller with everything that valid requests name, and the id of an open transaction."""
    async with serve(World(in_tables=True)) as service:
        txn_id = await prepare(service)
        await idle(service)
        yield service, txn_id


async def make(service, users, name, request, *headers):
    """Make a call through a front, without network."""
    front = CallFront(service.controller.handlers, users, RULES, internal=INTERNAL_CALLERS)
    metadata = [("requestid", "1"), *(("authorization", value) for value in headers), ("other", b"\xff")]
    message = GetMessageClass(METHODS[name].input_type)
    return await front.answer(name, message, request.SerializeToString(), metadata)


async def test_a_caller_that_lacks_something_is_refused_and_nothing_changes():
    async with inhabited() as (service, txn_id):
        effects = watch_effects(service)
        faults = []
        for name in METHODS.keys() - OPEN:
            request = valid_request(name, txn_id)
            users = users_for(RULES[snake_case(name)](request))
            cases = {what: (values, NO) for what, values in NOT_AUTHENTICATED.items()}
            if header_for(name) is PROCESS:
                cases["another method"] = ("Bearer abc",), DENIED
            cases["bytes"] = (b"Basic abc",), NO
            cases |= {who: ((basic(who),), DENIED) for who in ("less", "elsewhere")}
            for what, (values, code) in cases.items():
                answer = await make(service, users, name, request, *values)
                if not isinstance(answer, Refusal) or answer.code is not code:
                    faults.append(f"{name}, {what}: {answer}")
        await idle(service)
        assert (faults, effects) == ([], [])


def header_for(name):
    """Return what the caller shows that may make the call: a user, or a process of the cluster."""
    internal = METHODS[name].containing_service.name == "InternalService"
    return PROCESS if internal else basic("enough")


async def test_a_call_of_processes_takes_a_token_for_everything_and_no_other():
    async with inhabited() as (service, txn_id):
        users = KnownUsers(admin={EVERYTHING: UPDATE})
        narrow = issue(KEY, {"prn::/scope:s": UPDATE}, CLOCK.now_ms() // 1000, 60)
        late = issue(KEY, {"*": UPDATE}, CLOCK.now_ms() // 1000 - 100, 60)
        stranger = InternalTokens(TokenKey(b"stranger" * 8), CLOCK).header()
        for name in ("reportLoads", "waitStream", "waitTransactions"):
            request = valid_request(name, txn_id)
            assert isinstance(await make(service, users, name, request, PROCESS), Answer)
            for header in (basic("admin"), f"Bearer {narrow}", f"Bearer {late}", stranger):
                answer = await make(service, users, name, request, header)
                assert answer.code is DENIED, (name, header)
        answer = await make(
            service, users, "reportLoads", valid_request("reportLoads", txn_id), basic("admin")
        )
        assert answer.details == "user 'admin' is no process of the cluster"
        for name in ("listScopes", "createTransaction"):
            answer = await make(service, users, name, valid_request(name, txn_id), PROCESS)
            assert answer.code is NO  # what users do, processes do not do under this name


async def test_a_caller_with_exactly_what_a_call_needs_may_make_it():
    async with inhabited() as (service, txn_id):
        for name in [*(METHODS.keys() - set(REMOVALS)), *REMOVALS]:
            request = valid_request(name, txn_id)
            users = users_for(RULES[snake_case(name)](request)) if name not in OPEN else KnownUsers()
            answer = await make(
                service, users, name, request, *([header_for(name)] if name not in OPEN else [])
            )
            assert isinstance(answer, Answer) or answer.code not in {NO, DENIED}, (name, answer)


async def test_a_call_without_a_rule_is_denied_to_everybody():
    async with inhabited() as (service, _):
        front = CallFront(service.controller.handlers, KnownUsers(admin={EVERYTHING: UPDATE}), {})
        data = pb.ScopeInfo(scope="s").SerializeToString()
        metadata = [("authorization", basic("admin"))]
        answer = await front.answer("checkScopeExists", pb.ScopeInfo, data, metadata)
        assert (answer.code, "no rule" in answer.details) == (DENIED, True)


async def test_one_of_several_resources_is_enough_for_a_token():
    async with inhabited() as (service, _):
        for resource in ("prn::/scope:s/stream:k", "prn::/scope:s/key-value-table:k"):
            users = KnownUsers(enough={resource: UPDATE})
            answer = await make(service, users, "getDelegationToken", info("k"), basic("enough"))
            assert isinstance(answer, Answer)


@pytest.mark.parametrize("name", ["createReaderGroup", "updateReaderGroup"])
async def test_a_group_retains_no_data_of_streams_that_its_maker_may_not_update(name):
    async with inhabited() as (service, txn_id):
        users = KnownUsers(
            reader={"prn::/scope:s": UPDATE, "prn::/scope:s/stream:t": READ},
            writer={"prn::/scope:s": READ, "prn::/scope:s/stream:t": UPDATE},
        )
        request = valid_request(name, txn_id)
        request.retentionType = request.AUTOMATIC
        request.readerGroupName = "new" if name.startswith("create") else request.readerGroupName
        subscribers = await service.stub.listSubscribers(info("t"))
        refused = await make(service, users, name, request, basic("reader"))
        assert (refused.code, refused.details) == (
            DENIED,
            "user 'reader' lacks READ_UPDATE on 'prn::/scope:s/stream:t'",
        )
        del request.startingStreamCuts[:]
        request.startingStreamCuts.add().streamInfo.CopyFrom(info("nowhere"))
        unknown = await make(service, users, name, request, basic("reader"))
        assert unknown.code is DENIED  # and not that there is no such stream
        assert await service.stub.listSubscribers(info("t")) == subscribers
        assert isinstance(
            await make(service, users, name, valid_request(name, txn_id), basic("writer")), Answer
        )


async def test_a_refusal_says_what_is_missing_in_bounded_text():
    async with inhabited() as (service, _):
        users = KnownUsers(ann={})
        answer = await make(service, users, "sealStream", info("t"), basic("ann"))
        assert answer.details == "user 'ann' lacks READ_UPDATE on 'prn::/scope:s/stream:t'"
        answer = await make(service, users, "sealStream", info("t" * 20_000), basic("ann"))
        assert len(answer.details) < 300


async def list_all(service, users, name, request):
    """Return every entry of a listing as its user sees it, and the number of pages with entries."""
    entries, pages = [], 0
    while True:
        answer = await make(service, users, name, request, basic("ann"))
        assert isinstance(answer, Answer)
        reply = answer.reply
        assert reply.HasField("continuationToken")
        found = next(
            getattr(reply, field) for field in ("scopes", "streams", "kvtables") if hasattr(reply, field)
        )
        if not found:
            return entries, pages
        assert reply.continuationToken.token
        entries += [
            entry if isinstance(entry, str) else getattr(entry, "stream", "") or entry.kvtName
            for entry in found
        ]
        pages += 1
        request.continuationToken.CopyFrom(reply.continuationToken)


@pytest.mark.slow
@pytest.mark.parametrize("rows_max", [1, 3, 1000])
async def test_listings_show_what_may_be_read_and_end_after_it(rows_max):
    async with serve(World(), page_rows_max=rows_max) as service:
        for scope in ("s", "other"):
            await service.stub.createScope(pb.ScopeInfo(scope=scope))
        for number in range(12):
            await service.create_stream(f"t{number}", tags=["x"])
            table = pb.KeyValueTableConfig(
                scope="s", kvtName=f"k{number}", partitionCount=1, primaryKeyLength=8
            )
            await service.stub.createKeyValueTable(table)
        for name in ("_RGg", "_RGh"):
            await service.stub.createStream(stream_config(name))
        grants = {
            "prn::/": READ,
            "prn::/scope:s": READ,
            "prn::/scope:s/stream:t3": READ,
            "prn::/scope:s/stream:t11": UPDATE,
            "prn::/scope:s/reader-group:g": READ,
            "prn::/scope:s/key-value-table:k7": READ,
        }
        users = KnownUsers(ann=grants)
        scope = pb.ScopeInfo(scope="s")
        expected = {
            "listScopes": (pb.ScopesRequest(), {"s"}),
            "listStreamsInScope": (
                pb.StreamsInScopeRequest(scope=scope),
                {"t3", "t11", "_RGg", "_MARKt3", "_MARKt11"},
            ),
            "listStreamsInScopeForTag": (
                pb.StreamsInScopeWithTagRequest(scope=scope, tag="x"),
                {"t3", "t11"},
            ),
            "listKeyValueTablesInScope": (pb.KVTablesInScopeRequest(scope=scope), {"k7"}),
        }
        for name, (request, wanted) in expected.items():
            entries, pages = await list_all(service, users, name, request)
            assert sorted(entries) == sorted(wanted)
            assert rows_max < 1000 or pages == 1
        nothing = KnownUsers(ann={"prn::/": READ, "prn::/scope:s": READ})
        request = pb.StreamsInScopeRequest(scope=scope)
        assert await list_all(service, nothing, "listStreamsInScope", request) == ([], 0)


async def test_over_the_network_users_make_the_calls_that_they_may_make(world):
    async with world.running() as controller:
        users = KnownUsers(ann={"prn::/scope:s": READ, "prn::/": READ})
        server = GrpcServer(controller, "127.0.0.1", 0, users)
        port = await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = controller_pb2_grpc.ControllerServiceStub(channel)

            async def code(call, request, *headers):
                try:
                    await call(request, metadata=[("authorization", value) for value in headers])
                except grpc.aio.AioRpcError as error:
                    return error.code()
                return grpc.StatusCode.OK

            scope = pb.ScopeInfo(scope="s")
            assert await code(stub.checkScopeExists, scope) is NO
            assert await code(stub.checkScopeExists, scope, basic("ann", "wrong")) is NO
            assert await code(stub.checkScopeExists, scope, basic("ann")) is grpc.StatusCode.OK
            assert await code(stub.createScope, scope, basic("ann")) is DENIED
            assert await code(stub.sealStream, info(), basic("ann")) is DENIED
            assert await code(stub.getControllerServerList, pb.ServerRequest()) is grpc.StatusCode.OK
        await server.stop()
