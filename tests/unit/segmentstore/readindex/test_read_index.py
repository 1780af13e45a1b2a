from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentSealedError,
    SegmentTruncatedError,
    StorageReadError,
)
from headrace.limits import KIB, MIB
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.readindex.redirects import Redirects
from tests.unit.segmentstore.readindex.world import BLOCK, World, pattern, settle, small_cache

# ------------------------------------------------------------------------------------------ cached


async def test_what_was_appended_can_be_read_at_once_without_storage_or_task(world):
    segment = world.create()
    world.append(segment, 100)
    world.append(segment, 50)
    result = world.index.read_nowait(segment, 10, 1000)
    assert result.at_tail
    assert not result.end_of_segment
    assert result.to_bytes() == pattern(10, 140)
    assert world.storage.reads == []
    assert world.supervisor.statistics().spawned == 0


async def test_the_buffer_of_an_append_may_be_reused_at_once(world):
    segment = world.create()
    frame = bytearray(b"first")
    segment.accepted_length = segment.durable_length = 5
    world.bytes[segment] += frame
    world.index.append(segment, 0, memoryview(frame))
    frame[:] = b"other"
    assert await world.read(segment, 0, 5) == b"first"


async def test_small_appends_share_blocks(world):
    segment = world.create()
    for _ in range(1000):
        world.append(segment, 10)
    statistics = world.cache.statistics()
    assert statistics.used_bytes <= 4 * BLOCK
    assert statistics.extents <= 3


async def test_a_read_crosses_extents(world):
    segment = world.create()
    world.append(segment, 100 * KIB)
    result = world.index.read_nowait(segment, 3, 90 * KIB)
    assert len(result.pieces) > 1
    assert result.to_bytes() == pattern(3, 90 * KIB)


async def test_a_large_sequential_segment_is_read_in_few_pieces():
    world = World(BlockCache(CacheConfig(bytes_max=64 * MIB)))
    segment = world.create()
    for _ in range(800):
        world.append(segment, bytes(10_000))
    result = world.index.read_nowait(segment, 4 * MIB + 5, 1 * MIB)
    assert len(result.pieces) <= 2
    result.release()
    await world.close()


async def test_only_durable_bytes_are_visible(world):
    segment = world.create()
    world.append(segment, 10)
    segment.accepted_length += 5
    world.index.append(segment, 10, memoryview(bytes(5)))
    assert await world.read(segment, 0, 100) == pattern(0, 10)
    segment.durable_length = 15
    world.bytes[segment] += bytes(5)
    assert await world.read(segment, 10, 100) == bytes(5)


async def test_an_append_with_a_gap_is_our_mistake(world):
    segment = world.create()
    world.append(segment, 10)
    with pytest.raises(AssertionError):
        world.index.append(segment, 11, memoryview(b"x"))


async def test_an_empty_append_changes_nothing(world):
    segment = world.create()
    world.append(segment, b"")
    world.append(segment, 10)
    world.store(segment)
    world.append(segment, b"")
    world.check()
    assert await world.read(segment, 0, 100) == pattern(0, 10)


# ------------------------------------------------------------------------------------------ validation


async def test_arguments_are_checked_before_anything_else(world):
    segment = world.create()
    world.append(segment, 100)
    world.truncate(segment, 40)
    for read in (world.index.read_nowait, lambda *a: world.index.read(*a, wait=False)):
        for arguments in ((segment, -1, 1), (segment, 50, -1)):
            with pytest.raises(InvalidArgumentError):
                await_or_call(read, *arguments)
        with pytest.raises(SegmentTruncatedError) as caught:
            await_or_call(read, segment, 39, 1)
        assert caught.value.start_offset == 40
    with pytest.raises(InvalidArgumentError):
        await world.index.read(segment, -1, 1, wait=True)


def await_or_call(read, *arguments):
    result = read(*arguments)
    if asyncio.iscoroutine(result):
        try:
            result.send(None)  # the checks come before the first suspension
        except StopIteration as stop:
            return stop.value
        finally:
            result.close()
    return result


async def test_nothing_is_read_when_nothing_is_asked_for(world):
    segment = world.create()
    world.append(segment, 10)
    for offset, at_tail in ((5, False), (10, True)):
        result = world.index.read_nowait(segment, offset, 0)
        assert (result.pieces, result.end_of_segment) == ([], False)
        assert result.at_tail == at_tail


async def test_the_end_of_a_sealed_segment_is_said_with_the_last_bytes_and_behind_them(world):
    segment = world.create()
    world.append(segment, 10)
    world.seal(segment)
    result = world.index.read_nowait(segment, 0, 10)
    assert (result.end_of_segment, result.at_tail, result.to_bytes()) == (True, False, pattern(0, 10))
    result = world.index.read_nowait(segment, 0, 9)
    assert not result.end_of_segment
    result = world.index.read_nowait(segment, 10, 10)
    assert (result.end_of_segment, result.pieces) == (True, [])
    with pytest.raises(InvalidArgumentError):
        world.index.read_nowait(segment, 11, 10)


async def test_a_deleted_segment_is_not_read(world):
    segment = world.create()
    world.append(segment, 10)
    world.delete(segment)
    with pytest.raises(NoSuchSegmentError):
        world.index.read_nowait(segment, 0, 10)


# ------------------------------------------------------------------------------------------ waiting


async def test_without_wait_the_tail_answers_nothing(world):
    segment = world.create()
    assert world.index.read_nowait(segment, 0, 10) is None
    for offset in (0, 7):  # the second is beyond the tail
        result = await world.index.read(segment, offset, 10, wait=False)
        assert result.at_tail
        assert result.pieces == []


async def test_a_waiting_read_gets_the_next_append_and_no_more(world):
    segment = world.create()
    world.append(segment, 10)
    reading = asyncio.ensure_future(world.read(segment, 10, 1000, wait=True))
    await settle()
    assert world.index.statistics().waiting_reads == 1
    world.append(segment, 3)
    world.append(segment, 4)
    assert await reading == pattern(10, 7)
    assert world.index.statistics().waiting_reads == 0


async def test_a_read_beyond_the_tail_waits_for_its_own_byte(world):
    segment = world.create()
    reading = asyncio.ensure_future(world.read(segment, 10, 1000, wait=True))
    await settle()
    world.append(segment, 10)
    await settle()
    assert not reading.done()
    world.append(segment, 1)
    assert await reading == pattern(10, 1)


async def test_a_cancelled_waiting_read_is_forgotten(world):
    segment = world.create()
    reading = asyncio.ensure_future(world.read(segment, 0, 10, wait=True))
    await settle()
    reading.cancel()
    await settle()
    assert world.index.statistics().waiting_reads == 0
    world.append(segment, 10)


async def test_a_reader_cancelled_after_it_was_woken_holds_nothing(world):
    segment = world.create()
    reading = asyncio.ensure_future(world.index.read(segment, 0, 64 * KIB, wait=True))
    await settle()
    world.append(segment, 64 * KIB)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert world.cache.statistics().pinned_bytes == 0


