"""One table over a server that answers as it is told: what a caller hears of lost and refused requests."""

import asyncio
from types import SimpleNamespace

import pytest

from headrace.client import Insert, KeyValueTable, KeyValueTableConfiguration, Put, Remove, TableVersion
from headrace.client.open_writers import OpenWriters
from headrace.client.owner_calls import OwnerCalls
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.client.segment_map import SegmentRange
from headrace.client.tables.table_calls import CHANGES_IN_FLIGHT_MAX
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    InvalidArgumentError,
    LostReplyError,
    LostWrites,
    NoSuchKeyValueTableError,
    ProtocolError,
    TableKeyMissingError,
    TableKeyVersionError,
    TokenExpiredError,
    UnreachableError,
)
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.tables import NOT_EXISTS, TableEntry
from headrace.wire import commands as c

NAME = "s/t_kvtable/0.#epoch.0"
LOST = ConnectionLostError("the connection broke")
UNREACHED = UnreachableError("no connection")
BAD = c.TableKeyBadVersion(0, NAME, "")
MISSING = c.TableKeyDoesNotExist(0, NAME, "")
GONE = c.NoSuchSegment(0, NAME)
EXPIRED = c.AuthTokenCheckFailed(0, "", 1)
KEY, SECOND = b"aaaa", TableVersion(0, 5)


