"""Requests and blocks share few frames: whoever waits gets a turn within a bounded number of frames."""

import asyncio
import itertools
import random
from functools import partial

import pytest

from headrace.segmentstore.admission import log_admission
from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.durablelog import frame_dispatch
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from tests.effort import seeds
from tests.unit.segmentstore.durablelog.log_bench import Bench, Owner

SMALL, LARGE, ALL = 400, 1800, 4 * 460
"""Bytes of a block or request that takes a frame, five frames, and all six."""


class Crowd:
    """Callers and writers who ask anew whenever they are answered."""

    def __init__(self, bench, segment):
        self.bench = bench
        self.segment = segment
        self.processor = bench.log.processor
        self.stopped = False
        self.done = {}
        self.callers = []
        self.numbers = iter(range(1, 1_000_000))

    def call(self, name, size, segments=()):
        self.done[name] = 0
        self.callers.append(asyncio.ensure_future(self._call(name, size, segments)))

    async def _call(self, name, size, segments):
        while not self.stopped:
            await self.bench.log.submit(
                lambda sequence: transitions.propose_append(self.segment, sequence, bytes(size), (), -1),
                size,
                segments=segments,
            )
            self.done[name] += 1

    def write(self, name, size):
        self.done[name] = 0

        def fill():
            while not self.stopped and self.processor.can_accept(size):
                self.bench.append(self.segment, Owner(next(self.numbers)), bytes(size), last=1)
                self.processor.end_of_read()
                self.done[name] += 1
            if not self.stopped:
                self.processor.wait_capacity(size, fill)

        fill()

    async def frames(self, count, turns=lambda: 4):
        for _ in range(count):
            for _ in range(turns()):
                await asyncio.sleep(0)
            if self.bench.wal.waiting:
                self.bench.wal.step()
            self.processor.check()

    async def stop(self):
        self.stopped = True
        while not all(caller.done() for caller in self.callers):
            await self.bench.settle()
        await self.bench.settle()
        await asyncio.gather(*self.callers)
        assert self.bench.is_idle


@pytest.fixture
async def crowd():
    bench = await Bench(frame_bytes=500, frames=6, slots=2, memory_log_max=100_000).start()
    crowd = Crowd(bench, await bench.map("s"))
    yield crowd
    await crowd.stop()


@pytest.mark.parametrize("callers", [3, 6, 7, 20])
async def test_blocks_have_their_turn_beside_requests_that_always_wait(crowd, callers):
    for number in range(callers):
        crowd.call(f"caller {number}", SMALL - 200)
    crowd.write("writer", SMALL)
    await crowd.frames(100)
    assert min(crowd.done.values()) >= 100 // (callers + 1) // 3, crowd.done


@pytest.mark.parametrize("writers", [1, 3])
async def test_requests_have_their_turn_beside_blocks_that_always_wait(crowd, writers):
    for number in range(writers):
        crowd.write(f"writer {number}", SMALL)
    crowd.call("caller", SMALL - 200)
    before = crowd.done["caller"]
    await crowd.frames(100)
    assert crowd.done["caller"] - before >= 5, crowd.done


@pytest.mark.slow
@pytest.mark.parametrize("callers", [1, 3, 8])
@pytest.mark.parametrize("size", [LARGE, ALL])
async def test_a_large_block_and_callers_of_small_requests_both_go_on(crowd, callers, size):
    for number in range(callers):
        crowd.call(f"caller {number}", SMALL - 200)
    crowd.write("large", size)
    await crowd.frames(300)
    assert min(crowd.done.values()) >= 5, crowd.done


@pytest.mark.slow
@pytest.mark.parametrize("size", [LARGE, ALL - 200])
@pytest.mark.parametrize("with_large_blocks", [False, True])
async def test_a_large_request_has_its_turn_beside_everybody_else(crowd, size, with_large_blocks):
    for number in range(8):
        crowd.call(f"caller {number}", SMALL - 200)
    crowd.write("writer", SMALL)
    if with_large_blocks:
        crowd.write("large block", LARGE)
    crowd.call("large request", size)
    await crowd.frames(500)
    assert min(crowd.done.values()) >= 5, crowd.done


