"""Updates of tables that begin without a task: their order, their answers, and what does need a task."""

import asyncio

import pytest

from headrace.errors import AccessDeniedError, InvalidArgumentError, TableKeyVersionError, WalWriteError
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.security.permission import Permission
from headrace.segmentstore.ingress.budget import Lane
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.wire import commands as c
from tests.unit.segmentstore.ingress.world import FakeHome, Peer


def put(number, key=b"k", version=NO_VERSION, value=b""):
    return c.UpdateTableEntries(number, "t", "", [TableEntry(key, value, version)])


def begun_of(store):
    return [entries[0].key for _, entries, _, _ in store.begun]


@pytest.fixture
async def begun(store):
    await store.create_table("t")
    store.begun = []
    return store.begun


async def test_all_that_arrives_in_one_read_begins_before_any_is_answered(peer, store, begun):
    peer.feed(*[put(number, b"%d" % number) for number in range(50)])
    assert begun_of(store) == [b"%d" % number for number in range(50)]
    assert await peer.replies() == []
    for number, (*_, on_updated) in enumerate(begun):
        on_updated([number], None)
    assert await peer.replies() == [c.TableEntriesUpdated(number, [number]) for number in range(50)]


async def test_each_gets_its_own_answer(peer, begun):
    peer.feed(put(1), put(2, b"k", NOT_EXISTS), put(3))
    answers = ([0], None), (None, TableKeyVersionError("t")), ([18], None)
    for (*_, on_updated), answer in zip(begun, answers, strict=True):
        on_updated(*answer)
    assert await peer.replies() == [
        c.TableEntriesUpdated(1, [0]),
        c.TableKeyBadVersion(2, "t", ""),
        c.TableEntriesUpdated(3, [18]),
    ]


async def test_updates_that_were_not_done_are_judged_again_in_order_and_not_overtaken(peer, store, begun):
    peer.feed(put(1, b"k", NOT_EXISTS, b"1"), put(2, b"k", NO_VERSION, b"2"))
    first, second = begun
    begun.clear()
    store.gate = asyncio.Event()
    first[-1](None, None)
    second[-1](None, None)
    peer.feed(put(3, b"k", NO_VERSION, b"3"))
    await peer.replies()
    assert begun == [], "the third would be in front of those that run again"
    store.gate.set()
    replies = await peer.replies()
    assert [reply.request_id for reply in replies] == [1, 2, 3]
    assert store.tables["t"]["entries"][b"k"].value == b"3"
    peer.feed(put(4))
    assert len(begun) == 1, "nothing runs as a task any more"


async def test_an_update_does_not_overtake_a_removal_of_its_connection(peer, store, begun):
    store.gate = asyncio.Event()
    peer.feed(c.RemoveTableKeys(1, "t", "", [TableKey(b"k")]), put(2, b"k", NO_VERSION, b"2"))
    await peer.replies()
    assert begun == []
    store.gate.set()
    assert [reply.request_id for reply in await peer.replies()] == [1, 2]
    assert store.tables["t"]["entries"][b"k"].value == b"2"


async def test_an_update_of_another_key_need_not_wait_for_one_that_runs_as_a_task(peer, store, begun):
    store.gate = asyncio.Event()
    peer.feed(c.RemoveTableKeys(1, "t", "", [TableKey(b"k")]), put(2, b"other"), put(3, b"k"))
    await peer.replies()
    assert begun_of(store) == [b"other"]
    store.gate.set()
    assert [reply.request_id for reply in await peer.replies()] == [1, 3]


async def test_another_connection_need_not_wait(home, store, begun):
    store.gate = asyncio.Event()
    slow, quick = Peer(home), Peer(home)
    slow.feed(c.RemoveTableKeys(1, "t", "", [TableKey(b"k")]))
    await slow.replies()
    quick.feed(put(1))
    assert len(begun) == 1
    store.gate.set()
    assert len(await slow.replies()) == 1


