"""Watermarks are made once, in order and of what writers said, whoever dies, and are found again."""

import asyncio

import pytest

from headrace.controller.services.watermarks import Watermarks
from headrace.controller.settings.watermarks import WatermarkConfig
from headrace.controller.store.layout import WATERMARKS
from headrace.controller.streams.mark_stream import MarkStream
from headrace.controller.streams.writer_marks import MarkOutcome
from headrace.errors import DataCorruptionError
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.model.key_space import FULL_RANGE, KeyRange, split_evenly
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.model.watermark import (
    NEWEST_MARK,
    MarkedSegment,
    Watermark,
    decode_watermark,
    frame_watermark,
    split_marks,
)
from headrace.rpc.generated import controller_pb2 as pb
from headrace.testing.simulation import simulate
from tests.effort import examples
from tests.unit.controller.calls import ask, info, shadow
from tests.unit.controller.conftest import World
from tests.unit.controller.mortality import every_death, every_misfortune, idle, simulated
from tests.unit.controller.workflows.test_deaths import begin, make_stream, request_of, scale_request

MARK_SEGMENT = "s/_MARKt/0.#epoch.0"


def two_segments(**fields):
    return StreamConfiguration(scaling=ScalingPolicy.fixed(2), **fields)


def made(world):
    """Return the watermarks that readers of the mark stream see."""
    segment = world.segments.segments[MARK_SEGMENT]
    data = bytes(segment.data[segment.start_offset :])
    found = list(split_marks(data))
    assert [end for end, _ in found[-1:]] == [len(data)] * bool(data)
    return [decode_watermark(payload) for _, payload in found]


async def note(controller, writer, time, position, stream="t"):
    handle = await controller.context.directory.get("s", stream)
    return await controller.context.marks.note(handle, writer, time, position)


async def listed(controller):
    """Return the streams that are in the index of some bucket for their watermarks."""
    found = set()
    for bucket in range(controller.config.buckets):
        token = b""
        while True:
            page, token = await controller.context.bucket_index.page(bucket, token, 2)
            if not page:
                break
            found |= {f"{each.scope}/{each.stream}" for each in page if each.kind == WATERMARKS}
    return found


async def look(service, controller):
    for bucket in range(controller.config.buckets):
        await service.look(bucket)


class Owner:
    """A controller with its service, which looks when it is told to."""

    def __init__(self, controller):
        self.controller = controller
        self.service = Watermarks(controller.context)

    async def look(self):
        await look(self.service, self.controller)

    async def note(self, writer, time, position, stream="t"):
        return await note(self.controller, writer, time, position, stream)

    async def writers(self):
        stream = await self.controller.context.directory.get("s", "t")
        return set((await self.controller.context.marks.read(stream)).writers)


@pytest.fixture
async def owner(world):
    async with world.running() as controller:
        await controller.context.scopes.create("s")
        yield Owner(controller)


async def create(owner, **fields):
    await owner.controller.streams.create("s", "t", two_segments(**fields))


async def test_a_watermark_is_made_when_every_writer_has_gone_on(world, owner):
    await create(owner, timestamp_timeout_ms=1000)
    await owner.note("a", 5, {0: 10, 1: -1})
    await owner.note("b", 9, {0: 4, 1: 8})
    await owner.look()
    await owner.look()
    assert [(each.lower, each.upper, each.offsets()) for each in made(world)] == [(5, 9, {0: 10, 1: 8})]
    await owner.note("b", 12, {0: 40, 1: 8})
    await owner.look()
    assert len(made(world)) == 1
    await owner.note("a", 11, {0: 10, 1: 3})
    await owner.look()
    assert [(each.lower, each.upper) for each in made(world)] == [(5, 9), (11, 12)]
    assert made(world)[-1].offsets() == {0: 40, 1: 8}


