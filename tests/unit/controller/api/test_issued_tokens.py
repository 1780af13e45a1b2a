"""Which replies carry a delegation token, and what it allows."""

from contextlib import asynccontextmanager

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from headrace.controller.api.auth import make_rules
from headrace.controller.api.call_front import Answer, CallFront, Refusal, snake_case
from headrace.controller.api.issued_tokens import ISSUES, IssuedTokens
from headrace.model.names import TABLE_SUFFIX
from headrace.rpc.generated import controller_pb2 as pb
from headrace.security.permission import Permission
from headrace.security.token_checker import TokenChecker
from headrace.security.tokens import TokenKey, read
from headrace.testing.clock import WALL_START_MS, ManualClock
from tests.unit.controller.api.extreme_requests import METHODS, valid_request
from tests.unit.controller.api.test_extreme_requests import prepare
from tests.unit.controller.conftest import World, serve
from tests.unit.controller.known_users import EVERYTHING, KnownUser, KnownUsers, basic, users_for

KEY = TokenKey(b"k" * 64)
READ, UPDATE = Permission.READ, Permission.READ_UPDATE
Access = pb.StreamInfo.AccessOperation
WRITES = [Access.UNSPECIFIED, Access.ANY, Access.WRITE, Access.READ_WRITE]
STREAM, GROUP, TABLE = (
    "prn::/scope:s/stream:t",
    "prn::/scope:s/reader-group:g",
    "prn::/scope:s/key-value-table:t",
)


def issued(**options):
    return IssuedTokens(KEY, ManualClock(), 600, **options)


def claims_for(grants, stream="t", access=Access.READ_WRITE, call="get_delegation_token", **options):
    """Return what the token allows that a caller with ``grants`` gets, by resource."""
    info = pb.StreamInfo(scope="s", stream=stream, accessOperation=access)
    request = info if call == "get_delegation_token" else pb.SegmentId(streamInfo=info)
    reply = pb.DelegationToken() if call == "get_delegation_token" else pb.SuccessorResponse()
    token = issued(**options).add(call, request, reply, KnownUser("ann", grants)).delegationToken
    return {claim.segment: claim.permission for claim in read(KEY, token).claims} if token else {}


@pytest.mark.parametrize("access", WRITES)
def test_a_token_allows_what_is_asked_for(access):
    assert claims_for({STREAM: UPDATE}, access=access) == {"s/t": UPDATE}
    assert claims_for({STREAM: UPDATE}, access=Access.READ) == {"s/t": READ}
    assert claims_for({STREAM: UPDATE}, access=Access.NONE) == {}


@pytest.mark.parametrize("call", ["get_delegation_token", "get_segments_immediately_following"])
def test_a_token_allows_no_more_than_its_caller_may(call):
    """Clients that ask for successors do not say what for."""
    assert claims_for({STREAM: READ}, access=Access.UNSPECIFIED, call=call) == {"s/t": READ}
    assert claims_for({}, access=Access.UNSPECIFIED, call=call) == {}


def test_readers_write_the_state_of_their_group():
    assert claims_for({GROUP: READ}, "_RGg") == {"s/_RGg": UPDATE}
    assert claims_for({GROUP: READ}, "_RGg", Access.READ) == {"s/_RGg": READ}
    assert claims_for({GROUP: READ}, "_RGg", readers_manage_groups=False) == {"s/_RGg": READ}
    assert claims_for({GROUP: UPDATE}, "_RGg", readers_manage_groups=False) == {"s/_RGg": UPDATE}
    assert claims_for({STREAM: UPDATE}, "_RGg") == {}


def test_watermarks_are_only_read():
    for held in (READ, UPDATE):
        assert claims_for({STREAM: held}, "_MARKt") == {"s/_MARKt": READ}


def test_a_token_for_a_bare_name_is_also_one_for_the_table_of_that_name():
    assert claims_for({TABLE: UPDATE}) == {"s/t_kvtable": UPDATE}
    assert claims_for({TABLE: UPDATE, STREAM: READ}) == {"s/t_kvtable": UPDATE, "s/t": READ}
    assert claims_for({TABLE: UPDATE, STREAM: UPDATE}, call="get_segments_immediately_following") == {
        "s/t": UPDATE
    }
    assert claims_for({TABLE: UPDATE}, "t_kvtable") == {"s/t_kvtable": UPDATE}
    assert claims_for({STREAM: UPDATE}, "t_kvtable") == {}


def test_a_token_lives_as_long_as_configured():
    token = issued().add(
        "get_delegation_token",
        pb.StreamInfo(scope="s", stream="t"),
        pb.DelegationToken(),
        KnownUser("a", {STREAM: READ}),
    )
    assert read(KEY, token.delegationToken).expires_s == WALL_START_MS // 1000 + 600


# ------------------------------------------------------------------------------------------ all calls


@asynccontextmanager
async def inhabited():
    async with serve(World(in_tables=True)) as service:
        txn_id = await prepare(service)
        yield service, txn_id


async def make(service, users, name, request, tokens):
    front = CallFront(service.controller.handlers, users, make_rules(), tokens)
    message = GetMessageClass(METHODS[name].input_type)
    return await front.answer(
        name, message, request.SerializeToString(), [("authorization", basic("enough"))]
    )


def test_every_reply_with_a_token_is_in_the_table():
    with_a_token = {
        snake_case(name)
        for name, method in METHODS.items()
        if "delegationToken" in method.output_type.fields_by_name
    }
    assert with_a_token == set(ISSUES)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in METHODS if snake_case(name) in ISSUES))
async def test_the_token_of_a_reply_is_about_what_its_caller_may_use(name):
    async with inhabited() as (service, txn_id):
        request = valid_request(name, txn_id)
        rule = make_rules()[snake_case(name)](request)
        users = users_for(rule)
        answer = await make(service, users, name, request, issued())
        assert isinstance(answer, Answer), answer
        checker = TokenChecker(KEY, ManualClock(), 0)
        stream = rule.resources[-1].rpartition(":")[2]
        suffix = TABLE_SUFFIX if "key-value-table" in rule.resources[-1] else ""
        segment = f"s/{stream}{suffix}/0.#epoch.0"
        assert checker.authorise(answer.reply.delegationToken, segment, rule.permission)
        without = await make(service, users, name, request, None)
        assert without.reply.delegationToken == ""
        answer.reply.delegationToken = ""
        if name != "createTransaction":  # each time another
            assert without.reply == answer.reply


async def test_names_that_cannot_exist_get_no_token():
    async with inhabited() as (service, _):
        users = KnownUsers(enough={EVERYTHING: UPDATE})
        for info in (
            pb.StreamInfo(scope="s", stream=""),
            pb.StreamInfo(scope="", stream="t"),
            pb.StreamInfo(scope="s/stream:t", stream="u"),
            pb.StreamInfo(scope="s", stream="t/0"),
            pb.StreamInfo(scope="s", stream="~~~"),
            pb.StreamInfo(scope="*", stream="*"),
        ):
            answer = await make(service, users, "getDelegationToken", info, issued())
            assert isinstance(answer, Refusal)
            assert answer.code is grpc.StatusCode.INVALID_ARGUMENT
