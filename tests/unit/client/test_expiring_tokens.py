"""Readers, writers and questions that outlive their tokens go on with fresh ones."""

import base64
import json
import time

import pytest

from headrace.client import ClientConfig, Credentials, ReaderConfig, WriterConfig, connect
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.errors import AccessDeniedError, TokenExpiredError, UnauthenticatedError

BASIC = "Basic bWU6aHVzaA=="
ME = Credentials.basic("me", "hush")


class Issuer:
    """Makes numbered tokens and refuses those before a number."""

    def __init__(self, system):
        self.made = 0
        self.oldest = 0
        self.seen = set()
        self.expires_in_s = 600.0
        self.error_code = 1
        system.controller.make_token = self.make
        system.controller.allows = lambda authorization: authorization == BASIC
        system.store.judge = self.judge

    def make(self, request):
        self.made += 1
        claims = {"exp": int(time.time() + self.expires_in_s), "n": self.made, "a": request.accessOperation}
        middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        return f"e30.{middle}.secret"

    def judge(self, token):
        if not token:
            return 0
        middle = token.split(".")[1]
        number = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))["n"]
        self.seen.add(number)
        return self.error_code if number < self.oldest else None

    def expire(self):
        """All tokens that were made have expired."""
        self.oldest = self.made + 1


@pytest.fixture
def issuer(system):
    system.controller.create("s", "t")
    return Issuer(system)


@pytest.fixture
async def client(system):
    async with connect(system.uri, ClientConfig(credentials=ME)) as connected:
        yield connected


@pytest.mark.parametrize("expires_in_s", [-60, 600], ids=["clock-ahead", "clock-behind"])
async def test_a_reader_goes_on_when_its_token_has_expired(system, client, issuer, expires_in_s):
    issuer.expires_in_s = expires_in_s
    async with client.event_writer("s", "t") as writer, client.event_reader("s", "t") as reader:
        events = aiter(reader)
        for number in range(20):
            if number % 5 == 0:
                issuer.expire()
            await writer.write(b"%d" % number)
            assert bytes((await anext(events)).data) == b"%d" % number
    assert issuer.made <= 2 + 2 * 4  # one for each of both when opened, and when it has expired


@pytest.mark.slow
@pytest.mark.parametrize("expires_in_s", [-60, 600], ids=["clock-ahead", "clock-behind"])
async def test_a_writer_loses_and_doubles_nothing_when_its_connection_ends_with_its_token(
    system, client, issuer, expires_in_s
):
    issuer.expires_in_s = expires_in_s
    async with client.event_writer("s", "t") as writer:
        acks = []
        for number in range(200):
            acks.append(writer.write(b"%03d" % number))
            if number % 50 == 25:
                await acks[-20]
                issuer.expire()
                system.store.drop_connections()
        for each in acks:
            await each
    async with client.event_reader("s", "t", end="tail") as reader:
        assert [bytes(each.data) async for each in reader] == [b"%03d" % n for n in range(200)]
    assert issuer.made <= 2 + 4


async def test_questions_about_segments_are_asked_again_with_a_fresh_token(client, issuer):
    assert (await client.segment_info("s", "t", 0)).length == 0
    issuer.expire()
    assert (await client.segment_info("s", "t", 0)).length == 0
    assert issuer.made == 2


@pytest.mark.parametrize("error", [TokenExpiredError, AccessDeniedError])
async def test_a_token_that_is_always_refused_is_an_error_after_a_bounded_number_of_fetches(
    system, issuer, error
):
    issuer.oldest = 1 << 62
    issuer.error_code = 1 if error is TokenExpiredError else 0
    brief = ReconnectPolicy(initial_s=0.01, give_up_s=0.2)
    config = ClientConfig(
        credentials=ME, reader=ReaderConfig(reconnect=brief), writer=WriterConfig(reconnect=brief)
    )
    async with connect(system.uri, config) as client:
        with pytest.raises(error):
            await client.segment_info("s", "t", 0)
        async with client.event_reader("s", "t") as reader:
            with pytest.raises(error):
                await reader.next_batch()
    assert issuer.made <= 20


async def test_a_client_without_credentials_learns_at_its_first_call_what_to_set(system, issuer):
    async with connect(system.uri, ClientConfig(credentials=None)) as client:
        with pytest.raises(UnauthenticatedError, match="HEADRACE_USER and HEADRACE_PASSWORD"):
            await client.create_scope("scope")
    assert system.controller.headers == {None: 1}


async def test_wrong_credentials_are_refused_without_being_shown(system, issuer):
    wrong = Credentials.basic("me", "guess-the-secret")
    async with connect(system.uri, ClientConfig(credentials=wrong)) as client:
        with pytest.raises(UnauthenticatedError) as caught:
            await client.create_scope("scope")
        shown = f"{caught.value!r} {client.config!r} {client!r} {wrong!r}"
    assert "guess-the-secret" not in shown
    assert wrong.token not in shown
    assert "HEADRACE_USER" not in shown  # it has credentials; others are needed


async def test_controllers_are_discovered_with_credentials(system, issuer):
    uri = system.uri.replace("tcp://", "pravega://")
    async with connect(uri, ClientConfig(credentials=ME)) as client:
        assert await client.create_scope("scope")
    assert set(system.controller.headers) == {BASIC}
