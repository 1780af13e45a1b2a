"""What the read index hears of appends on their way: a tail for each segment that has any, until the last."""

import asyncio
import random

import pytest

from headrace.errors import EventTooLargeError, OffsetMismatchError, ThrottledError, WalWriteError
from headrace.segmentstore.state import transitions
from tests.unit.segmentstore.durablelog.log_bench import Bench, Owner


async def start(*names, **wal):
    """A bench whose open frame is sent at the end of the turn, one frame at a time."""
    bench = await Bench(**{"slots": 1, **wal}).start()
    return bench, [await bench.map(name) for name in names]


async def turn():
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def submit_append(bench, segment, data):
    return bench.log.submit(
        lambda sequence: transitions.propose_append(segment, sequence, data, [], -1), len(data)
    )


def submit_merge(bench, target, source):
    return bench.log.submit(lambda sequence: transitions.propose_merge(target, source, sequence, []))


async def seal(bench, *segments):
    for segment in segments:
        future = bench.log.submit(lambda sequence, of=segment: transitions.propose_seal(of, sequence))
        await bench.settle()
        await future


@pytest.mark.parametrize("stored", [True, False], ids=["behind stored bytes", "behind unstored bytes"])
async def test_a_segment_counts_once_until_its_last_append_is_applied(stored):
    bench, (a, b) = await start("a", "b")
    owner = Owner(1)
    bench.append(a, owner, b"before", last=1)
    await bench.settle()
    a.stored_length = 6 if stored else 0
    assert bench.index.expected == 0
    for number in (2, 3, 4):
        bench.append(a, owner, b"x" * 10, last=number)
        await turn()  # one is in flight, the others in the frame behind it
        assert (a.appends_in_flight, bench.index.expected) == (min(number - 1, 2), 1)
    bench.append(b, owner, b"y", last=1)
    bench.append(a, owner, b"z", last=5)
    assert (a.appends_in_flight, b.appends_in_flight, bench.index.expected) == (3, 1, 2)
    bench.wal.step()
    assert (a.durable_length, a.appends_in_flight, bench.index.expected) == (16, 2, 2)
    await bench.settle()
    assert (a.durable_length, a.appends_in_flight, b.appends_in_flight) == (37, 0, 0)
    assert bench.index.expected == 0
    bench.log.processor.check()


async def test_empty_appends_are_taken_back_like_others():
    bench, (segment,) = await start("s", frame_bytes=1000)
    owner = Owner(1)
    for number in range(1, 5):
        bench.append(segment, owner, b"", last=number, expected=0)
    await turn()
    assert (segment.appends_in_flight, bench.index.expected) == (4, 1)
    bench.append(segment, owner, b"", last=5)
    bench.wal.step()
    assert (segment.appends_in_flight, bench.index.expected) == (1, 1), "a run that may still grow"
    bench.append(segment, owner, b"not empty", last=6)
    await bench.settle()
    assert (segment.durable_length, segment.appends_in_flight, bench.index.expected) == (9, 0, 0)


async def test_requests_that_append_count_like_runs():
    bench, (segment,) = await start("s")
    owner = Owner(1)
    first = submit_append(bench, segment, b"12")
    await turn()
    bench.append(segment, owner, b"345", last=1)
    second = submit_append(bench, segment, b"6")
    assert (segment.appends_in_flight, bench.index.expected) == (3, 1)
    bench.wal.step()
    assert (segment.appends_in_flight, bench.index.expected) == (2, 1)
    await bench.settle()
    assert first.done()
    assert second.done()
    assert (segment.durable_length, segment.appends_in_flight, bench.index.expected) == (6, 0, 0)


async def test_an_append_of_several_frames_counts_until_the_last_is_durable():
    bench, (segment,) = await start("s")
    owner = Owner(1)
    bench.append(segment, owner, b"x" * 1000, last=1)
    assert (segment.appends_in_flight, bench.index.expected) == (1, 1)
    await turn()
    while bench.wal.waiting:
        assert (segment.durable_length, bench.index.expected) == (0, 1)
        bench.wal.step()
        await turn()
    assert (segment.durable_length, bench.index.expected) == (1000, 0)