async def test_a_silent_writer_is_waited_for_as_long_as_the_stream_says_and_no_longer(world, owner):
    await create(owner, timestamp_timeout_ms=1000)
    await owner.note("a", 5, {0: 10})
    await owner.note("b", 6, {0: 10})
    await owner.look()
    await owner.note("b", 7, {0: 20})
    await owner.look()
    world.clock.now += 999
    await owner.look()
    assert len(made(world)) == 1
    world.clock.now += 1
    await owner.look()
    assert [each.lower for each in made(world)] == [5, 7]
    assert await owner.writers() == {"b"}


async def test_a_writer_that_was_removed_is_waited_for_no_longer(world, owner):
    await create(owner, timestamp_timeout_ms=1000)
    await owner.note("a", 5, {0: 10})
    await owner.note("b", 6, {0: 10})
    await owner.look()
    stream = await owner.controller.context.directory.get("s", "t")
    assert await owner.controller.context.marks.shut_down(stream, "a") is MarkOutcome.OK
    await owner.note("b", 7, {0: 20})
    await owner.look()
    assert await owner.writers() == {"b"}
    await owner.look()
    assert [each.lower for each in made(world)] == [5, 7]


async def test_a_stream_without_writers_leaves_its_bucket_until_one_speaks_again(world, owner):
    await create(owner)
    assert await listed(owner.controller) == set()
    await owner.note("a", 5, {0: 10})
    assert await listed(owner.controller) == {"s/t"}
    await owner.look()
    await owner.look()
    assert await listed(owner.controller) == set()
    await owner.note("a", 4, {0: 10})  # it was forgotten: any time is a first one
    assert await listed(owner.controller) == {"s/t"}
    await owner.look()
    assert len(made(world)) == 1
    await owner.note("a", 6, {0: 10})
    await owner.look()
    assert [each.lower for each in made(world)] == [5, 6]


async def test_the_system_has_no_watermarks_and_neither_have_internal_streams(owner):
    await owner.controller.streams.create("_system", "t", StreamConfiguration())
    await owner.controller.streams.create("s", "_RGg", StreamConfiguration())
    await owner.note("a", 5, {0: 10}, "_RGg")
    system = await owner.controller.context.directory.get("_system", "t")
    await owner.controller.context.marks.note(system, "a", 5, {0: 10})
    assert await listed(owner.controller) == set()


async def test_a_deleted_stream_leaves_its_bucket(owner):
    await create(owner)
    await owner.note("a", 5, {0: 10})
    await owner.controller.streams.seal("s", "t")
    await owner.controller.streams.delete("s", "t")
    await owner.look()
    assert await listed(owner.controller) == set()


async def test_a_stream_whose_mark_stream_is_gone_keeps_no_other_from_its_watermarks(world, owner):
    await create(owner)
    await owner.controller.streams.create("s", "other", two_segments())
    await owner.controller.streams.seal("s", "_MARKother")
    await owner.controller.streams.delete("s", "_MARKother")
    await owner.note("a", 5, {0: 10})
    await owner.note("a", 5, {0: 10}, "other")
    await owner.look()
    assert len(made(world)) == 1
    world.segments.segments[MARK_SEGMENT].data += b"no watermark"
    await owner.note("a", 6, {0: 10})
    await owner.look()
    assert await owner.writers() == {"a"}


async def scale(owner, sealed, ranges):
    answer = await ask(owner.controller, "scale", scale_request(sealed, ranges))
    assert answer.status == pb.ScaleResponse.STARTED
    await idle(owner.controller)


async def test_watermarks_follow_the_stream_over_scales(world, owner):
    await create(owner, timestamp_timeout_ms=1000)
    await owner.note("a", 5, {0: 10, 1: 10})
    await owner.note("b", 5, {0: 12, 1: 3})
    await owner.look()
    await scale(owner, [0, 1], [(0.0, 0.75), (0.75, 1.0)])
    wide, narrow = (1 << 32) + 2, (1 << 32) + 3
    await owner.note("a", 6, {wide: 7})
    await owner.note("b", 6, {0: 13, 1: 4})
    await owner.look()
    assert [each.offsets() for each in made(world)] == [{0: 12, 1: 10}, {wide: 7, narrow: 0}]
    await scale(owner, [narrow], [(0.75, 0.8), (0.8, 1.0)])
    await owner.note("a", 7, {(2 << 32) + 4: 1})
    await owner.note("b", 7, {wide: 9})
    await owner.look()
    assert made(world)[-1].offsets() == {wide: 9, (2 << 32) + 4: 1, (2 << 32) + 5: 0}