async def test_a_seal_ends_waiting_reads(world):
    segment = world.create()
    world.append(segment, 10)
    at_tail = asyncio.ensure_future(world.read(segment, 10, 10, wait=True))
    beyond = asyncio.ensure_future(world.read(segment, 12, 10, wait=True))
    await settle()
    world.seal(segment)
    for reading in (at_tail, beyond):
        with pytest.raises(SegmentSealedError):
            await reading
    with pytest.raises(InvalidArgumentError):
        await world.read(segment, 12, 10, wait=True)


async def test_a_seal_that_comes_with_data_delivers_the_data(world):
    segment = world.create()
    reading = asyncio.ensure_future(world.read(segment, 0, 10, wait=True))
    await settle()
    world.append(segment, 4)
    world.seal(segment)
    assert await reading == pattern(0, 4)


async def test_truncation_above_a_waiting_read_ends_it(world):
    segment = world.create()
    reading = asyncio.ensure_future(world.read(segment, 5, 10, wait=True))
    await settle()
    world.append(segment, 10)
    world.truncate(segment, 8)
    with pytest.raises(SegmentTruncatedError):
        await reading


async def test_deletion_ends_waiting_reads(world):
    segment = world.create()
    reading = asyncio.ensure_future(world.read(segment, 0, 10, wait=True))
    await settle()
    world.delete(segment)
    with pytest.raises(NoSuchSegmentError):
        await reading


async def test_deletion_ends_waiting_reads_although_storage_has_not_deleted_the_segment(world):
    segment = world.create()
    world.append(segment, 10)
    reading = asyncio.ensure_future(world.read(segment, 10, 10, wait=True))
    await settle()
    segment.accepted_deleted = segment.deleted = True
    world.index.on_changed(segment)
    await settle()
    assert reading.done()
    with pytest.raises(NoSuchSegmentError):
        await reading


async def test_a_segment_that_merely_leaves_memory_is_not_called_missing(world):
    segment = world.create()
    reading = asyncio.ensure_future(world.read(segment, 0, 10, wait=True))
    await settle()
    world.index.drop(segment)
    with pytest.raises(ContainerOfflineError):
        await reading


async def test_closing_ends_waiting_and_storage_reads(world):
    tail, stored = world.create("tail"), world.create_stored("stored", 1000)
    world.storage.stall()
    reading = [
        asyncio.ensure_future(world.read(tail, 0, 10, wait=True)),
        asyncio.ensure_future(world.read(stored, 0, 10)),
    ]
    await settle()
    world.index.close()
    for read in reading:
        with pytest.raises(ContainerOfflineError):
            await read
    with pytest.raises(ContainerOfflineError):
        await world.read(tail, 0, 10, wait=True)
    world.storage.resume()
    await settle()
    assert world.cache.statistics().used_bytes == 0


@pytest.mark.slow
async def test_ten_thousand_waiting_readers_all_get_the_append(world):
    segment = world.create()
    reads = [asyncio.ensure_future(world.read(segment, 0, 10, wait=True)) for _ in range(10_000)]
    await settle()
    world.append(segment, 10)
    assert await asyncio.gather(*reads) == [pattern(0, 10)] * 10_000


# ------------------------------------------------------------------------------------------ storage


async def test_stored_bytes_are_fetched_once_and_cached(world):
    segment = world.create_stored("s", 100 * KIB)
    assert await world.read_exactly(segment, 50 * KIB, 1000) == pattern(50 * KIB, 1000)
    (read,) = world.storage.reads
    assert read == (segment.storage_name, 50 * KIB, 14 * KIB)
    assert await world.read_exactly(segment, 51 * KIB, 13 * KIB) == pattern(51 * KIB, 13 * KIB)
    assert len(world.storage.reads) == 1


async def test_the_last_bytes_never_need_storage():
    world = World(small_cache(64))
    segment = world.create()
    for _ in range(500):
        world.append(segment, 3000)
        world.store(segment, max(0, segment.durable_length - 20_000))
        assert await world.read_exactly(segment, max(0, segment.durable_length - 60_000), 3000)
    assert world.storage.reads == []
    assert world.cache.statistics().evicted_extents > 15
    await world.close()


async def test_reading_history_does_not_evict_the_tail():
    world = World(small_cache(256))
    old, live = world.create_stored("old", 4 * MIB), world.create("live")
    world.append(live, 600 * KIB)
    world.store(live)
    for position in range(0, 4 * MIB, 64 * KIB):
        assert await world.read_exactly(old, position, 64 * KIB) == pattern(position, 64 * KIB)
    world.storage.reads.clear()
    assert await world.read_exactly(live, 0, 600 * KIB) == pattern(0, 600 * KIB)
    assert world.storage.reads == []
    await world.close()


async def test_readers_of_the_same_range_share_one_storage_read(world):
    segment = world.create_stored("s", 200 * KIB)
    world.storage.stall()
    reads = [
        asyncio.ensure_future(world.read(segment, offset, 30 * KIB)) for offset in (0, 0, 10 * KIB, 63 * KIB)
    ]
    await settle()
    world.storage.resume()
    first, again, inside, last = await asyncio.gather(*reads)
    assert first == again == pattern(0, 30 * KIB)
    assert inside == pattern(10 * KIB, 30 * KIB)
    assert last == pattern(63 * KIB, len(last))
    assert world.storage.reads[0][1] == 0
    assert world.index.statistics().fetches.shared >= 2


async def test_a_replayed_merge_costs_no_look_at_all_those_that_storage_has_not_completed(world, monkeypatch):
    """There may be ten thousand of them, and each asks what is to be let go of."""
    target = world.create("t")
    sources = [world.create(f"s{number}") for number in range(100)]
    for source in sources:
        world.append(source, 10)
        world.begin_merge(target, source)
    for source in sources[:2]:
        world.join_in_storage(target, source)
    target.stored_length = 20
    world.index.on_changed(target)
    looked_at = []

    def look_at_all(self):
        for redirect in self._redirects:
            looked_at.append(redirect)
            yield redirect

    monkeypatch.setattr(Redirects, "__iter__", look_at_all)
    world.index.free_unneeded(target)
    monkeypatch.undo()
    assert looked_at == []
    assert await world.read_exactly(target, 0, 1000) == pattern(0, 10) * 100
    assert len(world.index._indexes[target].redirects) == 98
    world.check()


async def test_a_read_that_begins_before_one_under_way_stops_where_that_begins(world):
    segment = world.create_stored("s", 200 * KIB)
    world.storage.stall()
    later = asyncio.ensure_future(world.read(segment, 40 * KIB, 8 * KIB))
    await settle()
    earlier = asyncio.ensure_future(world.read(segment, 32 * KIB, 100 * KIB))
    await settle()
    world.storage.resume()
    assert await earlier == pattern(32 * KIB, 8 * KIB)
    assert await later == pattern(40 * KIB, 8 * KIB)


