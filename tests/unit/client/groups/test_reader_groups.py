"""Readers of a group over connections: what each is given, what is given again, what is told."""

import asyncio
import threading
from collections import Counter

import pytest

from headrace.client import Consumption, KeyRange, ReaderConfig, StreamCut, blocking, connect
from headrace.client.revisions.entries import encode_updates
from headrace.errors import (
    DataCorruptionError,
    InvalidArgumentError,
    NoSuchReaderGroupError,
    PreconditionError,
    ReaderOfflineError,
    SegmentTruncatedError,
    ThrottledError,
    UnsupportedError,
)
from tests.effort import soak

pytestmark = pytest.mark.slow
LOWER, UPPER, ALL = KeyRange(0.0, 0.5), KeyRange(0.5, 1.0), KeyRange(0.0, 1.0)


class Consumers:
    """Applications that handle what readers give them, one event at a time."""

    def __init__(self):
        self.handled = Counter()
        self.order = []
        self._seen = asyncio.Event()
        self._tasks = []

    def consume(self, reader):
        async def handle():
            async for event in reader:
                self.handled[event.data] += 1
                self.order.append(event.data)
                self._seen.set()

        task = asyncio.get_running_loop().create_task(handle())
        self._tasks.append(task)
        return task

    async def wait_for(self, count):
        async with asyncio.timeout(30):
            while len(self.handled) < count:
                self._seen.clear()
                await self._seen.wait()

    async def stop(self):
        for task in self._tasks:
            task.cancel()
        return await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def consumers():
    made = Consumers()
    yield made
    await made.stop()


def events(first, last):
    return [b"%04d" % number for number in range(first, last)]


async def write(client, first, last, stream="s/t"):
    await client.write(stream, events(first, last), key=[str(each % 13) for each in range(first, last)])


async def make(client, **options):
    options = {"group": "g", "checkpoint_interval_s": 1} | options
    return await client.reader_group("s/t", **options)


async def until(condition):
    async with asyncio.timeout(20):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.05)


async def until_shared(group, *counts):
    """Wait until the readers have so many segments each."""

    async def is_shared():
        return sorted(len(each.offsets) for each in await group.readers()) == sorted(counts)

    await until(is_shared)


async def test_readers_share_segments_and_each_event_is_handled_once(system, client, consumers):
    system.controller.create("s", "t", 4)
    await write(client, 0, 200)
    group = await make(client)
    async with group.reader("one") as one, connect(system.uri) as other:
        joined = await other.reader_group("s/t", group="g")
        consumers.consume(one)
        await consumers.wait_for(200)
        async with joined.reader() as two:
            consumers.consume(two)
            await until_shared(group, 2, 2)
            await write(client, 200, 400)
            await consumers.wait_for(400)
            assert set(consumers.handled.values()) == {1}
            assert one.name == "one.py"
            assert sorted(one.segments + two.segments) == [f"s/t/{number}.#epoch.0" for number in range(4)]
            assert (await group.checkpoint("end"))["s/t"].offsets == (await client.tail_cut("s/t")).offsets
            assert (await group.stream_cuts())["s/t"] == (await client.tail_cut("s/t"))
            lag = await group.lag()
            assert (lag.bytes, lag.by_reader()) == (0, {one.name: 0, two.name: 0})
        await write(client, 400, 500)
        await consumers.wait_for(500)
        assert set(consumers.handled.values()) == {1}, "the other one has left, and its segments are read on"


async def test_a_client_that_is_closed_takes_its_readers_out_of_their_groups(system, client):
    system.controller.create("s", "t", 1)
    await write(client, 0, 10)
    group = await make(client)
    async with connect(system.uri) as other:
        reader = await (await other.reader_group("s/t", group="g")).reader("one")
        assert await anext(reader)
        assert [each.name for each in await group.readers()] == ["one.py"]
    assert await group.readers() == []
    async with group.reader() as next_one:
        assert (await anext(next_one)).data == events(0, 1)[0], "it was not handled"


