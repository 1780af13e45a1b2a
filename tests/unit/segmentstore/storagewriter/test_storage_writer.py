"""The storage writer against a log, a cache and a storage of its own, on virtual time."""

import asyncio
import contextlib
import dataclasses
from dataclasses import replace

import pytest

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    FencedOutError,
    ThrottledError,
    WalWriteError,
)
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flush_plan import MERGES_MAX
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.testing.simulation import simulate
from headrace.testing.storage_faults import Fault, fail_reads, no_faults
from tests.simulation.worlds.writer_world import WriterWorld

CONFIG = StorageWriterConfig(
    flush_bytes=1000,
    write_bytes_max=3000,
    pressure_bytes=50_000,
    flush_age_s=2.0,
    take_timeout_s=0.25,
    retry_initial_s=0.1,
    retry_max_s=30.0,
    garbage_interval_s=10.0,
    stop_flush_s=10.0,
)
STORAGE = SegmentStorageConfig(rollover_bytes=10_000, block_bytes=64, provider_timeout_s=60.0)


def make_world(**arguments):
    return WriterWorld(**{"writer_config": CONFIG, "storage_config": STORAGE, **arguments})


@contextlib.asynccontextmanager
async def running(world):
    """Run the world's writer; whatever ends it ends the test."""
    run = asyncio.ensure_future(world.writer.run())
    try:
        yield run
    finally:
        done = run.done()
        run.cancel()
        await asyncio.wait([run])
        if done and not run.cancelled():
            run.result()


def simulated(scenario):
    """Run a test with tasks in different orders."""

    def test():
        for seed in range(1 if "thousand" in scenario.__name__ else 3):
            simulate(seed, lambda _: scenario())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


def failing(world, name=""):
    """Make every provider call about segment ``name`` (or all) fail; return a switch to end that."""
    broken = [True]
    prefix = name and name + "."

    def inject(call):
        return (
            Fault.FAIL
            if broken[0] and call.name.startswith(f"c0/{prefix}") and call.kind != "commit"
            else None
        )

    def heal():
        broken[0] = False

    world.provider.inject = inject
    return heal


# ---------------------------------------------------------------------------------- when


@simulated
async def test_a_segment_is_flushed_once_it_has_enough_bytes():
    world = make_world()
    async with running(world):
        world.append("s", b"x" * 999)
        await asyncio.sleep(1.0)
        assert world.segments["s"].stored_length == 0
        world.append("s", b"x")
        await asyncio.sleep(0.5)
        assert world.segments["s"].stored_length == 1000


@simulated
async def test_a_segment_is_flushed_once_its_oldest_byte_is_old_enough():
    world = make_world()
    async with running(world):
        for _ in range(19):
            world.append("s", b"x")
            await asyncio.sleep(0.1)
        assert world.segments["s"].stored_length == 0
        await asyncio.sleep(0.5)
        assert world.segments["s"].stored_length >= 19


@simulated
async def test_age_counts_from_the_oldest_byte_that_waits_not_from_the_last_flush():
    world = make_world()
    async with running(world):
        world.append("s", b"x" * 1000)
        await asyncio.sleep(60.0)
        world.append("s", b"y")
        await asyncio.sleep(1.5)
        assert world.segments["s"].stored_length == 1000
        await asyncio.sleep(1.0)
        assert world.segments["s"].stored_length == 1001


@simulated
async def test_under_pressure_the_largest_segments_are_flushed_early():
    world = make_world(writer_config=StorageWriterConfig(pressure_bytes=8000, flush_bytes=4000))
    async with running(world):
        for number in range(20):
            world.append(f"s{number}", b"x" * (100 if number % 2 else 1000))
        await asyncio.sleep(0.5)
        stored = {name: segment.stored_length for name, segment in world.segments.items()}
        assert sum(stored.values()) >= 4000
        assert all(length == 1000 for length in stored.values() if length)


@simulated
async def test_a_cache_that_others_fill_makes_a_writer_flush_although_it_has_little_itself():
    world = make_world()
    async with running(world):
        for number in range(20):
            world.append(f"s{number}", b"x" * 500)
        await asyncio.sleep(0.5)
        assert not any(segment.stored_length for segment in world.segments.values())
        world.read_index.pressure = 0.5  # no operation comes in any more: the writer has to look by itself
        await asyncio.sleep(1.0)
        assert sum(segment.stored_length == 500 for segment in world.segments.values()) >= 15


@simulated
async def test_many_small_appends_become_one_write():
    world = make_world()
    async with running(world):
        for _ in range(500):
            world.append("s", b"x")
        await asyncio.sleep(3.0)
        assert world.segments["s"].stored_length == 500
        assert world.storage.statistics().writes == 1


@simulated
async def test_no_write_is_larger_than_its_bound():
    world = make_world()
    sizes = []
    create, append = world.objects.create, world.objects.append

    async def counted_create(name, buffers=(), beside=None):
        sizes.append(sum(map(len, buffers)))
        await create(name, buffers, beside)

    async def counted_append(name, offset, buffers, beside=None):
        sizes.append(sum(map(len, buffers)))
        await append(name, offset, buffers, beside)

    world.objects.create, world.objects.append = counted_create, counted_append
    for _ in range(30):
        world.append("s", b"x" * 950)
    world.append("s", b"x" * 9000)
    await world.run_until_stored()
    await world.check_stored()
    assert max(sizes) <= CONFIG.write_bytes_max
    assert len(sizes) < 30


# ---------------------------------------------------------------------------------- who suffers


@simulated
async def test_a_failing_segment_holds_up_no_other():
    world = make_world()
    heal = failing(world, "bad")
    async with running(world):
        for round_number in range(10):
            for name in ("bad", "good", "better"):
                world.append(name, b"%d" % round_number * 1000)
            await asyncio.sleep(1.0)
            assert world.segments["good"].stored_length == world.segments["good"].durable_length
            assert world.segments["better"].stored_length == world.segments["better"].durable_length
        assert world.segments["bad"].stored_length == 0
        assert world.writer.statistics().segments_failing == 1
        heal()
        await asyncio.sleep(CONFIG.retry_max_s)
        assert world.segments["bad"].stored_length == 10_000
        assert world.writer.statistics().segments_failing == 0
    await world.check_stored()