async def test_transactions_that_commit_with_a_time_make_watermarks(world):
    async with world.running() as controller:
        await make_stream(controller)
        txn = await begin(controller, world, b"abc", 1)
        request = request_of(txn)
        request.writerId, request.timestamp = "w", 77
        await ask(controller, "commit_transaction", request)
        await idle(controller)
        await look(Watermarks(controller.context), controller)
        assert [(each.lower, each.upper, each.offsets()) for each in made(world)] == [(77, 77, {0: 0, 1: 3})]
        assert shadow(txn, 1) not in world.segments.segments
        assert await listed(controller) == {"s/t"}


async def test_calls_answer_as_the_protocol_says(owner):
    await create(owner)

    async def noted(time, cut):
        position = pb.StreamCut(streamInfo=info(), cut=cut)
        request = pb.TimestampFromWriter(writer="w", timestamp=time, position=position)
        return (await ask(owner.controller, "note_timestamp_from_writer", request)).result

    async def removed(writer):
        request = pb.RemoveWriterRequest(writer=writer, stream=info())
        return (await ask(owner.controller, "remove_writer", request)).result

    assert await noted(5, {0: 10}) == pb.TimestampResponse.SUCCESS
    assert await noted(5, {0: 10}) == pb.TimestampResponse.SUCCESS
    assert await noted(4, {0: 11}) == pb.TimestampResponse.INVALID_TIME
    assert await noted(6, {0: 9}) == pb.TimestampResponse.INVALID_POSITION
    assert await noted(6, {1: 0}) == pb.TimestampResponse.SUCCESS
    assert await removed("w") == await removed("w") == pb.RemoveWriterResponse.SUCCESS
    assert await removed("x") == pb.RemoveWriterResponse.UNKNOWN_WRITER


# ---------------------------------------------------------------------------------- the mark stream


def mark_stream_of(owner):
    return MarkStream(owner.controller.context.segments, MARK_SEGMENT)


def at(lower, offset):
    cut = (MarkedSegment(0, KeyRange(0.0, 0.5), offset), MarkedSegment(1, KeyRange(0.5, 1.0), 0))
    return Watermark(lower, lower, cut)


async def test_the_newest_watermark_is_found_from_its_attribute(world, owner):
    await create(owner)
    marks = mark_stream_of(owner)
    found = await marks.find_newest()
    assert (found.newest, found.length, found.pointer) == (None, 0, ATTRIBUTE_NULL)
    for lower in (1, 2, 3):
        assert await marks.append(await marks.find_newest(), at(lower, lower))
    found = await marks.find_newest()
    assert found.newest == at(3, 3)
    assert found.pointer == world.segments.segments[MARK_SEGMENT].attributes[NEWEST_MARK]
    assert found.pointer == 2 * len(frame_watermark(at(1, 1)))


async def test_a_watermark_that_the_attribute_does_not_name_yet_is_found(world, owner):
    await create(owner)
    marks = mark_stream_of(owner)
    world.segments.write(MARK_SEGMENT, frame_watermark(at(1, 1)))
    assert (await marks.find_newest()).newest == at(1, 1)
    await marks.append(await marks.find_newest(), at(2, 2))
    world.segments.write(MARK_SEGMENT, frame_watermark(at(3, 3)))
    assert (await marks.find_newest()).newest == at(3, 3)
    await owner.note("a", 3, {0: 3})
    await owner.look()
    assert [each.lower for each in made(world)] == [1, 2, 3]


