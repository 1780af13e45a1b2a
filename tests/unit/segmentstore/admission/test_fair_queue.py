"""The queue is fair, the lane is quick, and nothing passes an earlier request on its own segment."""

import asyncio
import random

import pytest

from headrace.errors import ContainerOfflineError
from headrace.model import attributes as attr
from headrace.segmentstore.admission.fair_queue import FairQueue, Request
from headrace.segmentstore.admission.urgency import is_urgent
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState


@pytest.mark.parametrize(
    ("type_bits", "name", "deletes", "expected"),
    [
        (attr.TYPE_STREAM, "s", False, False),
        (attr.TYPE_TABLE, "s", False, False),
        (attr.TYPE_TRANSIENT, "s", False, False),
        (attr.TYPE_INTERNAL, "s", False, False),
        (attr.TYPE_STREAM, "s", True, True),
        (attr.TYPE_CRITICAL, "s", False, True),
        (attr.TYPE_STREAM, "_system/s", False, False),
        (attr.TYPE_SYSTEM, "s", False, False),
        (attr.TYPE_STREAM, "_system/s", True, True),
        (attr.TYPE_TABLE, "_system/s", False, True),
        (attr.TYPE_FIXED_KEY_TABLE, "_system/s", True, True),
        (attr.TYPE_SYSTEM | attr.TYPE_CRITICAL, "s", False, True),
    ],
)
def test_urgency_follows_from_segment_type_and_operation(type_bits, name, deletes, expected):
    segment = SegmentState(1, name, attributes=SegmentAttributes({attr.SEGMENT_TYPE: type_bits}))
    assert is_urgent((segment,), deletes=deletes) is expected
    assert not is_urgent((), deletes=deletes)


class Bench:
    """Requests and connections that are known by a number, and served into a list."""

    def __init__(self, requests_max=10_000):
        self.queue = FairQueue(requests_max)
        self.loop = asyncio.get_running_loop()
        self.numbers = {}
        self.served = []

    def ask(self, number, *segments, urgent=False):
        request = Request(lambda _: None, 1, self.loop.create_future(), segments, is_urgent=urgent)
        self.numbers[request] = number
        added = self.queue.add_request(request)
        self.queue.check()
        return request if added else None

    def connect(self, number, size=1):
        def resume():
            self.served.append(number)

        self.queue.add_block(size, resume)
        self.queue.check()
        return resume

    def serve(self, count=10**9):
        while count and (head := self.queue.head) is not None:
            self.queue.remove_head()
            self.queue.check()
            if isinstance(head, Request):
                self.served.append(self.numbers[head])
            else:
                head.resume()
            count -= 1
        return self.served


@pytest.mark.slow
async def test_whoever_waits_is_served_in_order_behind_what_is_urgent():
    rng = random.Random(7)
    bench, expected = Bench(), []
    for number in range(1_000):
        urgent = rng.random() < 0.3
        if not urgent and rng.random() < 0.5:
            bench.connect(number)
        else:
            bench.ask(number, urgent=urgent)
        expected.append((not urgent, number))
    assert bench.serve() == [number for _, number in sorted(expected)]
    assert bench.queue.count == 0


async def test_what_is_urgent_and_comes_later_goes_first():
    bench = Bench()
    for number in range(6):
        bench.ask(number)
    bench.serve(3)
    bench.ask(100, urgent=True)
    bench.ask(101, urgent=True)
    assert bench.serve() == [0, 1, 2, 100, 101, 3, 4, 5]


async def test_a_delete_does_not_pass_earlier_requests_on_its_segment():
    bench = Bench()
    mine, other = SegmentState(1, "mine"), SegmentState(2, "other")
    bench.ask(0, other)
    bench.ask(1, mine)
    bench.ask(2, mine, urgent=True)
    bench.ask(3, other)
    assert bench.serve() == [0, 1, 2, 3]
    bench.ask(4, other)
    bench.ask(5, mine, urgent=True)
    assert bench.serve() == [0, 1, 2, 3, 5, 4], "nothing of its segment waits any more"


async def test_a_merge_keeps_its_place_on_both_of_its_segments():
    bench = Bench()
    target, source = SegmentState(1, "target"), SegmentState(2, "source")
    bench.ask(0, target, source)
    bench.ask(1, source, urgent=True)
    assert bench.serve() == [0, 1]


async def test_only_who_would_pass_somebody_has_to_wait():
    bench = Bench()
    mine, other = SegmentState(1, "mine"), SegmentState(2, "other")

    def must_wait(*segments, urgent):
        request = Request(lambda _: None, 1, bench.loop.create_future(), segments, is_urgent=urgent)
        return bench.queue.must_wait(request)

    assert not must_wait(mine, urgent=False)
    bench.ask(0, mine)
    assert must_wait(other, urgent=False)
    assert must_wait(mine, urgent=True)
    assert not must_wait(other, urgent=True)
    bench.ask(1, other, urgent=True)
    assert must_wait(urgent=True)


async def test_requests_of_each_line_are_bounded_and_the_others_have_room():
    bench = Bench(requests_max=3)
    assert all(bench.ask(number) for number in range(3))
    assert bench.ask(3) is None
    assert bench.ask(4, urgent=True)
    bench.connect(5)
    found = bench.queue.statistics()
    assert (found.urgent, found.requests, found.connections) == (1, 3, 1)


async def test_a_connection_waits_once_with_its_latest_block_and_may_leave():
    bench = Bench()
    first, second = bench.connect(0), bench.connect(1)
    bench.queue.add_block(77, first)
    assert bench.queue.count == 2
    assert bench.queue.head.size_bytes == 77
    bench.queue.remove_block(first)
    bench.queue.remove_block(first)
    bench.queue.check()
    assert bench.serve() == [1]
    bench.queue.remove_block(second)
    assert bench.queue.count == 0


async def test_the_end_refuses_requests_and_answers_what_lets_connections_go_on():
    bench = Bench()
    normal, resume, urgent = bench.ask(0), bench.connect(1), bench.ask(2, urgent=True)
    assert bench.queue.end(include_lane=False) == [resume]
    bench.queue.check()
    assert isinstance(normal.future.exception(), ContainerOfflineError)
    assert not urgent.future.done()
    assert bench.queue.end(include_lane=True) == []
    assert isinstance(urgent.future.exception(), ContainerOfflineError)
    assert bench.queue.count == 0
