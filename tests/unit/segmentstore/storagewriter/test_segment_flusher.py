"""One step of one segment, against a storage that says what the test wants."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.flush_plan import CompareStep, ConcatStep, plan_step
from headrace.segmentstore.storagewriter.segment_aggregator import PendingTruncate, SegmentAggregator
from headrace.segmentstore.storagewriter.segment_flusher import SegmentFlusher
from headrace.storage.chunks.segment_info import StoredSegmentInfo


class Storage:
    """Has segments of the lengths in ``lengths``, whatever is asked of it."""

    def __init__(self, **lengths):
        self.lengths = lengths
        self.calls = []
        self.on_truncate = []

    async def info(self, name):
        return self.info_nowait(name)

    def info_nowait(self, name):
        name = name.partition(".")[0]
        if name not in self.lengths:
            return None
        return StoredSegmentInfo(name, self.lengths[name], 0, True, 1, 1, 100)

    async def write(self, name, offset, buffers, **_):
        self.calls.append(("write", offset, sum(map(len, buffers))))
        return self.lengths[name.partition(".")[0]]

    async def truncate(self, name, offset):
        self.calls.append(("truncate", offset))
        while self.on_truncate:
            self.on_truncate.pop()()

    async def read_stored(self, name, offset, length):
        return memoryview(b"x" * length)

    async def concat(self, target, offset, source):
        self.calls.append(("concat", offset))
        return self.lengths[target.partition(".")[0]]


class Index:
    def __init__(self, *, cached=True):
        self.cached = cached

    def read_direct(self, segment, offset, length):
        return [memoryview(b"x" * length)] if self.cached else None

    def on_changed(self, segment):
        pass


def segment_of(length, name="s", *, start=0, merged=False):
    segment = SegmentState(1, name, durable_length=length, accepted_length=length)
    segment.start_offset = segment.accepted_start_offset = start
    if merged:
        segment.sealed = segment.accepted_sealed = segment.merged = segment.accepted_merged = True
    return segment


def step_of(found):
    return plan_step(found, write_bytes_max=1000)


@pytest.mark.parametrize("told", [0, 9, 11])
async def test_bytes_count_as_stored_only_if_storage_tells_of_just_them(told):
    found = SegmentAggregator(segment_of(10), in_storage=False)
    found.add_append(1, 0, 10)
    storage = Storage(s=told)
    with pytest.raises(DataCorruptionError, match=f"10 bytes were stored, storage tells of {told}"):
        await SegmentFlusher(storage, Index()).perform(found, step_of(found))
    assert found.segment.stored_length == 0
    assert found.lowest_sequence == 1


@pytest.mark.parametrize("stored", [4, 6])
async def test_a_source_of_another_length_than_the_log_has_is_not_joined(stored):
    found = SegmentAggregator(segment_of(5, "t"), in_storage=True)
    source = SegmentAggregator(segment_of(5, "x", merged=True), in_storage=True)
    found.add_merge(3, 0, 5, source)
    step = step_of(found)
    assert isinstance(step, ConcatStep)
    storage = Storage(t=0, x=stored)
    with pytest.raises(DataCorruptionError, match=f"merged with 5 bytes, storage has {stored}"):
        await SegmentFlusher(storage, Index()).perform(found, step)
    assert not storage.calls
    assert not source.segment.stored_deleted


async def test_claimed_bytes_that_nothing_is_left_to_compare_with_are_corruption():
    found = SegmentAggregator(segment_of(10), in_storage=True, claimed=10)
    found.add_append(1, 0, 10)
    step = step_of(found)
    assert isinstance(step, CompareStep)
    with pytest.raises(DataCorruptionError, match="storage claims, is not cached"):
        await SegmentFlusher(Storage(s=10), Index(cached=False)).perform(found, step)
    assert found.segment.stored_length == 0


async def test_a_truncation_raised_while_storage_truncates_is_performed_as_well():
    found = SegmentAggregator(segment_of(50, start=20), in_storage=True, claimed=50)
    found.add_truncate(1, 10)
    storage = Storage(s=50)
    storage.on_truncate.append(lambda: found.add_truncate(2, 20))
    flusher = SegmentFlusher(storage, Index())
    while (step := step_of(found)) is not None:
        assert isinstance(step, PendingTruncate)
        assert len(storage.calls) < 2
        await flusher.perform(found, step)
    assert storage.calls == [("truncate", 10), ("truncate", 20)]
