"""Whoever stops reading and goes on, in whatever way, gets every event once, and knows where it is."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client import StreamCut
from headrace.client.blocking import EventReader as BlockingReader
from headrace.client.blocking.loop_thread import LoopThread
from headrace.errors import NoSuchSegmentError, SegmentTruncatedError
from headrace.model.names import segment_name
from tests.effort import examples
from tests.unit.client.reader.interrupts import interrupted, until_uninterrupted
from tests.unit.client.reader.stored_stream import StoredStream, on_virtual_time

CALLS = ["event", "event of a new loop", "batch", "batch of an iterator", "batch in time"]
BLOCK_BYTES = st.sampled_from([20, 64, 1000])
CHANGES = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 9), st.lists(st.integers(1, 40), min_size=3, max_size=9)),
    st.tuples(st.just("truncate"), st.integers(0, 9), st.integers(0, 12)),
    st.tuples(st.just("replace"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
)
STEPS = st.lists(
    st.one_of(
        CHANGES,
        st.tuples(st.just("take"), st.sampled_from(CALLS), st.integers(1, 6)),
        st.tuples(st.just("interrupt"), st.sampled_from(CALLS), st.integers(0, 60), st.booleans()),
        st.tuples(st.sampled_from(["position", "reopen"])),
    ),
    min_size=10,
    max_size=40,
)


class Judge:
    """Knows what was stored, and what has been handed out, in each segment as an offset."""

    def __init__(self, world):
        self.world = world
        self.places = {}
        self.gone = set()

    def place(self, segment_id):
        return self.places.get(segment_id, 0)

    def is_read(self, segment_id):
        segment = self.world.segments[segment_id]
        if segment_id in self.gone:
            return True
        return segment.sealed and self.place(segment_id) == len(segment.data)

    def is_reached(self, segment_id):
        return all(map(self.is_read, self.world.segments[segment_id].predecessors))

    def has_news(self):
        """Whether a reader that waits will surely be given something."""
        return any(
            self.place(segment_id) < len(segment.data) and self.is_reached(segment_id)
            for segment_id, segment in self.world.segments.items()
            if segment_id not in self.gone
        )

    def on_event(self, segment_id, offset, data):
        assert self.is_reached(segment_id)
        assert offset == self.place(segment_id)
        assert (offset, data) in self.world.events[segment_id]
        self.places[segment_id] = offset + 8 + len(data)

    def on_item(self, item):
        """Take an event or a batch."""
        for event in item.events() if hasattr(item, "events") else [item]:
            self.on_event(event.segment_id, event.offset, event.data)

    def on_error(self, error):
        """Events are gone, and the reader has said so."""
        (segment_id,) = (each for each in self.world.segments if segment_name("s", "t", each) in str(error))
        segment = self.world.segments[segment_id]
        if isinstance(error, NoSuchSegmentError):
            assert segment.gone
            self.gone.add(segment_id)
        else:
            assert self.place(segment_id) <= error.offset < error.start_offset <= segment.start
            self.places[segment_id] = error.start_offset

    def on_position(self, position):
        for segment_id, offset in position.offsets.items():
            assert offset == self.place(segment_id)
            assert self.is_reached(segment_id)
        for segment_id in self.world.segments.keys() - position.offsets.keys():
            assert self.is_read(segment_id) or not self.place(segment_id)

    def on_end(self):
        for segment_id, segment in self.world.segments.items():
            assert segment_id in self.gone or self.place(segment_id) == len(segment.data)


def change(world, step):
    """Let the stream change as a step says, if that is possible."""
    kind, choice, *rest = step
    segment_id = list(world.segments)[choice % len(world.segments)]
    segment = world.segments[segment_id]
    if kind == "append" and not segment.sealed:
        for size in rest[0]:
            payload = b"%d:%d" % (segment_id >> 32, len(segment.data))
            world.append(segment_id, payload.ljust(size, b"."))
    elif kind == "truncate" and world.events[segment_id]:
        events = world.events[segment_id]
        offset, data = events[min(rest[0], len(events) - 1)]
        world.truncate(segment_id, offset + 8 + len(data))
    elif kind == "replace" and not segment.sealed and len(world.segments) < 6:
        world.replace(segment_id)
    elif kind == "delete" and segment.sealed:
        world.delete(segment_id)


def stored(block_bytes):
    """Return a stream that holds some events."""
    world = StoredStream(block_bytes)
    for number in range(12):
        world.append(number % 2, b"%d" % number)
    return world


GONE = (SegmentTruncatedError, NoSuchSegmentError)


# ------------------------------------------------------------------------------ on a loop


class OnLoop:
    """A reader, and each way to take something from it."""

    def __init__(self, reader):
        self.reader = reader
        self._events, self._batches = aiter(reader), reader.batches()

    async def take(self, call):
        match call:
            case "event":
                return await anext(self._events, None)
            case "event of a new loop":
                async for event in self.reader:
                    return event
            case "batch":
                return await self.reader.next_batch()
            case "batch of an iterator":
                return await anext(self._batches, None)
            case "batch in time":
                with suppress(TimeoutError):
                    return await self.reader.next_batch_within(0)
        return None


async def read_on_a_loop(steps, block_bytes):
    world = stored(block_bytes)
    judge = Judge(world)
    face = OnLoop(await world.reader())

    async def take(call):
        try:
            if (item := await face.take(call)) is not None:
                judge.on_item(item)
        except GONE as error:
            judge.on_error(error)

    async def interrupt(call, ticks, appends):
        task = asyncio.ensure_future(face.take(call))
        for _ in range(ticks % 8):
            await asyncio.sleep(0)
        if appends:
            change(world, ("append", ticks, [10, 10]))
        for _ in range(ticks // 8):
            await asyncio.sleep(0)
        task.cancel()
        try:
            if (item := await task) is not None:
                judge.on_item(item)
        except asyncio.CancelledError:
            pass
        except GONE as error:
            judge.on_error(error)

    for step in steps:
        match step:
            case ("take", call, count):
                for _ in range(count):
                    if judge.has_news():
                        await take(call)
            case ("interrupt", call, ticks, appends):
                await interrupt(call, ticks, appends)
            case ("position",):
                judge.on_position(face.reader.position())
            case ("reopen",):
                position = StreamCut.from_text(face.reader.position().as_text())
                await face.reader.close()
                judge.on_position(position)
                assert face.reader.position() == position
                face = OnLoop(await world.reader(start=position))
            case _:
                change(world, step)
    world.seal()
    is_at_end = False
    while not is_at_end:
        try:
            async for event in face.reader:
                judge.on_item(event)
            is_at_end = True
        except GONE as error:
            judge.on_error(error)
    judge.on_end()
    judge.on_position(face.reader.position())
    face.reader.check()
    await face.reader.close()


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(steps=STEPS, block_bytes=BLOCK_BYTES)
def test_a_reader_on_a_loop_goes_on_right_behind_what_it_handed_out(steps, block_bytes):
    on_virtual_time(read_on_a_loop(steps, block_bytes))


# ------------------------------------------------------------------------------ on a thread


@pytest.fixture(scope="module")
def thread():
    started = LoopThread("asyncio")
    yield started
    started.stop()


class OnThread:
    """A reader for threads, and each way to take something from it."""

    def __init__(self, reader):
        self.reader = reader
        self._events, self._batches = iter(reader), reader.batches()

    def take(self, call):
        match call:
            case "event" | "event of a new loop":
                # A call of next() would let an interrupt in between the reader and its caller.
                for event in self._events if call == "event" else self.reader:
                    return event
            case "batch":
                return self.reader.next_batch()
            case "batch of an iterator":
                for batch in self._batches:
                    return batch
            case "batch in time":
                with suppress(TimeoutError):
                    return self.reader.next_batch(0)
        return None


class ReadOnThread:
    """Reads a stream on a thread, and is judged at each step."""

    def __init__(self, thread, block_bytes, changed_before=()):
        self.thread = thread
        self.world = stored(block_bytes)
        for step in changed_before:
            change(self.world, step)
        self.judge = Judge(self.world)
        self.face = self.open_at(StreamCut.from_offsets("s", "t", {0: 0, 1: 0}))

    def open_at(self, start):
        return OnThread(BlockingReader(self.thread.run(self.world.reader(start=start)), self.thread))

    def take(self, call):
        """Take something if there is something."""
        try:
            if self.judge.has_news() and (item := self.face.take(call)) is not None:
                self.judge.on_item(item)
        except GONE as error:
            self.judge.on_error(error)

    def interrupt(self, call, at):
        """Take something, but be interrupted at a place; return whether it came so far."""
        if not self.judge.has_news():
            return False
        item = None
        try:
            with interrupted(at):
                item = self.face.take(call)
        except KeyboardInterrupt:
            return True
        except GONE as error:
            self.judge.on_error(error)
        if item is not None:
            self.judge.on_item(item)
        return False

    def change(self, step):
        self.thread.call(lambda: change(self.world, step))

    def check_position(self):
        self.judge.on_position(self.face.reader.position())

    def reopen(self):
        position = self.face.reader.position()
        self.face.reader.close()
        self.judge.on_position(position)
        assert self.face.reader.position() == position
        self.face = self.open_at(position)

    def finish(self):
        """Read up to the end, which comes now."""
        self.thread.call(self.world.seal)
        is_at_end = False
        while not is_at_end:
            try:
                for event in self.face.reader:
                    self.judge.on_item(event)
                is_at_end = True
            except GONE as error:
                self.judge.on_error(error)
        self.judge.on_end()
        self.check_position()
        self.face.reader.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@settings(max_examples=examples(80))
@given(steps=STEPS, block_bytes=BLOCK_BYTES)
def test_a_reader_on_a_thread_goes_on_right_behind_what_it_handed_out(thread, steps, block_bytes):
    reading = ReadOnThread(thread, block_bytes)
    for step in steps:
        match step:
            case ("take", call, count):
                for _ in range(count):
                    reading.take(call)
            case ("interrupt", call, at, _):
                reading.interrupt(call, at)
            case ("position",):
                reading.check_position()
            case ("reopen",):
                reading.reopen()
            case _:
                reading.change(step)
    reading.finish()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    "changed_before",
    [
        [],
        [("truncate", 0, 2), ("truncate", 1, 3)],
        [("truncate", 0, 2), ("replace", 1), ("append", 2, [1, 2, 3]), ("delete", 1)],
    ],
    ids=["all there", "truncated", "deleted"],
)
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_at_any_place_loses_nothing(thread, call, begun, changed_before):
    def attempt(at):
        reading = ReadOnThread(thread, 64, changed_before)
        if begun:
            reading.take("event")
        came_so_far = reading.interrupt(call, at)
        reading.check_position()
        if at % 2:
            reading.reopen()
        reading.finish()
        return came_so_far

    assert until_uninterrupted(attempt) > (2 if begun and not changed_before else 10)
