"""Ranges of segments and byte streams: what a wait or a loop did not come to hand out is handed out next."""

import asyncio
import io
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.blocking.byte_streams import ByteReader as BlockingByteReader
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.readers import SegmentRangeReader as BlockingRange
from headrace.errors import ClosedError, InvalidArgumentError, SegmentTruncatedError
from tests.effort import examples
from tests.unit.client.reader.interrupts import interrupted, until_uninterrupted
from tests.unit.client.reader.stored_stream import StoredStream, on_virtual_time

EVENTS = [b"%d" % number * (1 + number % 7) for number in range(40)]


def stored(block_bytes=50):
    world = StoredStream(block_bytes)
    for event in EVENTS:
        world.append(0, event)
    return world, bytes(world.segments[0].data)


@pytest.fixture(scope="module")
def thread():
    started = LoopThread("asyncio")
    yield started
    started.stop()


async def cancelled(call, ticks):
    """Cancel a call after some steps of the loop; return what it returned by then, else None."""
    task = asyncio.ensure_future(call)
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        return await task


# ------------------------------------------------------------------------------ ranges


async def read_range(by, ticks):
    world, raw = stored()
    part = world.part(0, 0, len(raw))
    call = {"blocks": lambda: anext(part.blocks(), None), "batches": lambda: anext(part.batches(), None)}[by]
    found = []
    for number in range(60):
        item = await (cancelled(call(), number // 2) if ticks and number % 2 else call())
        if item is not None:
            found.append(bytes(item) if by == "blocks" else bytes(item.raw))
    assert b"".join(found) == raw
    await part.close()


@pytest.mark.parametrize("ticks", [False, True])
@pytest.mark.parametrize("by", ["blocks", "batches"])
def test_each_new_loop_over_a_range_goes_on(by, ticks):
    on_virtual_time(read_range(by, ticks))


def test_reading_all_that_is_left_may_be_cancelled_and_repeated():
    async def read():
        world, raw = stored()
        for ticks in range(40):
            part = world.part(0, 0, len(raw))
            first = await anext(part.blocks())
            found = await cancelled(part.read_all(), ticks)
            if found is None:
                found = await part.read_all()
            assert bytes(first) + found == raw
        assert ticks > len(raw) // 50

    on_virtual_time(read())


def test_a_range_is_read_as_it_was_begun():
    async def read():
        world, raw = stored()
        part = world.part(0, 0, len(raw))
        first = await anext(part.blocks())
        with pytest.raises(InvalidArgumentError, match="bytes"):
            await anext(part.batches())
        assert bytes(first) + await part.read_all() == raw
        part = world.part(0, 0, len(raw))
        found = list(await anext(part.batches()))
        for refused in (lambda: anext(part.blocks()), part.read_all):
            with pytest.raises(InvalidArgumentError, match="events"):
                await refused()
        assert found + [event async for batch in part.batches() for event in batch] == EVENTS

    on_virtual_time(read())


def test_who_waits_for_a_range_hears_that_it_was_closed():
    async def read():
        world, raw = stored()
        part = world.part(0, len(raw), None)
        waiting = asyncio.ensure_future(part.next_block())
        await asyncio.sleep(1)
        await part.close()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ClosedError):
            await part.next_block()

    on_virtual_time(read())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("by", ["blocks", "batches", "all"])
def test_an_interrupt_costs_a_range_nothing(thread, by):
    world, raw = stored(block_bytes=300)

    def attempt(at):
        part = thread.call(lambda: BlockingRange(world.part(0, 0, len(raw)), thread))
        found = []

        def read():
            if by == "all":
                found.append(part.read_all())
            else:
                found.extend(getattr(part, by)())

        was_interrupted = False
        try:
            with interrupted(at):
                read()
        except KeyboardInterrupt:
            was_interrupted = True
            read()
        pieces = [item.raw if by == "batches" else item for item in found]
        assert b"".join(pieces) == raw
        part.close()
        return was_interrupted

    assert until_uninterrupted(attempt) > 12


# ------------------------------------------------------------------------------ byte streams

CALLS = st.lists(
    st.tuples(st.sampled_from(["read", "read_exactly"]), st.integers(1, 200), st.integers(0, 30)), max_size=30
)


@settings(max_examples=examples(40))
@given(calls=CALLS)
def test_a_cancelled_read_keeps_its_place(calls):
    async def read():
        world, raw = stored()
        reader = world.byte_reader()
        found = b""
        for name, size, ticks in calls:
            if name == "read_exactly" or len(found) == len(raw):
                size = min(size, len(raw) - len(found))
            if size:
                found += await cancelled(getattr(reader, name)(size), ticks) or b""
            assert reader.tell() == len(found)
        world.seal()
        assert found + await reader.read_exactly(10_000) == raw
        assert await reader.read(1) == await reader.read_exactly(0) == b""
        await reader.close()

    on_virtual_time(read())


def test_bytes_in_front_of_a_truncation_are_not_lost_with_the_error():
    async def read():
        world, raw = stored()
        reader = world.byte_reader()
        assert await reader.read_exactly(10) == raw[:10]
        await asyncio.sleep(1)
        world.truncate(0, len(raw) - 5)
        with pytest.raises(SegmentTruncatedError) as caught:
            await reader.read_exactly(len(raw))
        found = await reader.read_exactly(caught.value.offset - 10)
        assert found == raw[10 : caught.value.offset]
        assert found
        with pytest.raises(SegmentTruncatedError):
            await reader.read(1)
        await reader.seek(caught.value.start_offset)
        assert await reader.read_exactly(5) == raw[-5:]

    on_virtual_time(read())


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("size", [7, 70, -1])
def test_an_interrupt_costs_a_byte_stream_nothing(thread, size):
    world, raw = stored()
    world.seal()

    def attempt(at):
        file = thread.call(lambda: BlockingByteReader(world.byte_reader(), thread))
        found = bytearray(file.read(9))
        was_interrupted = False
        buffer = bytearray(abs(size))
        try:
            with interrupted(at):
                if size < 0:
                    found += file.readall()
                else:
                    found += buffer[: file.readinto(buffer)]
        except KeyboardInterrupt:
            was_interrupted = True
        assert file.tell() == len(found)
        if len(found) < len(raw) // 2:
            file.seek(1, io.SEEK_CUR)
            found += raw[len(found) : len(found) + 1]
        found += file.read()
        assert found == raw
        file.close()
        return was_interrupted

    assert until_uninterrupted(attempt) > 10
