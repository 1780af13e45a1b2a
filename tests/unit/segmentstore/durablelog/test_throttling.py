"""A loaded container slows down, lets what is urgent pass, and opens at once when it is told to."""

import asyncio
import itertools
import random
from functools import partial

import pytest

from headrace.errors import ContainerOfflineError, WalWriteError
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from tests.unit.segmentstore.durablelog.log_bench import Bench, Owner

LIMITS = ProcessorLimits(unstored_bytes_max=1000, throttle=ThrottleConfig(burst_bytes=100, delay_half_s=0.05))
FULL = 999


async def loaded(unstored=FULL, **wal):
    """Return a bench whose throttle is active, and a segment of it."""
    bench = await Bench(limits=LIMITS, **wal).start()
    segment = await bench.map("s")
    await bench.map("t")
    bench.index.unstored = unstored
    await notice(bench)
    return bench, segment


async def notice(bench):
    """Let one more frame become durable: that is when load is noticed."""
    noticing = bench.log.submit(rows, critical=True)
    await bench.settle()
    await noticing


def rows(sequence):
    return ops.StorageRows(sequence, {"k": b"v"})


def seal(segment):
    return partial(transitions.propose_seal, segment)


def throttle(bench):
    return bench.log.processor.statistics().throttle


@pytest.mark.parametrize(("unstored", "pressure"), [(900, 0.6), (600, 0.9)])
async def test_the_longest_delay_counts_and_no_other(unstored, pressure):
    bench = await Bench(limits=LIMITS).start()
    bench.index.unstored, bench.index.pressure = unstored, pressure
    await notice(bench)
    longest = max(unstored / 1000, pressure)
    found = throttle(bench)
    assert found.delay_s == pytest.approx(0.05 * (longest - 0.5) / (1 - longest))
    assert found.source == ("storage backlog" if unstored == 900 else "cache pressure")


async def test_an_unloaded_container_is_never_delayed():
    bench = await Bench(limits=LIMITS).start()
    segment, owner = await bench.map("s"), Owner(1)
    for number in range(1, 50):
        assert bench.log.processor.can_accept(10)
        bench.append(segment, owner, b"x" * 10, last=number)
        await bench.settle()
    assert throttle(bench).delays == 0
    bench.log.processor.check()


async def test_load_below_the_hard_bound_holds_appends_and_requests_back_for_a_while():
    bench, segment = await loaded(unstored=750)
    processor = bench.log.processor
    woken = asyncio.Event()
    assert not processor.can_accept(1)
    processor.wait_capacity(1, woken.set)
    sealing = bench.log.submit(seal(segment), segments=(segment,))
    await bench.settle()
    assert not sealing.done()
    assert throttle(bench).source == "storage backlog"
    assert throttle(bench).delay_s == pytest.approx(0.05)
    async with asyncio.timeout(60):
        await woken.wait()
        await bench.settle()
        await sealing
    assert throttle(bench).delayed_total_s > 0
    processor.check()


@pytest.mark.parametrize("waits", [True, False])
async def test_who_gives_up_takes_back_what_has_not_begun_and_nothing_else(waits):
    bench, segment = await loaded(unstored=FULL if waits else 0)
    sealing = bench.log.submit(seal(segment), segments=(segment,))
    assert segment.accepted_sealed is not waits
    sealing.cancel()
    bench.index.unstored = 0
    bench.log.processor.on_memory_freed()
    await bench.settle()
    assert segment.sealed is not waits
    assert bench.log.processor.statistics().requests_queued == 0
    bench.log.processor.check()


async def test_a_burst_passes_and_the_next_one_waits():
    bench, _ = await loaded(unstored=750)
    processor = bench.log.processor
    woken = asyncio.Event()
    processor.wait_capacity(1, woken.set)
    async with asyncio.timeout(60):
        await woken.wait()
    assert processor.can_accept(99)
    assert processor.can_accept(99)
    assert not processor.can_accept(1)