@pytest.mark.slow
async def test_large_watermarks_are_found_in_pieces(world, owner):
    await create(owner)
    marks = mark_stream_of(owner)
    ranges = split_evenly(FULL_RANGE, 20_000)
    large = Watermark(1, 1, tuple(MarkedSegment(at, each, at) for at, each in enumerate(ranges)))
    world.segments.write(MARK_SEGMENT, 2 * frame_watermark(large) + frame_watermark(at(2, 2)))
    assert (await marks.find_newest()).newest == at(2, 2)
    world.segments.write(MARK_SEGMENT, frame_watermark(large))
    assert (await marks.find_newest()).newest == large


async def test_of_two_appends_that_found_the_same_one_is_refused(world, owner):
    await create(owner)
    marks = mark_stream_of(owner)
    found = await marks.find_newest()
    assert await marks.append(found, at(1, 1))
    assert not await marks.append(found, at(2, 2))
    assert [each.lower for each in made(world)] == [1]


@pytest.mark.parametrize(
    "data", [b"no watermark", frame_watermark(at(1, 1))[:-1], frame_watermark(at(1, 1)) + b"\0"]
)
async def test_a_mark_stream_of_other_bytes_is_refused(world, owner, data):
    await create(owner)
    world.segments.write(MARK_SEGMENT, data)
    with pytest.raises(DataCorruptionError):
        await mark_stream_of(owner).find_newest()


# ---------------------------------------------------------------------------------- what is dropped


async def go_on(world, owner, times, step=10):
    """Write and note ``step`` bytes per time, and look."""
    for time in times:
        world.segments.write("s/t/0.#epoch.0", bytes(step))
        await owner.note("a", time, {0: time * step})
        await owner.look()


async def truncate(owner, offset):
    await owner.controller.streams.truncate("s", "t", {0: offset, 1: 0})
    await idle(owner.controller)


async def test_watermarks_in_front_of_the_head_are_dropped_one_period_later(world, owner):
    await create(owner, timestamp_timeout_ms=10_000_000)
    await go_on(world, owner, range(1, 9))
    await truncate(owner, 45)
    world.clock.now += 600_000
    await owner.look()
    assert made(world)[0].lower == 1
    world.clock.now += 599_999
    await owner.look()
    assert made(world)[0].lower == 1
    world.clock.now += 1
    await owner.look()
    # A reader at the head is behind the cut of the fourth.
    assert [each.lower for each in made(world)] == [4, 5, 6, 7, 8]
    await go_on(world, owner, [9])
    assert [each.lower for each in made(world)] == [4, 5, 6, 7, 8, 9]


async def test_a_stream_that_is_not_truncated_keeps_its_watermarks(world, owner):
    await create(owner)
    for lower in range(1, 6):
        await go_on(world, owner, [lower])
        world.clock.now += 600_000
    assert [each.lower for each in made(world)] == [1, 2, 3, 4, 5]


async def test_the_oldest_watermarks_of_too_many_are_dropped(world):
    size = len(frame_watermark(at(1, 1)))
    async with world.running(watermarks=WatermarkConfig(mark_stream_bytes_max=3 * size)) as controller:
        await controller.context.scopes.create("s")
        owner = Owner(controller)
        await create(owner)
        for lower in range(1, 20):
            await go_on(world, owner, [lower])
            world.clock.now += 600_000
            assert len(made(world)) <= 6
        assert made(world)[-1].lower == 19


# ---------------------------------------------------------------------------------- deaths


async def prepare(controller):
    await controller.context.scopes.create("s")
    await controller.streams.create("s", "t", two_segments(timestamp_timeout_ms=1000))


async def act(controller, state):
    owner = Owner(controller)
    for time in (1, 2):
        await owner.note("a", time, {0: time, 1: -1})
        await owner.note("b", time, {1: time})
        await owner.look()
    stream = await controller.context.directory.get("s", "t")
    await controller.context.marks.shut_down(stream, "a")
    await controller.context.marks.shut_down(stream, "b")
    await owner.look()


