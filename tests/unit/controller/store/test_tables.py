import asyncio
import gc
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.store.contract import ABSENT, Row, Write
from headrace.controller.store.tables import LINGER_CALLERS_MIN, TableStore, _Update, linger_s, take_joined
from headrace.errors import (
    AnswerTooLargeError,
    ConnectionLostError,
    ContainerOfflineError,
    InvalidArgumentError,
    MetadataConflictError,
    ThrottledError,
)
from headrace.limits import TABLE_VALUE_BYTES_MAX
from headrace.runtime.entropy import SeededEntropy
from tests.unit.controller.segment_stores import FakeSegmentStores


@pytest.fixture
async def segments():
    return FakeSegmentStores()


@pytest.fixture
async def store(segments):
    made = TableStore(segments, SeededEntropy(1))
    await made.create_table("t")
    yield made
    await made.close()


async def test_updates_that_wait_for_each_other_are_sent_together(store, segments):
    await asyncio.gather(*(store.update("t", [Write(b"%d" % n, b"v", ABSENT)]) for n in range(500)))
    assert segments.calls["table_update"] <= 3
    assert store.statistics().updates == 500
    assert store.statistics().tables_active == 0


async def test_updates_of_many_callers_wait_for_each_other_and_those_of_a_few_do_not(store, segments):
    async def update_in_turn(first):
        for number in range(first, first + 5):
            await store.update("t", [Write(b"%d" % number, b"v", ABSENT)])

    store.callers = lambda: LINGER_CALLERS_MIN - 1
    await update_in_turn(0)
    assert segments.calls["table_update"] == 5
    store.callers = lambda: LINGER_CALLERS_MIN
    late = asyncio.ensure_future(store.update("t", [Write(b"late", b"v", ABSENT)]))
    for _ in range(3):
        await asyncio.sleep(0)
    await asyncio.gather(late, store.update("t", [Write(b"later", b"v", ABSENT)]))
    assert segments.calls["table_update"] == 6


@given(st.integers(0, 100_000))
def test_no_operation_waits_long_for_more_updates(callers):
    assert 0 <= linger_s(callers) <= 0.003
    assert linger_s(callers) <= linger_s(callers + 1)


async def test_rows_that_do_not_fit_one_reply_are_read_in_several(store, segments):
    get = segments.table_get

    async def get_at_most_three(segment, keys):
        if len(keys) > 3:
            raise AnswerTooLargeError(1000 * len(keys), 3000)
        return await get(segment, keys)

    segments.table_get = get_at_most_three
    keys = [b"%d" % n for n in range(11)]
    await store.update("t", [Write(key, b"v" + key) for key in keys])
    assert [row.value for row in await store.get_many("t", keys)] == [b"v" + key for key in keys]


async def test_updates_of_different_tables_do_not_wait_for_each_other(store, segments):
    await store.create_table("u")
    held = asyncio.Event()

    async def hold(call, segment):
        if call == "table_update" and segment.endswith("/t"):
            await held.wait()

    segments.fault = hold
    slow = asyncio.ensure_future(store.update("t", [Write(b"k", b"v")]))
    await store.update("u", [Write(b"k", b"v")])
    assert not slow.done()
    held.set()
    await slow


