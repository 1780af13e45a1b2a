from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.framing.event_frames import (
    cut_into_blocks,
    event_header,
    frame_column,
    frame_list,
    frame_pieces,
    gather_frames,
)
from headrace.errors import EventTooLargeError, InvalidArgumentError
from headrace.limits import EVENT_BYTES_MAX

EVENTS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=50)


def test_an_event_is_stored_behind_type_and_length():
    assert frame_list([b"hello"]) == (bytes.fromhex("0000000000000005") + b"hello", [13])
    assert event_header(5000) == bytes.fromhex("0000000000001388")


def test_events_have_the_bytes_that_are_pinned():
    golden = Path(__file__).parents[3] / "golden" / "event_frame" / "v1" / "hello_bye.bin"
    assert frame_list([b"hello", b"bye"])[0] == golden.read_bytes()
    assert bytes(frame_column(pa.array([b"hello", b"bye"]))[0]) == golden.read_bytes()


@given(EVENTS)
def test_both_ways_of_framing_give_the_same_bytes(events):
    data, ends = frame_list(events)
    column, column_ends = frame_column(pa.array(events, pa.binary()))
    assert bytes(column) == data
    assert column_ends.tolist() == ends


@given(EVENTS, st.integers(0, 10), st.data())
def test_a_slice_of_a_column_is_framed_like_the_column(events, skip, data):
    column = pa.chunked_array(
        [pa.array([b"other"] * skip + events, pa.large_binary()).slice(skip), pa.array([], pa.large_binary())]
    )
    pieces = list(frame_pieces(column, 1 << 20))
    assert b"".join(bytes(piece) for piece, _, _ in pieces) == frame_list(events)[0]
    assert [first for _, _, first in pieces] == [0]


@given(EVENTS, st.data())
def test_gathered_events_stay_whole_and_in_order(events, data):
    chosen = sorted(data.draw(st.sets(st.integers(0, len(events) - 1), min_size=1)))
    framed, ends = frame_column(pa.array(events, pa.binary()))
    import numpy as np

    gathered, gathered_ends = gather_frames(framed, ends, np.array(chosen))
    expected = frame_list([events[index] for index in chosen])
    assert (bytes(gathered), gathered_ends.tolist()) == expected


@given(EVENTS, st.integers(1, 200))
def test_blocks_hold_what_fits_and_larger_events_alone(events, limit):
    import numpy as np

    _, ends = frame_list(events)
    cuts = list(cut_into_blocks(ends, limit))
    assert cuts == list(cut_into_blocks(np.array(ends), limit))
    assert [index for first, after in cuts for index in range(first, after)] == list(range(len(events)))
    for number, (first, after) in enumerate(cuts):
        base = ends[first - 1] if first else 0
        assert ends[after - 1] - base <= limit or after == first + 1
        if number + 1 < len(cuts):
            assert ends[after] - base > limit


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (pa.array([b"a", None]), InvalidArgumentError),
        (pa.array([b"a", b""]), InvalidArgumentError),
        (pa.array([1, 2]), InvalidArgumentError),
        (pa.array([b"x" * (EVENT_BYTES_MAX + 1)]), EventTooLargeError),
        (pa.array([b"x" * 1000] * 3), EventTooLargeError),
    ],
)
def test_a_column_with_a_bad_value_is_refused_before_its_first_piece(column, error):
    with pytest.raises(error):
        frame_pieces(column, 2000 if len(column) == 3 else 1 << 30)
