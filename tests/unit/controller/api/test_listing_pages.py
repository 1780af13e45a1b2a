"""Pages of listings for callers who may read some of the entries, decided without a controller."""

import asyncio

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.api.auth import make_rules
from headrace.controller.api.call_front import CALL_TIMEOUT_S, Answer, CallFront, Refusal
from headrace.rpc.generated import controller_pb2 as pb
from headrace.security.permission import Permission
from headrace.security.resources import ROOT, scope_resource
from tests.unit.controller.known_users import KnownUsers, basic
from tests.virtual_time import make_loop

READ = Permission.READ


class Scopes:
    """A listing whose tokens are positions. Each page takes ``page_s`` seconds."""

    def __init__(self, pages, page_s=0.0):
        self.pages = pages
        self.page_s = page_s
        self.asked = 0

    async def list_scopes(self, request):
        self.asked += 1
        await asyncio.sleep(self.page_s)
        at = int(request.continuationToken.token or 0)
        page = self.pages[at] if at < len(self.pages) else []
        after = str(min(at + 1, len(self.pages)))
        return pb.ScopesResponse(scopes=page, continuationToken=pb.ContinuationToken(token=after))


class Endless(Scopes):
    """Lists scopes that nobody may read, for ever."""

    async def list_scopes(self, request):
        self.pages.append(["hidden"])
        return await super().list_scopes(request)


def front_of(scopes, readable):
    users = KnownUsers(ann=dict.fromkeys([ROOT, *map(scope_resource, readable)], READ))
    return CallFront({"list_scopes": scopes.list_scopes}, users, make_rules())


async def next_page(front, token=""):
    request = pb.ScopesRequest(continuationToken=pb.ContinuationToken(token=token))
    metadata = [("authorization", basic("ann"))]
    return await front.answer("listScopes", pb.ScopesRequest, request.SerializeToString(), metadata)


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3), max_size=8),
    st.sets(st.sampled_from("abcdef")),
)
async def test_a_client_that_stops_at_an_empty_page_has_seen_what_it_may_and_nothing_else(pages, readable):
    scopes = Scopes(pages)
    front, token, seen = front_of(scopes, readable), "", []
    while True:
        answer = await next_page(front, token)
        assert isinstance(answer, Answer)
        if not answer.reply.scopes:
            break
        seen.append(list(answer.reply.scopes))
        token = answer.reply.continuationToken.token
        assert token
    kept = [[name for name in page if name in readable] for page in pages]
    assert seen == [page for page in kept if page]
    assert scopes.asked == len(pages) + 1


def in_virtual_time(scenario):
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scenario())


def test_a_listing_without_end_ends_at_the_time_limit_of_calls():
    async def scenario():
        scopes = Endless([], page_s=10.0)
        answer = await next_page(front_of(scopes, []))
        assert isinstance(answer, Refusal)
        assert answer.code is grpc.StatusCode.UNAVAILABLE
        assert scopes.asked == pytest.approx(CALL_TIMEOUT_S / 10, abs=1)

    in_virtual_time(scenario)


def test_no_page_is_looked_for_once_its_caller_has_left():
    async def scenario():
        scopes = Endless([], page_s=1.0)
        front = front_of(scopes, [])
        call = asyncio.get_running_loop().create_task(next_page(front))
        await asyncio.sleep(2.5)
        call.cancel()
        await asyncio.sleep(10)
        assert scopes.asked == 3
        await front.stop()

    in_virtual_time(scenario)
