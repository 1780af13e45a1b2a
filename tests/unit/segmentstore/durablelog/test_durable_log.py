"""The durable log from append block to recovered state, on a WAL that becomes durable frame by frame."""

import asyncio
import errno
import random
from functools import partial

import pytest

from headrace.errors import (
    AttributeMismatchError,
    ContainerOfflineError,
    DataCorruptionError,
    InvalidArgumentError,
    OffsetMismatchError,
    SegmentSealedError,
    ThrottledError,
    TooManyAttributesError,
    WalWriteError,
)
from headrace.limits import INT64_MAX
from headrace.model.attributes import (
    EVENT_COUNT,
    SEGMENT_TYPE,
    TYPE_TRANSIENT,
)
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.contract import StoredAppend, StoredCheckpoint
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.segmentstore.operations.codec import BATCH_EVENTS_MAX
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.metadata_checkpoint import encode_segment_row
from tests.effort import seeds
from tests.unit.segmentstore.durablelog.log_bench import Bench, Owner


async def test_nothing_is_acknowledged_or_visible_before_its_frame_is_durable():
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"hello", last=1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (segment.accepted_length, segment.durable_length, owner.acks) == (5, 0, [])
    assert bench.index.content(segment) == b""
    bench.wal.step()
    assert (segment.durable_length, owner.acks) == (5, [(1, 0, 5)])
    assert bench.index.content(segment) == b"hello"


async def test_blocks_of_one_read_are_one_run_with_one_acknowledgement():
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    for number in range(1, 6):
        bench.append(segment, owner, b"x" * number, last=number, request=number)
    bench.log.processor.end_of_read()
    bench.append(segment, owner, b"y", last=6, request=6)
    await bench.settle()
    assert owner.acks == [(5, 5, 15), (6, 6, 16)]
    assert segment.attribute(EVENT_COUNT) == 6
    assert segment.attribute(owner.writer_id) == 6


async def test_conditional_blocks_are_acknowledged_one_by_one():
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"aa", last=1, expected=0)
    bench.append(segment, owner, b"bb", last=2, expected=2)
    with pytest.raises(OffsetMismatchError):
        bench.append(segment, owner, b"cc", last=3, expected=2)
    bench.append(segment, owner, b"dd", last=4, expected=4)
    await bench.settle()
    assert [ack[0] for ack in owner.acks] == [1, 2, 4]
    assert bench.index.content(segment) == b"aabbdd"


async def test_the_attribute_is_checked_before_the_offset():
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    with pytest.raises(AttributeMismatchError):
        bench.append(segment, owner, b"a", previous=7, last=8, expected=99)
    assert segment.accepted_length == 0
    assert owner.writer_id not in segment.attributes.accepted


async def test_a_refused_block_leaves_its_neighbours_alone():
    bench = await Bench().start()
    first, second = await bench.map("a"), await bench.map("b")
    owner = Owner(1)
    bench.append(first, owner, b"1", last=1)
    sealing = bench.log.submit(partial(transitions.propose_seal, second))
    other = Owner(2)
    with pytest.raises(SegmentSealedError):
        bench.append(second, other, b"2", last=1)
    bench.append(first, owner, b"3", last=2)
    await bench.settle()
    assert sealing.done()
    assert bench.index.content(first) == b"13"
    assert owner.acks[-1] == (2, 0, 2)
    assert other.acks == []


async def test_frames_fill_while_the_wal_is_busy():
    bench = await Bench(frame_bytes=600, slots=1).start()
    segment, owner = await bench.map("s"), Owner(1)
    for number in range(1, 5):
        bench.append(segment, owner, b"x", last=number)
        bench.log.processor.end_of_read()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(bench.wal.waiting) == 1
    bench.wal.step()
    bench.wal.step()
    assert not bench.wal.waiting, "three appends waited in one frame"
    assert len(owner.acks) == 4