@pytest.mark.slow
@simulated
async def test_a_failing_segment_is_retried_less_and_less_often():
    world = make_world()
    failing(world, "bad")
    async with running(world):
        world.append("bad", b"x" * 1000)
        await asyncio.sleep(300.0)
    attempts = sum(call.kind == "create" for call in world.provider.calls)
    assert 10 <= attempts <= 9 + 300 / CONFIG.retry_max_s + 1


@simulated
async def test_a_slow_segment_holds_up_no_other():
    world = make_world()
    world.provider.delay_s = lambda name: 40.0 if name.startswith("c0/slow") else 0.0
    async with running(world):
        world.append("slow", b"x" * 1000)
        await asyncio.sleep(1.0)
        for _ in range(5):
            world.append("fast", b"y" * 1000)
            await asyncio.sleep(0.5)
            assert world.segments["fast"].stored_length == world.segments["fast"].durable_length
        await asyncio.sleep(45.0)
        assert world.segments["slow"].stored_length == 1000


@simulated
async def test_a_call_that_never_returns_is_given_up_and_repeated():
    world = make_world()
    hung = []

    def inject(call):
        if call.kind == "append" and not hung:
            hung.append(call)
            return Fault.HANG
        return None

    world.provider.inject = inject
    async with running(world):
        world.append("s", b"x" * 1000)
        await asyncio.sleep(1.0)
        world.append("s", b"y" * 1000)
        await asyncio.sleep(STORAGE.provider_timeout_s + 10.0)
    assert hung
    await world.check_stored()
    assert len(world.storage.chunks(world.segments["s"].storage_name)) == 2


@simulated
async def test_a_full_storage_is_retried_until_there_is_room_and_leaves_nothing_behind():
    world = make_world()
    full = [True]
    world.provider.inject = lambda call: Fault.FULL if full[0] and call.kind != "commit" else None
    async with running(world):
        world.append("s", b"x" * 1000)
        await asyncio.sleep(20.0)
        assert not world.objects.objects
        full[0] = False
        await asyncio.sleep(20.0)
    await world.check_stored()
    assert len(world.objects.objects) == 1


@simulated
async def test_appends_that_come_during_a_flush_are_stored_by_the_next():
    world = make_world()
    world.provider.delay_s = lambda _: 1.0
    async with running(world):
        for _ in range(50):
            world.append("s", b"x" * 300)
            await asyncio.sleep(0.1)
        await asyncio.sleep(10.0)
    await world.check_stored()
    assert world.storage.statistics().writes < 12


@simulated
async def test_many_hanging_segments_do_not_take_the_places_of_the_others():
    world = make_world(writer_config=replace(CONFIG, flushes_max=3))
    world.provider.delay_s = lambda name: 50.0 if name.startswith("c0/slow") else 0.0
    async with running(world):
        for number in range(5):
            world.append(f"slow{number}", b"x" * 1000)
        for number in range(5):
            world.append(f"fast{number}", b"x" * 1000)
        await asyncio.sleep(2 * CONFIG.slow_flush_s)
        assert sum(segment.stored_length for segment in world.segments.values()) == 5000
        assert world.writer.statistics().segments_suspect >= 3
        await asyncio.sleep(200.0)
    world.provider.delay_s = lambda _: 0.0
    await world.check_stored()
    assert world.writer.statistics().flushes_active == 0


@pytest.mark.slow
@simulated
async def test_many_failing_segments_do_not_take_the_places_of_the_others():
    world = make_world(writer_config=replace(CONFIG, flushes_max=2))
    broken = [True]
    world.provider.inject = lambda call: Fault.FAIL if broken[0] and call.name.startswith("c0/bad") else None
    world.provider.delay_s = lambda name: 1.5 if name.startswith("c0/bad") else 0.0
    async with running(world):
        for _ in range(10):
            for number in range(20):
                world.append(f"bad{number}", b"x" * 1000)
            world.append("good", b"y" * 1000)
            await asyncio.sleep(2.0)
        assert world.segments["good"].stored_length >= 5000
        broken[0] = False
        await asyncio.sleep(120.0)
        assert world.writer.statistics().segments_suspect == 0
    await world.check_stored()


# ---------------------------------------------------------------------------------- what storage really holds


@simulated
async def test_what_a_lost_reply_left_in_storage_is_compared_and_not_written_again():
    world = make_world()
    lost = [Fault.LOSE_REPLY]
    world.rows.inject = lambda call: lost.pop() if lost and "s/s." in call.name else None
    async with running(world):
        world.append("s", b"0123456789" * 100)
        world.checkpoint()
        await asyncio.sleep(10.0)
    await world.check_stored()
    found = world.writer.statistics()
    assert (found.reconciliations, found.bytes_compared, found.retries) == (1, 1000, 1)
    assert sum(len(data) for data in world.objects.objects.values()) == 1000
    assert world.acknowledged == world.sequence


@simulated
async def test_other_bytes_in_storage_than_in_the_log_are_corruption():
    world = make_world()
    world.append("s", b"0123456789" * 10)
    storage_name = world.segments["s"].storage_name
    await world.storage.write(storage_name, 0, [b"0123456789" * 5 + b"012345678X"], create=True)
    with pytest.raises(DataCorruptionError, match="other bytes than the log at 59"):
        await world.run_until_stored()
    assert world.acknowledged == -1
    assert world.segments["s"].stored_length == 0


@simulated
async def test_bytes_stored_by_a_former_owner_are_compared_before_the_log_is_cut():
    world = make_world()
    world.append("s", b"0123456789" * 100)
    world.checkpoint()
    world.writer._truncation._acknowledge = lambda _: asyncio.Event().wait()
    async with running(world):
        await asyncio.sleep(5.0)
    world.restart()
    (name,) = world.objects.objects
    whole = world.objects.objects[name]
    world.objects.objects[name] = whole[:500]  # the log has the only good copy: it must not be cut
    async with running(world):
        world.append("t", b"x" * 1000)
        world.checkpoint()
        await asyncio.sleep(20.0)
        assert world.acknowledged == -1
        assert world.segments["t"].stored_length == 1000
        assert world.writer.statistics().segments_failing == 1
        world.objects.objects[name] = whole
        await asyncio.sleep(CONFIG.retry_max_s)
        assert world.acknowledged == world.sequence
    await world.check_stored()


