"""Storage that has begun or ended a segment elsewhere than the log says: bytes that nobody can read."""

import pytest

from headrace.segmentstore.operations import catalogue as ops
from tests.unit.segmentstore.inspection.logs import store_segment
from tests.unit.segmentstore.inspection.test_container_check import ACTIVE, INACTIVE, Place, segment


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def kinds(place):
    return [finding.kind for finding in place.check(deep=True).findings]


async def test_storage_that_is_truncated_where_the_log_is_not_is_damage(place):
    state = segment(ACTIVE, "demo/s", 10)
    place.rows |= store_segment(place.chunks, state.storage_name, bytes(10), start_offset=5)[1]
    await place.make(state)
    assert kinds(place) == ["stored start"]


async def test_storage_of_an_inactive_segment_that_is_truncated_where_its_row_is_not_is_damage(place):
    state = segment(INACTIVE, "demo/left", 10)
    rows = store_segment(place.chunks, state.storage_name, bytes(10), start_offset=5)[1]
    await place.make_inactive((state, rows))
    assert kinds(place) == ["stored start"]


async def test_storage_that_is_sealed_before_the_end_is_damage(place):
    state = segment(ACTIVE, "demo/s", 8)
    place.rows |= store_segment(place.chunks, state.storage_name, bytes(8), sealed=True)[1]
    behind = [ops.Append(9, ACTIVE, 8, {}, b"late"), ops.Seal(10, ACTIVE, 12)]
    await place.make(state, behind=behind)
    assert kinds(place) == ["stored seal"]


async def test_storage_that_lags_behind_a_truncation_is_no_finding(place):
    state = segment(ACTIVE, "demo/s", 10, start_offset=5)
    place.rows |= store_segment(place.chunks, state.storage_name, bytes(10), start_offset=2)[1]
    await place.make(state)
    assert kinds(place) == []