async def test_no_free_frame_means_back_pressure_and_a_wake_up():
    bench = await Bench(frame_bytes=200, frames=3, slots=1).start()
    segment, owner = await bench.map("s"), Owner(1)
    processor = bench.log.processor
    woken = []
    number = 0
    while processor.can_accept(50):
        number += 1
        bench.append(segment, owner, b"z" * 50, last=number)
        processor.end_of_read()
    assert 2 <= number < 10
    processor.wait_capacity(50, lambda: woken.append(processor.can_accept(50)))
    await asyncio.sleep(0)
    bench.wal.step()
    await asyncio.sleep(0)
    assert woken == [True]
    await bench.settle()
    assert len(owner.acks) == number


async def test_a_block_larger_than_a_frame_is_one_atomic_append():
    bench = await Bench(frame_bytes=200, frames=30).start()
    segment, owner = await bench.map("s"), Owner(1)
    big = random.Random(1).randbytes(3000)
    bench.append(segment, owner, b"a", last=1)
    bench.append(segment, owner, big, last=2)
    bench.append(segment, owner, b"b", last=3)
    await bench.settle()
    assert bench.index.content(segment) == b"a" + big + b"b"
    assert [ack[0] for ack in owner.acks] == [1, 2, 3]
    again = await bench.recover()
    assert again.index.content(again.state.get("s")) == b"a" + big + b"b"


async def test_a_failed_write_ends_everything_that_was_not_acknowledged():
    bench = await Bench(slots=2).start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"1", last=1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bench.append(segment, owner, b"2", last=2)
    sealing = bench.log.submit(partial(transitions.propose_seal, segment))
    bench.wal.step(OSError("disk on fire"))
    assert owner.acks == []
    assert len(owner.failures) == 1
    assert isinstance(owner.failures[0], WalWriteError)
    assert isinstance(sealing.exception(), WalWriteError)
    assert len(bench.failed) == 1
    with pytest.raises(ContainerOfflineError):
        bench.append(segment, owner, b"3", last=3)
    assert isinstance(
        bench.log.submit(partial(transitions.propose_seal, segment)).exception(), ContainerOfflineError
    )


async def test_nothing_leaves_or_is_acknowledged_once_the_owner_has_ended():
    """Also not what was on its way and is durable after all: what came before it may not be."""
    bench = await Bench(slots=2).start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"1", last=1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bench.append(segment, owner, b"2", last=2)
    bench.log.fail(WalWriteError("another part has failed"))
    await asyncio.sleep(0)
    assert len(bench.wal.waiting) == 1
    bench.wal.step()
    assert (owner.acks, len(owner.failures)) == ([], 1)
    assert (segment.durable_length, bench.index.content(segment)) == (0, b"")


async def test_a_flush_waits_for_every_frame_that_there_was():
    bench = await Bench(frame_bytes=200, slots=1).start()
    segment, owner = await bench.map("s"), Owner(1)
    for number in range(1, 4):
        bench.append(segment, owner, b"x" * 100, last=number)
        await asyncio.sleep(0)
    assert len(bench.wal.waiting) < 3
    flushing = asyncio.ensure_future(bench.log.flush())
    while len(owner.acks) < 3:
        await asyncio.sleep(0)
        assert not flushing.done()
        bench.wal.step()
    await flushing


async def test_who_waits_on_a_segment_is_told_of_whatever_ends_or_moves_it():
    bench = await Bench().start()
    target, source, last = [await bench.map(name) for name in ("t", "s", "l")]
    bench.append(source, Owner(1), b"abc", last=1)
    for propose in (
        partial(transitions.propose_seal, source),
        lambda sequence: transitions.propose_merge(target, source, sequence, ()),
        lambda sequence: transitions.propose_truncate(target, sequence, 2),
        partial(transitions.propose_delete, last),
    ):
        bench.log.submit(propose)
        await bench.settle()
    none, sealed = (False, False, False), (True, False, False)
    seal, *merge, cut, end = bench.index.changed
    assert seal == ("s", *sealed)
    assert sorted(merge) == [("s", True, True, False), ("t", *none)]
    assert (cut, end) == (("t", *none), ("l", False, False, True))


