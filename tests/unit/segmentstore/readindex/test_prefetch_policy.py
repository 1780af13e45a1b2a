from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.limits import KIB, MIB
from headrace.segmentstore.readindex.prefetch_policy import (
    PIECE_BYTES,
    READERS_MAX,
    WINDOW_BYTES_MAX,
    SequentialReaders,
    grant_window,
)


def read_through(
    readers: SequentialReaders, offset: int, step: int, count: int, window: int = WINDOW_BYTES_MAX
):
    """Read ``count`` times ``step`` bytes from ``offset``; answer the ranges read ahead."""
    ranges = []
    for number in range(count):
        ahead = readers.on_read(offset + number * step, step, 0, window)
        if ahead is not None:
            ranges.append(ahead)
    return ranges


def test_a_single_read_in_the_middle_asks_for_nothing():
    readers = SequentialReaders()
    assert readers.on_read(5 * MIB, 1 * MIB, 0, WINDOW_BYTES_MAX) is None
    assert readers.active == 0


def test_a_reader_from_the_start_is_helped_at_once():
    readers = SequentialReaders()
    assert readers.on_read(0, 1 * MIB, 0, WINDOW_BYTES_MAX) == (1 * MIB, 2 * MIB)


def test_the_window_doubles_up_to_its_bound_and_ranges_follow_each_other():
    readers = SequentialReaders()
    ranges = read_through(readers, 10 * MIB, 1 * MIB, 30)
    for (_, end), (begin, _) in pairwise(ranges):
        assert begin == end
    reach = [end - (10 + number + 2) * MIB for number, (_, end) in enumerate(ranges)]
    assert reach[:4] == [1 * MIB, 2 * MIB, 4 * MIB, 8 * MIB]
    assert max(reach) == WINDOW_BYTES_MAX


def test_small_reads_ask_for_whole_pieces_and_not_at_each_step():
    readers = SequentialReaders()
    ranges = read_through(readers, 0, 16 * KIB, 128)  # two pieces worth
    assert all(end % PIECE_BYTES == 0 for _, end in ranges)
    assert len(ranges) <= 4


def test_two_readers_of_one_segment_do_not_disturb_each_other():
    readers = SequentialReaders()
    for number in range(1, 6):
        readers.on_read(number * MIB, MIB, 0, WINDOW_BYTES_MAX)
        readers.on_read((100 + number) * MIB, MIB, 0, WINDOW_BYTES_MAX)
    assert readers.active == 2
    assert len(readers) == 2


def test_readers_that_meet_become_one():
    readers = SequentialReaders()
    readers.on_read(0, 3 * MIB, 0, WINDOW_BYTES_MAX)
    readers.on_read(2 * MIB, 1 * MIB, 0, WINDOW_BYTES_MAX)
    assert len(readers) == 1
    assert readers.on_read(3 * MIB, MIB, 0, WINDOW_BYTES_MAX) is not None
    assert readers.active == 1


def test_random_reads_are_forgotten_oldest_first():
    readers = SequentialReaders()
    for number in range(10 * READERS_MAX):
        readers.on_read(number * 7 * MIB + 3, 100, 0, WINDOW_BYTES_MAX)
    assert len(readers) == READERS_MAX
    assert readers.active == 0


def test_a_forgotten_reader_does_not_count_any_more():
    readers = SequentialReaders()
    for number in range(3 * READERS_MAX):
        read_through(readers, number * 100 * MIB + 1, MIB, 2)
    assert len(readers) == readers.active == READERS_MAX


def test_without_a_grant_nothing_is_read_ahead():
    assert read_through(SequentialReaders(), 0, MIB, 20, window=0) == []


@pytest.mark.parametrize(
    ("share", "active", "window"),
    [
        (64 * MIB, 1, 8 * MIB),
        (64 * MIB, 8, 4 * MIB),
        (64 * MIB, 1000, 2 * MIB),
        (6 * MIB, 1, 1 * MIB),
        (2 * MIB, 1, 0),
    ],
)
def test_the_grant_follows_the_share_and_the_number_of_readers(share, active, window):
    assert grant_window(share, active) == window


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3 * MIB), st.integers(0, 8)), max_size=60),
)
def test_ranges_lie_ahead_of_the_read_and_within_the_window(steps):
    readers = SequentialReaders()
    position = 0
    for jump, length, pieces in steps:
        window = pieces * PIECE_BYTES
        if jump == 0:
            position += 17 * MIB + 5
        ahead = readers.on_read(position, length, 0, window)
        position += length
        if ahead is not None:
            begin, end = ahead
            assert window > 0
            assert position <= begin < end
            assert end % PIECE_BYTES == 0
            assert end <= position + WINDOW_BYTES_MAX
        assert readers.active == sum(reader.window > 0 for reader in readers._readers.values())