async def test_the_throttle_opens_at_once_when_storage_catches_up():
    bench, segment = await loaded()
    sealing = bench.log.submit(seal(segment), segments=(segment,))
    woken = []
    bench.log.processor.wait_capacity(1, lambda: woken.append(True))
    bench.index.unstored = 0
    bench.log.processor.on_memory_freed()
    await bench.settle()
    assert bench.log.processor.can_accept(10**5 // 1000)
    assert sealing.done()
    assert woken == [True]
    assert throttle(bench).delay_s == 0


@pytest.mark.parametrize("is_noticed", [True, False])
async def test_memory_that_others_free_without_telling_is_found(is_noticed):
    """The containers of a process share a cache: it empties although this one has done nothing."""
    bench, segment = await loaded(unstored=0)
    bench.index.unstored = 10**9
    if is_noticed:
        bench.log.processor.on_memory_freed()  # the throttle knows that there is no room
    assert not bench.log.processor.can_accept(1)
    woken = asyncio.Event()
    bench.log.processor.wait_capacity(1, woken.set)
    sealing = bench.log.submit(seal(segment), segments=(segment,))
    await bench.settle()
    assert not woken.is_set()
    assert not sealing.done()
    bench.index.unstored = 0
    async with asyncio.timeout(60):
        await woken.wait()
        await bench.settle()
        await sealing
    bench.log.processor.check()


async def test_memory_that_others_free_is_found_by_a_request_that_waits_alone():
    bench, segment = await loaded(unstored=0, auto=True)
    bench.index.unstored = 10**9
    sealing = bench.log.submit(seal(segment), segments=(segment,))
    await bench.settle()
    assert not sealing.done()
    bench.index.unstored = 0
    async with asyncio.timeout(60):
        await sealing


async def test_cache_pressure_delays_as_well_and_relaxes():
    bench, segment = await loaded(unstored=0)
    bench.index.pressure = 0.999
    await notice(bench)
    assert throttle(bench).source == "cache pressure"
    sealing = bench.log.submit(seal(segment), segments=(segment,))
    await bench.settle()
    assert not sealing.done()
    bench.index.pressure = 0.1
    bench.log.processor.on_memory_freed()
    await bench.settle()
    assert sealing.done()


async def test_a_memory_log_that_fills_delays():
    limits = ProcessorLimits(throttle=ThrottleConfig(memory_log_share=0.25, delay_half_s=1.0))
    bench = await Bench(limits=limits, memory_log_max=4).start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"x", last=1)
    await bench.settle()
    assert throttle(bench).source == "memory log size"
    await bench.log.memory_log.take(10, 1)
    bench.log.processor.on_memory_freed()
    assert throttle(bench).source == ""