async def test_a_stream_scales_under_a_group_and_keys_stay_in_order(system, client, consumers):
    system.controller.create("s", "t", 2)
    group = await make(client)
    async with group.reader() as one, group.reader() as two:
        consumers.consume(one)
        consumers.consume(two)
        await write(client, 0, 100)
        system.controller.scale_now("s", "t", [0], [KeyRange(0.0, 0.25), KeyRange(0.25, 0.5)])
        await write(client, 100, 200)
        system.controller.scale_now("s", "t", [1, 1 << 32 | 2, 1 << 32 | 3], [ALL])
        await write(client, 200, 300)
        await consumers.wait_for(300)
        assert set(consumers.handled.values()) == {1}
        for key in range(13):
            of_key = [int(each) for each in consumers.order if int(each) % 13 == key]
            assert of_key == sorted(of_key)
        system.controller.seal_now("s", "t")
        async with asyncio.timeout(20):
            ended = await asyncio.gather(*consumers._tasks)
        assert ended == [None, None], "all is read, and nothing will come"


async def test_an_event_in_hand_is_given_again_and_no_other(system, client):
    system.controller.create("s", "t")
    await write(client, 0, 10)
    group = await make(client)
    async with group.reader("a") as reader:
        given = [(await anext(reader)).data for _ in range(4)]
    assert given == events(0, 4)
    async with group.reader("a") as reader:
        assert (await anext(reader)).data == b"0003", "nobody had asked for what is behind it"
        assert (await reader.next_batch()).payloads()[0] == b"0004"
    async with group.reader("a") as reader:
        batch = await reader.next_batch()
        assert batch.payloads() == events(4, 10), "the batch was in hand"
        assert batch.to_arrow().to_pylist() == batch.payloads()
        with pytest.raises(TimeoutError):
            await reader.next_batch_within(0.1)
    async with group.reader("a") as reader:
        with pytest.raises(TimeoutError):
            await reader.next_batch_within(0.5)
        await write(client, 10, 20)
        assert [(await anext(reader)).data for _ in range(3)] == events(10, 13)
        reader.handled()
    async with group.reader("a") as reader:
        assert (await anext(reader)).data == b"0013"
        reader.handled()
        assert (await anext(reader)).data == b"0014", "it goes on behind it"
    await group.reset(StreamCut("s", "t", {0: 120}))
    async with group.reader("a") as reader:
        assert (await reader.next_batch()).payloads() == events(10, 20)
    assert [name async for name in client.list_reader_groups("s")] == ["g"]


async def test_a_checkpoint_waits_until_an_application_asks_again(system, client):
    system.controller.create("s", "t")
    await write(client, 0, 10)
    group = await make(client, checkpoint_interval_s=None, checkpoints_max=2)
    async with group.reader("busy") as reader:
        await anext(reader)
        await anext(reader)
        cuts = await group.stream_cuts()
        assert cuts["s/t"].offsets == {0: 12}, "the second event is in hand"
        with pytest.raises(TimeoutError, match=r"not passed by busy\.py"):
            await group.checkpoint("first", timeout_s=0.1)
        waiting = asyncio.ensure_future(group.checkpoint("second"))
        await asyncio.sleep(0)  # it is asked for
        with pytest.raises(ThrottledError, match="first, second"):
            await group.checkpoint("third")
        assert (await anext(reader)).data == b"0002"
        assert (await waiting)["s/t"].offsets == {0: 24}
        with pytest.raises(PreconditionError, match="exists already"):
            await group.checkpoint("second")
        with pytest.raises(InvalidArgumentError):
            await group.checkpoint("x_SILENT_")
        cancelled = asyncio.ensure_future(group.checkpoint("third"))
        await asyncio.sleep(0)  # it is asked for
        await group.cancel_checkpoints()
        with pytest.raises(PreconditionError, match="cancelled"):
            await cancelled