async def test_cancelling_one_reader_does_not_disturb_who_shares_its_read(world):
    segment = world.create_stored("s", 100 * KIB)
    world.storage.stall()
    first = asyncio.ensure_future(world.read(segment, 0, 1000))
    second = asyncio.ensure_future(world.read(segment, 0, 1000))
    await settle()
    first.cancel()
    await settle()
    world.storage.resume()
    assert await second == pattern(0, 1000)


async def test_a_failed_storage_read_reaches_all_its_readers_and_is_tried_again_next_time(world):
    segment = world.create_stored("s", 100 * KIB)
    world.storage.stall()
    world.storage.failures = 1
    reads = [asyncio.ensure_future(world.read(segment, offset, 1000)) for offset in (0, 500)]
    await settle()
    world.storage.resume()
    for read in reads:
        with pytest.raises(StorageReadError):
            await read
    assert await world.read(segment, 0, 1000) == pattern(0, 1000)


async def test_a_short_answer_of_storage_is_what_there_is_and_who_shared_it_reads_on(world):
    segment = world.create_stored("s", 100 * KIB)
    world.storage.stall()
    world.storage.short_answers = 1
    reads = [asyncio.ensure_future(world.read(segment, offset, 2 * KIB)) for offset in (0, 3 * KIB, 30 * KIB)]
    await settle()
    world.storage.resume()
    first, second, third = [await read for read in reads]
    assert first == pattern(0, len(first))
    assert second == pattern(3 * KIB, len(second))
    assert third == pattern(30 * KIB, len(third))
    assert min(len(first), len(second), len(third)) > 0
    assert await world.read_exactly(segment, 0, 100 * KIB) == pattern(0, 100 * KIB)
    world.check()


async def test_an_answer_without_bytes_is_corruption_not_an_end(world):
    segment = world.create_stored("s", 10 * KIB)

    async def read_nothing(*_):
        return b""

    world.storage.read_some = read_nothing
    with pytest.raises(DataCorruptionError):
        await world.read(segment, 0, 1000)


async def test_a_replayed_deletion_frees_the_segment_and_what_was_merged_into_it(world):
    target, source, deeper = (world.create(name) for name in ("t", "s", "d"))
    for segment in (target, source, deeper):
        world.append(segment, 20 * KIB)
    world.begin_merge(source, deeper)
    world.begin_merge(target, source)
    world.index.free_unneeded(target)
    assert world.index.unstored_bytes() > 60 * KIB
    target.accepted_deleted = target.deleted = True
    world.index.free_unneeded(target)
    assert world.index.unstored_bytes() == 0
    assert world.cache.statistics().used_bytes == 0
    world.check()


async def test_a_replayed_merge_that_storage_has_completed_frees_the_source_and_is_read_from_storage(world):
    target, first, second = (world.create(name) for name in ("t", "1", "2"))
    for source in (first, second):
        world.append(source, 20 * KIB)
        world.begin_merge(target, source)
    world.join_in_storage(target, first)
    target.stored_length = 20 * KIB
    world.index.on_changed(target)
    world.index.free_unneeded(target)
    assert world.index.unstored_bytes() < 30 * KIB
    assert await world.read_exactly(target, 0, 40 * KIB) == pattern(0, 20 * KIB) * 2
    world.check()


async def test_storage_that_does_not_answer_is_given_up_and_its_place_is_free_again():
    world = World(fetches_max=1, storage_timeout_s=0.01)
    segment = world.create_stored("s", 10 * KIB)
    world.storage.stall()
    with pytest.raises(StorageReadError):
        await world.read(segment, 0, 1000)
    world.storage.resume()
    assert await world.read(segment, 0, 1000) == pattern(0, 1000)
    await world.close()


async def test_bytes_in_front_of_damaged_ones_can_be_read(world):
    segment = world.create_stored("s", 100 * KIB)
    world.storage.damaged_at = 50_000
    assert await world.read_exactly(segment, 0, 50_000) == pattern(0, 50_000)
    with pytest.raises(DataCorruptionError):
        await world.read(segment, 50_000, 1000)
    assert await world.read(segment, 50_001, 1) == pattern(50_001, 1)


async def test_a_truncation_of_very_many_extents_frees_some_and_leaves_the_others_to_eviction(monkeypatch):
    monkeypatch.setattr("headrace.segmentstore.readindex.segment_index.USELESS_AT_ONCE", 100)
    world = World(small_cache(1024))
    filling, segment = world.create("f"), world.create("s")
    for _ in range(34):
        world.append(filling, 16 * BLOCK)
    for _ in range(400):
        world.append(segment, BLOCK)  # of a block each, since memory is tight
    world.store(segment)
    world.truncate(segment, 400 * BLOCK - 5)
    assert world.cache.statistics().used_bytes == (34 * 16 + 300) * BLOCK
    world.check()
    assert await world.read_exactly(segment, 400 * BLOCK - 5, 5) == pattern(400 * BLOCK - 5, 5)
    for _ in range(400):
        world.append(filling, BLOCK)  # what is useless makes room
    assert world.cache.statistics().evicted_extents
    world.truncate(segment, 400 * BLOCK)
    world.check()
    await world.close()


@pytest.mark.parametrize("how", ["drop", "close"])
async def test_very_many_extents_are_freed_in_several_turns_of_the_loop(monkeypatch, how):
    """A hundred thousand take a tenth of a second, in which other containers would stand still."""
    monkeypatch.setattr("headrace.segmentstore.readindex.closing_indexes.FREED_AT_ONCE", 100)
    world = World(small_cache(1024))
    filling, segment = world.create("f"), world.create("s")
    for _ in range(34):
        world.append(filling, 16 * BLOCK)
    for _ in range(400):
        world.append(segment, BLOCK)  # of a block each, since memory is tight
    world.store(segment)
    waiting = asyncio.ensure_future(world.read(segment, 400 * BLOCK, 1, wait=True))
    await settle()
    if how == "drop":
        world.index.drop(segment)
    else:
        world.index.drop(filling)
        world.index.close()
    left = world.cache.statistics().used_bytes
    assert left > 200 * BLOCK
    freed = asyncio.ensure_future(world.index.wait_freed())
    while not freed.done():
        world.check()
        await asyncio.sleep(0)
        before, left = left, world.cache.statistics().used_bytes
        assert before - left <= 100 * BLOCK
    assert left == (34 * 16 * BLOCK if how == "drop" else 0)
    with pytest.raises(ContainerOfflineError):
        await waiting
    await world.close()


