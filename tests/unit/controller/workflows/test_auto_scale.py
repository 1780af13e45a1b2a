"""Reports of the load of segments reach a controller, and its stream is scaled."""

import asyncio
from dataclasses import replace

import pytest

from headrace.controller.events.event import EventKind, RequestEvent
from headrace.controller.store.layout import details_table, load_marks_key
from headrace.errors import DataCorruptionError, StreamBusyError
from headrace.model.names import segment_name
from headrace.model.segment_report import Load, SegmentReport, encode_report
from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import ask, eventually, info
from tests.unit.controller.conftest import World, stream_config


async def make_stream(controller, segments=1, segments_min=1, **policy):
    await ask(controller, "create_scope", pb.ScopeInfo(scope="s"))
    config = stream_config("t", segments)
    rate = pb.ScalingPolicy.BY_RATE_IN_EVENTS_PER_SEC
    scaling = {"scaleType": rate, "targetRate": 10, "scaleFactor": 4, "minNumSegments": segments, **policy}
    config.scalingPolicy.CopyFrom(pb.ScalingPolicy(**scaling))
    await ask(controller, "create_stream", config)
    if segments_min != segments:
        config.scalingPolicy.minNumSegments = segments_min
        await ask(controller, "update_stream", config)


async def ranges_of(controller):
    answer = await ask(controller, "get_current_segments", info())
    return {each.segmentId.segmentId: (each.minKey, each.maxKey) for each in answer.segmentRanges}


async def settle(controller):
    while not controller.is_idle():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.001)


async def handle(controller, report):
    """Handle a report as the owner of the stream's bucket does, once it has read it."""
    event = RequestEvent(EventKind.SCALE_REPORT, "s", "t", encode_report(report))
    await controller.context.events.dispatch(event)


async def report(controller, segment_id, load, pieces=0, permille=0, **changes):
    name = segment_name("s", "t", segment_id)
    said = SegmentReport(name, load, controller.context.clock.now_ms(), pieces, permille, 900_000)
    await handle(controller, replace(said, **changes))
    await settle(controller)


async def test_a_report_of_the_segment_store_reaches_the_owner_of_the_bucket(world):
    async with world.running() as controller:
        await make_stream(controller)
        now = controller.context.clock.now_ms()
        await controller.report_loads([SegmentReport("no-stream", Load.HOT, now, 2, 2000)])
        await controller.report_loads([SegmentReport(segment_name("s", "t", 0), Load.HOT, now, 2, 2000)])

        async def has_split():
            return len(await ranges_of(controller)) == 2

        await eventually(has_split)


async def test_a_hot_segment_is_split_and_its_pieces_are_metered(world):
    async with world.running() as controller:
        await make_stream(controller)
        await report(controller, 0, Load.HOT, 9, 9000)
        found = await ranges_of(controller)
        assert list(found.values()) == [(0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0)]
        created = [world.segments.segments[segment_name("s", "t", each)] for each in found]
        assert {(each.scale_type, each.target_rate) for each in created} == {(2, 10)}
        await report(controller, 0, Load.HOT, 9, 9000)
        assert await ranges_of(controller) == found, "the second report is late"


async def test_cold_neighbours_are_merged_down_to_the_least_number(world):
    async with world.running() as controller:
        await make_stream(controller, segments=4, segments_min=2)
        await report(controller, 0, Load.COLD, permille=100)
        await report(controller, 2, Load.SILENT)
        assert len(await ranges_of(controller)) == 4
        await report(controller, 1, Load.COLD, permille=100)
        assert sorted((await ranges_of(controller)).values()) == [(0.0, 0.75), (0.75, 1.0)]
        merged = next(key for key, value in (await ranges_of(controller)).items() if value == (0.0, 0.75))
        await report(controller, merged, Load.SILENT)
        await report(controller, 3, Load.SILENT)
        assert len(await ranges_of(controller)) == 2