@pytest.mark.slow
@pytest.mark.parametrize("writers", [1, 3])
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("is_first", [False, True])
async def test_a_larger_block_has_its_turn_beside_large_ones(crowd, writers, others, is_first):
    if is_first:
        crowd.write("larger", ALL)
    for number in range(writers):
        crowd.write(f"large {number}", 500)
    if not is_first:
        crowd.write("larger", ALL)
    for _ in range(others):
        crowd.write("small", SMALL)
        for number in range(3):
            crowd.call(f"caller {number}", SMALL - 200)
    await crowd.frames(500)
    assert min(crowd.done.values()) >= 5, crowd.done


async def test_of_small_blocks_beside_a_large_one_each_has_its_turn(crowd):
    crowd.write("large", 1200)
    for number in range(3):
        crowd.write(f"small {number}", 200)
    await crowd.frames(500)
    assert min(crowd.done.values()) >= 5, crowd.done


async def test_of_many_who_wait_no_more_are_asked_than_there_is_room_for(crowd):
    for number in range(100):
        crowd.write(f"writer {number}", SMALL)
    before = crowd.processor.statistics().capacity_waits
    await crowd.frames(300)
    assert crowd.processor.statistics().capacity_waits - before <= 3 * 300
    assert min(crowd.done.values()) >= 2, crowd.done


async def test_all_who_fit_a_frame_get_in_behind_one_who_waits_for_something_else(crowd):
    """As a conditional append does until what decides about it is durable, whatever room there is."""

    def wait_again():
        if not crowd.stopped:
            crowd.processor.wait_durable(wait_again)

    def write_once(owner):
        if not crowd.processor.can_accept(40):
            crowd.processor.wait_capacity(40, lambda: write_once(owner))
            return
        crowd.bench.append(crowd.segment, owner, bytes(40), last=1)
        crowd.processor.end_of_read()
        written.append(owner)

    written = []
    for number in range(6):
        crowd.bench.append(crowd.segment, Owner(100 + number), bytes(SMALL), last=1)
        crowd.processor.end_of_read()
    wait_again()
    for number in range(3):
        write_once(Owner(number))
    assert not written
    await asyncio.sleep(0)
    crowd.bench.wal.step()
    for _ in range(4):
        await asyncio.sleep(0)
    assert len(written) == 3


async def test_those_who_were_not_asked_go_on_when_there_is_memory_again(crowd):
    for number in range(20):
        crowd.write(f"writer {number}", 40)
    index = crowd.bench.index
    append = crowd.bench.append

    def append_and_fill(*arguments, **options):
        append(*arguments, **options)
        index.unstored += ProcessorLimits().unstored_bytes_max // 2

    crowd.bench.append = append_and_fill
    await crowd.frames(5)
    before = dict(crowd.done)
    for _ in range(40):
        index.unstored = 0
        crowd.processor.on_memory_freed()
        await crowd.frames(1)
    assert all(crowd.done[name] > before[name] for name in before), crowd.done
    index.unstored = 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(24))
async def test_nobody_starves_however_they_are_mixed(crowd, seed):
    chance = random.Random(seed)
    kinds = [(crowd.call, SMALL - 200), (crowd.call, LARGE), (crowd.call, 40)]
    kinds += [(crowd.write, size) for size in (40, 200, 900, LARGE)]
    starts = [chance.choice(kinds) for _ in range(chance.randint(2, 7))]
    starts.insert(chance.randrange(len(starts) + 1), (crowd.write, SMALL))
    for number, (start, size) in enumerate(starts):
        start(f"{start.__name__} {size} {number}", size)
        await crowd.frames(chance.randrange(3))
    await crowd.frames(600, lambda: chance.randint(1, 5))
    assert min(crowd.done.values()) >= 3, crowd.done


async def test_requests_go_on_when_the_large_block_that_they_wait_for_has_left(crowd):
    for number in range(5):
        crowd.bench.append(crowd.segment, Owner(1 + number), bytes(SMALL), last=1)
        crowd.processor.end_of_read()
    abort = asyncio.Event().set
    assert not crowd.processor.can_accept(ALL)
    crowd.processor.wait_capacity(ALL, abort)
    crowd.processor.stop_waiting(abort)
    for number in range(4):
        crowd.call(f"caller {number}", SMALL - 200)
    await crowd.frames(60)
    assert min(crowd.done.values()) >= 5, crowd.done