async def test_an_index_of_very_many_segments_closes_in_several_turns_of_the_loop(monkeypatch):
    monkeypatch.setattr("headrace.segmentstore.readindex.closing_indexes.FREED_AT_ONCE", 100)
    world = World(small_cache(1024))
    segments = [world.create(f"s{number}") for number in range(300)]
    for segment in segments:
        world.append(segment, 10)
    readers = [asyncio.ensure_future(world.read(each, 10, 1, wait=True)) for each in segments]
    await settle()
    world.index.close()
    for segment in segments[0], segments[-1]:  # freed already, and not yet
        with pytest.raises(ContainerOfflineError):
            await world.read(segment, 0, 1)
    turns = 0
    while world.cache.statistics().used_bytes:
        world.check()
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 20
    await world.index.wait_freed()
    assert world.index.unstored_bytes() == 0
    for error in await asyncio.gather(*readers, return_exceptions=True):
        assert isinstance(error, ContainerOfflineError)
    await world.close()


async def test_what_replay_lets_go_of_makes_room_at_once(monkeypatch):
    monkeypatch.setattr("headrace.segmentstore.readindex.closing_indexes.FREED_AT_ONCE", 10)
    world = World(small_cache(1024))
    filling, segment = world.create("f"), world.create("s")
    for _ in range(34):
        world.append(filling, 16 * BLOCK)
    for _ in range(400):
        world.append(segment, BLOCK)
    segment.deleted = True
    world.index.free_unneeded(segment)
    assert world.cache.statistics().used_bytes == 34 * 16 * BLOCK
    await world.close()


async def test_a_segment_truncated_while_it_is_read_is_reported(world):
    segment = world.create_stored("s", 10 * KIB)
    world.storage.stall()
    reading = asyncio.ensure_future(world.read(segment, 0, 1000))
    await settle()
    world.truncate(segment, 5 * KIB)
    world.storage.resume()
    with pytest.raises(SegmentTruncatedError):
        await reading


async def test_readers_above_a_truncation_are_answered_although_they_share_a_fetch_with_one_below_it():
    world = World(fetches_max=1, read_ahead=False)
    segment, other = world.create_stored("s", 100 * KIB), world.create_stored("x", 1000)
    world.storage.stall()
    first = asyncio.ensure_future(world.read(other, 0, 10))  # has the only place
    await settle()
    offsets = [0, 39_999, 40_000, 50_000]
    readings = [asyncio.ensure_future(world.read(segment, offset, 60_000)) for offset in offsets]
    await settle()
    assert world.index.statistics().fetches.shared == 3
    world.truncate(segment, 40_000)
    world.truncate_in_storage(segment, 40_000)
    world.storage.resume()
    await first
    below, just_below, *above = await asyncio.gather(*readings, return_exceptions=True)
    for error, offset in ((below, 0), (just_below, 39_999)):
        assert isinstance(error, SegmentTruncatedError)
        assert (error.segment, error.start_offset, error.offset) == ("s", 40_000, offset)
    for data, offset in zip(above, offsets[2:], strict=True):
        assert data
        assert data == pattern(offset, len(data))
    assert world.index.statistics().fetches.failures == 1
    await world.close()


async def test_storage_that_begins_behind_the_start_of_a_segment_is_not_asked_for_ever(world):
    segment = world.create_stored("s", 10 * KIB)
    world.truncate_in_storage(segment, 5000)
    with pytest.raises(SegmentTruncatedError):
        await world.read(segment, 4999, 10)
    assert len(world.storage.reads) == 1


async def test_a_segment_deleted_while_it_is_read_is_reported_and_nothing_is_cached(world):
    segment = world.create_stored("s", 10 * KIB)
    world.storage.stall()
    reading = asyncio.ensure_future(world.read(segment, 0, 1000))
    await settle()
    world.delete(segment)
    world.storage.resume()
    with pytest.raises(NoSuchSegmentError):
        await reading
    await settle()
    assert world.cache.statistics().used_bytes == 0


async def test_at_most_so_many_storage_reads_run_at_a_time():
    world = World(fetches_max=3)
    segments = [world.create_stored(f"s{number}", 1000) for number in range(10)]
    world.storage.stall()
    reads = [asyncio.ensure_future(world.read(segment, 500, 1000)) for segment in segments]
    await settle()
    assert len(world.storage.reads) == 3
    statistics = world.index.statistics().fetches
    assert (statistics.in_flight, statistics.queued) == (3, 7)
    world.storage.resume()
    assert await asyncio.gather(*reads) == [pattern(500, 500)] * 10
    await world.close()


async def test_a_reader_from_the_start_finds_its_next_bytes_read_already():
    world = World(BlockCache(CacheConfig(bytes_max=128 * MIB)))
    segment = world.create_stored("s", 12 * MIB)
    foreground = 0
    for position in range(0, 12 * MIB, 256 * KIB):
        if world.index.read_nowait(segment, position, 256 * KIB) is None:
            foreground += 1
        assert await world.read_exactly(segment, position, 256 * KIB) == pattern(position, 256 * KIB)
        await settle()
    assert foreground == 1
    covered = sorted((offset, offset + length) for _, offset, length in world.storage.reads)
    assert all(left[1] <= right[0] for left, right in pairwise(covered))
    assert world.index.statistics().fetches.ahead_reads >= 10
    await world.close()


async def test_a_reader_of_a_warm_history_needs_no_task_and_always_the_same_memory():
    world = World(BlockCache(CacheConfig(bytes_max=64 * MIB)))
    world.storage.warm_bytes = 100 * MIB
    segment = world.create_stored("s", 20 * MIB + 300)
    position = 0
    while position < segment.durable_length:
        result = world.index.read_nowait(segment, position, 1 * MIB)
        assert result is not None
        assert result.length == min(1 * MIB, segment.durable_length - position)
        assert b"".join(result.pieces) == pattern(position, result.length)
        assert world.cache.statistics().lent_bytes == 1 * MIB or result.length == 300
        assert result.span == ((world.storage.file, position) if result.length > 300 else None)
        position += result.length
        assert result.at_tail == (position == segment.durable_length)
        result.release()
    statistics = world.cache.statistics()
    assert (statistics.lent_bytes, statistics.pinned_bytes) == (0, 0)
    assert statistics.used_bytes == 4096  # the last read was small, and is kept
    assert statistics.arena_bytes == CacheConfig().arena_bytes
    assert world.storage.reads == []
    assert world.index.statistics().fetches.reads == 0
    await world.close()


async def test_small_reads_of_a_warm_history_are_served_from_what_was_read_with_them():
    world = World(BlockCache(CacheConfig(bytes_max=64 * MIB)))
    world.storage.warm_bytes = 100 * MIB
    segment = world.create_stored("s", 3 * MIB)
    position = 0
    while position < segment.durable_length:
        result = world.index.read_nowait(segment, position, 1000)
        assert result is not None
        data = result.to_bytes()
        assert data == pattern(position, len(data))
        position += len(data)
    assert len(world.storage.reads_at_once) == 3
    for number in range(1, 200):
        position = number * 7919 * 97 % (3 * MIB - 100)
        assert world.index.read_nowait(segment, position, 100) is not None
    assert len(world.storage.reads_at_once) == 3
    world.check()
    assert world.storage.reads == []
    assert world.cache.statistics().lent_bytes == 0
    await world.close()


