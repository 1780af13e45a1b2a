"""Which frames share a record, how many are created at a time, and when each frame is answered."""

import pytest

from headrace.errors import FencedOutError, StorageFullError
from headrace.wal.objects.append_window import AppendWindow
from headrace.wal.objects.creation import ATTEMPTS_MAX, Creation, Put, Step
from headrace.wal.objects.object_format import FRAMES_MAX, Kind, LogObject, ObjectHeader


def window_of(frames, *, window=2, record_bytes_max=100, length=10):
    made = AppendWindow(next_address=5, window=window, record_bytes_max=record_bytes_max)
    for frame in range(frames):
        made.add(frame, length)
    return made


def begin_all(window):
    records = []
    while (record := window.next_record()) is not None:
        records.append(record)
        window.check()
    return records


def answers(window):
    found = []
    while True:
        frames, record = window.next_answered()
        if not frames:
            return found
        found += [(frame, record is not None) for frame in frames]


def test_a_frame_that_finds_nothing_in_flight_has_a_record_of_its_own():
    window = window_of(0)
    for frame in range(2):
        assert window.add(frame, 1) == 5 + frame
        record = window.next_record()
        assert (record.sequence, record.address, record.frames) == (frame, 5 + frame, [frame])
    window.add(2, 1)
    assert window.next_record() is None


def test_frames_that_wait_share_a_record_up_to_its_bytes():
    window = window_of(25, record_bytes_max=100)
    assert [record.frames for record in begin_all(window)] == [[*range(10)], [*range(10, 20)]]
    assert window.frames_queued == 5


def test_a_frame_larger_than_a_record_has_one_of_its_own():
    window = window_of(3, record_bytes_max=5, window=3)
    assert [record.frames for record in begin_all(window)] == [[0], [1], [2]]


def test_the_frames_of_a_record_are_bounded_by_number():
    window = window_of(FRAMES_MAX + 1, length=0)
    assert [len(record.frames) for record in begin_all(window)] == [FRAMES_MAX, 1]


def test_answers_wait_for_all_records_below():
    window = window_of(3, record_bytes_max=10, window=3)
    first, second, third = begin_all(window)
    window.on_created(third)
    window.on_created(second)
    assert answers(window) == []
    window.on_created(first)
    assert answers(window) == [(0, True), (1, True), (2, True)]


def test_behind_a_failure_nothing_is_acknowledged_and_nothing_is_created():
    window = window_of(4, record_bytes_max=10, window=3)
    first, second, third = begin_all(window)
    window.on_failed(second, FencedOutError("fenced"))
    window.on_created(third)
    assert answers(window) == []
    window.on_created(first)
    assert answers(window) == [(0, True), (1, False), (2, False), (3, False)]
    assert window.next_record() is None
    window.add(4, 1)
    assert answers(window) == [(4, False)]
    window.check()


def test_a_record_says_which_ones_were_confirmed_when_it_was_made():
    window = window_of(3, record_bytes_max=10, window=2)
    first, second = begin_all(window)
    assert (first.acknowledged, second.acknowledged) == (0, 0)
    window.on_created(first)
    assert answers(window) == [(0, True)]
    assert window.next_record().acknowledged == 1


def test_what_is_separated_shares_no_record_with_what_was_before():
    window = window_of(2, window=1)
    window.separate()
    window.add(2, 1)
    window.add(3, 1)
    record = window.next_record()
    assert record.frames == [0, 1]
    window.on_created(record)
    answers(window)
    assert window.next_record().frames == [2, 3]


def test_on_a_full_store_nothing_more_is_created_until_there_is_space():
    window = window_of(4, record_bytes_max=10, window=3)
    first, second, _ = begin_all(window)
    window.on_full(second)
    window.on_created(first)
    assert answers(window) == [(0, True)]
    assert window.waits_for_space
    assert window.next_record() is None
    assert window.retry_full() == [second]
    assert window.waits_for_space
    window.on_created(second)
    assert not window.waits_for_space
    assert answers(window) == [(1, True)]
    assert window.next_record().frames == [3]


def test_whoever_waits_for_space_no_more_is_answered():
    window = window_of(3, record_bytes_max=10, window=1)
    window.on_full(window.next_record())
    window.fail(StorageFullError("full"))
    assert answers(window) == [(0, False), (1, False), (2, False)]
    assert window.frames_pending == 0


# ---- one object

HEADER = ObjectHeader(Kind.FENCE, 0, 1, 2, write_id=b"o" * 16)
OTHER = LogObject(HEADER._replace(write_id=b"p" * 16), [])


def after(*events):
    creation = Creation(HEADER)
    for event in events:
        if isinstance(event, Put):
            creation.on_put(event)
        else:
            creation.on_look(None if event == "nothing" else event)
    return creation


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([Put.CREATED], Step.OURS),
        ([Put.EXISTS], Step.LOOK),
        ([Put.EXISTS, OTHER], Step.TAKEN),
        ([Put.EXISTS, LogObject(HEADER, [])], Step.OURS),
        ([Put.UNKNOWN], Step.LOOK),
        ([Put.UNKNOWN, "nothing"], Step.PUT),
        ([Put.UNKNOWN, LogObject(HEADER, [])], Step.OURS),
        ([Put.UNKNOWN, OTHER], Step.TAKEN),
        ([Put.FULL], Step.FULL),
        ([Put.UNKNOWN, "nothing", Put.FULL], Step.LOOK),
        ([Put.UNKNOWN, "nothing", Put.FULL, "nothing"], Step.FULL),
        ([Put.UNKNOWN, "nothing", Put.FULL, LogObject(HEADER, [])], Step.OURS),
        ([Put.UNKNOWN, "nothing"] * ATTEMPTS_MAX, Step.GIVE_UP),
    ],
)
def test_the_outcome_of_a_create_is_found_out(events, expected):
    creation = after(*events)
    assert creation.step is expected
    assert (creation.found is OTHER) == (expected is Step.TAKEN)
