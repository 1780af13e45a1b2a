"""Tokens are fetched seldom, whatever the clocks say, and never in vain by several at once."""

import asyncio
import base64
import json

import pytest

from headrace.client.control.tokens import TOKEN_EXPIRED, Access, Tokens
from headrace.errors import AccessDeniedError, PermissionDeniedError, TokenExpiredError, UnauthenticatedError
from headrace.rpc.generated import controller_pb2 as pb
from headrace.testing.clock import ManualClock

NOW_S = 1_700_000_000
INVALID = 0
LIFETIME_S = 60


def jwt(expires_s, serial):
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_s, "n": serial}).encode())
    return f"e30.{claims.decode().rstrip('=')}.sig"


class Controller:
    """Makes tokens; its clock may differ from that of the client."""

    def __init__(self, clock, ahead_s=0):
        self.clock = clock
        self.ahead_s = ahead_s
        self.asked = []
        self.gate = None
        self.error = None
        self.empty = False

    async def call(self, method, request):
        assert method == "getDelegationToken"
        self.asked.append((request.scope, request.stream, request.accessOperation))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        expires_s = self.clock.now_ms() // 1000 + self.ahead_s + LIFETIME_S
        return pb.DelegationToken(delegationToken="" if self.empty else jwt(expires_s, len(self.asked)))


@pytest.fixture
def clock():
    return ManualClock(NOW_S * 1000)


@pytest.fixture
def controller(clock):
    return Controller(clock)


@pytest.fixture
def tokens(controller, clock):
    return Tokens(controller, clock, enabled=True)


async def test_a_token_is_fetched_once_for_each_stream_and_access(tokens, controller):
    first = await tokens.token("s", "t", Access.READ)
    assert await tokens.token("s", "t", Access.READ) == first
    await tokens.token("s", "t", Access.WRITE)
    await tokens.token("s", "u", Access.READ)
    assert controller.asked == [("s", "t", 3), ("s", "t", 4), ("s", "u", 3)]


async def test_a_token_is_renewed_before_it_expires(tokens, controller, clock):
    first = await tokens.token("s", "t", Access.READ)
    clock.advance((LIFETIME_S - 6) * 1000)
    assert await tokens.token("s", "t", Access.READ) == first
    clock.advance(1000)
    assert await tokens.token("s", "t", Access.READ) != first
    assert len(controller.asked) == 2


@pytest.mark.parametrize("ahead_s", [-120, -60, 60, 120])
async def test_clocks_that_differ_do_not_make_a_fetch_of_each_request(clock, ahead_s):
    controller = Controller(clock, ahead_s)
    tokens = Tokens(controller, clock, enabled=True)
    for _ in range(6000):
        await tokens.token("s", "t", Access.READ)
        clock.advance(10)
    assert len(controller.asked) <= LIFETIME_S / 5


async def test_a_clock_that_goes_back_does_not_keep_an_expired_token(tokens, controller, clock):
    controller.ahead_s = -3600
    await tokens.token("s", "t", Access.READ)
    clock.advance(-60_000)
    await tokens.token("s", "t", Access.READ)
    assert len(controller.asked) <= 2


async def test_those_who_ask_at_once_share_one_call(tokens, controller):
    controller.gate = asyncio.Event()
    asking = [asyncio.create_task(tokens.token("s", "t", Access.READ)) for _ in range(5)]
    await asyncio.sleep(0)
    controller.gate.set()
    assert len(set(await asyncio.gather(*asking))) == 1
    assert len(controller.asked) == 1


async def test_a_refusal_reaches_all_who_ask_and_is_not_remembered(tokens, controller):
    controller.gate, controller.error = asyncio.Event(), PermissionDeniedError("no")
    asking = [asyncio.create_task(tokens.token("s", "t", Access.WRITE)) for _ in range(3)]
    await asyncio.sleep(0)
    controller.gate.set()
    for each in asking:
        with pytest.raises(PermissionDeniedError):
            await each
    controller.error = None
    assert await tokens.token("s", "t", Access.WRITE)


async def test_who_gives_up_asking_leaves_it_to_the_next(tokens, controller):
    controller.gate = asyncio.Event()
    first, second = (asyncio.create_task(tokens.token("s", "t", Access.READ)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    controller.gate.set()
    assert await second
    assert len(controller.asked) == 2


async def test_that_no_token_is_needed_is_remembered(tokens, controller, clock):
    controller.empty = True
    for _ in range(3):
        assert await tokens.token("s", "t", Access.READ) == ""
        clock.advance(3_600_000)
    assert len(controller.asked) == 1


async def test_a_client_without_credentials_asks_for_no_token(controller, clock):
    tokens = Tokens(controller, clock, enabled=False)
    assert await tokens.token("s", "t", Access.READ) == ""
    assert controller.asked == []
    refusal = tokens.refusal("s", "t", "", 0, "s/t/0")
    assert isinstance(refusal, UnauthenticatedError)
    assert "HEADRACE_USER" in str(refusal)


async def test_a_refused_token_is_fetched_anew_but_once(tokens, controller):
    old = await tokens.token("s", "t", Access.READ)
    assert isinstance(tokens.refusal("s", "t", old, TOKEN_EXPIRED, "s/t/0"), TokenExpiredError)
    new = await tokens.token("s", "t", Access.READ)
    refusal = tokens.refusal("s", "t", old, TOKEN_EXPIRED, "s/t/1")  # of another segment, a bit later
    assert await tokens.token("s", "t", Access.READ) == new != old
    assert len(controller.asked) == 2
    assert old not in str(refusal)


async def test_a_token_that_is_no_good_is_final_if_a_fresh_one_is_no_better(tokens):
    first = await tokens.token("s", "t", Access.READ)
    for segment in ("s/t/0", "s/t/1"):  # both were opened with it
        assert isinstance(tokens.refusal("s", "t", first, INVALID, segment), TokenExpiredError)
    second = await tokens.token("s", "t", Access.READ)
    assert second != first
    assert isinstance(tokens.refusal("s", "t", first, INVALID, "s/t/2"), TokenExpiredError)
    for _ in range(3):
        refusal = tokens.refusal("s", "t", await tokens.token("s", "t", Access.READ), INVALID, "s/t/0")
        assert isinstance(refusal, AccessDeniedError)
        assert not isinstance(refusal, TokenExpiredError)


async def test_keys_may_be_exchanged_more_than_once(tokens, clock):
    for _ in range(3):
        token = await tokens.token("s", "t", Access.READ)
        assert isinstance(tokens.refusal("s", "t", token, INVALID, "s/t/0"), TokenExpiredError)
        await tokens.token("s", "t", Access.READ)
        clock.advance(LIFETIME_S * 1000)