async def test_whoever_waits_for_the_very_frame_that_fails_is_told():
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"in the frame that fails", last=1)
    sealing = bench.log.submit(partial(transitions.propose_seal, segment))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(bench.wal.waiting) == 1
    bench.wal.step(WalWriteError("no space"))
    assert [type(error) for error in owner.failures] == [WalWriteError]
    assert isinstance(sealing.exception(), WalWriteError)
    assert owner.acks == []


async def test_an_owner_that_raises_when_it_is_told_keeps_nobody_else_waiting(caplog):
    class BadOwner(Owner):
        def on_failed(self, error):
            raise ZeroDivisionError

    bench = await Bench().start()
    segment = await bench.map("s")
    bad, good = BadOwner(1), Owner(2)
    bench.append(segment, bad, b"a", last=1)
    bench.append(segment, good, b"b", last=1)
    flushing = asyncio.ensure_future(bench.log.flush())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bench.wal.step(WalWriteError("broken"))
    assert [type(error) for error in good.failures + bench.failed] == [WalWriteError] * 2
    await asyncio.wait_for(flushing, 60)
    await asyncio.wait_for(bench.log.stop(), 60)
    assert "ZeroDivisionError" in caplog.text


async def test_memory_pressure_holds_back_user_requests_but_not_critical_ones():
    bench = await Bench().start()
    segment = await bench.map("s")
    bench.index.unstored = 1 << 40
    assert not bench.log.processor.can_accept(1)
    normal = bench.log.submit(partial(transitions.propose_seal, segment))
    critical = bench.log.submit(lambda seq: ops.StorageRows(seq, {"k": b"v"}), critical=True)
    await bench.settle()
    assert critical.done()
    assert not normal.done()
    bench.index.unstored = 0
    bench.log.processor.on_memory_freed()
    await bench.settle()
    assert normal.done()


async def test_a_log_that_is_ended_while_it_is_replayed_is_replayed_no_further():
    """Whoever ended it has let go of the cache."""
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    for number in range(1, 21):
        bench.append(segment, owner, b"x", last=number)
        await bench.settle()
    again = Bench(records=list(bench.wal.stored))
    again.log._budget = LoopBudget(1)
    starting = asyncio.ensure_future(again.log.start(lambda rows: None))
    while not again.index.data:
        await again.settle()
    known = again.index.content(segment)
    assert 0 < len(known) < 20
    again.log.fail(WalWriteError("another part has failed"))
    with pytest.raises(WalWriteError, match="another part"):
        await starting
    assert again.index.content(segment) == known


async def test_recovery_restores_what_was_acknowledged_and_hands_it_to_the_storage_writer():
    bench = await Bench(frame_bytes=300).start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"hello", last=1)
    bench.log.processor.end_of_read()
    bench.append(segment, owner, b"world", last=2)
    await bench.settle()
    again = await bench.recover()
    found = again.state.get("s")
    assert (found.durable_length, found.accepted_length) == (10, 10)
    assert found.attribute(owner.writer_id) == 2
    assert found.attribute(EVENT_COUNT) == 2
    assert again.state.epoch == 1
    taken = await again.log.memory_log.take(10, 1)
    assert [type(item) for item in taken] == [StoredCheckpoint, StoredAppend]
    assert (taken[1].offset, taken[1].length) == (0, 10)