@pytest.mark.slow
async def test_a_history_that_turns_cold_is_read_ahead_and_one_that_turns_warm_is_not():
    world = World(BlockCache(CacheConfig(bytes_max=128 * MIB)))
    segment = world.create_stored("s", 40 * MIB)
    fetches = world.index.statistics().fetches

    async def read_to(position, end):
        while position < end:
            data = await world.read(segment, position, 512 * KIB)
            assert data == pattern(position, len(data))
            position += len(data)
            await settle()

    world.storage.warm_bytes = 10 * MIB
    await read_to(0, 10 * MIB)
    assert (fetches.reads, fetches.ahead_reads) == (0, 0)
    await read_to(10 * MIB, 20 * MIB)
    assert fetches.ahead_reads >= 8
    world.storage.warm_bytes = 40 * MIB
    ahead = fetches.ahead_reads
    await read_to(20 * MIB, 40 * MIB)
    assert fetches.ahead_reads == ahead
    assert world.cache.statistics().lent_bytes == 0
    await world.close()


@pytest.mark.slow
async def test_readers_that_do_not_take_their_bytes_borrow_no_more_than_the_share_of_history():
    world = World(BlockCache(CacheConfig(bytes_max=32 * MIB)))
    world.storage.warm_bytes = 100 * MIB
    old, live = world.create_stored("old", 40 * MIB), world.create("live")
    for _ in range(24):
        world.append(live, 1 * MIB)
        world.store(live)
    results = []
    for position in range(0, 40 * MIB, MIB):
        result = world.index.read_nowait(old, position, MIB)
        if result is None:  # then storage is asked as if it were cold
            assert await world.read_exactly(old, position, MIB) == pattern(position, MIB)
        else:
            results.append((position, result))
        world.cache.check()
    assert 4 <= len(results) <= 8
    assert world.cache.statistics().lent_bytes <= 8 * MIB
    world.storage.reads.clear()
    assert await world.read_exactly(live, 8 * MIB, 16 * MIB) == pattern(8 * MIB, 16 * MIB)
    assert world.storage.reads == []  # the tail is where it was
    for position, result in results:
        assert result.to_bytes() == pattern(position, MIB)
    assert world.cache.statistics().lent_bytes == 0
    await world.close()


async def test_lent_memory_outlives_segment_and_container():
    world = World(BlockCache(CacheConfig(bytes_max=32 * MIB)))
    world.storage.warm_bytes = 100 * MIB
    segment = world.create_stored("s", 1 * MIB)
    result = world.index.read_nowait(segment, 0, MIB)
    world.delete(segment)
    world.index.close()
    assert b"".join(result.pieces) == pattern(0, MIB)
    with pytest.raises(TypeError):
        result.pieces[0][0] = 1
    world.cache.check()
    result.release()
    assert world.cache.statistics().used_bytes == 0
    await world.close()


async def test_a_read_of_bytes_on_their_way_waits_for_those():
    world = World(BlockCache(CacheConfig(bytes_max=32 * MIB)))
    segment = world.create_stored("s", 4 * MIB)
    world.storage.stall()
    first = asyncio.ensure_future(world.read(segment, 0, MIB))
    await settle()
    world.storage.warm_bytes = 4 * MIB
    world.storage._gate.set()  # warm from now on, and the first read still on its way
    second = asyncio.ensure_future(world.read(segment, 100, MIB))
    assert await second == pattern(100, MIB - 100)
    assert await first == pattern(0, MIB)
    assert [length for _, offset, length in world.storage.reads if not offset] == [MIB]
    await world.close()


@pytest.mark.parametrize("warm", [0, 30_000, 1 << 30])
async def test_a_reader_goes_from_storage_through_the_cache_into_the_future(warm):
    world = World(small_cache(32))
    world.storage.warm_bytes = warm
    segment = world.create()
    while segment.durable_length < 400_000:
        world.append(segment, 9000)
        world.store(segment, segment.durable_length - 20_000 if segment.durable_length > 30_000 else 0)
    assert world.cache.statistics().evicted_extents
    appended = segment.durable_length
    read = bytearray()
    while len(read) < appended + 500:
        reading = asyncio.ensure_future(world.read(segment, len(read), 7000, wait=True))
        await settle()
        if len(read) >= appended:
            assert not reading.done()
            world.append(segment, 100)
        data = await reading
        assert data
        read += data
    assert read == world.bytes[segment]
    world.check()
    await world.close()


async def test_random_reads_do_not_read_ahead():
    world = World(BlockCache(CacheConfig(bytes_max=128 * MIB)))
    segment = world.create_stored("s", 8 * MIB)
    for number in range(1, 60):
        position = number * 7919 * 97 % (8 * MIB - 100)
        assert await world.read_exactly(segment, position, 100) == pattern(position, 100)
    assert world.index.statistics().fetches.ahead_reads == 0
    assert sum(length for _, _, length in world.storage.reads) < 60 * 65 * KIB
    await world.close()


async def test_reading_ahead_leaves_half_of_the_places_to_readers():
    world = World(BlockCache(CacheConfig(bytes_max=256 * MIB)), fetches_max=4)
    ahead, other = world.create_stored("ahead", 16 * MIB), world.create_stored("other", 1000)
    for position in range(0, 3 * MIB, MIB):
        await world.read_exactly(ahead, position, MIB)
        await settle()
    world.storage.stall()
    world.storage.reads.clear()
    reading = asyncio.ensure_future(world.read_exactly(ahead, 3 * MIB, 8 * MIB))
    await settle()
    assert world.index.statistics().fetches.in_flight <= 3
    foreground = asyncio.ensure_future(world.read(other, 0, 1000))
    await settle()
    assert world.storage.reads[-1][0] == other.storage_name
    world.storage.resume()
    await asyncio.gather(reading, foreground)
    await world.close()


async def test_a_failed_read_ahead_is_nobodys_error(world):
    world = World(BlockCache(CacheConfig(bytes_max=128 * MIB)))
    segment = world.create_stored("s", 4 * MIB)
    assert await world.read(segment, 0, MIB)
    world.storage.failures = 100
    await settle()
    world.storage.failures = 0
    assert world.index.statistics().fetches.failures >= 1
    assert await world.read_exactly(segment, 0, 4 * MIB) == pattern(0, 4 * MIB)
    await world.close()


async def test_bytes_known_to_exist_but_not_where_are_waited_for_even_without_wait(world):
    """Right after recovery the stored length may be behind."""
    segment = world.create_stored("s", 1000)
    segment.stored_length = 400
    reading = asyncio.ensure_future(world.read(segment, 500, 100))
    await settle()
    assert not reading.done()
    segment.stored_length = 1000
    world.index.on_changed(segment)
    assert await reading == pattern(500, 100)