@simulated
async def test_comparing_waits_for_a_storage_that_is_away():
    world = make_world()
    world.append("s", b"0123456789" * 100)
    await world.run_until_stored()
    world.restart()
    world.provider.on_read = fail_reads
    async with running(world):
        world.append("t", b"x" * 1000)
        world.checkpoint()
        await asyncio.sleep(20.0)
        assert world.segments["t"].stored_length == 1000
        assert world.segments["s"].stored_length == 0
        assert world.acknowledged == -1
        world.provider.on_read = lambda _: None
        await asyncio.sleep(CONFIG.retry_max_s)
        assert world.acknowledged == world.sequence
    await world.check_stored()


@simulated
async def test_several_reconciliations_in_a_row_each_go_on_where_storage_is():
    world = make_world()
    faults = [Fault.LOSE_REPLY, Fault.FAIL, Fault.LOSE_REPLY, Fault.LOSE_REPLY, Fault.FAIL, Fault.LOSE_REPLY]
    world.rows.inject = lambda call: faults.pop() if faults and "s/s." in call.name else None
    async with running(world):
        for number in range(20):
            world.append("s", bytes([number]) * 1000)
            await asyncio.sleep(1.0)
        await asyncio.sleep(30.0)
    assert not faults
    await world.check_stored()
    assert world.writer.statistics().reconciliations == 4


@simulated
async def test_a_zombie_that_goes_on_writing_to_its_own_chunks_changes_nothing():
    world = make_world()
    for number in range(5):
        world.append("s", bytes([number]) * 1000)
        world.checkpoint()
        await world.run_until_stored()
        for name in list(world.objects.objects):  # whoever wrote them goes on
            world.objects.objects[name] += b"garbage of a zombie"
        world.append("s", bytes([number]) * 500)
        world.restart()
        for name in list(world.objects.objects):
            world.objects.objects[name] += b"more of it"
    await world.run_until_stored()
    await world.check_stored()


@simulated
async def test_a_seal_that_storage_has_already_is_fine_and_one_that_came_too_early_is_not():
    world = make_world()
    world.append("s", b"x" * 10)
    world.seal("s")
    world.checkpoint()
    await world.run_until_stored()
    world.restart()
    await world.run_until_stored()
    await world.check_stored()
    early = make_world()
    early.append("s", b"x" * 10)
    name = early.segments["s"].storage_name
    await early.storage.write(name, 0, [b"x" * 5], create=True)
    await early.storage.seal(name)
    early.seal("s")
    await expect_corruption(early, "sealed with 5 bytes")


@simulated
async def test_a_source_that_stands_beside_the_bytes_it_gave_is_removed():
    """The target took them in a write of which nobody learnt, and then the source was stored by itself."""
    world = make_world()
    world.append("s#1", b"t" * 10)
    source = world.segments["s#1"]
    await world.storage.write(source.storage_name, 0, [b"t" * 10], create=True)
    world.seal("s#1")
    world.merge("s", "s#1")
    await world.storage.write(world.segments["s"].storage_name, 0, [b"t" * 10], create=True)
    async with running(world):
        world.checkpoint()
        await asyncio.sleep(40.0)
    await world.check_stored()
    assert world.storage.info_nowait(source.storage_name) is None
    assert world.acknowledged == world.sequence


@simulated
async def test_a_source_that_left_the_cache_is_compared_with_what_it_gave_before_it_goes():
    world = make_world()
    world.append("s#1", b"t" * 10)
    source = world.segments["s#1"]
    await world.storage.write(source.storage_name, 0, [b"t" * 10], create=True)
    world.seal("s#1")
    world.merge("s", "s#1")
    await world.storage.write(world.segments["s"].storage_name, 0, [b"other data"], create=True)
    cached = world.read_index.read_direct
    world.read_index.read_direct = lambda segment, *args: (
        None if segment is source else cached(segment, *args)
    )
    source.stored_length = 10
    await expect_corruption(world, "beside the bytes it gave")
    assert world.storage.info_nowait(source.storage_name) is not None


@simulated
async def test_a_source_that_stands_beside_other_bytes_than_its_own_is_corruption():
    world = make_world()
    world.append("s#1", b"t" * 10)
    source = world.segments["s#1"]
    await world.storage.write(source.storage_name, 0, [b"t" * 10], create=True)
    world.seal("s#1")
    world.merge("s", "s#1")
    await world.storage.write(world.segments["s"].storage_name, 0, [b"other data"], create=True)
    await expect_corruption(world, "other bytes than the log")


@simulated
async def test_a_merge_whose_reply_was_lost_is_compared_with_the_source_that_is_gone():
    world = make_world()
    async with running(world):
        world.append("s#1", b"t" * 1500)
        await asyncio.sleep(1.0)
        lost = [Fault.LOSE_REPLY]
        world.rows.inject = lambda call: (
            lost.pop() if lost and "s/s." in call.name and "s/s#1." in call.name else None
        )
        world.append("s#1", b"u" * 10)
        world.seal("s#1")
        world.merge("s", "s#1")
        world.append("s", b"tail")
        world.checkpoint()
        await asyncio.sleep(40.0)
    assert not lost
    await world.check_stored()
    assert world.writer.statistics().bytes_compared == 1510
    assert world.acknowledged == world.sequence


@simulated
async def test_a_deletion_ends_a_comparison_that_storage_does_not_answer():
    world = make_world()
    segment = world._segment("s")
    world.append("s", b"x" * 1000)
    await world.run_until_stored()
    world.restart()
    segment = world.segments["s"]
    world.provider.on_read = fail_reads
    async with running(world):
        await asyncio.sleep(5.0)
        world.delete("s")
        world.checkpoint()
        await asyncio.sleep(CONFIG.retry_max_s + 10.0)
    assert segment.stored_deleted
    assert world.acknowledged == world.sequence


