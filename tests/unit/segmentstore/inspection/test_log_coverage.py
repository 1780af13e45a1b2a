import pytest

from headrace.segmentstore.inspection.log_coverage import LogCoverage
from headrace.segmentstore.state.segment_state import SegmentState


def segment(length, stored=0, segment_id=1):
    return SegmentState(segment_id, "s", stored_length=stored, durable_length=length, accepted_length=length)


def test_appends_that_continue_each_other_are_one_range():
    coverage, state = LogCoverage(), segment(30_000)
    for offset in range(0, 30_000, 3):
        coverage.append(state, offset, memoryview(b"abc"))
    assert [(item.offset, item.end) for item in coverage.ranges(state)] == [(0, 30_000)]
    assert coverage.first_uncovered(state) is None


def test_what_neither_storage_nor_the_log_holds_is_found():
    coverage, state = LogCoverage(), segment(10, stored=4)
    assert coverage.first_uncovered(state) == 4
    coverage.append(state, 6, memoryview(b"abcd"))
    assert coverage.first_uncovered(state) == 4
    state.stored_length = 6
    assert coverage.first_uncovered(state) is None
    state.durable_length = 11
    assert coverage.first_uncovered(state) == 10


def test_stored_bytes_need_no_log():
    assert LogCoverage().first_uncovered(segment(10, stored=10)) is None
    assert LogCoverage().first_uncovered(segment(0)) is None


def test_only_what_storage_lacks_is_in_the_log_only():
    coverage, state = LogCoverage(), segment(10, stored=4)
    coverage.append(state, 0, memoryview(b"0123456789"))
    assert [(item.offset, item.end) for item in coverage.unstored(state)] == [(4, 10)]
    state.stored_length = 10
    assert coverage.unstored(state) == []


def test_a_merged_range_is_covered_if_its_source_is():
    coverage, target, source = LogCoverage(), segment(7), segment(4, segment_id=2)
    coverage.append(target, 0, memoryview(b"abc"))
    coverage.begin_merge(target, 3, source, 4)
    assert coverage.first_uncovered(target) == 3
    coverage.append(source, 0, memoryview(b"efgh"))
    assert coverage.first_uncovered(target) is None
    assert [item.source for item in coverage.ranges(target)] == [None, source]


def test_an_append_behind_a_merge_begins_a_range_of_its_own():
    coverage, target, source = LogCoverage(), segment(8), segment(4, stored=4, segment_id=2)
    coverage.begin_merge(target, 0, source, 4)
    coverage.append(target, 4, memoryview(b"abcd"))
    assert [(item.offset, item.end, item.source) for item in coverage.ranges(target)] == [
        (0, 4, source),
        (4, 8, None),
    ]
    assert coverage.first_uncovered(target) is None


@pytest.mark.slow
def test_merges_may_be_nested_as_deep_as_they_like():
    """One segment merged into the next, thousands of times, before storage has joined any."""
    coverage, innermost = LogCoverage(), segment(4)
    source = innermost
    for number in range(2, 5000):
        target = segment(4, segment_id=number)
        coverage.begin_merge(target, 0, source, 4)
        source = target
    assert coverage.first_uncovered(target) == 0
    coverage.append(innermost, 0, memoryview(b"abcd"))
    assert coverage.first_uncovered(target) is None
