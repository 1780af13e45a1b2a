"""Entries that are appended behind what was read, over connections that break."""

import asyncio

import pytest

from headrace.client import Revision, connect
from headrace.errors import (
    EventTooLargeError,
    OffsetMismatchError,
    PreconditionError,
    SegmentSealedError,
    SegmentTruncatedError,
)


@pytest.fixture
async def log(system, client):
    system.controller.create("s", "t")
    async with client.revisioned("s/t") as opened:
        yield opened


async def entries_of(log, after=None):
    return [entry.data async for entry in log.read(after)]


async def test_an_entry_is_appended_behind_the_revision_that_it_names_and_nowhere_else(log):
    first = await log.append(b"first", after=await log.oldest())
    assert first == Revision(13) == await log.latest()
    second = await log.append(b"second", after=first)
    with pytest.raises(OffsetMismatchError) as refused:
        await log.append(b"late", after=first)
    assert refused.value.actual == second.offset
    assert await log.append_if(b"late", first) is None
    await log.append(b"third")
    assert await entries_of(log) == [b"first", b"second", b"third"]
    assert await entries_of(log, first) == [b"second", b"third"]
    assert await entries_of(log, await log.latest()) == []


async def test_reading_ends_where_the_stream_ended_when_it_was_begun(log):
    await log.append(b"first")
    entries = log.read()
    entry = await anext(entries)
    await log.append(b"second")
    with pytest.raises(StopAsyncIteration):
        await anext(entries)
    assert await entries_of(log, Revision(entry.end_offset)) == [b"second"]


async def test_the_mark_is_moved_by_whoever_knows_where_it_is(log):
    assert await log.mark() is None
    first, second = await log.append(b"1"), await log.append(b"2")
    assert await log.move_mark(None, first)
    assert await log.mark() == first
    assert not await log.move_mark(None, second)
    assert await log.move_mark(first, second)
    assert await log.move_mark(first, second), "a repeated question whose answer was lost"


async def test_what_was_truncated_is_refused_and_the_rest_is_there(log):
    first = await log.append(b"first")
    await log.append(b"second")
    await log.truncate(first)
    assert await log.oldest() == first
    with pytest.raises(SegmentTruncatedError):
        await entries_of(log, Revision(0))
    assert await entries_of(log) == [b"second"]


async def test_lost_connections_double_and_lose_no_entry(system, log):
    system.store.faults.drop_after_append = 0.3
    system.store.faults.drop_before_append = 0.2
    system.store.faults.wrong_host = 0.1
    revision = await log.oldest()
    for number in range(40):
        revision = await log.append(b"%d" % number, after=revision)
    assert await entries_of(log) == [b"%d" % number for number in range(40)]


async def test_an_append_that_is_stored_after_its_writer_was_set_up_again_is_stored_once(system, log):
    first = await log.append(b"first")
    system.store.store_late = True
    second = await log.append(b"second")
    assert await log.append(b"third", after=second) == await log.latest()
    assert await entries_of(log, first) == [b"second", b"third"]


async def test_of_several_writers_at_one_revision_one_is_first(system, log):
    system.store.faults.drop_after_append = 0.2
    async with connect(system.uri) as other_client, other_client.revisioned("s/t") as other:
        for number in range(20):
            revision = await log.latest()
            made = await asyncio.gather(
                *(each.append_if(b"%d" % number, revision) for each in (log, other, log, other))
            )
            assert sum(each is not None for each in made) == 1
    assert await entries_of(log) == [b"%d" % number for number in range(20)]


async def test_an_append_that_was_cancelled_is_there_or_not_and_the_next_one_is_another(system, log):
    system.store.faults.drop_after_append = 0.3
    appended = []
    for number in range(30):
        writing = asyncio.ensure_future(log.append(b"cancelled %d" % number))
        for _ in range(number % 9):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await log.append(b"%d" % number)
        appended.append(b"%d" % number)
    found = await entries_of(log)
    assert [each for each in found if not each.startswith(b"cancelled")] == appended
    assert len(found) == len(set(found))


async def test_a_sealed_stream_takes_no_entry(system, log):
    revision = await log.append(b"first")
    system.store.seal("s/t/0.#epoch.0")
    with pytest.raises(SegmentSealedError):
        await log.append(b"late", after=revision)
    assert await entries_of(log) == [b"first"]


async def test_bad_input_changes_nothing(system, client, log):
    with pytest.raises(EventTooLargeError):
        await log.append(b"x" * (8 << 20) + b"x")
    assert await log.latest() == Revision(0)
    system.controller.create("s", "several", 2)
    with pytest.raises(PreconditionError):
        await client.revisioned("s/several")