async def test_a_checkpoint_lets_the_log_be_cut_and_nothing_is_forgotten():
    bench = await Bench(frame_bytes=300, frames=40).start()
    segments = [await bench.map(f"s{n}") for n in range(20)]
    owner = Owner(1)
    for number, segment in enumerate(segments):
        bench.append(segment, owner, b"x" * number, last=number) if number else None
    rows = bench.log.submit(lambda seq: ops.StorageRows(seq, {"row": b"1"}), critical=True)
    await bench.settle()
    await rows
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    await asyncio.sleep(0)
    bench.append(segments[1], owner, b"between", last=50)
    while not writing.done():
        await bench.settle()
    end = (await bench.log.memory_log.take(1000, 1))[-1]
    assert isinstance(end, StoredCheckpoint)
    await bench.log.acknowledge(end.sequence)
    assert bench.wal.truncated > 1
    bench.wal.stored = [item for item in bench.wal.stored if item[0] >= bench.wal.truncated]
    again = await bench.recover()
    assert {name: state.durable_length for name, state in again.state.by_name.items()} == {
        name: state.durable_length for name, state in bench.state.by_name.items()
    }
    assert again.state.get("s1").attribute(owner.writer_id) == 50
    assert again.state.storage_rows == {"row": b"1"}
    assert again.state.sequence >= bench.state.sequence


async def test_the_memory_log_stays_in_order_when_a_checkpoint_ends_in_a_busy_frame():
    bench = await Bench(frame_bytes=2000, slots=1).start()
    segment, owner = await bench.map("s"), Owner(1)
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    number = 0
    while not writing.done():
        number += 1
        bench.append(segment, owner, b"x", last=number)
        await asyncio.sleep(0)
        if bench.wal.waiting:
            bench.wal.step()
    await bench.settle()
    taken = await bench.log.memory_log.take(1000, 1)
    sequences = [item.sequence for item in taken]
    assert sequences == sorted(sequences)
    assert sum(isinstance(item, StoredCheckpoint) for item in taken) == 2


async def test_a_log_without_a_whole_checkpoint_is_corruption():
    bench = await Bench(frame_bytes=300).start()
    await bench.map("s")
    bench.wal.stored = bench.wal.stored[1:]
    with pytest.raises(DataCorruptionError, match="no whole metadata checkpoint"):
        await bench.recover()


async def test_the_log_of_another_container_is_refused():
    bench = await Bench().start()
    other = Bench(records=bench.wal.stored)
    other.state.container_id = 4
    with pytest.raises(DataCorruptionError, match="container 3"):
        await other.start()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(60))
