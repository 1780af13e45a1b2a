"""The queue between the log and the storage writer: order, joining, and what does not belong in it."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.contract import StoredAppend, StoredCheckpoint, StoredSeal
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.segment_state import SegmentState
from tests.unit.segmentstore.durablelog.log_bench import Bench, Owner

A, B = SegmentState(1, "a"), SegmentState(2, "b")


@pytest.mark.parametrize("sequence", [4, 5])
@pytest.mark.parametrize("segment", [A, B])
def test_a_sequence_number_that_does_not_grow_is_corruption(sequence, segment):
    log = OperationMemoryLog(10)
    log.add(StoredSeal(5, segment))
    with pytest.raises(DataCorruptionError):
        log.add(StoredCheckpoint(sequence))
    with pytest.raises(DataCorruptionError):
        log.add_append(sequence, A, 0, 1)
    assert len(log) == 1


@pytest.mark.parametrize("sequence", [4, 5])
async def test_an_append_that_would_be_joined_has_to_follow_too(sequence):
    log = OperationMemoryLog(10)
    log.add_append(5, A, 0, 10)
    with pytest.raises(DataCorruptionError):
        log.add_append(sequence, A, 10, 10)
    assert await log.take(10, 1.0) == [StoredAppend(5, A, 0, 10)]


async def test_only_neighbours_that_continue_each_other_are_joined_and_nothing_passes_a_checkpoint():
    log = OperationMemoryLog(10)
    log.add_append(1, A, 0, 10)
    log.add_append(3, A, 10, 5)  # joined
    log.add_append(4, A, 20, 1)  # a merge lies between
    log.add_append(5, B, 21, 1)
    log.add_append(6, B, 22, 1)  # joined
    log.add(StoredCheckpoint(7))
    log.add_append(8, B, 23, 1)
    assert await log.take(10, 1.0) == [
        StoredAppend(3, A, 0, 15),
        StoredAppend(4, A, 20, 1),
        StoredAppend(6, B, 21, 2),
        StoredCheckpoint(7),
        StoredAppend(8, B, 23, 1),
    ]
    log.add_append(9, B, 24, 1)  # what was taken grows no more
    assert await log.take(10, 1.0) == [StoredAppend(9, B, 24, 1)]


async def test_empty_appends_owe_storage_nothing_now_or_after_a_recovery():
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"", last=1)  # as a run
    request = bench.log.submit(lambda seq: transitions.propose_append(segment, seq, b"", [], -1))
    await bench.settle()
    assert (await request).operation.data == b""
    assert owner.acks
    for log in (bench.log, (await bench.recover()).log):
        assert all(type(item) is StoredCheckpoint for item in await log.memory_log.take(10, 1.0))
