"""Requests in the segment of a bucket: handled at least once, in order, whatever the handlers do."""

import asyncio

import pytest

from headrace.controller.events.event import EventKind, RequestEvent, request_segment
from headrace.controller.events.frames import frame_event
from headrace.controller.services.event_processor import CHECKPOINT_S, EventProcessor
from headrace.errors import (
    ContainerOfflineError,
    InvalidArgumentError,
    MetadataConflictError,
    StreamBusyError,
)
from headrace.model.endpoint import Endpoint
from tests.unit.controller.conftest import World
from tests.unit.controller.mortality import idle, simulated

REPORT = EventKind.SCALE_REPORT
SEGMENT = request_segment(0)


def one_bucket():
    world = World()
    world.config = world.controller(buckets=1).config
    return world


def report(stream="t", number=0):
    return RequestEvent(REPORT, "s", stream, b"%d" % number)


class Handling:
    """A handler that lists what it was called with, and does what the test says first."""

    def __init__(self, before=None):
        self.before = before
        self.calls = []
        self.running = 0
        self.running_max = 0

    async def __call__(self, event):
        self.calls.append((event.stream, int(event.payload)))
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        try:
            if self.before is not None:
                await self.before(event)
        finally:
            self.running -= 1

    def of(self, stream):
        return [number for name, number in self.calls if name == stream]


async def started(world, handling, **settings):
    controller = world.controller(**settings)
    controller.context.events.handle(REPORT, handling)
    await controller.start()
    return controller


async def checkpoint(world):
    return (await world.controller().context.event_progress.load(0))[0]


@simulated
async def test_events_are_handled_once_each_and_the_next_owner_goes_on_behind_them():
    world, handling = one_bucket(), Handling()
    controller = await started(world, handling)
    for number in range(5):
        await controller.context.events.post(report(number=number))
    await asyncio.sleep(CHECKPOINT_S + 1)
    assert handling.calls == [("t", number) for number in range(5)]
    assert (await checkpoint(world)).offset == world.segments.segments[SEGMENT].length
    await controller.context.events.post(report(number=5))
    await idle(controller)
    await asyncio.sleep(0.1)
    await controller.stop()  # writes the checkpoint
    again = Handling()
    controller = await started(world, again)
    await controller.context.events.post(report(number=6))
    await asyncio.sleep(1)
    assert again.calls == [("t", 6)]
    await controller.stop()


@simulated
async def test_an_owner_that_dies_leaves_the_rest_to_the_next_one():
    world, release = one_bucket(), asyncio.Event()

    async def first_blocks(event):
        if event.stream == "blocked":
            await release.wait()

    handling = Handling(first_blocks)
    controller = await started(world, handling)
    await controller.context.events.post(report("a", 0))
    await asyncio.sleep(CHECKPOINT_S + 1)
    before = (await checkpoint(world)).offset
    assert before == world.segments.segments[SEGMENT].length
    await controller.context.events.post(report("blocked", 1))
    await controller.context.events.post(report("b", 2))
    await asyncio.sleep(CHECKPOINT_S + 1)
    assert handling.of("b") == [2]
    assert (await checkpoint(world)).offset == before  # it never passes what is not done
    await controller.stop()
    again = Handling()
    controller = await started(world, again)
    await asyncio.sleep(1)
    assert sorted(again.calls) == [("b", 2), ("blocked", 1)]
    await controller.stop()


@simulated
async def test_events_of_a_stream_keep_their_order_and_others_do_not_wait_for_them():
    world = one_bucket()

    async def slow(event):
        await asyncio.sleep(1 if event.stream == "slow" else 0)

    handling = Handling(slow)
    controller = await started(world, handling)
    for number in range(4):
        await controller.context.events.post(report("slow", number))
        await controller.context.events.post(report(f"quick{number}", number))
    await asyncio.sleep(0.5)
    assert len(handling.calls) == 5
    await idle(controller)
    assert handling.of("slow") == [0, 1, 2, 3]
    await controller.stop()


@simulated
async def test_a_postponed_event_goes_behind_the_others_of_its_stream_and_a_retried_one_does_not():
    world, refusals = one_bucket(), {0: [StreamBusyError("busy")], 1: [ContainerOfflineError("moving")] * 2}

    async def refuse(event):
        if refusals.get(int(event.payload)):
            raise refusals[int(event.payload)].pop()

    handling = Handling(refuse)
    controller = await started(world, handling)
    data = b"".join(frame_event(report(number=number)) for number in range(3))
    world.segments.write(SEGMENT, data)
    await asyncio.sleep(1)
    await idle(controller)
    assert handling.of("t") == [0, 1, 1, 1, 2, 0]
    statistics = controller.processor.statistics()
    assert (statistics.handled, statistics.postponed, statistics.retried) == (3, 1, 2)
    await controller.stop()