class Server:
    """Answers, and errors, in the order they are given; remembers what was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.tokens_asked = []
        self.in_flight = 0
        self.in_flight_max = 0
        self.gate = None

    async def call(self, endpoint, request, *, address):
        self.asked.append(request)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            if self.gate is not None:
                await self.gate.wait()
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        finally:
            self.in_flight -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def token(self, scope, stream, access):
        self.tokens_asked.append((scope, stream))
        return f"token {len(self.tokens_asked)}"

    async def endpoint(self, scope, stream, segment_id):
        assert (scope, stream) == ("s", "t_kvtable")
        return "host"


def table(server, *, secondary=0, partitions=1, listed=None, open_writers=None, give_up_s=120.0):
    services = SimpleNamespace(
        uri="tcp://fake",
        pool=server,
        tokens=SimpleNamespace(
            token=server.token, refusal=lambda *_: TokenExpiredError("the token has expired")
        ),
        segments=SimpleNamespace(endpoint=server.endpoint, forget_endpoint=lambda *_: None),
        entropy=SimpleNamespace(random=lambda: 0.0),
        open_writers=open_writers or OpenWriters(1.0),
    )
    calls = OwnerCalls(services, ReconnectPolicy(initial_s=0.001, delay_max_s=0.001, give_up_s=give_up_s))
    ranges = split_evenly(FULL_RANGE, partitions if listed is None else listed)
    configuration = KeyValueTableConfiguration(
        primary_key_bytes=4, secondary_key_bytes=secondary, partitions=partitions
    )
    return KeyValueTable(
        "s", "t", configuration, [SegmentRange(n, each) for n, each in enumerate(ranges)], calls
    )


def updated(*versions):
    return c.TableEntriesUpdated(0, list(versions))


async def test_a_put_returns_its_version_and_asks_with_the_token_of_the_table():
    server = Server(updated(40))
    assert await table(server).put(KEY, b"v") == TableVersion(0, 40)
    (request,) = server.asked
    assert (request.segment, request.delegation_token) == (NAME, "token 1")
    assert server.tokens_asked == [("s", "t")]


@pytest.mark.parametrize("lost", [UNREACHED, EXPIRED, c.WrongHost(0, NAME, "")])
async def test_a_refusal_is_certain_as_long_as_no_request_was_lost(lost):
    with pytest.raises(TableKeyVersionError, match="nothing changed"):
        await table(Server(lost, BAD)).put(KEY, b"v", SECOND)
    with pytest.raises(TableKeyMissingError, match="nothing changed"):
        await table(Server(lost, MISSING)).remove(KEY, SECOND)


@pytest.mark.parametrize("refused", [BAD, MISSING, GONE])
@pytest.mark.parametrize("change", [Put(KEY, b"v", SECOND), Insert(KEY, b"v"), Remove(KEY, SECOND)])
async def test_a_refusal_after_a_lost_request_leaves_the_outcome_unknown(change, refused):
    with pytest.raises(LostReplyError, match="unknown whether it happened"):
        await table(Server(LOST, refused)).apply([change])


async def test_a_conditional_change_that_is_carried_out_after_a_lost_request_is_certain():
    assert await table(Server(LOST, updated(9))).put(KEY, b"v", SECOND) == TableVersion(0, 9)


async def test_unconditional_changes_are_repeated():
    assert await table(Server(LOST, LOST, updated(9))).put(KEY, b"v") == TableVersion(0, 9)
    await table(Server(LOST, c.TableKeysRemoved(0, NAME))).remove(KEY)


async def test_who_gives_up_says_whether_something_may_have_happened():
    with pytest.raises(ConnectionLostError):
        await table(Server(LOST, UNREACHED), give_up_s=0.01).put(KEY, b"v")
    with pytest.raises(UnreachableError):
        await table(Server(UNREACHED), give_up_s=0.01).put(KEY, b"v")


async def test_the_end_of_a_client_waits_for_a_change_in_flight_and_for_no_question():
    server = Server(c.TableEntriesUpdated(0, [6]))
    server.gate = asyncio.Event()
    ending = OpenWriters(60.0)
    it = table(server, open_writers=ending)
    putting, asking = asyncio.ensure_future(it.put(KEY, b"v")), asyncio.ensure_future(it.get(KEY))
    closing = asyncio.ensure_future(ending.close())
    await asyncio.sleep(0.01)
    assert not closing.done()
    server.gate.set()
    assert await putting == TableVersion(0, 6)
    await closing
    assert ending.take_loss() is None
    asking.cancel()


async def test_a_change_that_the_end_of_a_client_does_not_wait_for_is_counted():
    server = Server(c.TableEntriesUpdated(0, [6]))
    server.gate = asyncio.Event()
    ending = OpenWriters(0.01)
    it = table(server, open_writers=ending)
    putting = [asyncio.ensure_future(it.put(KEY, b"v")) for _ in range(3)]
    await asyncio.sleep(0)
    await ending.close()
    loss = ending.take_loss()
    assert loss is not None
    assert loss.lost == (LostWrites("s/t", 3, "changes"),)
    server.gate.set()
    await asyncio.gather(*putting)


async def test_a_closed_client_is_not_asked_again():
    server = Server(ClosedError("the client is closed"))
    with pytest.raises(ClosedError):
        await table(server).put(KEY, b"v")
    assert len(server.asked) == 1
    with pytest.raises(ConnectionLostError):
        await table(Server(LOST, ClosedError("the client is closed"))).put(KEY, b"v")


async def test_a_deleted_table_says_so():
    with pytest.raises(NoSuchKeyValueTableError):
        await table(Server(GONE)).get(KEY)
    with pytest.raises(NoSuchKeyValueTableError):
        await table(Server(GONE)).put(KEY, b"")


async def test_a_version_of_another_partition_fits_no_key_here():
    server = Server(updated(9))
    with pytest.raises(TableKeyVersionError):
        await table(server).put(KEY, b"v", TableVersion(1, 5))
    with pytest.raises(TableKeyVersionError):
        await table(server).remove(KEY, TableVersion(1, 5))
    assert server.asked == []


@pytest.mark.parametrize("key", [b"", b"abc", b"abcde", "abc", None, 7, (b"abcd", b"x")])
async def test_nothing_is_sent_for_what_is_no_key(key):
    server = Server(updated(9))
    opened = table(server)
    for call in (
        opened.get(key),
        opened.get_all([KEY, key]),
        opened.exists(key),
        opened.put(key, b""),
        opened.insert(key, b""),
        opened.remove(key),
        opened.apply([Remove(KEY), Remove(key)]),
        opened.put_all([(key, b"")]),
        opened.remove_all([key]),
    ):
        with pytest.raises(InvalidArgumentError):
            await call
    assert server.asked == []


async def test_answers_that_do_not_fit_are_refused():
    with pytest.raises(ProtocolError):
        await table(Server(updated(1, 2))).put(KEY, b"")
    with pytest.raises(ProtocolError):
        await table(Server(c.TableRead(0, NAME, []))).get(KEY)
    with pytest.raises(ProtocolError):
        await table(Server(c.TableKeysRemoved(0, NAME))).get(KEY)
    with pytest.raises(ProtocolError):
        table(Server(), partitions=2, listed=3)


async def test_what_does_not_exist_is_none_and_an_empty_value_is_not():
    reply = c.TableRead(0, NAME, [TableEntry(KEY, b"", NOT_EXISTS), TableEntry(b"bbbb", b"", 3)])
    missing, empty = await table(Server(reply)).get_all([KEY, b"bbbb"])
    assert missing is None
    assert empty == (b"bbbb", b"", TableVersion(0, 3))
    nothing = c.TableRead(0, NAME, [TableEntry(KEY, b"", NOT_EXISTS)])
    assert await table(Server(nothing)).get(KEY, b"other") == b"other"


async def test_changes_in_flight_are_bounded_and_go_on_after_one_is_cancelled():
    server = Server(updated(9))
    server.gate = asyncio.Event()
    opened = table(server)
    puts = [asyncio.ensure_future(opened.put(b"%04d" % n, b"v")) for n in range(3 * CHANGES_IN_FLIGHT_MAX)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert server.in_flight == CHANGES_IN_FLIGHT_MAX
    for cancelled in (puts[0], puts[CHANGES_IN_FLIGHT_MAX + 1], puts[-1]):
        cancelled.cancel()
    server.gate.set()
    done = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(each == TableVersion(0, 9) for each in done) == len(puts) - 3
    assert server.in_flight_max == CHANGES_IN_FLIGHT_MAX


async def test_the_first_failure_of_many_puts_ends_the_others():
    server = Server(updated(1), updated(2), c.ErrorMessage(0, NAME, "no", 0))
    with pytest.raises(InvalidArgumentError):
        await table(server).put_all((b"%04d" % n, b"v") for n in range(1000))
    assert len(server.asked) < 200
    assert server.in_flight == 0