async def test_a_stale_update_among_many_fails_alone(store, segments):
    await store.update("t", [Write(b"k", b"v", ABSENT)])
    outcomes = await asyncio.gather(
        *(store.update("t", [Write(b"%d" % n, b"v", ABSENT)]) for n in range(5)),
        store.update("t", [Write(b"k", b"w", ABSENT)]),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [list] * 5 + [MetadataConflictError]
    assert store.statistics().split == 1


async def test_what_did_not_happen_is_sent_again_and_what_may_have_is_not(store, segments, monkeypatch):
    refusals = 2

    async def refuse(call, segment):
        nonlocal refusals
        if call == "table_update" and refusals:
            refusals -= 1
            raise ContainerOfflineError("moving")

    segments.fault = refuse
    await store.update("t", [Write(b"k", b"v", ABSENT)])

    async def lose(call, segment):
        if call == "table_update":
            raise ConnectionLostError("gone")

    segments.fault, segments.after = None, lose
    with pytest.raises(ConnectionLostError):
        await store.update("t", [Write(b"k", b"w")])
    segments.after = None
    assert (await store.get("t", b"k") or Row(b"", 0)).value == b"w"
    assert segments.calls["table_update"] == 4


async def test_a_caller_that_leaves_does_not_undo_its_update(store, segments):
    leaving = asyncio.ensure_future(store.update("t", [Write(b"k", b"v")]))
    await asyncio.sleep(0)
    leaving.cancel()
    await store.update("t", [Write(b"other", b"v")])
    assert (await store.get("t", b"k") or Row(b"", 0)).value == b"v"


@pytest.mark.slow
async def test_the_failure_of_an_update_whose_caller_has_left_is_no_news(store):
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    await store.update("t", [Write(b"key", b"v", ABSENT)])
    leaving = asyncio.ensure_future(store.update("t", [Write(b"key", b"v", ABSENT)]))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await store.update("t", [Write(b"other", b"v", ABSENT)])
    del leaving
    gc.collect()
    assert told == []


async def test_closing_ends_those_who_wait(segments):
    store = TableStore(segments, SeededEntropy(1))
    await store.create_table("t")

    async def hold(call, segment):
        await asyncio.Event().wait()

    segments.fault = hold
    waiting = [asyncio.ensure_future(store.update("t", [Write(b"%d" % n, b"v")])) for n in range(3)]
    await asyncio.sleep(0.01)
    await store.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)


async def test_more_updates_than_the_bound_are_refused(store, segments, monkeypatch):
    monkeypatch.setattr("headrace.controller.store.tables.WAITING_UPDATES_MAX", 10)
    outcomes = await asyncio.gather(
        *(store.update("t", [Write(b"%d" % n, b"v")]) for n in range(30)), return_exceptions=True
    )
    assert any(isinstance(outcome, ThrottledError) for outcome in outcomes)
    await store.update("t", [Write(b"later", b"v")])


def waiting(*updates):
    loop = asyncio.new_event_loop()
    try:
        return deque(_Update(writes, loop.create_future()) for writes in updates)
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("updates", "joined"),
    [
        ([[Write(b"a", b"1")], [Write(b"b", b"1")], [Write(b"c", b"1")]], 3),
        ([[Write(b"a", b"1")], [Write(b"a", b"2")]], 1),
        ([[Write(b"a", b"1")], [Write(b"b", None)]], 1),
        ([[Write(b"a", None)], [Write(b"b", None)]], 2),
        ([[Write(b"a", None), Write(b"b", b"1")], [Write(b"c", b"1")]], 1),
        ([[Write(b"a", b"1")], [Write(b"c", None), Write(b"b", b"1")]], 1),
        ([[Write(b"a", b"x" * (3 << 20))], [Write(b"b", b"x" * (3 << 20))]], 1),
        ([[Write(b"%d" % n, b"1")] for n in range(1500)], 1000),
    ],
)
def test_what_one_operation_can_carry_is_joined_in_order(updates, joined):
    queue = waiting(*updates)
    assert [update.writes for update in take_joined(queue)] == updates[:joined]
    assert [update.writes for update in queue] == updates[joined:]


async def test_an_update_that_no_table_takes_fails_alone(store, segments):
    wrong = Write(b"wrong", b"x" * (TABLE_VALUE_BYTES_MAX + 1), ABSENT)
    outcomes = await asyncio.gather(
        *(store.update("t", [Write(b"%d" % n, b"v", ABSENT)]) for n in range(3)),
        store.update("t", [wrong]),
        *(store.update("t", [Write(b"%d" % n, b"v", ABSENT)]) for n in range(3, 6)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [list] * 3 + [InvalidArgumentError] + [list] * 3
    assert await store.get("t", b"wrong") is None
    assert await store.get("t", b"5") is not None
