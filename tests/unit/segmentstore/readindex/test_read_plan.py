from __future__ import annotations

import pytest

from headrace.errors import InvalidArgumentError, NoSuchSegmentError, SegmentTruncatedError
from headrace.limits import KIB, MIB, READ_BYTES_MAX
from headrace.segmentstore.readindex.read_plan import Need, check_read, plan_read, plan_storage_range
from headrace.segmentstore.readindex.segment_index import SegmentIndex, UnstoredBytes
from headrace.segmentstore.state.segment_state import SegmentState
from tests.unit.segmentstore.readindex.world import pattern, small_cache


def make(
    *, stored: int = 0, cached: tuple[int, int] | None = None, durable: int = 0, cache=None
) -> SegmentIndex:
    state = SegmentState(1, "s", stored_length=stored, durable_length=max(stored, durable))
    index = SegmentIndex(state, cache or small_cache(64), UnstoredBytes())
    if cached is not None:
        begin, end = cached
        index.insert_history(begin, memoryview(pattern(begin, end - begin)))
        if end > stored:
            index.append(max(begin, stored), memoryview(pattern(begin, end - max(begin, stored))))
            state.durable_length = end
    return index


def need(index: SegmentIndex, offset: int, length: int) -> tuple[Need, int, int]:
    plan = plan_read(index, offset, length)
    return plan.need, plan.offset, plan.length


@pytest.mark.parametrize(
    ("change", "offset", "length", "error"),
    [
        ({}, -1, 1, InvalidArgumentError),
        ({}, 0, -1, InvalidArgumentError),
        ({"start_offset": 5}, 4, 1, SegmentTruncatedError),
        ({"sealed": True}, 11, 1, InvalidArgumentError),
        ({"deleted": True}, 0, 1, NoSuchSegmentError),
        ({"merged": True}, 0, 1, NoSuchSegmentError),
        ({"deleted": True}, -1, 1, NoSuchSegmentError),
    ],
)
def test_what_can_never_be_answered_is_refused(change, offset, length, error):
    with pytest.raises(error):
        check_read(SegmentState(1, "s", durable_length=10, **change), offset, length)


@pytest.mark.parametrize(
    ("change", "offset"), [({}, 0), ({}, 10), ({}, 11), ({"sealed": True}, 10), ({"start_offset": 5}, 5)]
)
def test_what_may_be_answered_now_or_later_is_accepted(change, offset):
    check_read(SegmentState(1, "s", durable_length=10, **change), offset, 0)


def test_beyond_the_durable_length_is_the_tail():
    index = make(durable=10)
    assert need(index, 10, 5)[0] is Need.TAIL
    assert need(index, 99, 5)[0] is Need.TAIL


def test_cached_bytes_are_limited_to_what_is_contiguous():
    index = make(stored=100_000, cached=(20_000, 30_000))
    assert need(index, 20_000, 50_000) == (Need.CACHED, 20_000, 10_000)
    assert need(index, 29_999, 50_000) == (Need.CACHED, 29_999, 1)


def test_stored_bytes_are_limited_to_what_is_stored():
    index = make(stored=1000, durable=2000)
    assert need(index, 0, 5000) == (Need.STORAGE, 0, 1000)
    assert need(index, 1000, 5000)[0] is Need.CHANGE


def test_a_storage_range_stops_before_bytes_that_are_cached():
    index = make(stored=100_000, cached=(20_000, 30_000))
    assert plan_storage_range(index, 5_000, 100, sequential=False) == 20_000
    assert plan_storage_range(index, 30_000, 100, sequential=False) == 64 * KIB
    assert plan_storage_range(index, 90_000, 100, sequential=False) == 100_000


def test_a_sequential_reader_gets_larger_pieces_but_never_more_than_a_read():
    index = make(stored=64 * MIB)
    assert plan_storage_range(index, 5_000, 100, sequential=True) == 1 * MIB
    assert plan_storage_range(index, MIB - 1, READ_BYTES_MAX, sequential=True) == MIB - 1 + READ_BYTES_MAX


def test_a_merge_under_way_leads_to_its_source():
    cache = small_cache(64)
    target, source = make(durable=100, cache=cache), make(stored=50_000, cache=cache)
    target.append(0, memoryview(pattern(0, 100)))
    target.begin_merge(100, source, 50_000)
    target.append(50_100, memoryview(pattern(0, 900)))
    target.state.durable_length = 51_000
    plan = plan_read(target, 10_100, 100_000)
    assert (plan.need, plan.index, plan.offset, plan.length) == (Need.STORAGE, source, 10_000, 40_000)
    assert plan.redirect is next(iter(target.redirects))
    assert need(target, 50, 1000) == (Need.CACHED, 50, 50)
    assert plan_storage_range(target, 0, 10, sequential=False) <= 100


def test_bytes_of_a_merge_source_that_are_nowhere_yet_are_waited_for_up_to_its_end():
    cache = small_cache(64)
    target, source = make(cache=cache), make(stored=100, durable=50_000, cache=cache)
    target.begin_merge(0, source, 50_000)
    target.append(50_000, memoryview(pattern(50_000, 10)))
    target.state.durable_length = 50_010
    assert need(target, 100, 100_000) == (Need.CHANGE, 100, 49_900)
    assert need(target, 99, 100_000) == (Need.STORAGE, 99, 1)


@pytest.mark.parametrize("stored", [0, 1, 49_999])
def test_a_merge_that_storage_has_not_joined_whole_is_read_from_its_source(stored):
    cache = small_cache(64)
    target, source = make(cache=cache), make(stored=50_000, cache=cache)
    target.begin_merge(0, source, 50_000)
    target.state.durable_length, target.state.stored_length = 50_000, stored
    assert plan_read(target, 0, 10).index is source
    target.state.stored_length = 50_000
    assert plan_read(target, 0, 10).index is target


def test_no_plan_for_bytes_that_exist_is_empty():
    """Whoever carries out an empty plan asks again for ever."""
    index = make(stored=100, cached=(20, 60), durable=150)
    for offset in range(160):
        for length in (1, 2, 200):
            plan = plan_read(index, offset, length)
            assert (plan.length == 0) == (plan.need is Need.TAIL) == (offset >= 150)
            assert plan.length <= length


def test_a_merge_that_storage_has_joined_is_read_from_the_target():
    cache = small_cache(64)
    target, source = make(cache=cache), make(stored=50_000, cache=cache)
    target.begin_merge(0, source, 50_000)
    target.state.durable_length = target.state.stored_length = 50_000
    plan = plan_read(target, 10_000, 10)
    assert (plan.need, plan.index, plan.redirect) == (Need.STORAGE, target, None)


def test_merges_within_merges_are_followed():
    cache = small_cache(64)
    first, second, third = (make(cache=cache) for _ in range(3))
    third.append(0, memoryview(pattern(0, 40_000)))
    third.state.durable_length = 40_000
    second.begin_merge(0, third, 40_000)
    second.state.durable_length = 40_000
    first.begin_merge(0, second, 40_000)
    first.state.durable_length = 40_000
    plan = plan_read(first, 100, 10)
    assert (plan.need, plan.index, plan.offset) == (Need.CACHED, third, 100)
