import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.client.framing import event_framing
from headrace.client.framing.event_framing import events_to_arrow, find_frames, payload_column, payloads
from headrace.errors import DataCorruptionError


def framed(events):
    return b"".join(len(event).to_bytes(8, "big") + event for event in events)


EVENTS = st.lists(st.binary(max_size=30), max_size=40)
RUNS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 300)), max_size=6).map(
    lambda runs: [b"x" * size for size, count in runs for _ in range(count)]
)


@given(EVENTS | RUNS, st.binary(max_size=20), st.data())
def test_every_whole_event_is_found_and_nothing_else(events, before, data):
    raw = before + framed(events)
    kept = data.draw(st.integers(0, len(raw) - len(before)))
    expected, position = [len(before)], len(before)
    for event in events:
        position += 8 + len(event)
        if position <= len(before) + kept:
            expected.append(position)
    for find in (find_frames, _find_slowly):
        assert list(find(raw, len(before), len(before) + kept)) == expected


def _find_slowly(raw, begin, end):
    return event_framing._find_each(raw, begin, end)


@given(EVENTS | RUNS)
def test_payloads_come_back(events):
    raw = bytearray(framed(events))
    frames = find_frames(raw)
    assert payloads(raw, frames) == events
    assert payload_column(raw, frames).to_pylist() == events
    assert events_to_arrow(raw).to_pylist() == events


@pytest.mark.parametrize("fast", [True, False])
@given(count=st.integers(0, 3000), size=st.integers(0, 20), bit=st.integers(0, 63), data=st.data())
@example(count=100, size=5, bit=0, data=None)
def test_a_header_that_is_none_is_refused_where_it_stands(fast, count, size, bit, data):
    """A flipped bit in the type or the sign of the length; flips in the length itself cannot always be
    seen.
    """
    if count == 0 or bit < 31:
        return
    raw = bytearray(framed([b"x" * size] * count))
    victim = count // 2 if data is None else data.draw(st.integers(0, count - 1))
    at = victim * (8 + size)
    raw[at : at + 8] = (int.from_bytes(raw[at : at + 8], "big") ^ 1 << bit).to_bytes(8, "big")
    find = find_frames if fast else _find_slowly
    with pytest.raises(DataCorruptionError) as caught:
        find(raw, 0, len(raw))
    assert caught.value.offset == at


def test_runs_of_equal_lengths_between_mixed_ones_are_all_found():
    chance = random.Random(1)
    events = []
    for _ in range(20):
        events += [b"r" * chance.randrange(1, 200)] * chance.choice([1, 3, 9, 200, 5000])
        events += [b"m" * chance.randrange(1, 200) for _ in range(chance.randrange(100))]
    raw = framed(events)
    assert list(find_frames(raw)) == list(_find_slowly(raw, 0, len(raw)))


def test_no_bytes_hold_no_events():
    assert list(find_frames(b"")) == [0]
    assert payloads(b"", find_frames(b"")) == []
    assert len(events_to_arrow(b"\0\0\0\0\0\0\0")) == 0
