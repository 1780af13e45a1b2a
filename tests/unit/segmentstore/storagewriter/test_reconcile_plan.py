"""What storage cannot say without contradicting the log."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.reconcile_plan import adopt_stored_state
from headrace.storage.chunks.segment_info import StoredSegmentInfo


def segment_of(*, stored=0, sealed=False):
    segment = SegmentState(1, "s", stored_length=stored, durable_length=100, accepted_length=100)
    segment.start_offset = segment.accepted_start_offset = 10
    segment.sealed = segment.accepted_sealed = sealed
    return segment


def info(length, *, start=0, sealed=False):
    return StoredSegmentInfo("s", length, start, sealed, 1, 1, 1000)


@pytest.mark.parametrize("length", [20, 60, 100])
def test_what_a_former_owner_can_have_stored_is_adopted(length):
    assert adopt_stored_state(segment_of(stored=20), info(length, start=10)) == length
    sealed = segment_of(stored=20, sealed=True)
    assert adopt_stored_state(sealed, info(100, sealed=True)) == 100
    assert sealed.stored_sealed


@pytest.mark.parametrize(
    ("stored", "sealed", "told", "finding"),
    [
        (0, False, info(100, sealed=True), "sealed, the log does not"),
        (0, True, info(99, sealed=True), "sealed with 99 bytes"),
        (0, False, info(100, start=11), "from 11 on, the log from 10"),
        (0, False, info(101), "101 bytes, the log 100"),
        (60, False, info(59), "59 of 60 stored bytes"),
        (60, False, None, "does not know it"),
    ],
)
def test_what_no_call_can_have_left_is_corruption(stored, sealed, told, finding):
    with pytest.raises(DataCorruptionError, match=finding):
        adopt_stored_state(segment_of(stored=stored, sealed=sealed), told)