async def test_any_prefix_of_the_log_recovers_to_what_it_says_twice(seed):
    """Random work, killed after any frame: the recovered state is that of the durable operations, exactly."""
    rng = random.Random(seed)
    bench = await Bench(frame_bytes=rng.choice([200, 300, 1000]), frames=60).start()
    names = []
    models = {}  # per count of durable frames: name -> (content, start, sealed, last event numbers)
    owners = {}

    def snapshot():
        return {
            name: (
                bench.index.content(state),
                state.start_offset,
                state.sealed,
                dict(state.attributes.durable),
            )
            for name, state in bench.state.by_name.items()
            if state.attributes.durable  # set when the mapping is durable
        }

    models[len(bench.wal.stored)] = snapshot()
    checkpoint = None
    for step in range(120):
        choice = rng.random()
        live = [n for n in names if not bench.state.by_name[n].accepted_deleted] if names else []
        live = [n for n in live if not bench.state.by_name[n].accepted_merged]
        if choice < 0.15 or not live:
            name = f"s{step}"
            bench.log.submit(
                lambda seq, name=name: transitions.propose_map(bench.state, seq, name, {EVENT_COUNT: 0})
            )
            if name in bench.state.by_name:
                names.append(name)
        elif choice < 0.7:
            segment = bench.state.by_name[rng.choice(live)]
            owner = owners.setdefault((segment.name, rng.randrange(2)), Owner(rng.randrange(1 << 60)))
            data = rng.randbytes(rng.choice([1, 10, 90, 400]))
            if not segment.accepted_sealed and bench.log.processor.can_accept(len(data)):
                bench.append(segment, owner, data, last=step)
        elif choice < 0.75:
            segment = bench.state.by_name[rng.choice(live)]
            bench.log.submit(partial(transitions.propose_seal, segment)).add_done_callback(
                lambda f: f.exception()
            )
        elif choice < 0.8:
            segment = bench.state.by_name[rng.choice(live)]
            offset = rng.randint(0, segment.accepted_length)
            bench.log.submit(
                lambda seq, s=segment, o=offset: transitions.propose_truncate(s, seq, o)
            ).add_done_callback(lambda f: f.exception())
        elif choice < 0.83:
            segment = bench.state.by_name[rng.choice(live)]
            bench.log.submit(partial(transitions.propose_delete, segment)).add_done_callback(
                lambda f: f.exception()
            )
        elif choice < 0.86 and checkpoint is None:
            checkpoint = asyncio.ensure_future(bench.log.write_checkpoint())
        else:
            await asyncio.sleep(0)
            if bench.wal.waiting:
                bench.wal.step()
                models[len(bench.wal.stored)] = snapshot()
            names = [n for n in names if n in bench.state.by_name]
        if checkpoint is not None and checkpoint.done():
            checkpoint = None
    while bench.wal.waiting or not bench.is_idle:
        await asyncio.sleep(0)
        if bench.wal.waiting:
            bench.wal.step()
            models[len(bench.wal.stored)] = snapshot()
    if checkpoint is not None:
        checkpoint.cancel()

    for kept in {min(models), max(models), *rng.sample(sorted(models), min(8, len(models)))}:
        records = bench.wal.stored[:kept]
        for _ in range(2):
            again = Bench(records=list(records), frame_bytes=2000, frames=60)
            await again.start()
            assert {
                name: (
                    again.index.content(state),
                    state.start_offset,
                    state.sealed,
                    dict(state.attributes.durable),
                )
                for name, state in again.state.by_name.items()
            } == models[kept]
            again.state.check()


async def write_checkpoint(bench, *, new=False):
    """Write one, or one only if there is anything new, and answer where the newest begins."""
    writing = asyncio.ensure_future(bench.log.write_new_checkpoint() if new else bench.log.write_checkpoint())
    while not writing.done():
        await bench.settle()
    writing.result()
    return bench.log._truncation.newest.begin_sequence


async def test_a_checkpoint_that_would_hold_nothing_new_is_not_written():
    bench = await Bench().start()
    await bench.map("s")
    first = await write_checkpoint(bench)
    frames = len(bench.wal.stored)
    for _ in range(3):
        assert await write_checkpoint(bench, new=True) == first
    assert len(bench.wal.stored) == frames
    await bench.map("t")
    second = await write_checkpoint(bench, new=True)
    assert second > first
    assert len(bench.wal.stored) > frames
    again = await bench.recover()
    frames = len(again.wal.stored)
    assert await write_checkpoint(again, new=True) == second, "the one that was recovered serves as well"
    assert len(again.wal.stored) == frames
    await again.map("u")
    third = await write_checkpoint(again, new=True)
    assert third > second
    assert await write_checkpoint(again) > third, "who needs a later beginning gets one"


@pytest.mark.parametrize("frames_max", [1, 2, 5])
async def test_checkpoints_that_are_due_after_every_frame_settle(frames_max):
    bench = await Bench(frame_bytes=200, frames=40, policy=CheckpointPolicy(frames_max, 10**9)).start()
    for number in range(20):
        await bench.map(f"s{number}")
    for _ in range(200):
        await bench.settle()
        ends = await bench.log.memory_log.take(1000, 0)
        for end in ends:
            if isinstance(end, StoredCheckpoint):
                await bench.log.acknowledge(end.sequence)
    frames = len(bench.wal.stored)
    for _ in range(50):
        await bench.settle()
    assert len(bench.wal.stored) == frames
    assert not bench.failed