async def settle(controller, state):
    owner = Owner(controller)
    await owner.note("c", 3, {0: 3, 1: 3})
    await owner.look()
    await owner.note("c", 4, {0: 4, 1: 4})
    await owner.note("a", 4, {0: 4, 1: -1})
    await owner.note("b", 4, {1: 4})
    await owner.look()


async def check(world, controller, state):
    lowers = [each.lower for each in made(world)]
    assert lowers == sorted(set(lowers))
    assert lowers[-1] == 4
    assert made(world)[-1].offsets() == {0: 4, 1: 4}
    assert await listed(controller) == {"s/t"}
    found = await mark_stream_of(Owner(controller)).find_newest()
    assert found.newest == made(world)[-1]


@simulated
async def test_a_controller_dies_after_every_effect():
    assert await every_death(World, prepare, act, settle, check)


@pytest.mark.slow
@simulated
async def test_every_effect_is_refused_or_loses_its_reply():
    async def act_and_settle(controller, state):
        await act(controller, state)
        await settle(controller, state)

    assert await every_misfortune(lambda: World(in_tables=True), prepare, act_and_settle, check)


async def two_owners(simulation):
    """Writers note, and two controllers look at once, in any order."""
    world = World()
    async with world.running() as one, world.running() as other:
        await prepare(one)
        owners = [Owner(one), Owner(other)]
        noted = 0

        async def write(owner, writer):
            nonlocal noted
            for time in range(1, 6):
                assert await owner.note(writer, time, {0: 10 * time}) is MarkOutcome.OK
                noted = max(noted, time)

        async def watch(owner):
            for _ in range(8):
                await owner.look()

        await asyncio.gather(write(owners[0], "a"), write(owners[1], "b"), watch(owners[0]), watch(owners[1]))
        await owners[0].look()
        lowers = [each.lower for each in made(world)]
        assert lowers == sorted(set(lowers))
        assert lowers[-1] == 5
        for watermark in made(world):
            assert watermark.offsets()[0] >= 10 * watermark.lower
            assert watermark.offsets()[0] <= 10 * watermark.upper
        for time in (6, 7):  # whoever evicted whom, nobody is forgotten
            await owners[1].note("a", time, {0: 10 * time})
            await owners[1].note("b", time, {0: 10 * time})
            await owners[1].look()
        assert made(world)[-1].lower == 7


def test_two_owners_at_once_make_each_watermark_once():
    for seed in range(examples(40)):
        simulate(seed, two_owners)


class Gated:
    """A store in which marks are written when a test says so."""

    def __init__(self, store):
        self._store = store
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def update(self, table, writes):
        if table.startswith("details") and writes[0].key.endswith(b"m"):
            self.reached.set()
            await self.open.wait()
        return await self._store.update(table, writes)


async def test_a_stream_that_an_owner_removed_from_the_index_gets_in_again_with_its_mark(world, owner):
    await create(owner)
    store = Gated(world.store)
    slow = world.controller(store=store)
    noting = asyncio.ensure_future(note(slow, "a", 1, {0: 1}))
    await store.reached.wait()
    assert await listed(owner.controller) == {"s/t"}
    await owner.look()
    assert await listed(owner.controller) == set()
    store.open.set()
    assert await noting is MarkOutcome.OK
    assert await listed(owner.controller) == {"s/t"}


async def leaving_and_coming(simulation):
    """A writer notes while owners find that no writer is left."""
    world = World()
    async with world.running() as one, world.running() as other:
        await one.context.scopes.create("s")
        await one.streams.create("s", "t", two_segments())
        owners = [Owner(one), Owner(other)]

        async def write():
            for time in range(1, 9):
                await owners[0].note("a", time, {0: time})
                await asyncio.sleep(0)

        async def watch(owner):
            for _ in range(8):
                await owner.look()

        await asyncio.gather(write(), watch(owners[0]), watch(owners[1]))
        for owner in owners:
            await owner.look()
        assert made(world)[-1].lower == 8


def test_the_last_word_of_a_writer_is_heard_though_its_stream_was_leaving():
    for seed in range(examples(60)):
        simulate(seed, leaving_and_coming)