async def test_a_checkpoint_passes_between_the_events_of_a_thread(system, client):
    """The rest of a batch is withheld until it has passed, and comes then."""
    system.controller.create("s", "t")
    await write(client, 0, 100)
    group = await make(client, checkpoint_interval_s=None)
    handled, go_on = [], threading.Semaphore(3)

    def work():
        with (
            blocking.connect(system.uri) as own,
            own.reader_group(group="g", scope="s") as joined,
            joined.reader("thread") as reader,
        ):
            for event in reader:
                handled.append(event.data)
                go_on.acquire()
                if len(handled) == 100:
                    break
            return reader.segments

    working = asyncio.ensure_future(asyncio.to_thread(work))

    async def are_in_hand():
        return len(handled) == 4

    await until(are_in_hand)
    checkpoint = asyncio.ensure_future(group.checkpoint())

    async def has_passed():
        go_on.release()
        return checkpoint.done()

    await until(has_passed)
    assert (await checkpoint)["s/t"].offsets[0] in range(4 * 12, 100 * 12, 12)
    go_on.release(100)
    assert await working == ["s/t/0.#epoch.0"]
    assert handled == events(0, 100)


async def test_a_group_is_set_back_and_its_readers_are_told(system, client, consumers):
    system.controller.create("s", "t", 2)
    await write(client, 0, 20)
    group = await make(client)
    async with group.reader("a") as reader:
        consumers.consume(reader)
        await consumers.wait_for(20)
        cuts = await group.checkpoint()
        await write(client, 20, 30)
        await consumers.wait_for(30)
        await group.reset()
        (told,) = await asyncio.gather(*consumers._tasks, return_exceptions=True)
        assert isinstance(told, ReaderOfflineError)
    assert (await group.positions()) == cuts, "it goes on from its last checkpoint"
    assert (await group.lag()).by_stream() == {"s/t": 120}
    await group.reset("head")
    assert (await group.lag()).bytes == 360
    await group.reset("tail")
    assert (await group.lag()).bytes == 0
    await group.reset({"s/t": cuts["s/t"].as_text()}, end="tail")
    async with group.reader() as reader:
        assert sorted([event.data async for event in reader]) == events(20, 30)
    with pytest.raises(InvalidArgumentError):
        await group.reset(StreamCut("s", "other", {0: 0}))
    with pytest.raises(InvalidArgumentError):
        await group.reset("no place")


async def test_a_reader_that_is_put_offline_stops_and_others_go_on(system, client):
    system.controller.create("s", "t")
    await write(client, 0, 10)
    group = await make(client)
    async with group.reader("gone") as gone:
        await gone.next_batch()
        with pytest.raises(PreconditionError, match=r"gone\.py is online already"):
            await group.reader("gone")
        assert await group.reader_offline("gone") is True
        assert await group.reader_offline("gone.py") is False
        async with group.reader("next") as reader:
            assert len(await reader.next_batch()) == 10, "nothing of it was handled"
            with pytest.raises(ReaderOfflineError, match="Open a new reader"):
                await gone.next_batch()


@pytest.mark.parametrize("on_truncation", ["raise", "skip"])
async def test_what_is_truncated_under_a_reader_is_told_once(system, client, on_truncation):
    system.controller.create("s", "t")
    await write(client, 0, 10)
    system.store.segments["s/t/0.#epoch.0"].start = 60
    start, config = StreamCut("s", "t", {0: 12}), ReaderConfig(on_truncation=on_truncation)
    group = await make(client, config=config, start=start)
    async with group.reader() as reader:
        if on_truncation == "raise":
            with pytest.raises(SegmentTruncatedError):
                await reader.next_batch()
        assert (await reader.next_batch()).payloads() == events(5, 10)


async def test_broken_connections_lose_and_double_nothing(system, client, consumers):
    system.controller.create("s", "t", 3)
    await write(client, 0, 90)
    faults = system.store.faults
    faults.drop_after_append = faults.drop_before_append = 0.2
    faults.drop_read = 0.05
    group = await make(client)
    readers = [await group.reader() for _ in range(3)]
    for reader in readers:
        consumers.consume(reader)
    await consumers.wait_for(90)
    system.controller.scale_now("s", "t", [0, 1], [KeyRange(0.0, 2 / 3)])
    faults.drop_after_append = faults.drop_before_append = 0.0
    await write(client, 90, 120)
    faults.drop_after_append = faults.drop_before_append = 0.2
    await consumers.wait_for(120)
    await asyncio.gather(*(reader.close() for reader in readers))
    assert set(consumers.handled.values()) == {1}


