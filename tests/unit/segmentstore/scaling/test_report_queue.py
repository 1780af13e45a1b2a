"""Reports wait for the controller, and nothing waits for them."""

import asyncio
from contextlib import asynccontextmanager

from headrace.errors import StreamBusyError
from headrace.model.segment_report import REPORTS_MAX, Load, SegmentReport
from headrace.segmentstore.scaling.config import ScalingConfig
from headrace.segmentstore.scaling.report_queue import ReportQueue


class Receiver:
    def __init__(self):
        self.taken = []
        self.calls = []
        self.busy = set()
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, reports):
        await self.open.wait()
        if any(report.segment in self.busy for report in reports):
            raise StreamBusyError("another scale")
        self.calls.append(len(reports))
        self.taken += [(report.segment, report.load) for report in reports]


@asynccontextmanager
async def running(receiver, **settings):
    queue = ReportQueue(receiver, ScalingConfig(**settings))
    task = asyncio.ensure_future(queue.run())
    yield queue
    task.cancel()
    await asyncio.wait([task])


def report(segment, load=Load.COLD):
    return SegmentReport(segment, load, 0)


async def test_the_newest_report_of_a_segment_is_sent_and_hot_segments_first():
    receiver = Receiver()
    async with running(receiver) as queue:
        queue.put(report("a"))
        queue.put(report("b"))
        queue.put(report("a", Load.WARM))
        queue.put(report("c", Load.HOT))
        await asyncio.sleep(1)
    assert receiver.taken == [("c", Load.HOT), ("b", Load.COLD), ("a", Load.WARM)]
    assert (queue.statistics().waiting, queue.statistics().sent) == (0, 3)


async def test_reports_that_are_refused_are_sent_again_behind_newer_ones():
    receiver = Receiver()
    receiver.busy = {"a"}
    async with running(receiver) as queue:
        queue.put(report("a"))
        queue.put(report("b"))
        await asyncio.sleep(2)
        assert receiver.taken == []
        assert queue.statistics().waiting == 2
        queue.put(report("h", Load.HOT))
        await asyncio.sleep(2)
        assert receiver.taken == [("h", Load.HOT)]
        receiver.busy = set()
        await asyncio.sleep(2)
    assert receiver.taken[1:] == [("a", Load.COLD), ("b", Load.COLD)]
    assert queue.statistics().failed >= 4


async def test_many_reports_are_few_calls_of_a_bounded_size():
    receiver = Receiver()
    async with running(receiver) as queue:
        for number in range(2 * REPORTS_MAX + 1):
            queue.put(report(f"s-{number}"))
        await asyncio.sleep(1)
    assert receiver.calls == [REPORTS_MAX, REPORTS_MAX, 1]


async def test_a_controller_that_does_not_answer_fills_the_queue_and_nothing_else():
    receiver = Receiver()
    receiver.open.clear()
    async with running(receiver, queue_max=3, expiry_s=100.0) as queue:
        for name in "abcd":
            queue.put(report(name))
        assert queue.is_full
        queue.put(report("h", Load.HOT))
        assert queue.statistics().dropped == 1
        await asyncio.sleep(500)  # every call of it is given up after half a minute
        receiver.open.set()
        queue.put(report("z"))
        await asyncio.sleep(50)
    assert receiver.taken == [("z", Load.COLD)]
    assert queue.statistics().dropped == 5
    assert queue.statistics().waiting == 0
