"""The last events of a segment are found from its end backwards."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.reader.last_frames import find_last_frames
from headrace.limits import EVENT_BYTES_MAX

HARMLESS = st.binary(min_size=1, max_size=40).map(lambda data: data.replace(b"\0", b"x"))


def framed(payload):
    return bytes(4) + len(payload).to_bytes(4, "big") + payload


NESTED = HARMLESS.map(lambda data: b"before" + framed(data))
"""An event whose own end looks like an event."""
ZEROS = st.integers(1, 60).map(bytes)


def starts_of(payloads):
    starts, at = [], 0
    for payload in payloads:
        starts.append(at)
        at += len(framed(payload))
    return starts


@given(st.lists(HARMLESS | NESTED | ZEROS, min_size=1, max_size=20))
def test_with_the_head_in_sight_all_are_found(payloads):
    data = b"".join(map(framed, payloads))
    assert find_last_frames(data, from_boundary=True) == starts_of(payloads)


@given(st.lists(HARMLESS | NESTED | ZEROS, min_size=1, max_size=20), st.data())
def test_from_the_middle_of_an_event_only_true_ones_are_found(payloads, data):
    whole = b"".join(map(framed, payloads))
    cut = data.draw(st.integers(0, len(whole) - 1))
    found = [cut + each for each in find_last_frames(memoryview(whole)[cut:], from_boundary=False)]
    behind = [start for start in starts_of(payloads) if start >= cut]
    assert found == behind[len(behind) - len(found) :]
    if not headers_within(whole, cut, behind):
        assert len(found) >= len(behind) - 1


def headers_within(data, cut, behind):
    """Tell whether bytes in front of the first true beginning look like the header of an event that ends
    where one begins, or with all: it hides those that it leaps over, until more is read.
    """
    first = behind[0] if behind else len(data)
    for at in range(cut, min(first, len(data) - 8)):
        length = int.from_bytes(data[at + 4 : at + 8], "big")
        if data[at : at + 4] == bytes(4) and length and at + 8 + length in {*behind[1:], len(data)}:
            return True
    return False


def test_what_looks_like_a_header_hides_events_and_shows_no_false_ones():
    payloads = [b".", *(b"x" * size for size in (3, 5, 6, 15, 18, 1, 1, 1, 1, 2))]
    rest = 302 + 9 - sum(len(framed(each)) for each in payloads)  # 302: the first length and payload, shifted
    whole = b"".join(map(framed, [*payloads, b"x" * (rest - 8)]))
    assert find_last_frames(whole[1:], from_boundary=False) == []
    assert find_last_frames(whole, from_boundary=True) == starts_of([*payloads, b"x" * (rest - 8)])


def test_bytes_that_are_no_events_have_none():
    assert find_last_frames(b"plain text, " * 100, from_boundary=True) == []
    assert find_last_frames(b"plain text, " * 100, from_boundary=False) == []
    assert find_last_frames(b"", from_boundary=True) == []
    assert find_last_frames(bytes(1000), from_boundary=True) == []
    too_long = bytes(4) + (101).to_bytes(4, "big")
    assert find_last_frames(too_long + b"x" * 100, from_boundary=True) == []


def test_an_event_that_took_several_appends_is_one_of_the_last():
    payloads = [b"first", b"x" * (EVENT_BYTES_MAX + 1), b"last"]
    whole = b"".join(map(framed, payloads))
    assert find_last_frames(whole, from_boundary=True) == starts_of(payloads)
    assert find_last_frames(whole, from_boundary=False) == starts_of(payloads)[1:]
