"""Who goes first, as a table, and the queue that keeps to it."""

import asyncio
import random

import pytest

from headrace.errors import ContainerOfflineError
from headrace.model import attributes as attr
from headrace.segmentstore.durablelog.priority import Priority, priority_of
from headrace.segmentstore.durablelog.request_queue import Request, RequestQueue
from headrace.segmentstore.state.segment_state import SegmentState


@pytest.mark.parametrize(
    ("type_bits", "system", "deletes", "expected"),
    [
        (attr.TYPE_STREAM, False, False, Priority.NORMAL),
        (attr.TYPE_TABLE, False, False, Priority.NORMAL),
        (attr.TYPE_TRANSIENT, False, False, Priority.NORMAL),
        (attr.TYPE_INTERNAL, False, False, Priority.NORMAL),
        (attr.TYPE_STREAM, False, True, Priority.CRITICAL),
        (attr.TYPE_CRITICAL, False, False, Priority.CRITICAL),
        (attr.TYPE_STREAM, True, False, Priority.HIGH),
        (attr.TYPE_SYSTEM, False, False, Priority.HIGH),
        (attr.TYPE_STREAM, True, True, Priority.CRITICAL),
        (attr.TYPE_TABLE, True, False, Priority.SYSTEM_CRITICAL),
        (attr.TYPE_FIXED_KEY_TABLE, True, True, Priority.SYSTEM_CRITICAL),
        (attr.TYPE_SYSTEM | attr.TYPE_CRITICAL, False, False, Priority.SYSTEM_CRITICAL),
    ],
)
def test_priority_follows_from_segment_type_and_operation(type_bits, system, deletes, expected):
    assert priority_of(type_bits, system=system, deletes=deletes) is expected


class Line:
    """Pushes requests that are known by a number, and drains them into a list."""

    def __init__(self, count_max=10_000):
        self.queue = RequestQueue(count_max)
        self.loop = asyncio.get_running_loop()
        self.numbers = {}
        self.served = []

    def push(self, number, priority, *segments):
        request = Request(lambda _: None, 1, self.loop.create_future(), priority, segments)
        self.numbers[request] = number
        pushed = self.queue.push(request, self.queue.line_of(request))
        self.queue.check()
        return request if pushed else None

    def drain(self, count=10**9):
        def admit(request):
            if len(self.served) >= count:
                return False
            self.served.append(self.numbers[request])
            return True

        self.queue.drain(admit, len(Priority), 10**9)
        self.queue.check()
        return self.served


async def test_ten_thousand_requests_of_mixed_priority_leave_by_priority_and_in_order_within_it():
    rng = random.Random(7)
    line = Line()
    expected = []
    for number in range(10_000):
        priority = rng.choice(list(Priority))
        expected.append((priority, number))
        request = Request(lambda _: None, 1, line.loop.create_future(), priority, ())
        line.numbers[request] = number
        assert line.queue.push(request, line.queue.line_of(request))
    assert line.drain() == [number for _, number in sorted(expected)]
    assert line.queue.count == 0


async def test_so_many_are_served_at_once_and_whoever_serves_them_hears_of_others():
    line = Line()
    for number in range(5):
        line.push(number, Priority.NORMAL)
    refused = []
    assert line.queue.drain(lambda _: True, len(Priority), 2)
    assert line.queue.count == 3
    assert not line.queue.drain(refused.append, len(Priority), 2), "no room"
    assert len(refused) == 1
    assert not line.queue.drain(lambda _: True, len(Priority), 3), "nobody is left"
    line.queue.check()


async def test_who_comes_later_with_higher_priority_overtakes_in_the_middle():
    line = Line()
    for number in range(6):
        line.push(number, Priority.NORMAL)
    line.drain(3)
    line.push(100, Priority.CRITICAL)
    line.push(101, Priority.SYSTEM_CRITICAL)
    assert line.drain() == [0, 1, 2, 101, 100, 3, 4, 5]


async def test_a_delete_does_not_pass_earlier_requests_on_its_segment():
    line = Line()
    mine, other = SegmentState(1, "mine"), SegmentState(2, "other")
    line.push(0, Priority.NORMAL, other)
    line.push(1, Priority.NORMAL, mine)
    line.push(2, Priority.CRITICAL, mine)
    line.push(3, Priority.NORMAL, other)
    assert line.drain() == [0, 1, 2, 3]
    line.push(4, Priority.NORMAL, other)
    line.push(5, Priority.CRITICAL, mine)
    assert line.drain() == [0, 1, 2, 3, 5, 4], "nothing of its segment waits any more"


async def test_a_merge_keeps_its_place_on_both_of_its_segments():
    line = Line()
    target, source = SegmentState(1, "target"), SegmentState(2, "source")
    line.push(0, Priority.NORMAL, target, source)
    line.push(1, Priority.CRITICAL, source)
    assert line.drain() == [0, 1]


async def test_each_line_is_bounded_and_the_others_have_room():
    line = Line(count_max=3)
    assert all(line.push(number, Priority.NORMAL) for number in range(3))
    assert line.push(3, Priority.NORMAL) is None
    assert line.push(4, Priority.CRITICAL)
    assert line.queue.statistics() == {"system_critical": 0, "critical": 1, "high": 0, "normal": 3}


async def test_the_end_of_some_lines_leaves_the_more_urgent_ones():
    line = Line()
    normal = line.push(0, Priority.NORMAL)
    line.push(1, Priority.CRITICAL)
    line.queue.end(Priority.HIGH)
    line.queue.check()
    assert isinstance(normal.future.exception(), ContainerOfflineError)
    assert line.drain() == [1]