@simulated
async def test_events_in_flight_are_bounded():
    world, release = one_bucket(), asyncio.Event()

    async def block(event):
        await release.wait()

    controller = world.controller()
    processor = EventProcessor(controller.context, unfinished_max=10)
    handling = Handling(block)
    controller.context.events.handle(REPORT, handling)
    await controller.start()
    await controller.context.buckets.stop()
    running = asyncio.ensure_future(processor.run(0))
    for number in range(50):
        await controller.context.events.post(report(f"t{number}", number))
    await asyncio.sleep(1)
    assert handling.running_max == processor.statistics().unfinished == 10
    release.set()
    await asyncio.sleep(1)
    assert len(handling.calls) == 50
    assert handling.running_max == 10
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert processor.statistics().unfinished == 0
    await controller.stop()


@simulated
async def test_what_fails_and_what_is_no_event_is_set_aside_and_those_behind_it_are_handled():
    world = one_bucket()

    async def fail(event):
        if event.payload == b"1":
            raise InvalidArgumentError("no such thing")
        if event.payload == b"2":
            raise KeyError("a bug")

    handling = Handling(fail)
    controller = await started(world, handling)
    for number in range(3):
        await controller.context.events.post(report(number=number))
    world.segments.write(SEGMENT, b"\xff" * 100)
    await controller.context.events.post(report(number=3))
    await controller.context.events.post(RequestEvent(EventKind.TXN_WORK, "s", "t", b"short"))
    await asyncio.sleep(CHECKPOINT_S + 1)
    assert handling.of("t") == [0, 1, 2, 3]
    found = await controller.context.event_progress.failed(1)
    assert [row.reason.split(":")[0] for _, row in found.rows[:2]] == ["InvalidArgumentError", "KeyError"]
    assert b"\xff" * 100 in [row.data for _, row in found.rows]
    assert found.dropped == 0
    assert (await checkpoint(world)).failed == len(found.rows)
    await controller.stop()


@simulated
async def test_an_event_that_is_set_aside_names_where_clients_find_its_controller():
    world = one_bucket()

    async def fail(_event):
        raise KeyError("a bug")

    controller = await started(world, Handling(fail))
    controller.publish(Endpoint("stream.example", 9999))
    await controller.context.events.post(report(number=0))
    await asyncio.sleep(CHECKPOINT_S + 1)
    found = await controller.context.event_progress.failed(1)
    assert [row.controller for _, row in found.rows] == ["stream.example:9999"]
    await controller.stop()


@simulated
async def test_of_the_events_set_aside_the_last_ones_are_retained():
    world = one_bucket()

    async def fail(event):
        raise InvalidArgumentError(event.payload.decode())

    controller = await started(world, Handling(fail))
    for number in range(120):
        world.clock.now += 1
        await controller.context.events.post(report(number=number))
        await asyncio.sleep(0.01)
    await asyncio.sleep(CHECKPOINT_S + 1)
    found = await controller.context.event_progress.failed(1)
    assert [int(row.reason.split()[-1]) for _, row in found.rows] == list(range(20, 120))
    assert found.dropped == 20
    await controller.stop()


@simulated
async def test_the_segment_is_truncated_behind_the_checkpoint():
    world, handling = one_bucket(), Handling()
    controller = await started(world, handling)
    event = RequestEvent(REPORT, "s", "t", b"0" * 4000)
    for _ in range(40):
        await controller.context.events.post(event)
    await asyncio.sleep(CHECKPOINT_S + 1)
    segment = world.segments.segments[SEGMENT]
    assert segment.start_offset == segment.length
    await controller.stop()
    again = Handling()
    controller = await started(world, again)
    await controller.context.events.post(report(number=7))
    await asyncio.sleep(1)
    assert again.calls == [("t", 7)]
    await controller.stop()


@simulated
async def test_two_owners_of_a_bucket_do_not_both_go_on():
    world = one_bucket()
    controller = world.controller()
    handling = Handling()
    controller.context.events.handle(REPORT, handling)
    await controller.start()
    await controller.context.events.post(report())
    await asyncio.sleep(CHECKPOINT_S + 1)
    other = world.controller()
    other.context.events.handle(REPORT, handling)
    late = asyncio.ensure_future(EventProcessor(other.context).run(0))
    await asyncio.sleep(0.1)
    await controller.context.events.post(report(number=1))
    with pytest.raises(MetadataConflictError):
        await asyncio.wait_for(late, 10 * CHECKPOINT_S)
    assert handling.of("t").count(1) == 2
    await controller.stop()


@simulated
async def test_a_post_is_repeated_until_it_is_durable():
    world, handling = one_bucket(), Handling()
    controller = await started(world, handling)
    left = [3]

    async def lose(call, segment):
        if call == "append" and left[0]:
            left[0] -= 1
            raise ContainerOfflineError("moving")

    world.segments.fault = lose
    await controller.context.events.post(report(number=1))
    await asyncio.sleep(1)
    assert handling.calls == [("t", 1)]
    left[0], world.segments.fault, world.segments.after = 1, None, lose
    await controller.context.events.post(report(number=2))  # its first reply is lost
    await asyncio.sleep(1)
    assert handling.of("t") == [1, 2, 2]
    await controller.stop()