async def test_nothing_critical_waits_for_a_large_block(crowd):
    for number in range(5):
        crowd.bench.append(crowd.segment, Owner(1 + number), bytes(SMALL), last=1)
        crowd.processor.end_of_read()
    assert not crowd.processor.can_accept(ALL)
    crowd.processor.wait_capacity(ALL, lambda: None)
    delayed = crowd.bench.log.submit(
        lambda sequence: transitions.propose_append(crowd.segment, sequence, bytes(100), (), -1), 100
    )
    assert crowd.processor.statistics().requests_queued == 1
    rows = [
        crowd.bench.log.submit(lambda sequence: ops.StorageRows(sequence, {"k": b"v"}), critical=True)
        for _ in range(3)
    ]
    assert crowd.processor.statistics().requests_queued == 1
    await crowd.frames(10)
    assert all(future.done() for future in rows)
    await crowd.frames(10)
    await delayed


@pytest.mark.slow
@pytest.mark.parametrize("callers", [1, 5])
async def test_a_slowed_down_container_lets_blocks_and_requests_in_by_turns(callers):
    limits = ProcessorLimits(
        unstored_bytes_max=10_000, throttle=ThrottleConfig(burst_bytes=100, delay_half_s=0.002)
    )
    bench = await Bench(limits=limits, memory_log_max=100_000).start()
    crowd = Crowd(bench, await bench.map("s"))
    bench.index.unstored = 7500
    noticing = bench.log.submit(lambda sequence: ops.StorageRows(sequence, {"k": b"v"}), critical=True)
    await bench.settle()
    await noticing
    for number in range(callers):
        crowd.call(f"caller {number}", 300)
    crowd.write("writer", 300)
    async with asyncio.timeout(120):
        while min(crowd.done.values()) < 5:
            await crowd.frames(1)
            assert max(crowd.done.values()) < 60, crowd.done
    bench.index.unstored = 0
    crowd.processor.on_memory_freed()
    await crowd.stop()


async def test_requests_that_waited_for_memory_begin_a_bounded_number_in_a_turn(monkeypatch):
    monkeypatch.setattr(log_admission, "SERVED_MAX", 10)
    bench = await Bench(frame_bytes=100_000, limits=ProcessorLimits(unstored_bytes_max=1000)).start()
    segment = await bench.map("s")
    bench.index.unstored = 1000
    begun = []

    def propose(number, sequence):
        begun.append(number)
        return transitions.propose_append(segment, sequence, b"x", (), -1)

    answers = [bench.log.submit(partial(propose, number), 1) for number in range(95)]
    urgent = [bench.log.submit(partial(propose, -1), 1, critical=True)]
    bench.index.unstored = 0
    seen = [len(begun)]
    processor = bench.log.processor
    for _ in range(3):
        processor.on_memory_freed()  # however often room comes in one turn
    while processor.statistics().requests_queued:
        seen.append(len(begun))
        if len(seen) == 4:
            urgent.append(bench.log.submit(partial(propose, -2), 1, critical=True))
        await asyncio.sleep(0)
        processor.check()
    await bench.settle()
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 11
    assert [number for number in begun if number >= 0] == list(range(95))
    assert begun.index(-2) < 50, "what is urgent does not wait for them"
    assert all(answer.done() for answer in answers + urgent)


async def test_what_takes_effect_in_a_turn_is_bounded_while_the_log_stands(monkeypatch):
    monkeypatch.setattr(frame_dispatch, "ITEMS_MAX", 10)
    bench = await Bench(frame_bytes=100_000, frames=20, slots=1).start()
    segment = await bench.map("s")
    owners, turns = [Owner(number) for number in range(1, 101)], itertools.count()
    for owner in owners:
        bench.append(segment, owner, b"x", last=1)
        if next(turns) % 3 == 0:
            await asyncio.sleep(0)  # three appends arrive at a time
    await asyncio.sleep(0)
    durable = []
    while not bench.is_idle:
        bench.wal.step()
        durable.append(sum(len(owner.acks) for owner in owners))
        await asyncio.sleep(0)
    assert durable[-1] == 100
    assert max(after - before for before, after in itertools.pairwise([0, *durable])) <= 10 + 3
    assert len(durable) <= 100 // 10 + 2, "they are not written one by one either"