# ---------------------------------------------------------------------------------- what is told


@simulated
async def test_the_backlog_is_told_by_operations_bytes_and_age():
    world = make_world()
    heal = failing(world, "bad")
    async with running(world):
        for _ in range(3):
            world.append("bad", b"x" * 1000)
            world.append("good", b"x" * 1000)
            await asyncio.sleep(4.0)
        found = world.writer.statistics()
        assert found.bytes_queued == 3000
        assert found.operations_queued == 3
        assert 11.0 <= found.oldest_age_s <= 13.0
        assert found.retries >= 3
        heal()
        await asyncio.sleep(CONFIG.retry_max_s)
        found = world.writer.statistics()
        assert (found.bytes_queued, found.operations_queued, found.oldest_age_s) == (0, 0, 0.0)


@simulated
async def test_a_checkpoint_that_waits_makes_those_flush_that_it_waits_for():
    world = make_world(writer_config=replace(CONFIG, flush_age_s=300.0))
    async with running(world):
        world.append("s", b"x")
        await asyncio.sleep(20.0)
        assert world.segments["s"].stored_length == 0
        world.checkpoint()
        world.append("later", b"x")
        await asyncio.sleep(3 * CONFIG.checkpoint_age_s)
        assert world.acknowledged == world.sequence - 2
        assert world.segments["later"].stored_length == 0


@simulated
async def test_a_checkpoint_far_behind_does_not_wait_until_it_is_old():
    config = replace(CONFIG, flush_age_s=300.0, checkpoint_age_s=300.0, checkpoint_distance_bytes=20_000)
    world = make_world(writer_config=config)
    async with running(world):
        world.append("small", b"x")
        world.checkpoint()
        first = world.sequence
        for _ in range(10):  # large enough to be stored without being asked
            world.append("large", b"x" * 1000)
            await asyncio.sleep(0.5)
        assert world.acknowledged == -1
        assert world.segments["small"].stored_length == 0
        for _ in range(11):
            world.append("large", b"x" * 1000)
            await asyncio.sleep(0.5)
        assert world.segments["small"].stored_length == 1
        assert world.acknowledged == first
        world.append("small", b"x")
        world.checkpoint()
        world.append("large", b"x" * 1000)
        await asyncio.sleep(60.0)
        assert world.segments["small"].stored_length == 1, "the log is short now"


@pytest.mark.slow
@simulated
async def test_a_checkpoint_far_behind_hurries_what_is_in_its_way_once():
    config = replace(
        CONFIG, checkpoint_age_s=5.0, checkpoint_distance_bytes=1000, acknowledge_interval_s=0.01
    )
    world = make_world(writer_config=config)
    heal = failing(world, "bad")
    pressed = []
    press = world.writer._schedule.press

    def counted(sequence, now):
        pressed.append(now)
        press(sequence, now)

    world.writer._schedule.press = counted
    async with running(world):
        world.append("bad", b"x")
        world.checkpoint()
        first = world.sequence
        began = asyncio.get_running_loop().time()
        for _ in range(120):
            world.append("good", b"x" * 1000)
            await asyncio.sleep(0.1)
        assert [round(at - began) for at in pressed] == [0, 5, 10]
        heal()
        await asyncio.sleep(60.0)
        assert world.acknowledged == first


@simulated
async def test_seals_and_truncations_do_not_wait_as_long_as_bytes():
    world = make_world(writer_config=replace(CONFIG, flush_age_s=300.0))
    async with running(world):
        world.append("sealed", b"x")
        world.seal("sealed")
        world.append("cut", b"x")
        world.truncate("cut", 1)
        world.append("s", b"x")
        await asyncio.sleep(CONFIG.change_age_s + 1.0)
        assert world.segments["sealed"].stored_sealed
        assert world.storage.info_nowait(world.segments["cut"].storage_name).start_offset == 1
        assert world.segments["s"].stored_length == 0


# ---------------------------------------------------------------------------------- how far the log is cut


@simulated
async def test_only_a_checkpoint_with_everything_before_it_stored_is_acknowledged():
    world = make_world()
    heal = failing(world, "bad")
    async with running(world):
        world.append("good", b"x" * 1000)
        world.checkpoint()
        first = world.sequence
        world.append("bad", b"x" * 1000)
        world.checkpoint()
        for _ in range(5):
            world.append("good", b"x" * 1000)
            world.checkpoint()
            await asyncio.sleep(1.0)
        assert world.acknowledged == first
        heal()
        await asyncio.sleep(30.0)
        assert world.acknowledged == world.sequence


@pytest.mark.slow
@simulated
async def test_a_checkpoint_that_must_not_wait_at_all_waits_in_peace_while_storage_is_away():
    world = make_world(writer_config=replace(CONFIG, checkpoint_age_s=0.0, acknowledge_interval_s=0.0))
    heal = failing(world)
    async with running(world):
        world.append("s", b"x" * 1000)
        world.checkpoint()
        await asyncio.sleep(20.0)  # virtual: it does not pass while somebody spins
        assert world.acknowledged == -1
        heal()
        await asyncio.sleep(30.0)
        assert world.acknowledged == world.sequence


@simulated
async def test_without_a_checkpoint_nothing_is_acknowledged():
    world = make_world()
    world.append("s", b"x" * 1000)
    await world.run_until_stored()
    assert world.acknowledged == -1


@simulated
async def test_a_failed_acknowledgement_is_repeated():
    world = make_world()
    failures = [WalWriteError(), ThrottledError(), ContainerOfflineError()]
    acknowledge = world.writer._truncation._acknowledge

    async def unreliable(sequence):
        if failures:
            raise failures.pop()
        await acknowledge(sequence)

    world.writer._truncation._acknowledge = unreliable
    world.append("s", b"x")
    world.checkpoint()
    await world.run_until_stored()
    assert world.acknowledged == world.sequence


