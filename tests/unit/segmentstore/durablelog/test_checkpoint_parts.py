"""The parts of a checkpoint go into the log together, a frame full of them at a time, beside any load."""

import asyncio
import gc

import pytest

from headrace.errors import ContainerOfflineError, WalWriteError
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.durablelog import durable_log
from headrace.segmentstore.durablelog.log_replay import LogReplay
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits
from headrace.segmentstore.state import metadata_checkpoint
from tests.unit.segmentstore.durablelog.log_bench import Bench, Owner

FRAME_BYTES = 4096
FRAMES = 8


async def make_bench(**settings):
    """A log whose next checkpoint has some seventy parts of 100 bytes."""
    bench = await Bench(frame_bytes=FRAME_BYTES, frames=FRAMES, memory_log_max=10**6, **settings).start()
    for number in range(70):
        await bench.map(f"segment-{number}")
    return bench


def load(bench):
    """Begin to append whatever the log takes, for ever."""
    segment, owner, data = bench.state.get("segment-0"), Owner(1), bytes(500)
    processor, last = bench.log.processor, 0

    def fill():
        nonlocal last
        while processor.can_accept(len(data)) and not processor.has_ended:
            last += 1
            bench.append(segment, owner, data, last=last)
        processor.end_of_read()
        if not processor.has_ended:
            processor.wait_capacity(1, fill)

    fill()


async def write(bench, frames_max=1000):
    """Write a checkpoint, frames become durable one by one; return how many were needed."""
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    frames = 0
    while not writing.done() and frames < frames_max:
        for _ in range(5):
            await asyncio.sleep(0)
        if bench.wal.waiting:
            bench.wal.step()
            frames += 1
    await writing
    return frames


@pytest.mark.slow
async def test_little_of_a_loaded_log_lies_between_the_parts_for_recovery_keeps_that_aside(monkeypatch):
    bench = await make_bench()
    load(bench)
    frames = await write(bench)
    assert frames <= 6 * FRAMES, "for its beginning, its end, and each of the three frames that it fills"
    begin = bench.log._truncation.newest.begin_address
    bench.wal.stored = [item for item in bench.wal.stored if item[0] >= begin]

    kept_aside = []
    install = LogReplay._install

    def look(self, *checkpoint):
        kept_aside.append(sum(len(operation.data) for operation, _ in self._between))
        return install(self, *checkpoint)

    monkeypatch.setattr(LogReplay, "_install", look)
    again = await bench.recover()
    assert 0 < kept_aside[0] <= frames * FRAME_BYTES
    assert again.state.by_name.keys() == bench.state.by_name.keys()
    assert again.state.get("segment-0").durable_length == bench.state.get("segment-0").durable_length


async def test_rows_are_made_in_portions_and_the_checkpoint_has_what_changed_meanwhile(monkeypatch):
    bench = await make_bench()
    bench.log._budget = LoopBudget(10)
    segments, owner = list(bench.state.by_id.values()), Owner(1)
    made, make = [0], metadata_checkpoint.encode_segment_row

    def encode(state):
        made[-1] += state.checkpoint_row is None
        return make(state)

    monkeypatch.setattr(durable_log, "encode_segment_row", encode)
    monkeypatch.setattr(metadata_checkpoint, "encode_segment_row", encode)
    writing = asyncio.ensure_future(write(bench))
    for segment in segments[:40]:
        await asyncio.sleep(0)
        made.append(0)
        bench.append(segment, owner, b"x", last=1)
        bench.append(segments[-1], owner, b"x", last=len(made))
    await writing
    assert sum(made) > 70
    assert max(made) <= 10 + 10, "a portion, and what has changed since"
    begin = bench.log._truncation.newest.begin_address
    bench.wal.stored = [item for item in bench.wal.stored if item[0] >= begin]
    again = await bench.recover()
    for segment in segments:
        assert again.state.by_id[segment.segment_id].durable_length == segment.durable_length


async def test_no_more_parts_wait_for_frames_than_a_line_of_requests_takes():
    bench = await make_bench(limits=ProcessorLimits(requests_max=2))
    bench.log._part_bytes = 1000  # more than appends leave of a frame
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    for _ in range(2):
        await asyncio.sleep(0)
    bench.wal.step()  # its beginning
    load(bench)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not bench.wal.frames_free, "there was none when the first parts came"
    assert bench.log.processor.statistics().urgent_queued == 1
    while not writing.done():
        bench.wal.step()
        await asyncio.sleep(0)
    await writing


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(0, 20, 3))
async def test_a_log_that_fails_ends_a_checkpoint_and_nothing_of_it_is_left(steps):
    bench = await make_bench()
    missed = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: missed.append(context))
    load(bench)
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    for _ in range(steps):
        await asyncio.sleep(0)
        bench.wal.step()
    await asyncio.sleep(0)
    bench.wal.step(OSError("the disk is away"))
    await asyncio.wait([writing])
    assert isinstance(writing.exception(), WalWriteError | ContainerOfflineError)
    assert not bench.log._checkpointing
    del writing, bench  # those who appended have the error, and its traceback names the parts
    gc.collect()
    assert not missed


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(8, 20, 3))
async def test_a_checkpoint_that_is_cancelled_is_no_checkpoint_and_the_next_one_is(steps):
    bench = await make_bench()
    load(bench)
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    for _ in range(steps):
        await asyncio.sleep(0)
        bench.wal.step()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    newest = bench.log._truncation.newest.end_sequence
    await write(bench)
    assert bench.log._truncation.newest.end_sequence > newest
    again = await bench.recover()
    assert again.state.by_name.keys() == bench.state.by_name.keys()