async def test_a_poisoned_state_stops_readers_and_says_where(system, client):
    system.controller.create("s", "t")
    group = await make(client, checkpoint_interval_s=None)
    state = await client.revisioned("s", "_RGg")
    async with group.reader("a") as reader:
        poison = bytes.fromhex("000500010000000022000772656164657231") + b"\0\x17s/t/somethingor.#epoch.0x"
        at = await state.append(encode_updates([poison]))
        with pytest.raises(DataCorruptionError, match=f"ends at offset {at.offset} .*00000002"):
            await reader.next_batch()
        with pytest.raises(DataCorruptionError):
            await group.readers()
        with pytest.raises(DataCorruptionError):
            await reader.close()


async def test_a_group_of_several_streams_and_what_joins_it(system, client, consumers):
    system.controller.create("s", "t")
    system.controller.create("s", "u", 2)
    await write(client, 0, 10)
    await write(client, 10, 20, "s/u")
    group = await client.reader_group(group="g", streams=["s/t", "s/u"], end="tail")
    assert (group.scope, group.streams) == ("s", ["s/t", "s/u"])
    with pytest.raises(PreconditionError, match="reads s/t, s/u"):
        await client.reader_group("s/t", group="g")
    with pytest.raises(NoSuchReaderGroupError):
        await client.reader_group(group="other", scope="s")
    joined = await client.reader_group(group="g", scope="s")
    async with joined.reader() as one, group.reader() as two:
        tasks = [consumers.consume(one), consumers.consume(two)]
        async with asyncio.timeout(20):
            await asyncio.gather(*tasks)
    assert consumers.handled == Counter(events(0, 20))
    with pytest.raises(InvalidArgumentError):
        await client.reader_group(group="g")


async def test_retention_is_told_what_a_group_has_read(system, client, consumers):
    system.controller.create("s", "t")
    await write(client, 0, 10)
    held = await make(client, consumption=Consumption.HELD_UNTIL_CHECKPOINT)
    async with held.reader() as reader:
        consumers.consume(reader)
        await consumers.wait_for(10)
        await held.checkpoint()

        async def is_told():
            return system.controller.released.get(("s", "t")) == {0: 120}

        await until(is_told)
    manual = await make(client, group="manual", consumption=Consumption.HELD_UNTIL_TOLD)
    await manual.release({"s/t": StreamCut("s", "t", {0: 36})})
    assert system.controller.released["s", "t"] == {0: 36}
    with pytest.raises(UnsupportedError):
        await held.release({})


async def test_a_group_that_is_deleted_tells_its_readers(system, client):
    system.controller.create("s", "t")
    group = await make(client)
    async with group.reader() as reader:
        waiting = asyncio.ensure_future(reader.next_batch())
        async with connect(system.uri) as other:
            await (await other.reader_group("s/t", group="g")).delete()
        with pytest.raises(NoSuchReaderGroupError, match="s/g was deleted"):
            await waiting


async def test_positions_in_front_of_a_merge_are_a_cut_of_all_keys(system, client, consumers):
    """A group forgets what it has read to the end, also if what follows waits for another segment."""
    system.controller.create("s", "t", 2)
    await write(client, 0, 40)
    group = await make(client)
    async with group.reader("busy") as busy, group.reader("free") as free:
        await until_shared(group, 1, 1)
        await anext(busy)
        consumers.consume(free)
        system.controller.scale_now("s", "t", [0, 1], [ALL])
        await until_shared(group, 0, 1)
        (cut,) = (await group.positions()).values()
        assert set(cut.offsets) == {0, 1}
        await client.check_cut(cut)


@soak
async def test_a_reader_that_dies_is_put_offline_by_another_one(system, client):
    """Half a minute of silence takes as long."""
    system.controller.create("s", "t")
    await write(client, 0, 10)
    group = await make(client)
    async with connect(system.uri) as doomed:
        dying = await (await doomed.reader_group("s/t", group="g")).reader("dying")
        assert (await dying.next_batch()).payloads() == events(0, 10)
        async with group.reader("living") as living:
            await doomed.close()
            async with asyncio.timeout(60):
                assert (await living.next_batch()).payloads() == events(0, 10)
            assert [each.name for each in await group.readers()] == ["living.py"]
