"""Where events begin again behind a loss."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.limits import EVENT_BYTES_MAX
from headrace.repair.event_boundary import find_boundary

EVENTS = st.lists(st.binary(min_size=1, max_size=30).map(lambda data: data.replace(b"\0", b"\1")), min_size=2)


def framed(*events):
    return b"".join(struct.pack(">ii", 0, len(event)) + event for event in events)


@given(EVENTS, st.data())
def test_events_are_found_behind_the_rest_of_one(events, data):
    """Events without zeros look like nothing else."""
    lost = framed(events[0])
    cut = data.draw(st.integers(8, len(lost)))
    rest = framed(*events[1:])
    assert find_boundary(memoryview(lost[cut:] + rest), is_end=True) == len(lost) - cut
    shown = data.draw(st.integers(8 + len(events[1]), len(rest)))
    assert find_boundary(memoryview(lost[cut:] + rest[:shown]), is_end=False) == len(lost) - cut


@given(st.binary(max_size=200), st.booleans())
def test_what_is_found_is_a_row_of_whole_events(data, is_end):
    at = find_boundary(memoryview(data), is_end=is_end)
    if at is None:
        return
    whole = 0
    while len(data) - at >= 8:
        kind, length = struct.unpack_from(">ii", data, at)
        assert kind == 0
        assert 0 <= length <= EVENT_BYTES_MAX
        at += 8 + length
        whole += at <= len(data)
    assert whole
    assert at == len(data) or not is_end


def test_bytes_that_are_no_events_have_no_boundary():
    assert find_boundary(memoryview(b""), is_end=True) is None
    assert find_boundary(memoryview(b"text without any zero" * 100), is_end=True) is None
    assert find_boundary(memoryview(framed(b"whole") + b"torn"), is_end=True) is None


@pytest.mark.slow
def test_many_zeros_are_looked_at_once():
    zeros = bytes(200_000)
    assert find_boundary(memoryview(b"x" + zeros + b"\1"), is_end=True) is None