# ---------------------------------------------------------------------------------- transactions


@pytest.mark.slow
@simulated
async def test_thousands_of_merges_are_completed_in_many_turns():
    world = make_world()
    for number in range(3000):
        world.append(f"s#{number}", b"t")
        world.seal(f"s#{number}")
        world.merge("s", f"s#{number}")
    completed, loop = world.read_index.completed, asyncio.get_running_loop()
    at_once, before = [], 0

    def look():
        nonlocal before
        at_once.append(len(completed) - before)
        before = len(completed)
        if before < 3000:
            loop.call_soon(look)

    world.checkpoint()
    loop.call_soon(look)
    await world.run_until_stored()
    await world.check_stored()
    assert sum(at_once) == world.writer.statistics().merges_absorbed == 3000
    assert max(at_once) <= MERGES_MAX
    assert world.storage.statistics().writes < 60


@pytest.mark.slow
@simulated
async def test_thousands_of_merges_that_storage_has_already_are_finished_in_many_turns():
    """After a start, when storage could not be read at first: much waits behind what is compared."""
    world = make_world()
    world.append("s", b"compared")
    for number in range(1500):
        world.append(f"s#{number}", b"t")
        world.seal(f"s#{number}")
        world.merge("s", f"s#{number}")
    await world.run_until_stored()
    world.restart()
    held = world.read_index._bytes  # recovery keeps no source whose target storage has
    for segment in [found for found in held if found.merged]:
        del held[segment]
    complete, at_once = world.read_index.complete_merge, [0]

    def count(target, source):
        if not at_once[-1]:
            asyncio.get_running_loop().call_soon(at_once.append, 0)
        at_once[-1] += 1
        complete(target, source)

    world.read_index.complete_merge = count
    async with running(world):
        world.provider.on_read = fail_reads
        await asyncio.sleep(5.0)
        assert at_once == [0]
        assert world.writer.statistics().operations_queued > 1500
        world.provider.on_read = lambda _: None
        world.checkpoint()
        await asyncio.sleep(60.0)
    assert sum(at_once) == 1500
    assert max(at_once) <= 2 * 256 + 1, "those of one turn, and the next"
    assert world.acknowledged == world.sequence
    await world.check_stored()


@simulated
async def test_small_transactions_reach_storage_as_part_of_their_stream_only():
    world = make_world()
    for number in range(300):
        world.append(f"s#{number}", b"t" * 10)
        world.seal(f"s#{number}")
        world.merge("s", f"s#{number}")
        world.append("s", b"between")
    world.checkpoint()
    await world.run_until_stored()
    await world.check_stored()
    assert world.writer.statistics().merges_absorbed == 300
    assert len(world.objects.objects) == 1
    assert world.storage.statistics().writes <= 3
    assert len(world.read_index.completed) == 300
    assert all(f"s#{number}" in world.read_index.dropped for number in range(300))


@simulated
async def test_a_transaction_larger_than_a_write_is_stored_first_and_then_joined():
    world = make_world()
    world.append("s", b"head")
    for _ in range(10):
        world.append("s#1", b"t" * 900)
    world.seal("s#1")
    world.merge("s", "s#1")
    world.append("s", b"tail")
    world.checkpoint()
    await world.run_until_stored()
    await world.check_stored()
    assert world.writer.statistics().merges_joined == 1
    assert world.acknowledged == world.sequence


@simulated
async def test_a_transaction_is_stored_although_no_write_of_all_of_it_succeeds():
    chunks = replace(STORAGE, rollover_bytes=200, concat_copy_bytes_max=0)
    world = make_world(storage_config=chunks)
    made = 0

    def fail_each_tenth(call):
        nonlocal made
        made += call.kind == "create"
        return Fault.FAIL if call.kind == "create" and made % 10 == 0 else None

    world.provider.inject = fail_each_tenth
    world.append("s", b"head")
    world.append("s#1", b"t" * 2900)
    world.seal("s#1")
    world.merge("s", "s#1")
    world.append("s", b"tail")
    world.checkpoint()
    async with running(world):
        await asyncio.sleep(20.0)
    assert world.acknowledged == world.sequence
    await world.check_stored()


@simulated
async def test_a_transaction_stored_before_its_commit_is_joined():
    world = make_world()
    async with running(world):
        world.append("s#1", b"t" * 1500)
        await asyncio.sleep(1.0)
        assert world.segments["s#1"].stored_length == 1500
        source = world.segments["s#1"]
        world.append("s#1", b"u" * 10)
        world.seal("s#1")
        world.merge("s", "s#1")
        world.append("s", b"tail")
        await asyncio.sleep(5.0)
    await world.check_stored()
    assert source.stored_deleted
    assert world.storage.info_nowait(source.storage_name) is None


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_damaged_source_ends_no_writer_of_this_owner_or_the_next(damage, cut):
    """Whether the log still has the source's bytes or was cut behind them."""

    async def scenario():
        world = make_world()
        source = await damage_and_merge(world)
        assert world.storage.info_nowait(source.storage_name) is None
        assert world.segments["s"].stored_length == world.segments["s"].durable_length
        world.restart()
        world.append("other", b"more")
        await world.run_until_stored()
        assert all(found.stored_length == found.durable_length for found in world.segments.values())
        with pytest.raises(DataCorruptionError):
            await world.check_stored()

    async def damage_and_merge(world):
        async with running(world):
            world.append("s#1", b"t" * 1500)
            world.append("other", b"o" * 1500)
            if cut:
                world.checkpoint()
            await asyncio.sleep(5.0)
            source = world.segments["s#1"]
            name = world.storage.chunks(source.storage_name)[0].name
            if damage == "flipped":
                world.objects.objects[name][3] ^= 1
            else:
                del world.objects.objects[name]
            world.append("s", b"head")
            world.seal("s#1")
            world.merge("s", "s#1")
            world.append("s", b"tail")
            world.checkpoint()
            await asyncio.sleep(60.0)
        return source

    simulate(0, lambda _: scenario())


