"""States that several clients share, over connections that break."""

import asyncio
from contextlib import suppress

import pytest

from headrace.client import ClientConfig, connect
from headrace.client.revisions.entries import encode_updates
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    DataCorruptionError,
    EventTooLargeError,
    InvalidArgumentError,
    NotDurableError,
    PreconditionError,
)
from headrace.runtime.entropy import SeededEntropy


def count(state, update):
    return {**state, update: state.get(update, 0) + 1}


def replace(_, update):
    return update


@pytest.fixture
async def shared(system, client):
    """Two of one state, each of its own client."""
    system.controller.create("s", "t")
    async with (
        connect(system.uri) as other,
        client.synchronizer("s/t", initial={}, apply=count) as first,
        other.synchronizer("s/t", initial={}, apply=count) as second,
    ):
        yield first, second


async def test_updates_are_seen_by_all_in_one_order(shared):
    first, second = shared
    assert first.state == second.state == {}
    assert await first.update(lambda _: "a") == {"a": 1}
    assert second.state == {}
    assert await second.update(lambda state: [*state, "b"]) == {"a": 2, "b": 1}
    assert await first.fetch() == {"a": 2, "b": 1}
    assert first.revision == second.revision


async def test_a_condition_holds_when_its_update_happens(system, shared):
    """Of many who each take a number, no two take the same."""
    system.store.faults.drop_after_append = system.store.faults.drop_before_append = 0.1
    states = await asyncio.gather(
        *(shared[number % 2].update(lambda state: str(len(state))) for number in range(60))
    )
    assert await shared[0].fetch() == {str(number): 1 for number in range(60)}
    assert sorted(len(state) for state in states) == list(range(1, 61)), "each state has its own update last"


async def test_nothing_is_appended_for_no_update(shared):
    before = shared[0].revision
    assert await shared[0].update(lambda _: None) == {}
    assert await shared[0].update(lambda _: []) == {}
    assert shared[0].revision == before


async def test_an_error_of_one_who_updates_is_that_of_no_other(shared):
    def fail(_):
        raise LookupError("mine")

    done = await asyncio.gather(
        shared[0].update(lambda _: "a"),
        shared[0].update(fail),
        shared[0].update(lambda _: object()),
        shared[0].update(lambda _: "x" * (9 << 20)),
        shared[0].update(lambda _: "b"),
        return_exceptions=True,
    )
    assert [type(each) for each in done] == [
        dict,
        LookupError,
        InvalidArgumentError,
        EventTooLargeError,
        dict,
    ]
    assert await shared[1].fetch() == {"a": 1, "b": 1}


@pytest.mark.slow
async def test_updates_that_fill_more_than_an_entry_are_several(shared):
    names = ["x" * (3 << 20) + str(number) for number in range(3)]
    await asyncio.gather(*(shared[0].update(lambda _, name=name: name) for name in names))
    assert set(await shared[1].fetch()) == set(names)


async def test_a_caller_that_leaves_takes_nobody_along(shared):
    leaving = asyncio.ensure_future(shared[0].update(lambda _: "left"))
    staying = asyncio.ensure_future(shared[0].update(lambda _: "stayed"))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert (await shared[1].fetch())["stayed"] == 1


async def test_who_comes_behind_two_compactions_reads_the_last_state_only(system, client, shared):
    for number in range(3):
        await shared[0].update(lambda _, number=number: str(number))
        await shared[0].compact()
    assert system.store.segments["s/t/0.#epoch.0"].start > 0
    async with client.synchronizer("s/t", initial={}, apply=count) as late:
        assert late.state == {"0": 1, "1": 1, "2": 1}
    assert await shared[1].fetch() == late.state, "it had read nothing of what was truncated"
    await shared[1].update(lambda _: "3")
    assert (await shared[0].fetch())["3"] == 1