async def test_after_recovery_appends_go_on_where_the_log_begins(world):
    segment = world.create_stored("s", 1000)
    world.bytes[segment] += pattern(1000, 100)
    segment.accepted_length = segment.durable_length = 1100
    segment.stored_length = 1000
    world.index.append(segment, 1000, memoryview(pattern(1000, 100)))
    assert await world.read_exactly(segment, 900, 200) == pattern(900, 200)
    world.store(segment)
    world.check()


async def test_replayed_bytes_that_storage_holds_are_not_essential(world):
    segment = world.create_stored("s", 1000)
    for offset, length in ((200, 500), (700, 500)):
        segment.accepted_length = segment.durable_length = max(1000, offset + length)
        world.index.append(segment, offset, memoryview(pattern(offset, length)))
        world.index.check()
    world.bytes[segment] = bytearray(pattern(0, 1200))
    assert world.index.unstored_bytes() == 200 + 2 * BLOCK
    assert await world.read_exactly(segment, 0, 1200) == pattern(0, 1200)


# ------------------------------------------------------------------------------------------ the writer's side


async def test_unstored_bytes_count_what_the_writer_still_has_to_write(world):
    first, second = world.create("a"), world.create("b")
    world.append(first, 1000)
    world.append(second, 500)
    assert world.index.unstored_bytes() == 1500 + 4 * BLOCK
    world.store(first, 400)
    assert world.index.unstored_bytes() == 1100 + 4 * BLOCK
    world.store(first)
    world.delete(second)
    assert world.index.unstored_bytes() == 0


async def test_the_writer_gets_exactly_what_it_asks_for_or_nothing(world):
    segment = world.create()
    world.append(segment, 100 * KIB)
    assert b"".join(world.index.read_direct(segment, 5, 90 * KIB)) == pattern(5, 90 * KIB)
    assert world.index.read_direct(segment, 5, 100 * KIB) is None
    assert world.index.read_direct(world.create("other"), 0, 1) is None


async def test_truncated_bytes_stay_until_the_writer_has_written_them(world):
    segment = world.create()
    world.append(segment, 100 * KIB)
    world.truncate(segment, 80 * KIB)
    assert b"".join(world.index.read_direct(segment, 0, 100 * KIB)) == pattern(0, 100 * KIB)
    before = world.cache.statistics().used_bytes
    world.store(segment)
    assert world.cache.statistics().used_bytes < before


@pytest.mark.slow
async def test_thousands_of_slow_segments_fit_although_none_of_them_is_ever_fully_stored():
    cache = BlockCache(CacheConfig(bytes_max=24 * MIB))
    world = World(cache)
    segments = [world.create(f"s{number}") for number in range(2_500)]
    for _ in range(12):
        for segment in segments:
            offset = segment.durable_length
            segment.accepted_length = segment.durable_length = offset + 900
            world.index.append(segment, offset, memoryview(bytes(900)))
            segment.stored_length = offset
            world.index.on_changed(segment)
    assert cache.statistics().used_bytes <= 24 * MIB
    assert world.index.statistics().unstored_bytes == 2_500 * (900 + 2 * BLOCK)
    cache.check()
    world.bytes.clear()
    await world.close()


async def test_containers_that_share_a_cache_stop_accepting_before_it_is_full():
    cache = small_cache(256)
    on_the_way = 20  # appends that each may have accepted when it is told to stop
    worlds = [World(cache, accepted_bytes_max=on_the_way * BLOCK) for _ in range(3)]
    segments = [world.create() for world in worlds]
    for turn in range(10_000):
        world, segment = worlds[turn % 3], segments[turn % 3]
        if turn < 300 and turn % 3:
            continue  # one of them is there first and takes more than its part
        if world.has_free_capacity:
            world.append(segment, 1000)
    assert not any(world.has_free_capacity for world in worlds)
    assert 0.5 < cache.essential_blocks / cache.policy.blocks_max < 0.8
    assert min(segment.durable_length for segment in segments) > 30 * BLOCK
    for world, segment in zip(worlds, segments, strict=True):
        for _ in range(on_the_way):
            world.append(segment, BLOCK)
    for world, segment in zip(worlds, segments, strict=True):
        world.store(segment)
        assert world.index.unstored_bytes() == 0
    for world in worlds:
        await world.close()
    assert (cache.containers, cache.set_aside_bytes) == (0, 0)


@pytest.mark.parametrize("late", [False, True])
async def test_what_was_accepted_finds_room_whatever_readers_hold(late):
    """They take all they may, before containers stop accepting or right after."""
    cache = small_cache(256)
    on_the_way = 20
    worlds = [World(cache, accepted_bytes_max=on_the_way * BLOCK) for _ in range(3)]
    old = worlds[0].create("old")
    worlds[0].append(old, 64 * BLOCK)
    worlds[0].store(old)
    held = []

    def hold():
        offset = 0
        while offset < old.durable_length:
            held.append(worlds[0].index.read_nowait(old, offset, 2 * BLOCK))
            offset += held[-1].length
        assert cache.pinned_blocks > 20
        assert cache.pinned_blocks <= cache.policy.pinned_max

    if not late:
        hold()
    segments = [world.create() for world in worlds]
    for turn in range(3000):
        world, segment = worlds[turn % 3], segments[turn % 3]
        if world.has_free_capacity:
            world.append(segment, 1000)
    assert min(segment.durable_length for segment in segments) > 20 * BLOCK
    if late:
        hold()
    for world, segment in zip(worlds, segments, strict=True):
        for _ in range(on_the_way):
            world.append(segment, BLOCK)
        world.check()
    for result in held:
        assert result.to_bytes() == pattern(result.offset, result.length)
    for world in worlds:
        await world.close()


@pytest.mark.slow
@pytest.mark.parametrize("tail", [13 * BLOCK, 16 * BLOCK - 100], ids=["within", "across"])
@pytest.mark.parametrize("readers", ["nobody", "early", "before", "after"])
async def test_what_was_accepted_finds_room_although_it_follows_stored_bytes(tail, readers):
    """Little is appended to segments that lie in the cache in large extents, which could all be evicted.

    It fits into the last extent of its segment, or goes on in another one. Readers take what they may of all
    that, before anything is accepted, or before or after these appends are applied.
    """
    cache = small_cache(1024)
    worlds = [World(cache, accepted_bytes_max=100 * BLOCK) for _ in range(3)]
    slow = worlds[-1]
    segments = [slow.create(f"s{number}") for number in range(16)]
    for segment in segments:
        slow.append(segment, tail)
        slow.store(segment)
    held = []

    def hold(when):
        if when == readers:
            found = [slow.index.read_nowait(segment, 0, 32 * BLOCK) for segment in segments]
            held.extend(result for result in found if result is not None)  # some are evicted already

    hold("early")
    backlogs = [world.create("backlog") for world in worlds]
    for world, backlog in zip(worlds, backlogs, strict=True):
        left = 80 if world is slow else 8
        while world.index.unstored_bytes() + left * BLOCK < cache.spare_bytes:
            world.accept(backlog, 2 * BLOCK)
            world.apply()
        if world is slow:
            assert all(world.accept(segment, 5000) for segment in segments)
        while world.accept(backlog, 2 * BLOCK):
            pass
    assert min(world.accepted_bytes for world in worlds) > 0
    hold("before")
    slow.apply(len(segments))
    hold("after")
    for world in worlds:
        world.apply()
        world.check()
    for result in held:
        assert result.to_bytes() == pattern(result.offset, result.length)
    for segment in segments:
        assert await slow.read_exactly(segment, tail - 1, 5001) == pattern(tail - 1, 1) + pattern(tail, 5000)
    for world in worlds:
        await world.close()