@simulated
async def test_a_target_waits_for_a_source_that_fails_and_nobody_else_does():
    world = make_world()
    async with running(world):
        world.append("s#1", b"t" * 1500)
        await asyncio.sleep(1.0)
        heal = failing(world, "s#1")
        world.append("s#1", b"u" * 10)
        world.seal("s#1")
        world.merge("s", "s#1")
        world.append("s", b"tail" * 300)
        for _ in range(5):
            world.append("other", b"x" * 1000)
            await asyncio.sleep(1.0)
        assert world.segments["other"].stored_length == 5000
        assert world.segments["s"].stored_length == 0
        heal()
        await asyncio.sleep(30.0)
    await world.check_stored()


@simulated
async def test_deleting_a_target_takes_its_waiting_sources_with_it():
    world = make_world()
    async with running(world):
        world.append("s", b"x" * 1000)
        world.append("s#1", b"t" * 1500)
        await asyncio.sleep(1.0)
        source = world.segments["s#1"]
        failing(world, "s#1")
        world.append("s#1", b"u")
        world.seal("s#1")
        world.merge("s", "s#1")
        await asyncio.sleep(3.0)
        world.delete("s")
        world.checkpoint()
        await asyncio.sleep(10.0)
        assert source.stored_deleted
    assert world.acknowledged == world.sequence
    assert not world.memory_rows.keys("s/")


@simulated
async def test_a_source_whose_flush_failed_is_not_flushed_again_while_its_target_takes_it_in():
    world = make_world()
    world.provider.delay_s = lambda _: 1.0
    world.provider.inject = lambda call: Fault.FAIL if call.name.startswith("c0/s#1.") else None
    async with running(world):
        world.append("s#1", b"t" * 1500)
        await asyncio.sleep(0.5)
        world.seal("s#1")
        world.merge("s", "s#1")
        await asyncio.sleep(1.0)
        world.provider.inject = lambda _: None
        await asyncio.sleep(30.0)
    await world.check_stored()
    assert world.writer.statistics().merges_absorbed == 1


@simulated
async def test_a_source_whose_flush_failed_is_not_flushed_again_while_its_target_is_compared():
    world = make_world()
    lost = []
    commit = world.rows.commit

    async def commit_and_lose(changes):
        await commit(changes)
        if not lost and any(key.startswith("s/s.") for key in changes):
            lost.append(changes)
            world.provider.delay_s = lambda _: 5.0
            raise WalWriteError("injected")

    world.rows.commit = commit_and_lose
    world.provider.inject = lambda call: Fault.FAIL if call.name.startswith("c0/s#1.") and not lost else None
    async with running(world):
        world.append("s#1", b"t" * 1500)
        await asyncio.sleep(4.0)  # the next attempt is due while its target is compared
        source = world.segments["s#1"]
        world.seal("s#1")
        world.merge("s", "s#1")
        world.checkpoint()
        await asyncio.sleep(40.0)
    assert lost
    assert source.stored_deleted
    assert world.storage.info_nowait(source.storage_name) is None
    assert not any(name.startswith(f"c0/{source.storage_name}.") for name in world.objects.objects)
    assert world.acknowledged == world.sequence
    await world.check_stored()


@simulated
async def test_a_source_that_goes_with_its_target_is_deleted_although_that_fails_at_first():
    world = make_world()
    async with running(world):
        world.append("s#1", b"t" * 1500)
        await asyncio.sleep(1.0)
        source = world.segments["s#1"]
        failures = [Fault.FAIL, Fault.FAIL]
        world.rows.inject = lambda call: failures.pop() if failures and "s/s#1" in call.name else None
        world.append("s", b"x")
        world.seal("s#1")
        world.merge("s", "s#1")
        world.delete("s")
        world.checkpoint()
        await asyncio.sleep(30.0)
    assert source.stored_deleted
    assert not failures
    assert not world.memory_rows.keys("s/")
    assert world.acknowledged == world.sequence


# ---------------------------------------------------------------------------------- deletion


@simulated
async def test_sources_of_a_deleted_target_do_not_keep_its_deletion_in_the_log_however_many_they_are():
    config = dataclasses.replace(CONFIG, pending_operations_max=5)
    world = make_world(writer_config=config)
    heal = failing(world)
    async with running(world):
        for number in range(6):
            world.append("s#1", b"t")
            world.append(f"s#2.{number}", b"t" * 10)
            world.seal(f"s#2.{number}")
            # One of them is part of the target only through another source.
            world.merge("s#1" if number == 5 else "s", f"s#2.{number}")
        world.seal("s#1")
        world.merge("s", "s#1")
        await asyncio.sleep(5.0)
        world.delete("s")
        world.checkpoint()
        heal()
        await asyncio.sleep(30.0)
    assert world.acknowledged == world.sequence
    assert not world.memory_rows.keys("s/")


async def let_go_of_thousands(target, *through):
    """Delete ``s``, which 3000 sources that storage lacks were merged into, by way of another if so told.

    All that waits is pressed to be flushed meanwhile.
    """
    quiet = {"flush_bytes": 10_000, "flush_age_s": 600.0, "change_age_s": 600.0, "checkpoint_age_s": 600.0}
    world = make_world(writer_config=dataclasses.replace(CONFIG, write_bytes_max=10_000, **quiet))
    sources = []
    for number in range(3000):
        world.append(f"s#{number}", b"t")
        world.seal(f"s#{number}")
        sources.append(world.segments[f"s#{number}"])
        world.merge(target, f"s#{number}")
    for name in through:
        world.seal(name)
        world.merge("s", name)
    loop, find, at_once, before = asyncio.get_running_loop(), world.writer._schedule.find, [], 0

    def look():
        nonlocal before
        found = [find(source) for source in sources]
        count = sum(each is None or each.target is None for each in found)
        at_once.append(count - before)
        before = count
        world.writer._schedule.press(world.sequence, loop.time())
        world.writer._flushing.wake()
        if before < 3000:
            loop.call_soon(look)

    async with running(world):
        await asyncio.sleep(5.0)
        assert world.writer.statistics().segments_pending == 3001 + len(through)
        world.delete("s")
        world.checkpoint()
        loop.call_soon(look)
        await asyncio.sleep(60.0)
    assert sum(at_once) == 3000
    assert max(at_once) <= 2 * 256 + 1, "those of one turn, and the next"
    assert all(source.stored_deleted for source in sources)
    assert world.acknowledged == world.sequence
    assert not world.memory_rows.keys("s/")


