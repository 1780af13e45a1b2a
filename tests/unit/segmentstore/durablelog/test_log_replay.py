"""What recovery makes of the operations of a log, one by one, without a log."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, FRAME_HEADER, VERSION, WHOLE
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.segmentstore.durablelog.log_replay import LogReplay
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.durablelog.truncation import Checkpoint, TruncationPoints
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.metadata_checkpoint import encode_segment_row
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.contract import WalRecord
from tests.unit.segmentstore.durablelog.log_bench import BytesIndex

WRITER = b"w" * 16
EARLY_MS, LATE_MS = 1000, 2000


class Index(BytesIndex):
    def drop(self, segment):
        self.data.pop(segment.segment_id, None)


class Replay:
    """A replay whose storage holds, at each change of its rows, so many bytes of each segment."""

    def __init__(self, stored=()):
        self.state = ContainerState(0)
        self.index = Index()
        self.memory_log = OperationMemoryLog(1000)
        self.truncation = TruncationPoints()
        self.stored = dict(stored)
        self.rows = []
        self.replay = LogReplay(
            self.state, self.index, self.memory_log, self.truncation, self.on_storage_rows
        )
        self.address = 0

    def on_storage_rows(self, changes):
        self.rows.append(dict(changes))
        for segment_id, state in self.state.by_id.items():
            state.stored_length = min(self.stored.get(segment_id, 0), state.durable_length)

    def feed(self, *operations, time_ms=LATE_MS):
        for operation in operations:
            self.address += 1
            self.replay.feed(operation, time_ms, self.address)
        return self


def row(number, length, *, sealed=False, **values):
    return encode_segment_row(
        SegmentState(number, f"s/{number}", accepted_length=length, accepted_sealed=sealed, **values)
    )


def checkpoint(begin, *rows, storage_rows=(), between=()):
    """A whole metadata checkpoint, with operations between its part and its end."""
    end = begin + 2 + len(between)
    return (
        ops.CheckpointBegin(begin, 0, 1),
        ops.CheckpointPart(begin + 1, begin, rows, dict(storage_rows)),
        *between,
        ops.CheckpointEnd(end, begin, len(rows), len(storage_rows)),
    )


# ---- evictions


@pytest.mark.parametrize(
    "operation",
    [
        ops.AppendBatch(20, 1, 10, WRITER, 1, 1, b"abc"),
        ops.Append(20, 1, 10, {}, b"abc"),
        ops.Seal(20, 1, 10),
        ops.Truncate(20, 1, 4),
        ops.Merge(20, 1, 2, 10, 5, {}),
    ],
)
def test_operations_from_before_an_eviction_are_handed_on_with_an_object_that_is_void(operation):
    found = Replay(stored={1: 100, 2: 5})
    found.feed(*checkpoint(10, row(1, 10), row(2, 5, sealed=True), row(3, 7)), operation)
    state = found.state.by_id[1]
    found.stored[3] = 7
    found.feed(ops.StorageRows(21, {}))  # it has everything by now
    found.feed(ops.EvictSegments(22, [1, 3]))
    assert not {1, 3} & found.state.by_id.keys()
    assert [each.segment for each in found.memory_log._queue if each.sequence == 20] == [state]
    assert state.evicted
    found.feed(ops.ActivateSegment(23, 1, row(1, 13)))
    assert found.state.by_id[1] is not state
    assert found.state.by_name["s/1"].is_settled


def test_rows_of_storage_leave_with_a_segment():
    found = Replay(stored={1: 10, 2: 10})
    found.feed(*checkpoint(10, row(1, 10), row(2, 10), storage_rows={"a": b"1", "b": b"2"}.items()))
    found.feed(ops.EvictSegments(20, [2], [["b"]]))
    assert list(found.state.by_id) == [1]
    assert found.state.storage_rows == found.state.accepted_storage_rows == {"a": b"1"}


def test_a_log_that_evicts_what_storage_does_not_hold_as_a_whole_is_damaged():
    found = Replay(stored={1: 9})
    found.feed(*checkpoint(10, row(1, 10)))
    with pytest.raises(DataCorruptionError):
        found.feed(ops.EvictSegments(20, [1]))


def test_that_a_segment_is_active_as_it_is_was_logged_by_an_earlier_release():
    found = Replay()
    found.feed(*checkpoint(10, row(1, 10)))
    state = found.state.by_id[1]
    found.feed(ops.ActivateSegment(21, 1, row(1, 10)))
    assert found.state.by_id[1] is state
    assert state.last_used == 21


# ---- checkpoints


@pytest.mark.parametrize(("segments", "storage_rows"), [(0, 1), (2, 1), (1, 0), (1, 2)])
def test_a_checkpoint_has_as_many_rows_of_each_kind_as_its_end_says(segments, storage_rows):
    found = Replay()
    found.feed(ops.CheckpointBegin(10, 0, 1), ops.CheckpointPart(11, 10, [row(1, 10)], {"a": b"1"}))
    with pytest.raises(DataCorruptionError, match="checkpoint 10 has 1 of"):
        found.feed(ops.CheckpointEnd(12, 10, segments, storage_rows))


def test_an_operation_inside_the_first_checkpoint_keeps_the_time_of_its_frame():
    found = Replay()
    *before, end = checkpoint(10, row(1, 10), between=[ops.AppendBatch(12, 1, 10, WRITER, 1, 1, b"abc")])
    found.feed(*before, time_ms=EARLY_MS).feed(end, time_ms=LATE_MS)
    state = found.state.get("s/1")
    assert (state.durable_length, state.last_modified_ms) == (13, EARLY_MS)


def test_an_operation_inside_the_first_checkpoint_outlives_its_frame():
    frame = bytearray(b"abc")
    append = ops.Append(12, 1, 0, {}, memoryview(frame))
    *before, end = checkpoint(10, row(1, 0), between=[append])
    found = Replay().feed(*before)
    frame[:] = b"xyz"  # the next frame is read into the same memory
    found.feed(end)
    assert found.index.content(found.state.get("s/1")) == b"abc"


def test_a_checkpoint_that_begins_anew_knows_what_came_before_it():
    """The writer of the first one died; rows of the second one describe what it had appended meanwhile."""
    lost = ops.AppendBatch(12, 1, 10, WRITER, 1, 1, b"abc")
    found = Replay()
    found.feed(ops.CheckpointBegin(10, 0, 1), ops.CheckpointPart(11, 10, [row(1, 10)], {}), lost)
    found.feed(*checkpoint(20, row(1, 13), between=[ops.Append(22, 1, 13, {}, b"d")]))
    assert found.replay.finish()
    assert found.state.get("s/1").durable_length == 14
    assert (found.state.sequence, found.replay.first_sequence) == (23, 20)
    assert found.truncation.newest == Checkpoint(23, 4, 20)


def replay_steps(found, operation):
    """Go through the replay of a record with one operation; yields behind each step how much it was."""
    encoded = b"".join(codec.encode(operation))
    entry = ENTRY_HEADER.pack(len(encoded), WHOLE) + encoded
    frame = FRAME_HEADER.pack(VERSION, 0, 0, len(entry), LATE_MS) + entry
    yield from found.replay.replay(FrameReader(), WalRecord(9, memoryview(frame)))


def test_the_first_checkpoint_becomes_the_state_in_steps_that_say_how_much_they_are():
    found = Replay()
    rows = [row(number, 0) for number in range(1, 8)]
    between = [ops.AppendBatch(20 + number, 1, number, WRITER, number, 1, b"a") for number in range(5)]
    storage_rows = [(f"k{number}", b"1") for number in range(250)]
    *before, end = checkpoint(18, *rows, storage_rows=storage_rows, between=between)
    found.feed(*before)
    done = 0
    for units in replay_steps(found, end):
        if done < 7 + 250 + 5:
            with pytest.raises(AssertionError):
                found.replay.finish()
        stored = sum(map(len, found.rows))
        before, done = (
            done,
            len(found.state.by_id) + stored + len(found.index.content(SegmentState(1, "s/1"))),
        )
        assert done - before <= min(units, 100)
    assert found.replay.finish()
    assert found.state.by_id[1].durable_length == 5
    assert found.state.sequence == end.sequence
    assert found.truncation.newest == Checkpoint(end.sequence, 1, 18)


def test_large_rows_of_segments_are_more_work():
    def work(**values):
        found = Replay()
        *before, end = checkpoint(10, *(row(number, 0, **values) for number in range(1, 9)))
        found.feed(*before)
        return sum(replay_steps(found, end))

    writers = {number.to_bytes(16): number for number in range(1 << 40, (1 << 40) + 100)}
    assert work(attributes=SegmentAttributes(writers)) >= work() + 8 * 3


def test_what_is_listed_is_work():
    found = Replay(stored={1: 10, 2: 10})
    found.feed(*checkpoint(10, row(1, 10), row(2, 10), storage_rows=[("a", b"1")]))
    assert sum(replay_steps(found, ops.StorageRows(20, {"a": None, "b": b"2"}))) == 1 + 2
    assert sum(replay_steps(found, ops.EvictSegments(21, [1, 2]))) == 1 + 2
    assert found.replay.operation_count == 5


def test_a_segment_of_a_checkpoint_was_last_used_when_that_began():
    found = Replay().feed(*checkpoint(10, row(1, 10)))
    assert found.state.by_id[1].last_used == 10


def test_a_part_of_another_checkpoint_belongs_to_nothing():
    found = Replay()
    found.feed(ops.CheckpointPart(9, 8, [row(9, 1)], {}))  # the log was cut in the middle of it
    found.feed(ops.CheckpointBegin(10, 0, 1), ops.CheckpointPart(11, 8, [row(9, 1)], {}))
    found.feed(ops.CheckpointEnd(12, 8, 1, 0))
    assert not found.state.by_id
    found.feed(ops.CheckpointPart(13, 10, [row(1, 10)], {}), ops.CheckpointEnd(14, 10, 1, 0))
    assert list(found.state.by_id) == [1]


def test_a_checkpoint_end_without_a_beginning_is_corruption_once_there_is_a_state():
    found = Replay().feed(*checkpoint(10))
    with pytest.raises(DataCorruptionError, match="has no beginning"):
        found.feed(ops.CheckpointEnd(20, 15, 0, 0))


def test_operations_before_the_first_checkpoint_left_nothing_to_do_but_want_one():
    orphan = ops.AppendBatch(9, 1, 7, WRITER, 1, 1, b"abc")
    with pytest.raises(DataCorruptionError, match="no whole metadata checkpoint"):
        Replay().feed(orphan).replay.finish()
    with pytest.raises(DataCorruptionError, match="no whole metadata checkpoint"):
        Replay().feed(ops.CheckpointBegin(8, 0, 1), orphan).replay.finish()
    found = Replay().feed(orphan, *checkpoint(10, row(1, 10)))
    assert found.replay.finish()
    assert found.state.get("s/1").durable_length == 10
    assert not Replay().replay.finish(), "an empty log is new"


def test_the_log_of_another_container_is_not_read():
    with pytest.raises(DataCorruptionError, match="this is the log of container 4, not of 0"):
        Replay().feed(ops.CheckpointBegin(10, 4, 1))


def test_storage_hears_again_of_what_the_log_says_is_gone_and_of_every_row():
    found = Replay()
    found.feed(*checkpoint(10, row(1, 10), row(2, 5, sealed=True), row(3, 0), storage_rows=[("a", b"1")]))
    found.feed(ops.Merge(20, 1, 2, 10, 5, {}), ops.Delete(21, 3), ops.StorageRows(22, {"a": None}))
    assert found.replay.retired == {2, 3}
    assert found.rows == [{"a": b"1"}, {"a": None}]
    assert found.state.storage_rows == {}