async def test_a_deleted_segment_gives_its_memory_back_when_storage_has_deleted_it(world):
    segment = world.create()
    world.append(segment, 100 * KIB)
    segment.accepted_deleted = segment.deleted = True
    world.index.on_changed(segment)
    assert b"".join(world.index.read_direct(segment, 0, 100 * KIB)) == pattern(0, 100 * KIB)
    segment.stored_deleted = True
    world.index.on_changed(segment)
    assert world.cache.statistics().used_bytes == 0
    assert world.index.unstored_bytes() == 0


async def test_recovery_is_told_the_first_byte_that_is_nowhere(world):
    segment, source = world.create_stored("s", 1000), world.create("x")
    segment.accepted_length = segment.durable_length = 1500
    assert world.index.first_uncovered(segment) == 1000
    world.index.append(segment, 1000, memoryview(bytes(100)))
    assert world.index.first_uncovered(segment) == 1100
    world.append(source, 100_000)
    world.seal(source)
    world.index.begin_merge(segment, 1100, source, 100_000)
    segment.accepted_length = segment.durable_length = 101_100
    assert world.index.first_uncovered(segment) is None
    segment.accepted_length = segment.durable_length = 101_101
    assert world.index.first_uncovered(segment) == 101_100


async def test_a_few_large_tails_give_way_when_many_segments_come():
    world = World(small_cache(64))
    big = world.create("big")
    world.append(big, 15 * BLOCK)
    world.append(big, 15 * BLOCK)
    world.store(big, big.durable_length - 10)
    segments = [world.create(f"s{number}") for number in range(60)]
    for segment in segments:
        world.append(segment, 10)
        world.check()
    assert await world.read_exactly(big, big.durable_length - 10, 10) == pattern(30 * BLOCK - 10, 10)
    await world.close()


# ------------------------------------------------------------------------------------------ merges


@pytest.mark.parametrize("size", [100, 100 * KIB], ids=["copied", "redirected"])
async def test_a_merged_segment_is_read_through_its_target_at_every_stage(world, size):
    target, source = world.create("t"), world.create("x")
    world.append(target, 50)
    world.append(source, pattern(7, size))
    world.begin_merge(target, source)
    world.append(target, b"after")
    whole = pattern(0, 50) + pattern(7, size) + b"after"

    async def read_all() -> None:
        world.check()
        assert await world.read_exactly(target, 0, len(whole)) == whole
        for offset in (49, 50, 51, 50 + size - 1, 50 + size):
            assert whole[offset:].startswith(await world.read(target, offset, 10))

    await read_all()
    assert world.index.read_direct(target, 40, 20) is None
    assert world.index.read_direct(target, 50, 1) is None
    assert b"".join(world.index.read_direct(target, 50 + size, 5)) == b"after"
    world.store(target, 50)
    await read_all()
    world.join_in_storage(target, source)
    await read_all()
    world.complete_merge(target, source)
    await read_all()
    assert b"".join(world.index.read_direct(target, 50 + size, 5)) == b"after"
    world.store(target)
    await read_all()
    assert world.storage.reads == []
    del world.bytes[source]


async def test_a_merged_source_is_not_read_by_its_name(world):
    target, source = world.create("t"), world.create("x")
    world.append(source, 100)
    waiting = asyncio.ensure_future(world.read(source, 100, 10, wait=True))
    await settle()
    world.begin_merge(target, source)
    with pytest.raises(NoSuchSegmentError):
        world.index.read_nowait(source, 0, 10)
    with pytest.raises((NoSuchSegmentError, SegmentSealedError)):
        await waiting


async def test_a_tail_reader_of_the_target_gets_the_merged_bytes(world):
    target, source = world.create("t"), world.create("x")
    world.append(source, 100 * KIB)
    waiting = asyncio.ensure_future(world.read(target, 0, 10, wait=True))
    await settle()
    world.begin_merge(target, source)
    assert await waiting == pattern(0, 10)


async def test_an_empty_source_leaves_no_trace(world):
    target, source = world.create("t"), world.create("x")
    world.append(target, 10)
    world.begin_merge(target, source)
    world.append(target, 10)
    assert await world.read(target, 0, 100) == pattern(0, 20)


async def test_a_merge_source_in_storage_is_fetched_under_its_own_name(world):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    assert await world.read_exactly(target, 10 * KIB, 1000) == pattern(10 * KIB, 1000)
    assert world.storage.reads[0][0] == source.storage_name


async def test_a_read_that_races_with_the_join_waits_for_the_merge_and_finds_its_bytes(world):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    world.join_in_storage(target, source)
    reading = asyncio.ensure_future(world.read(target, 10 * KIB, 1000))
    await settle()
    assert not reading.done()
    assert len(world.storage.reads) == 1
    world.complete_merge(target, source)
    del world.bytes[source]
    assert await reading == pattern(10 * KIB, 1000)
    assert world.storage.reads[1][:2] == (target.storage_name, 10 * KIB)


async def test_a_read_under_way_when_the_merge_completes_is_answered_from_the_target(world):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    world.storage.stall()
    reading = asyncio.ensure_future(world.read(target, 10 * KIB, 1000))
    await settle()
    world.join_in_storage(target, source)
    world.complete_merge(target, source)
    del world.bytes[source]
    await settle()
    world.storage.resume()
    assert await reading == pattern(10 * KIB, 1000)


async def test_a_read_under_which_a_merge_within_a_merge_completes_is_answered_from_the_target(world):
    target, middle, source = world.create("t"), world.create("m"), world.create_stored("x", 100 * KIB)
    world.begin_merge(middle, source)
    world.begin_merge(target, middle)
    world.storage.stall()
    reading = asyncio.ensure_future(world.read(target, 10 * KIB, 1000))
    await settle()
    for into, merged in ((middle, source), (target, middle)):
        world.join_in_storage(into, merged)
        world.complete_merge(into, merged)
        del world.bytes[merged]
        await settle()
    world.storage.resume()
    assert await reading == pattern(10 * KIB, 1000)
    names = [name for name, _, _ in world.storage.reads]
    assert names == [source.storage_name, middle.storage_name, target.storage_name]