@pytest.mark.slow
async def test_a_state_grows_no_log_without_end(system):
    system.controller.create("s", "t")
    segment = system.store.segments["s/t/0.#epoch.0"]

    largest = 0
    async with connect(system.uri, entropy=SeededEntropy(1)) as client:  # who draws when to compact
        async with client.synchronizer("s/t", initial="", apply=replace, serializer="utf8") as state:
            for number in range(120):
                await state.update(lambda _, number=number: str(number) + "x" * (60 << 10))
                largest = max(largest, len(segment.data) - segment.start)
        async with client.synchronizer("s/t", initial="", apply=replace, serializer="utf8") as late:
            assert late.state.rstrip("x") == "119"
    assert segment.start > 0
    assert largest < len(segment.data)


@pytest.mark.slow
async def test_many_clients_count_right_while_connections_break(system, client):
    system.controller.create("s", "t")
    faults = system.store.faults
    faults.drop_after_append = faults.drop_before_append = faults.wrong_host = faults.drop_read = 0.1
    others = [await client.synchronizer("s/t", initial={}, apply=count) for _ in range(5)]

    async def work(each):
        for number in range(20):
            await each.update(lambda _, number=number: str(number % 3))
            if number % 7 == 0:
                await each.compact()

    await asyncio.gather(*map(work, others))
    assert await others[0].fetch() == {"0": 35, "1": 35, "2": 30}
    for each in others:
        assert await each.fetch() == others[0].state
        await each.close()


async def test_a_poisoned_entry_stops_whoever_reads_it_and_is_told_with_its_place(system, client, shared):
    async with client.revisioned("s/t") as log:
        await log.append(encode_updates([b"{"]))
    for each in shared:
        with pytest.raises(DataCorruptionError, match="offset"):
            await each.fetch()
        with pytest.raises(DataCorruptionError):
            await each.update(lambda _: "a")


async def test_a_stream_of_something_else_is_refused_and_unchanged(system, client):
    system.controller.create("s", "t")
    async with client.revisioned("s/t") as log:
        await log.append(encode_updates([b'"a"']))
        with pytest.raises(DataCorruptionError):
            await client.synchronizer("s/t", initial={}, apply=count)
        assert (await log.latest()).offset == 8 + 4 + 4 + 3
    system.controller.create("s", "several", 2)
    with pytest.raises(PreconditionError):
        await client.synchronizer("s/several", initial={}, apply=count)
    with pytest.raises(InvalidArgumentError):
        client.synchronizer("s/t", initial={}, apply=count, serializer=None)


async def test_a_state_that_was_truncated_by_hand_is_told_and_the_last_one_stays_readable(client, shared):
    first, second = shared
    await first.update(lambda _: "a")
    await first.compact()
    await first.update(lambda _: "b")
    async with client.revisioned("s/t") as log:
        await log.truncate(await log.latest())
    assert await first.fetch() == {"a": 1, "b": 1}, "it had read everything"
    for call in (second.fetch(), second.update(lambda _: "c")):
        with pytest.raises(DataCorruptionError):
            await call
    assert second.state == {}
    await first.compact()
    assert await second.fetch() == {"a": 1, "b": 1}, "a whole state mends it"


async def test_a_closed_one_takes_nothing_and_has_done_what_it_took(shared):
    updating = asyncio.ensure_future(shared[0].update(lambda _: "a"))
    await asyncio.sleep(0)
    await shared[0].close()
    await shared[0].close()
    assert await updating == {"a": 1}
    with pytest.raises(ClosedError):
        await shared[0].update(lambda _: "b")
    assert await shared[1].fetch() == {"a": 1}


async def test_a_client_that_is_closed_fails_what_is_under_way(system):
    system.controller.create("s", "t")
    client = connect(system.uri, ClientConfig(close_timeout_s=0.0))
    shared = await client.synchronizer("s/t", initial={}, apply=count)
    system.store.faults.drop_before_append = 1.0
    updating = asyncio.ensure_future(shared.update(lambda _: "a"))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(shared.update(lambda _: "b"))
    with suppress(NotDurableError):  # if it was sent already
        await client.close()
    done = await asyncio.gather(updating, waiting, return_exceptions=True)
    assert {type(each) for each in done} <= {ConnectionLostError, ClosedError}
    with pytest.raises(ClosedError):
        await shared.update(lambda _: "c")