@pytest.mark.parametrize("frame_bytes", [200, 1000, 4096])
async def test_a_checkpoint_of_many_small_parts_is_not_followed_by_the_next_one_at_once(frame_bytes):
    """Its parts are a fortieth of a frame and take one each: these are not what makes the next one due."""
    bench = await Bench(frame_bytes=frame_bytes, frames=40, policy=CheckpointPolicy(10, 10**9)).start()
    for number in range(40):
        await bench.map(f"s{number}")
    segment, owner = bench.state.get("s0"), Owner(1)
    frames, appends = len(bench.wal.stored), 200
    for number in range(1, appends + 1):
        bench.append(segment, owner, b"x", last=number)
        await bench.settle()
        while bench.log._checkpointing:
            await bench.settle()
    written = len(bench.wal.stored) - frames
    assert written - appends > 10, "there were checkpoints"
    assert written < 2.5 * appends, "and they were not more than half of what was written, but for the first"


async def test_a_cut_that_failed_is_made_again_when_it_is_asked_for_again():
    bench = await Bench().start()
    await bench.map("s")
    begin = await write_checkpoint(bench)
    end = (await bench.log.memory_log.take(1000, 1))[-1]
    cut, bench.wal.truncate = bench.wal.truncate, failing_cut
    with pytest.raises(WalWriteError):
        await bench.log.acknowledge(end.sequence)
    assert bench.log.truncated_sequence < begin
    bench.wal.truncate = cut
    await bench.log.acknowledge(end.sequence)
    assert bench.wal.truncated > 0
    assert bench.log.truncated_sequence == begin


async def failing_cut(address):
    raise WalWriteError("the disk is away")


@pytest.mark.parametrize("large", [False, True])
async def test_claimed_events_never_leave_the_fields_that_count_them(large):
    """Writers may claim any number of events: runs end before they are full, a segment's count stays full."""
    bench = await Bench(frame_bytes=4096).start()
    segment, owner = await bench.map("s"), Owner(1)
    data = bytes(6000 if large else 1)
    with pytest.raises(InvalidArgumentError):
        bench.append(segment, owner, data, last=1, count=BATCH_EVENTS_MAX + 1)
    assert (segment.accepted_length, segment.attributes.accepted) == (0, {})
    for number in range(1, 5):
        bench.append(segment, owner, data, last=number, count=BATCH_EVENTS_MAX)
        if large:
            await bench.settle()
    await bench.settle()
    assert segment.attribute(EVENT_COUNT) == 4 * BATCH_EVENTS_MAX
    segment.attributes.durable[EVENT_COUNT] = segment.attributes.accepted[EVENT_COUNT] = INT64_MAX - 5
    bench.append(segment, owner, data, last=5, count=6)
    await bench.settle()
    assert segment.attributes.durable[EVENT_COUNT] == segment.attributes.accepted[EVENT_COUNT] == INT64_MAX
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    while not writing.done():
        await bench.settle()
    await writing
    recovered = await bench.recover()
    assert recovered.state.get("s").attribute(EVENT_COUNT) == 4 * BATCH_EVENTS_MAX + 6  # as the log counts
    assert recovered.state.get("s").attribute(owner.writer_id) == 5


async def test_a_bug_while_a_durable_frame_is_applied_ends_the_owner_and_tells_everybody():
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.index.append = lambda *_: {}["a bug"]
    bench.append(segment, owner, b"x", last=1)
    request = bench.log.submit(partial(transitions.propose_seal, segment))
    await bench.settle()
    assert [type(error) for error in owner.failures] == [WalWriteError]
    with pytest.raises(WalWriteError):
        await request
    assert [type(error) for error in bench.failed] == [WalWriteError]
    await asyncio.wait_for(bench.log.stop(), 60)
    with pytest.raises(ContainerOfflineError):
        bench.append(segment, owner, b"y", last=2)