@pytest.mark.parametrize("load", [FULL, 1 << 40])
async def test_a_critical_operation_is_durable_within_one_write_however_loaded_the_container_is(load):
    bench, segment = await loaded(unstored=load)
    waiting = [bench.log.submit(seal(segment), segments=(segment,)) for _ in range(50)]
    other = bench.state.get("t")
    futures = [
        bench.log.submit(rows, critical=True),
        bench.log.submit(partial(transitions.propose_delete, other), segments=(other,), deletes=True),
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(bench.wal.waiting) == 1
    bench.wal.step()
    assert all(future.done() and future.exception() is None for future in futures)
    assert not any(future.done() for future in waiting)
    bench.log.processor.close()
    await asyncio.wait(waiting)


async def test_stopping_at_the_maximum_delay_returns_at_once_and_tells_who_waits():
    bench, segment = await loaded(unstored=1 << 40, auto=True)
    owner, resumed = Owner(1), []
    sealing = bench.log.submit(seal(segment), segments=(segment,))
    bench.log.processor.wait_capacity(1, lambda: resumed.append(bench.log.processor.can_accept(10)))
    async with asyncio.timeout(120):
        await bench.log.stop()
    await asyncio.sleep(0)
    assert isinstance(sealing.exception(), ContainerOfflineError)
    assert resumed == [True]
    with pytest.raises(ContainerOfflineError):
        bench.append(segment, owner, b"late", last=1)
    assert bench.wal.closed
    bench.log.processor.check()


async def test_storage_commits_rows_while_the_container_stops():
    bench, segment = await loaded(unstored=1 << 40, auto=True)
    bench.log.end_intake()
    async with asyncio.timeout(120):
        await bench.log.submit(rows, critical=True)
    assert isinstance(bench.log.submit(seal(segment), segments=(segment,)).exception(), ContainerOfflineError)
    await bench.log.stop()
    assert isinstance(bench.log.submit(rows, critical=True).exception(), ContainerOfflineError)


async def test_what_was_accepted_before_the_stop_becomes_durable():
    bench, segment = await loaded(unstored=0, auto=True)
    owner = Owner(1)
    bench.append(segment, owner, b"accepted", last=1)
    await bench.log.stop()
    assert owner.acks == [(1, 0, 8)]
    assert owner.failures == []


async def test_a_failing_log_fails_everyone_who_is_throttled():
    bench, segment = await loaded()
    resumed = []
    waiting = [bench.log.submit(seal(segment), segments=(segment,)) for _ in range(100)]
    bench.log.processor.wait_capacity(1, lambda: resumed.append(bench.log.processor.can_accept(1)))
    critical = bench.log.submit(rows, critical=True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bench.wal.step(WalWriteError("disk on fire"))
    await asyncio.sleep(0)
    assert isinstance(critical.exception(), WalWriteError)
    assert all(isinstance(future.exception(), ContainerOfflineError) for future in waiting)
    assert resumed == [True]
    assert not throttle(bench).delay_s
    bench.log.processor.check()


@pytest.mark.slow
async def test_ten_thousand_requests_of_mixed_priority_are_served_by_priority_once_there_is_room():
    bench, _ = await loaded(frame_bytes=4096, frames=3, slots=1)
    segments = [bench.state.get("s"), bench.state.get("t")]
    rng = random.Random(3)
    order, expected, futures = [], [], []
    processor = bench.log.processor
    while processor.can_accept(1) or not processor.statistics().requests_queued:
        futures.append(bench.log.submit(rows, critical=True))  # until every frame is taken

    def propose(number, sequence):
        order.append(number)
        return rows(sequence)

    for number in range(10_000):
        critical = rng.random() < 0.3
        expected.append((not critical, number))
        on = () if critical else (rng.choice(segments),)
        futures.append(bench.log.submit(partial(propose, number), segments=on, critical=critical))
    processor.check()
    assert not order
    bench.index.unstored = 0
    processor.on_memory_freed()
    while processor.statistics().requests_queued:
        await bench.settle()
    await bench.settle()
    assert order == [number for _, number in sorted(expected)]
    assert all(future.exception() is None for future in futures)


async def test_waiting_for_what_is_accepted_does_not_wait_for_who_waits_or_comes_later():
    bench, segment = await loaded(unstored=1 << 40)
    owner = Owner(1)
    bench.append(segment, owner, b"accepted", last=1)
    held = bench.log.submit(seal(segment), segments=(segment,))
    flushing = asyncio.ensure_future(bench.log.flush())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for number in range(2, 5):
        bench.append(segment, owner, b"later", last=number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    bench.wal.step()
    await asyncio.sleep(0)
    assert flushing.done()
    assert not held.done()
    bench.log.processor.close()


async def test_who_gives_up_waiting_for_a_log_that_stands_still_leaves_nothing_behind():
    bench, segment = await loaded()
    bench.append(segment, Owner(1), b"accepted", last=1)
    processor = bench.log.processor
    for _ in range(10):  # as clients do that lose patience, connect and ask again
        waiting = [asyncio.ensure_future(bench.log.flush()) for _ in range(10)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
    patient = asyncio.ensure_future(bench.log.flush())
    await asyncio.sleep(0)
    assert processor._barriers.count == 1
    await bench.settle()
    assert patient.done()
    assert not processor._barriers.count
    processor.close()


async def test_one_request_that_cannot_be_encoded_leaves_its_neighbours_and_the_state_alone():
    bench = await Bench().start()
    segment = await bench.map("s")
    before = bench.state.sequence
    broken = bench.log.submit(lambda sequence: ops.StorageRows(sequence, {"k": 7}))
    surrogate = bench.log.submit(lambda seq: transitions.propose_map(bench.state, seq, "\ud800", {}))
    fine = bench.log.submit(seal(segment), segments=(segment,))
    await bench.settle()
    assert isinstance(broken.exception(), TypeError)
    assert isinstance(surrogate.exception(), UnicodeEncodeError)
    assert fine.exception() is None
    assert bench.state.find("\ud800") is None
    assert not bench.state.accepted_storage_rows
    assert bench.state.sequence > before
    again = await bench.recover()
    assert set(again.state.by_name) == {"s"}


async def test_a_request_larger_than_its_caller_said_waits_for_room_instead_of_tearing_a_frame():
    bench = await Bench(frame_bytes=200, frames=6, slots=1).start()
    segment, owner = await bench.map("s"), Owner(1)
    processor, number = bench.log.processor, 0
    while bench.wal.statistics().frames_free > 1:
        number += 1
        assert processor.can_accept(100)
        bench.append(segment, owner, b"z" * 100, last=number)
        processor.end_of_read()
    liar = bench.log.submit(lambda seq: ops.StorageRows(seq, {"k": b"v" * 500}), 1)
    assert not liar.done()
    await bench.settle()
    assert liar.exception() is None
    giant = bench.log.submit(lambda seq: ops.StorageRows(seq, {"k": b"v" * 50_000}), 1)
    assert giant.exception() is not None
    again = await bench.recover()
    assert again.state.storage_rows == {"k": b"v" * 500}


async def test_a_block_that_no_number_of_frames_can_hold_is_refused_and_does_not_wait_for_ever():
    bench = await Bench(frame_bytes=200, frames=4).start()
    segment, owner = await bench.map("s"), Owner(1)
    assert bench.log.processor.can_accept(5000)
    with pytest.raises(Exception, match="5000"):
        bench.append(segment, owner, b"z" * 5000, last=1)
    assert segment.accepted_length == 0
    bench.append(segment, owner, b"fine", last=1)
    await bench.settle()
    assert owner.acks == [(1, 0, 4)]


async def test_a_block_of_several_frames_gets_its_turn_beside_writers_of_small_ones():
    """They take each frame that comes back, so the large one never found as many as it needs."""
    bench = await Bench(frame_bytes=500, frames=6, slots=2).start()
    segment, large = await bench.map("s"), Owner(1000)
    processor = bench.log.processor
    numbers = iter(range(1, 10_000))
    stopped = False

    def fill():
        """Write as long as there is room, and again whenever there is."""
        while not stopped and processor.can_accept(400):
            bench.append(segment, Owner(next(numbers)), bytes(400), last=1)
        if not stopped:
            processor.wait_capacity(400, fill)

    def write_large():
        if processor.can_accept(1800):
            bench.append(segment, large, bytes(1800), last=1)
        else:
            processor.wait_capacity(1800, write_large)

    fill()
    write_large()

    async def store_frames(count):
        for _ in range(count):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            bench.wal.step()

    await store_frames(30)
    assert large.acks
    before = next(numbers)
    await store_frames(20)
    assert next(numbers) > before + 15, "the others go on"
    stopped = True
    await bench.settle()


async def test_a_block_of_several_frames_gets_its_turn_beside_callers_of_small_requests():
    """Each answer makes its caller ask anew: three of them have three frames at any time."""
    bench = await Bench(frame_bytes=500, frames=6, slots=2).start()
    segment, large = await bench.map("s"), Owner(1000)
    processor = bench.log.processor
    stopped = False

    async def call(key):
        update = AttributeUpdate(key, UpdateKind.REPLACE, 1, 0)
        while not stopped:
            await bench.log.submit(lambda sequence: transitions.propose_update(segment, sequence, [update]))

    callers = []
    for number in range(3):
        callers.append(asyncio.ensure_future(call(bytes([number + 1] * 16))))
        for _ in range(3):
            await asyncio.sleep(0)

    def write_large():
        if processor.can_accept(1800):
            bench.append(segment, large, bytes(1800), last=1)
        else:
            processor.wait_capacity(1800, write_large)

    write_large()
    for _ in range(500):
        bench.wal.step()
        for _ in range(4):
            await asyncio.sleep(0)
        if large.acks:
            break
    stopped = True
    accepted = bool(large.acks)
    await bench.settle()
    await asyncio.gather(*callers)
    await bench.settle()
    assert accepted, "500 frames went before it"


async def test_frames_kept_for_a_large_block_that_went_away_are_used_again():
    bench = await Bench(frame_bytes=500, frames=6, slots=2).start()
    segment, owner = await bench.map("s"), Owner(1)
    processor = bench.log.processor
    for number in range(1, 6):
        bench.append(segment, owner, bytes(400), last=number)
        processor.end_of_read()
    assert not processor.can_accept(1800)
    for _ in range(60):
        while processor.can_accept(400):
            number += 1
            bench.append(segment, owner, bytes(400), last=number)
            processor.end_of_read()
        await asyncio.sleep(0)
        while bench.wal.waiting:
            bench.wal.step()
            await asyncio.sleep(0)
    taken = 0
    while processor.can_accept(400):
        taken += 1
        number += 1
        bench.append(segment, owner, bytes(400), last=number)
        processor.end_of_read()
    assert taken == 6
    await bench.settle()


@pytest.mark.parametrize("small_first", [True, False])
@pytest.mark.parametrize("writers", [1, 3])
async def test_a_block_that_needs_all_frames_is_let_in_beside_busy_writers(small_first, writers):
    bench = await Bench(frame_bytes=500, frames=6, slots=2).start()
    segment, other = await bench.map("s"), await bench.map("t")
    processor, large, numbers = bench.log.processor, Owner(1), itertools.count(2)
    size = 4 * processor._builder.content_bytes_max
    assert processor._builder.frames_needed(size + 65) == 6
    stopped = False

    def fill():
        while not stopped and processor.can_accept(400):
            bench.append(segment, Owner(next(numbers)), bytes(400), last=1)
        processor.end_of_read()
        if not stopped:
            processor.wait_capacity(400, fill)

    def write_large():
        if processor.can_accept(size):
            bench.append(other, large, bytes(size), last=1)
            processor.end_of_read()
        else:
            processor.wait_capacity(size, write_large)

    fillers = [fill] * writers
    for write in [*fillers, write_large] if small_first else [write_large, *fillers]:
        write()
    while not large.acks:
        assert next(numbers) < 400, "it starves"
        await asyncio.sleep(0)
        if bench.wal.waiting:
            bench.wal.step()
    stopped = True
    await bench.settle()