@pytest.mark.slow
@simulated
async def test_thousands_of_sources_of_a_deleted_target_are_let_go_of_in_many_turns():
    await let_go_of_thousands("s")


@pytest.mark.slow
@simulated
async def test_a_deleted_target_waits_in_peace_until_thousands_of_sources_of_its_source_are_let_go_of():
    await let_go_of_thousands("inner", "inner")


@pytest.mark.slow
@simulated
async def test_thousand_sources_of_a_source_of_a_deleted_target_are_not_forgotten_by_a_crash_in_between():
    world = make_world()
    names = [f"s#{number}" for number in range(1000)]
    for name in names:
        world.append(name, b"stored by itself")
        world.seal(name)
    world.checkpoint()
    await world.run_until_stored()
    world.restart()
    sources = [world.segments[name] for name in names]
    world.merge("inner", names[0])
    world.checkpoint()
    behind = world.sequence
    for name in names[1:]:
        world.merge("inner", name)
    world.seal("inner")
    failing(world)
    find = world.writer._schedule.find
    async with running(world):
        await asyncio.sleep(5.0)
        world.merge("s", "inner")
        await asyncio.sleep(5.0)
        world.delete("s")
        for _ in range(100):
            if find(sources[-1]).target is None:
                break
            await asyncio.sleep(0)
        assert find(sources[0]).target is not None, "others have their turn before it is let go of"
        world.writer._truncation.on_progress()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert world.acknowledged < behind
    world.provider.inject = no_faults
    world.restart()
    world.checkpoint()
    await world.run_until_stored()
    await world.check_stored()


@simulated
async def test_a_segment_deleted_before_it_was_stored_never_reaches_storage():
    world = make_world()
    segment = world._segment("s")
    async with running(world):
        world.append("s", b"x" * 500)
        await asyncio.sleep(0.5)
        world.delete("s")
        await asyncio.sleep(5.0)
    assert segment.stored_deleted
    assert not world.provider.calls


@simulated
async def test_a_segment_deleted_while_it_is_flushed_is_gone_at_the_end():
    world = make_world()
    world.provider.delay_s = lambda _: 1.0
    segment = world._segment("s")
    async with running(world):
        world.append("s", b"x" * 5000)
        await asyncio.sleep(0.5)
        world.delete("s")
        world.read_index.drop(segment)
        world.checkpoint()
        await asyncio.sleep(10.0)
    assert segment.stored_deleted
    assert not world.memory_rows.keys("s/")
    assert world.acknowledged == world.sequence


@simulated
async def test_a_segment_whose_deletion_has_not_come_out_of_the_log_is_waited_for_in_peace():
    world = make_world()
    world.append("s", b"x" * 500)
    await world.run_until_stored()  # nothing was acknowledged: all of it is compared
    world.restart()
    segment = world.segments["s"]
    reads = []
    world.provider.delay_s = lambda _: 1.0
    world.provider.on_read = reads.append
    async with running(world):
        await asyncio.sleep(0.5)  # it is being compared
        segment.deleted = segment.accepted_deleted = True
        await asyncio.sleep(10.0)
        assert len(reads) == 1
        assert world.writer.statistics().flushes <= 2
        segment.deleted = segment.accepted_deleted = False
        world.delete("s")
        world.checkpoint()
        await asyncio.sleep(10.0)
    assert segment.stored_deleted
    assert world.acknowledged == world.sequence


@simulated
async def test_a_name_used_again_after_deletion_is_another_segment():
    world = make_world()
    world.append("s", b"x" * 1000)
    world.delete("s")
    world.append("s", b"y" * 500)
    world.checkpoint()
    await world.run_until_stored()
    await world.check_stored()


# ---------------------------------------------------------------------------------- ending


@simulated
async def test_being_fenced_out_ends_the_writer():
    world = make_world()
    newer = make_world()
    newer.objects, newer.rows, newer.epoch = world.objects, world.rows, 5
    newer._start_parts()
    await newer.storage.write(world._segment("s").storage_name, 0, [b"x"], create=True)
    world.segments["s"].durable_length = world.segments["s"].accepted_length = 1
    world.read_index.append(world.segments["s"], 0, b"x")
    world.append("s", b"y" * 2000)
    with pytest.raises(FencedOutError):
        await world.run_until_stored()


@simulated
async def test_flush_all_of_a_writer_that_ended_is_refused():
    world = make_world()
    with pytest.raises(ContainerOfflineError):
        await world.writer.flush_all()
    failing(world, "s")
    async with running(world) as run:
        world.append("s", b"x")
        flush = asyncio.ensure_future(world.writer.flush_all())
        await asyncio.sleep(5.0)
        assert not flush.done()
        run.cancel()
        with pytest.raises(ContainerOfflineError):
            await flush
    with pytest.raises(ContainerOfflineError):
        await world.writer.flush_all()


@pytest.mark.parametrize("damage", ["short", "missing"])
def test_a_segment_whose_last_chunk_lost_bytes_is_stored_on_and_ends_no_writer(damage):
    async def scenario():
        world = make_world()
        async with running(world):
            world.append("s", b"x" * 1000)
            await asyncio.sleep(1.0)
            name = world.storage.chunks(world.segments["s"].storage_name)[0].name
            if damage == "short":
                del world.objects.objects[name][-2:]
            else:
                del world.objects.objects[name]
            world.append("s", b"y" * 1000)
            world.append("other", b"z" * 1000)
            world.checkpoint()
            await asyncio.sleep(10.0)
            assert all(found.stored_length == found.durable_length for found in world.segments.values())
            assert world.acknowledged == world.sequence
        storage_name = world.segments["s"].storage_name
        assert await world.storage.read_stored(storage_name, 1000, 1000) == b"y" * 1000
        with pytest.raises(DataCorruptionError):
            await world.storage.read_stored(storage_name, 0, 1000)

    simulate(0, lambda _: scenario())