async def test_a_bug_while_frames_are_sent_ends_the_owner_and_tells_everybody(monkeypatch):
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"x", last=1)
    monkeypatch.setattr(bench.wal, "append", lambda *_: {}["a bug"])
    await bench.settle()
    assert [type(error) for error in owner.failures + bench.failed] == [WalWriteError] * 2
    await asyncio.wait_for(bench.log.stop(), 60)


async def test_a_segment_whose_row_is_larger_than_all_frames_is_checkpointed_and_recovered():
    bench = await Bench(frame_bytes=1000, frames=4).start()
    segment = await bench.map("s")
    for number in range(1, 301):
        bench.append(segment, Owner(number), b"x", last=number)
        await bench.settle()
    assert len(encode_segment_row(segment)) > 4 * 1000
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    while not writing.done():
        await bench.settle()
    begin = writing.result()
    segment.stored_length = segment.durable_length
    await bench.log.acknowledge(bench.state.sequence)
    assert bench.log.truncated_sequence == begin
    recovered = await bench.recover()
    assert recovered.state.get("s").attributes.accepted == segment.attributes.accepted
    assert not bench.failed


async def test_a_transient_segment_takes_sixteen_writers():
    bench = await Bench().start()
    segment = await bench.map("s")
    segment.attributes.accepted[SEGMENT_TYPE] = TYPE_TRANSIENT
    for number in range(1, 17):
        bench.append(segment, Owner(number), b"x", last=1)
    with pytest.raises(TooManyAttributesError):
        bench.append(segment, Owner(17), b"x", last=1)
    assert segment.accepted_length == 16


async def test_an_empty_block_moves_its_writer_on_and_is_nobodys_work():
    """Storage had nothing to write for it, and whoever plans its work took that for a bug."""
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"", last=1)
    await bench.settle()
    bench.append(segment, owner, b"", last=2, expected=0)
    bench.append(segment, owner, b"ab", last=3)
    bench.log.processor.end_of_read()
    bench.append(segment, owner, b"", last=4)
    await bench.settle()
    assert [ack[0] for ack in owner.acks] == [1, 2, 3, 4]
    assert segment.attribute(owner.writer_id) == 4
    assert bench.index.content(segment) == b"ab"
    taken = await bench.log.memory_log.take(100, 1)
    appends = [item for item in taken if isinstance(item, StoredAppend)]
    assert [(item.offset, item.length) for item in appends] == [(0, 2)]
    recovered = await bench.recover()
    assert recovered.state.get("s").attribute(owner.writer_id) == 4


def _map(bench, name):
    return bench.log.submit(lambda sequence: transitions.propose_map(bench.state, sequence, name, {}))


@pytest.mark.parametrize("fitting", [0, 1, 2], ids=["first", "second", "third"])
async def test_an_accepted_operation_that_gets_no_frame_ends_the_owner(fitting):
    """Everything later would build on an operation that the log does not have."""
    bench = await Bench(frame_bytes=300, frames=8).start()
    before, owner = await bench.map("before"), Owner(1)
    bench.log.processor._builder.seal()
    await bench.settle()
    acquire, written = bench.wal.acquire_frame, len(bench.wal.stored)
    left = fitting

    def fail():
        nonlocal left
        if not left:
            raise MemoryError
        left -= 1
        return acquire()

    bench.wal.acquire_frame = fail
    appending = bench.log.submit(
        lambda sequence: transitions.propose_append(before, sequence, bytes(700), (), -1),
        800,
        segments=(before,),
    )
    with pytest.raises(WalWriteError, match="no memory"):
        await appending
    bench.wal.acquire_frame = acquire
    assert [type(error) for error in bench.failed] == [WalWriteError]
    with pytest.raises(ContainerOfflineError):
        await _map(bench, "after")
    await bench.settle()
    assert len(bench.wal.stored) == written
    again = await bench.recover()
    assert again.state.get("before").durable_length == 0
    assert not owner.acks