async def test_a_merge_behind_appends_counts_for_those_behind_it():
    bench, (target, first, second, third) = await start("t", "x", "y", "z")
    owner = Owner(1)
    await seal(bench, first, second, third)
    futures = [submit_merge(bench, target, first)]
    assert bench.index.expected == 0, "nothing is in flight in front of it"
    bench.append(target, owner, b"1", last=1)
    futures.append(submit_merge(bench, target, second))
    bench.append(target, owner, b"2", last=2)
    futures.append(submit_merge(bench, target, third))
    assert (target.appends_in_flight, bench.index.expected) == (2, 3)
    await bench.settle()
    assert all(future.done() and not future.exception() for future in futures)
    assert (target.durable_length, target.appends_in_flight, bench.index.expected) == (2, 0, 0)


async def test_what_is_refused_is_not_counted():
    bench, (segment,) = await start("s", frames=3)
    owner = Owner(1)
    with pytest.raises(EventTooLargeError):
        bench.append(segment, owner, b"x" * 10_000, last=1)
    with pytest.raises(OffsetMismatchError):
        bench.append(segment, owner, b"x", last=1, expected=7)
    acquire, prepare = bench.wal.acquire_frame, bench.wal.prepare_frames

    def fail(*_):
        raise MemoryError

    bench.wal.acquire_frame = bench.wal.prepare_frames = fail
    bench.log.processor._builder.seal()
    for size in (1, 300):
        with pytest.raises(ThrottledError):
            bench.append(segment, owner, b"x" * size, last=1)
    refused = submit_append(bench, segment, b"x" * 300)
    assert isinstance(refused.exception(), ThrottledError | EventTooLargeError)
    bench.wal.acquire_frame, bench.wal.prepare_frames = acquire, prepare
    assert (segment.appends_in_flight, bench.index.expected) == (0, 0)
    bench.append(segment, owner, b"x", last=1)
    await bench.settle()
    assert (segment.durable_length, segment.appends_in_flight, bench.index.expected) == (1, 0, 0)


async def test_a_log_that_failed_is_recovered_with_nothing_in_flight():
    bench, (segment,) = await start("s")
    owner = Owner(1)
    for number in (1, 2, 3):
        bench.append(segment, owner, b"x", last=number)
        await turn()
    bench.wal.step()
    bench.wal.step(WalWriteError("the disk is gone"))
    assert bench.failed
    bench.log.processor.check()
    recovered = await bench.recover()
    segment = recovered.state.get("s")
    assert (segment.durable_length, segment.appends_in_flight, recovered.index.expected) == (1, 0, 0)
    recovered.append(segment, owner, b"y", last=2)
    assert recovered.index.expected == 1
    await recovered.settle()
    assert recovered.index.expected == 0


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_happens_is_taken_back(seed):
    chance = random.Random(seed)
    bench, segments = await start(*(f"s{number}" for number in range(4)), slots=2, frames=50)
    sources = [await bench.map(f"x{number}") for number in range(30)]
    await seal(bench, *sources)
    owners = [Owner(1), Owner(2)]
    last = 0
    for _ in range(200):
        segment, last = chance.choice(segments), last + 1
        match chance.randrange(8):
            case 0 if sources:
                submit_merge(bench, segment, sources.pop())
            case 1:
                submit_append(bench, segment, b"x" * chance.choice([0, 1, 50, 500]))
            case 2:
                await turn()
            case 3 if bench.wal.waiting:
                bench.wal.step()
            case _ if len(bench.wal.pool) > 10:
                size = chance.choice([0, 1, 10, 200, 400])
                bench.append(segment, chance.choice(owners), b"x" * size, last=last)
        assert bench.index.expected >= sum(segment.appends_in_flight > 0 for segment in segments)
        bench.log.processor.check()
    await bench.settle()
    assert [segment.appends_in_flight for segment in segments] == [0] * 4
    assert all(segment.durable_length == segment.accepted_length for segment in segments)
    assert bench.index.expected == 0
    bench.log.processor.check()