async def test_a_mark_outlives_its_controller_and_goes_with_its_stream(world):
    async with world.running() as controller:
        await make_stream(controller, segments=2, segments_min=1)
        await report(controller, 0, Load.COLD)
        uid = (await controller.context.directory.get("s", "t")).uid
    async with world.running() as controller:
        assert await world.store.get(details_table(uid), load_marks_key(uid)) is not None
        await report(controller, 1, Load.COLD)
        assert list((await ranges_of(controller)).values()) == [(0.0, 1.0)]
        await ask(controller, "seal_stream", info())
        await ask(controller, "delete_stream", info())
        assert await world.store.get(details_table(uid), load_marks_key(uid)) is None


async def test_a_mark_ends(world):
    async with world.running() as controller:
        await make_stream(controller, segments=2, segments_min=1)
        await report(controller, 0, Load.COLD, valid_ms=1000)
        world.clock.now += 1000
        await report(controller, 1, Load.COLD)
        assert len(await ranges_of(controller)) == 2


async def test_reports_without_a_meaning_do_nothing(world):
    async with world.running() as controller:
        await make_stream(controller)
        before = await ranges_of(controller)
        await report(controller, 0, Load.HOT, 2, segment="no-stream")
        await report(controller, 0, Load.HOT, 2, segment=segment_name("s", "other", 0))
        await report(controller, 0, Load.HOT, 2, segment=segment_name("elsewhere", "t", 0))
        await report(controller, 0, Load.HOT, 2, time_ms=0)
        await report(controller, 77, Load.HOT, 2)
        assert await ranges_of(controller) == before
        await ask(controller, "seal_stream", info())
        await report(controller, 0, Load.HOT, 2)
        with pytest.raises(DataCorruptionError):
            await controller.context.events.dispatch(RequestEvent(EventKind.SCALE_REPORT, "s", "t", b"?"))


async def test_a_stream_of_a_fixed_number_of_segments_keeps_it(world):
    async with world.running() as controller:
        await make_stream(controller, scaleType=pb.ScalingPolicy.FIXED_NUM_SEGMENTS)
        await report(controller, 0, Load.HOT, 2)
        assert list(await ranges_of(controller)) == [0]


async def test_a_report_during_another_scale_is_to_be_handled_later(world):
    async with world.running() as controller:
        await make_stream(controller, segments=2, segments_min=2)
        held = asyncio.Event()

        async def fault(call, segment):
            if call == "seal_segment":
                await held.wait()

        world.segments.fault = fault
        name = segment_name("s", "t", 0)
        now = world.clock.now_ms()
        await handle(controller, SegmentReport(name, Load.HOT, now, 2, 2000))
        with pytest.raises(StreamBusyError):
            await handle(controller, SegmentReport(segment_name("s", "t", 1), Load.HOT, now, 2, 2000))
        held.set()
        await settle(controller)
        assert len(await ranges_of(controller)) == 3
        await report(controller, 1, Load.HOT, 2, 2000)
        assert len(await ranges_of(controller)) == 4


async def test_two_controllers_that_get_the_same_reports_scale_once():
    world = World()
    async with world.running() as first, world.running() as second:
        await make_stream(first, segments=3, segments_min=1)
        now = world.clock.now_ms()
        reports = [
            SegmentReport(segment_name("s", "t", number), Load.COLD, now, 0, 100, 900_000)
            for number in (0, 1)
        ]
        said = [handle(each, one) for one in reports for each in (first, second)]
        outcomes = await asyncio.gather(*said, return_exceptions=True)
        assert all(each is None or isinstance(each, StreamBusyError) for each in outcomes)
        await settle(first)
        await settle(second)
        for one in reports:  # what was busy is handled again
            await handle(first, one)
        await settle(first)
        assert sorted((await ranges_of(second)).values()) == [(0.0, 2 / 3), (2 / 3, 1.0)]