@simulated
async def test_flush_all_stores_what_it_can_and_may_be_given_up():
    world = make_world()
    failing(world, "bad")
    async with running(world):
        world.append("good", b"x")
        world.append("bad", b"x")
        await asyncio.sleep(0.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(CONFIG.stop_flush_s):
                await world.writer.flush_all()
        await world.writer.end()
        await world.writer.end()
    assert world.segments["good"].stored_length == 1
    assert world.segments["bad"].stored_length == 0


@simulated
async def test_flush_all_waits_for_nothing_but_storage():
    world = make_world()
    async with running(world):
        for number in range(3):
            world.append(f"s{number}", b"x" * 100)
            world.checkpoint()
            await asyncio.sleep(0.1 * number)
            before = asyncio.get_running_loop().time()
            await world.writer.flush_all()
            assert asyncio.get_running_loop().time() - before < 0.1
            assert all(segment.stored_length == 100 for segment in world.segments.values())
            assert world.writer.statistics().acknowledged_sequence


@simulated
async def test_flush_all_of_an_idle_writer_waits_for_nothing():
    world = make_world()
    async with running(world):
        await asyncio.sleep(5.0)
        before = asyncio.get_running_loop().time()
        await world.writer.flush_all()
        assert asyncio.get_running_loop().time() == before


# ---------------------------------------------------------------------------------- contradictions


async def expect_corruption(world, match):
    with pytest.raises(DataCorruptionError, match=match):
        await world.run_until_stored()


@simulated
async def test_a_gap_in_the_log_is_corruption():
    world = make_world()
    world.append("s", b"x" * 10)
    world.memory_log._queue.clear()
    world.append("s", b"y" * 10)
    await expect_corruption(world, r"covers \[10, 20\)")


@simulated
async def test_an_operation_out_of_order_is_corruption():
    world = make_world()
    world.append("s", b"x" * 10)
    world.append("t", b"y" * 10)
    world.memory_log._queue.reverse()
    await expect_corruption(world, "follows operation")


@simulated
async def test_more_bytes_in_storage_than_in_the_log_are_corruption():
    world = make_world()
    await world.storage.write(world._segment("s").storage_name, 0, [b"x" * 100], create=True)
    world.append("s", b"y" * 10)
    await expect_corruption(world, "storage has 100 bytes, the log 10")


@simulated
async def test_fewer_bytes_in_storage_than_were_stored_are_corruption():
    world = make_world()
    world.append("s", b"x" * 10)
    world.checkpoint()
    await world.run_until_stored()
    world.restart()
    world.rows.rows.rows.clear()
    world.append("s", b"y" * 10)
    await expect_corruption(world, "storage does not know it")


@simulated
async def test_a_seal_in_storage_that_the_log_does_not_know_is_corruption():
    world = make_world()
    world.append("s", b"x" * 10)
    await world.run_until_stored()
    await world.storage.seal(world.segments["s"].storage_name)
    world.restart()
    world.append("s", b"y" * 10)
    await expect_corruption(world, "sealed")


@simulated
async def test_bytes_that_are_neither_stored_nor_cached_are_corruption():
    world = make_world()
    world.append("s", b"x" * 10)
    world.read_index.drop(world.segments["s"])
    await expect_corruption(world, "neither stored nor cached")


@simulated
async def test_a_merge_whose_source_is_nowhere_is_corruption():
    world = make_world()
    world.append("s#1", b"x" * 2000)
    world.seal("s#1")
    world.memory_log._queue.clear()
    world.merge("s", "s#1")
    await expect_corruption(world, "neither in the log nor in storage")


# ---------------------------------------------------------------------------------- ten thousand of
# everything


@pytest.mark.slow
@simulated
async def test_thousands_of_segments_are_stored():
    world = make_world(writer_config=StorageWriterConfig(flush_age_s=0.5))
    for number in range(2_000):
        world.append(f"s{number}", b"x")
    world.checkpoint()
    await world.run_until_stored(timeout_s=600)
    assert all(segment.stored_length == 1 for segment in world.segments.values())
    assert world.acknowledged == world.sequence
    assert world.writer.statistics().segments_pending == 0


@pytest.mark.slow
@simulated
async def test_the_objects_of_a_thousand_deleted_segments_are_gone_soon_after_they_may():
    world = make_world(writer_config=replace(CONFIG, flush_age_s=0.5))
    names = [f"s{number}" for number in range(1000)]
    async with running(world):
        for name in names:
            world.append(name, b"x")
        await asyncio.sleep(5.0)
        assert len(world.objects.objects) == len(names)
        for name in names:
            world.delete(name)
        await asyncio.sleep(5.0)
        assert all(segment.stored_deleted for segment in world.segments.values())
        await asyncio.sleep(STORAGE.garbage_delay_s + CONFIG.garbage_interval_s + 1.0)
        assert not world.objects.objects


@simulated
async def test_ten_thousand_checkpoints_behind_a_failing_segment_stay_few():
    world = make_world()
    heal = failing(world, "bad")
    async with running(world):
        world.append("bad", b"x" * 1000)
        for _ in range(10_000):
            world.checkpoint()
        await asyncio.sleep(5.0)
        assert len(world.writer._acknowledgements._checkpoints) <= 4096
        heal()
        await asyncio.sleep(60.0)
    assert world.acknowledged >= world.sequence - 10


@pytest.mark.slow
@simulated
async def test_of_a_thousand_operations_those_beyond_the_bound_wait_in_the_memory_log():
    world = make_world(
        writer_config=StorageWriterConfig(
            pending_operations_max=200, take_operations_max=50, flush_bytes=10, write_bytes_max=20
        )
    )
    heal = failing(world)
    async with running(world):
        for number in range(1000):
            world.append(f"s{number}", b"x" * 10)
        await asyncio.sleep(20.0)
        assert world.writer.statistics().operations_taken <= 320
        heal()
        await asyncio.sleep(300.0)
    await world.check_stored()
