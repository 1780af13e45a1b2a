"""Requests as they lie in a segment: pinned bytes, and what is read around damaged ones."""

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.framing.event_framing import find_frames
from headrace.controller.events.event import EventKind, RequestEvent
from headrace.controller.events.frames import find_events, frame_event
from headrace.controller.events.request_format import PAYLOAD_BYTES_MAX, decode_event, encode_event
from headrace.errors import DataCorruptionError

GOLDEN = Path(__file__).parents[3] / "golden" / "request_events" / "v1"
SAMPLES = {
    "stream-work": RequestEvent(EventKind.STREAM_WORK, "demo", "orders"),
    "transaction-work": RequestEvent(
        EventKind.TXN_WORK, "demo", "orders", ((1 << 96) | 42).to_bytes(16, "big")
    ),
    "scale-report": RequestEvent(EventKind.SCALE_REPORT, "demo", "orders", b"report"),
}
NAMES = st.text("abc.-", min_size=1, max_size=20)
EVENTS = st.builds(RequestEvent, st.sampled_from(EventKind), NAMES, NAMES, st.binary(max_size=30))
GARBAGE = st.lists(st.integers(1, 255), min_size=1, max_size=40).map(bytes)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_bytes_of_version_1_are_pinned(name):
    pinned = (GOLDEN / f"{name}.bin").read_bytes()
    assert frame_event(SAMPLES[name]) == pinned
    (found,) = find_events(pinned, 7, at_tail=True)
    assert (found.event, found.offset, found.end) == (SAMPLES[name], 7, 7 + len(pinned))


@given(st.lists(EVENTS, min_size=1, max_size=5))
def test_every_reader_of_events_reads_them(events):
    data = bytearray(b"".join(map(frame_event, events)))
    frames = find_frames(data, 0, len(data))
    cut = [bytes(data[a + 8 : b]) for a, b in pairwise(frames)]
    assert [decode_event(each) for each in cut] == events


@given(st.data(), st.lists(st.one_of(EVENTS, GARBAGE), max_size=8), st.integers(0, 1000))
def test_events_are_found_however_reads_divide_them_and_whatever_lies_between(draw, items, offset):
    data = b"".join(frame_event(item) if isinstance(item, RequestEvent) else item for item in items)
    found, begins, waiting, taken = [], offset, b"", 0
    while taken < len(data):
        step = draw.draw(st.integers(1, len(data) - taken))
        waiting += data[taken : taken + step]
        taken += step
        some = find_events(waiting, begins, at_tail=taken == len(data))
        for each in some:
            assert each.offset == begins
            begins = each.end
            waiting = waiting[each.end - each.offset :]
        found += some
    assert begins == offset + len(data)
    assert waiting == b""
    events = [item for item in items if isinstance(item, RequestEvent)]
    assert [each.event for each in found if each.event is not None] == events
    assert all(each.reason for each in found if each.event is None)


def test_an_event_that_says_nothing_to_us_is_damaged_and_the_next_one_is_read():
    good = frame_event(SAMPLES["stream-work"])
    unknown = good[:10] + b"\x09" + good[11:]
    later = good[:9] + b"\x02" + good[10:]
    found = find_events(unknown + later + good, 0, at_tail=True)
    assert [each.event for each in found] == [None, None, SAMPLES["stream-work"]]
    assert "kind 9" in found[0].reason
    assert "version 2" in found[1].reason


def test_garbage_without_end_is_given_up_in_pieces():
    garbage = b"\xff" * 20_000
    (found,) = find_events(garbage, 0, at_tail=False)
    assert 0 < found.end < len(garbage)
    assert find_events(garbage[found.end :], found.end, at_tail=False) == []


@given(st.binary(max_size=60))
def test_no_bytes_are_too_bad(data):
    with suppress(DataCorruptionError):
        decode_event(data)
    found = find_events(data, 0, at_tail=True)
    assert b"".join(each.data for each in found) == data


def test_the_largest_event_is_found():
    event = RequestEvent(EventKind.SCALE_REPORT, "s" * 255, "t" * 255, b"x" * PAYLOAD_BYTES_MAX)
    assert decode_event(encode_event(event)) == event
    assert [each.event for each in find_events(frame_event(event), 0, at_tail=True)] == [event]