class Shortage:
    """A system that has no memory for frames, while this lasts."""

    def __init__(self, bench, monkeypatch):
        self._bench = bench
        self._patch = monkeypatch.context()

    def __enter__(self):
        patch = self._patch.__enter__()
        for name in ("acquire_frame", "prepare_frames"):
            patch.setattr(self._bench.wal, name, self._refuse)

    def __exit__(self, *error):
        return self._patch.__exit__(*error)

    @staticmethod
    def _refuse(*_):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")


@pytest.mark.parametrize("size", [1, 200, 700], ids=["small", "behind another", "of several frames"])
async def test_a_block_for_which_there_is_no_memory_is_refused_and_changes_nothing(monkeypatch, size):
    bench = await Bench(frame_bytes=300, frames=8).start()
    segment, owner, other = await bench.map("s"), Owner(1), Owner(2)
    await bench.settle()
    length = 0
    if size == 200:
        bench.append(segment, other, b"y" * 150, last=1)
        length = 150
    before = (segment.accepted_length, dict(segment.attributes.accepted), bench.state.sequence)
    with Shortage(bench, monkeypatch), pytest.raises(ThrottledError, match="no memory"):
        bench.append(segment, owner, b"x" * size, last=1)
    assert before == (segment.accepted_length, segment.attributes.accepted, bench.state.sequence)
    await bench.settle()
    assert not bench.failed
    bench.append(segment, owner, b"x" * size, last=1)
    await bench.settle()
    assert owner.acks == [(1, 0, length + size)]
    again = await bench.recover()
    assert again.index.content(again.state.get("s")) == b"y" * length + b"x" * size


@pytest.mark.parametrize("size", [1, 700])
async def test_a_request_for_which_there_is_no_memory_is_refused_before_it_is_proposed(monkeypatch, size):
    bench = await Bench(frame_bytes=300, frames=8).start()
    segment, proposed = await bench.map("s"), []

    def propose(sequence):
        proposed.append(sequence)
        return transitions.propose_append(segment, sequence, bytes(size), (), -1)

    with Shortage(bench, monkeypatch):
        refused = bench.log.submit(propose, size + 100, segments=(segment,))
        assert not bench.log.processor.statistics().requests_queued
    with pytest.raises(ThrottledError, match="no memory"):
        await refused
    assert not proposed
    assert not bench.failed
    appending = bench.log.submit(propose, size + 100, segments=(segment,))
    await bench.settle()
    await appending
    assert segment.durable_length == size


async def test_those_in_line_behind_an_operation_that_gets_no_frame_are_told():
    bench = await Bench(frame_bytes=300, frames=4).start()
    processor = bench.log.processor
    bench.index.roomy = False
    processor._builder.seal()
    processor._dispatch.send()
    await bench.settle()
    waiting = [_map(bench, f"s{number}") for number in range(3)]
    assert processor.statistics().requests_queued == 3
    processor._builder.write = lambda *_: False
    bench.index.roomy = True
    processor.on_memory_freed()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [WalWriteError, *2 * [ContainerOfflineError]]


@pytest.mark.parametrize("left", range(12))
async def test_an_operation_that_is_larger_than_it_said_waits_if_its_header_does_not_fit(left):
    bench = await Bench(frame_bytes=4000, frames=3, slots=1).start()
    processor, name = bench.log.processor, "n" * 1000
    for _ in range(3):
        frame = processor._builder._open()
        frame.used = frame.capacity
        if bench.wal.frames_free:
            processor._builder.seal()
    operation = transitions.propose_map(bench.state, processor._container.next_sequence() + 1, name, {})
    frame.used = frame.capacity - sum(map(len, codec.encode(operation))) - left
    assert not bench.wal.frames_free
    _map(bench, name)
    assert bool(processor.statistics().requests_queued) == (left < ENTRY_HEADER.size)
    assert not bench.failed
