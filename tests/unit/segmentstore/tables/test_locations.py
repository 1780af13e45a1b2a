from array import array

from hypothesis import given
from hypothesis import strategies as st

from headrace.limits import INT64_MAX, TABLE_ENTRY_BYTES_MAX
from headrace.segmentstore.tables.locations import (
    ABSENT,
    OFFSET_MAX,
    REMOVED,
    UNKNOWN,
    is_copy,
    location_bytes,
    location_offset,
    pack_location,
    sum_bytes,
)

offsets = st.integers(0, OFFSET_MAX)
sizes = st.integers(1, 2 * TABLE_ENTRY_BYTES_MAX)


@given(offsets, sizes, st.booleans())
def test_a_location_gives_back_what_was_packed(offset, size, copy):
    location = pack_location(offset, size, copy=copy)
    assert 0 <= location <= INT64_MAX
    assert location_offset(location) == offset
    assert is_copy(location) is copy
    assert size <= location_bytes(location) <= size + size // 1000
    assert location_bytes(location) == size or size >= 2048


@given(offsets, sizes)
def test_a_size_that_was_rounded_up_is_not_rounded_again(offset, size):
    rounded = location_bytes(pack_location(offset, size))
    assert location_bytes(pack_location(offset, rounded)) == rounded


def test_the_largest_entry_has_a_class():
    assert location_bytes(pack_location(0, TABLE_ENTRY_BYTES_MAX)) == TABLE_ENTRY_BYTES_MAX


def test_the_bits_are_those_of_the_page():
    assert pack_location(0x123456, 100) == 0x1234560064
    assert pack_location(1, 100, copy=True) == 0x18064
    assert pack_location(0, 1024) == 0x0400
    assert pack_location(0, 2048) == pack_location(0, 2047) + 1 == 0x0800
    assert pack_location(0, 2049) == 0x0801


def test_what_is_not_there_has_no_bytes():
    assert sum_bytes(array("q", [ABSENT, REMOVED, pack_location(9, 30), pack_location(0, 12)])) == 42
    assert UNKNOWN < 0