async def test_a_refusal_at_once_and_an_unknown_outcome_are_answered_as_those_of_tasks(peer, store, begun):
    def refuse(*_):
        raise InvalidArgumentError("the key is too long")

    store.begin_table_update, begin = refuse, store.begin_table_update
    (reply,) = await peer.ask(put(1))
    assert reply == c.ErrorMessage(1, "t", "the key is too long", 0)
    store.begin_table_update = begin
    peer.feed(put(2))
    ((*_, on_updated),) = begun
    on_updated(None, WalWriteError("the log failed"))
    await peer.replies()
    assert peer.closed, "the client connects again and finds out"


async def test_a_connection_lost_meanwhile_costs_nothing(home, begun):
    peer = Peer(home)
    peer.feed(put(1), put(2))
    peer.connection.connection_lost(None)
    for *_, on_updated in begun:
        on_updated([0], None)
    await asyncio.sleep(0)
    assert home.budget.used(*range(4)) == 0


async def test_a_closing_connection_waits_for_what_it_has_begun(peer, begun):
    peer.feed(put(1))
    peer.connection.close_after_replies("test")
    await asyncio.sleep(0)
    assert not peer.closed
    ((*_, on_updated),) = begun
    on_updated([0], None)
    assert await peer.replies() == [c.TableEntriesUpdated(1, [0])]
    assert peer.closed


async def test_no_more_run_than_requests_may(store, begun):
    peer = Peer(FakeHome(store, IngressConfig(requests_max=8)))
    peer.feed(*[put(number) for number in range(20)])
    assert len(begun) == 8
    for number in range(20):
        begun[number][-1]([number], None)
        await peer.replies(4)
    assert len(begun) == 20


async def test_the_token_is_checked_before_an_update_begins_or_a_key_is_looked_up(store, begun):
    asked = []

    def refuse(token, segment, permission):
        asked.append((token, segment, permission))
        raise AccessDeniedError("no")

    store.table_get_nowait = lambda *_: pytest.fail("it was looked up")
    peer = Peer(FakeHome(store, authorise=refuse))
    peer.feed(put(1), c.ReadTable(2, "t", "token", [TableKey(b"k")]))
    assert [reply.request_id for reply in await peer.replies()] == [1, 2]
    assert begun == []
    assert [permission for *_, permission in asked] == [Permission.READ_UPDATE, Permission.READ]


async def test_keys_in_memory_are_answered_without_a_task(peer, store, begun):
    store.table_get_nowait = lambda _, keys, __: [TableEntry(keys[0], b"v", 7), None]
    store.calls.clear()
    peer.feed(*[c.ReadTable(number, "t", "", [TableKey(b"k"), TableKey(b"x")]) for number in range(20)])
    assert await peer.replies(2) == [
        c.TableRead(number, "t", [TableEntry(b"k", b"v", 7), TableEntry(b"x", b"", NOT_EXISTS)])
        for number in range(20)
    ]
    assert store.calls == []


async def test_keys_in_memory_are_answered_although_no_request_gets_a_lease(home, store, begun):
    store.table_get_nowait = lambda *_: [None]
    holder, other = Peer(home), Peer(home)
    lease = home.budget.begin(
        Lane.SMALL_REQUESTS, holder.connection, home.config.connection_bytes_max, lambda: None
    )
    assert await other.ask(c.ReadTable(1, "t", "", [TableKey(b"k")])) == [
        c.TableRead(1, "t", [TableEntry(b"k", b"", NOT_EXISTS)])
    ]
    store.table_get_nowait = lambda *_: None
    other.feed(c.ReadTable(2, "t", "", [TableKey(b"k")]))
    assert await other.replies() == []
    home.budget.end(lease)
    assert [reply.request_id for reply in await other.replies()] == [2]
    assert home.budget.used(*Lane) == 0


async def test_a_client_that_takes_no_answers_is_not_answered_for_ever(home, store, begun):
    store.table_get_nowait = lambda _, keys, __: [TableEntry(keys[0], bytes(30_000), 7)]
    peer = Peer(home)
    peer.transport.stuck = True
    for number in range(200):
        peer.feed(c.ReadTable(number, "t", "", [TableKey(b"k")]))
        await asyncio.sleep(0)
    assert "outbox" in peer.connection.statistics()["blocked"]
    assert home.budget.unsent_bytes < 2 * home.config.write_buffer_bytes_max