async def test_a_read_that_races_with_each_join_of_a_merge_within_a_merge_finds_its_bytes(world):
    target, middle, source = world.create("t"), world.create("m"), world.create_stored("x", 100 * KIB)
    world.begin_merge(middle, source)
    world.begin_merge(target, middle)
    world.join_in_storage(middle, source)
    reading = asyncio.ensure_future(world.read(target, 10 * KIB, 1000))
    await settle()
    world.complete_merge(middle, source)
    world.join_in_storage(target, middle)
    del world.bytes[source]
    await settle()
    assert not reading.done()
    world.complete_merge(target, middle)
    del world.bytes[middle]
    assert await reading == pattern(10 * KIB, 1000)


async def test_a_merge_source_that_is_nowhere_is_asked_for_twice_and_reported():
    world = World()
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    source.deleted = source.stored_deleted = True
    world.index.drop(source)
    del world.storage.segments[source.storage_name]
    with pytest.raises(NoSuchSegmentError):
        await world.read(target, 10 * KIB, 1000)
    assert len(world.storage.reads) == 2
    await world.close()


async def test_a_read_parked_on_a_merge_ends_with_the_target(world):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    world.join_in_storage(target, source)
    reading = asyncio.ensure_future(world.read(target, 10 * KIB, 1000))
    await settle()
    world.delete(target)
    with pytest.raises(NoSuchSegmentError):
        await reading


@pytest.mark.parametrize("what", ["container", "segment"])
async def test_a_read_parked_on_a_merge_ends_with_what_it_waits_for(world, what):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    world.join_in_storage(target, source)
    reading = asyncio.ensure_future(world.read(target, 10 * KIB, 1000))
    await settle()
    if what == "container":
        world.index.close()
    else:
        world.index.drop(source)
        world.index.drop(target)
    with pytest.raises(ContainerOfflineError):
        await reading


async def test_a_read_that_waits_for_news_of_a_merge_source_is_answered_from_the_target(world):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    source.stored_length = 0  # recovered, and storage has not been asked yet
    world.begin_merge(target, source)
    reading = asyncio.ensure_future(world.read(target, 10 * KIB, 1000))
    await settle()
    assert world.storage.reads == []
    source.stored_length = 100 * KIB
    world.join_in_storage(target, source)
    world.complete_merge(target, source)
    del world.bytes[source]
    assert await reading == pattern(10 * KIB, 1000)


async def test_a_merge_may_complete_after_its_target_is_gone(world):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    world.join_in_storage(target, source)
    world.delete(target)
    world.index.complete_merge(target, source)
    assert world.index.statistics().segments == 0


async def test_a_parked_reader_that_is_cancelled_is_forgotten(world):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    world.join_in_storage(target, source)
    reading = asyncio.ensure_future(world.read(target, 10 * KIB, 1000))
    await settle()
    reading.cancel()
    await settle()
    world.complete_merge(target, source)
    del world.bytes[source]
    assert await world.read(target, 10 * KIB, 10) == pattern(10 * KIB, 10)


async def test_a_storage_failure_of_a_merge_source_is_reported_not_parked(world):
    target, source = world.create("t"), world.create_stored("x", 100 * KIB)
    world.begin_merge(target, source)
    world.storage.failures = 1
    with pytest.raises(StorageReadError):
        await world.read(target, 10 * KIB, 1000)


async def test_completing_a_merge_moves_no_byte_and_keeps_views_valid(world):
    target, source = world.create("t"), world.create("x")
    world.append(source, 60 * KIB)
    world.begin_merge(target, source)
    result = await world.index.read(target, 0, 60 * KIB, wait=False)
    used = world.cache.statistics().used_bytes
    world.join_in_storage(target, source)
    world.complete_merge(target, source)
    del world.bytes[source]
    assert world.cache.statistics().used_bytes <= used
    assert await world.read_exactly(target, 0, 60 * KIB) == pattern(0, 60 * KIB)
    assert world.storage.reads == []
    assert result.to_bytes() == pattern(0, result.length)


async def test_a_merge_that_storage_had_applied_before_recovery_needs_no_redirect(world):
    target = world.create_stored("t", 100 * KIB)
    source = world.create("x")
    source.accepted_length = source.durable_length = 40 * KIB
    source.accepted_sealed = source.sealed = source.accepted_merged = source.merged = True
    world.index.begin_merge(target, 60 * KIB, source, 40 * KIB)
    assert await world.read_exactly(target, 50 * KIB, 50 * KIB) == pattern(50 * KIB, 50 * KIB)
    world.index.complete_merge(target, source)
    assert {name for name, _, _ in world.storage.reads} == {target.storage_name}


@pytest.mark.slow
async def test_a_thousand_small_transactions_share_the_blocks_of_their_target(world):
    target = world.create("t")
    expected = b""
    for number in range(1000):
        source = world.create(f"txn{number}")
        data = pattern(number, 100)
        world.append(source, data)
        world.begin_merge(target, source)
        expected += data
        if number % 3 == 2:
            world.store(target, target.stored_length)
            for done in [segment for segment in world.bytes if segment.merged]:
                world.join_in_storage(target, done)
                world.complete_merge(target, done)
                del world.bytes[done]
    world.check()
    assert await world.read_exactly(target, 0, len(expected)) == expected
    assert world.cache.statistics().used_bytes < 64 * BLOCK


# ------------------------------------------------------------------------------------------ views and memory


async def test_views_stay_intact_while_everything_else_is_evicted():
    world = World(small_cache(64))
    segment = world.create()
    world.append(segment, 12 * BLOCK)
    world.store(segment)
    held = [world.index.read_nowait(segment, offset, 8 * KIB) for offset in (0, 5 * BLOCK)]
    other = world.create("other")
    for _ in range(200):
        world.append(other, 5000)
        world.store(other)
    for offset, result in zip((0, 5 * BLOCK), held, strict=True):
        assert result.to_bytes() == pattern(offset, 8 * KIB)
    assert world.cache.statistics().pinned_bytes == 0
    world.check()
    await world.close()


async def test_views_outlive_the_deletion_of_their_segment(world):
    segment = world.create()
    world.append(segment, 64 * KIB)
    result = world.index.read_nowait(segment, 0, 32 * KIB)
    world.delete(segment)
    other = world.create("other")
    for _ in range(40):
        world.append(other, b"\xff" * 20_000)
        world.store(other)
    assert result.to_bytes() == pattern(0, result.length)


async def test_containers_share_one_bound_and_evict_each_other():
    cache = small_cache(64)
    worlds = [World(cache), World(cache)]
    segments = [world.create() for world in worlds]
    for world, segment in zip(worlds, segments, strict=True):
        for _ in range(50):
            world.append(segment, 5000)
            world.store(segment)
    assert cache.statistics().used_bytes <= 64 * BLOCK
    worlds[0].storage.reads.clear()
    assert await worlds[0].read_exactly(segments[0], 0, 5000) == pattern(0, 5000)
    assert worlds[0].storage.reads
    await worlds[0].close()
    assert await worlds[1].read_exactly(segments[1], 240_000, 5000) == pattern(240_000, 5000)
    await worlds[1].close()
    assert cache.statistics().used_bytes == 0
