import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.segment_map import SegmentMap, SegmentRange
from headrace.client.writer.ack import Ack
from headrace.client.writer.waiting_batches import FEW_EVENTS, WaitingBatches
from headrace.model.key_space import FULL_RANGE, split_evenly
from tests.effort import examples

EVENTS = st.tuples(st.binary(min_size=1, max_size=9), st.floats(0, 1, exclude_max=True))


def map_of(count):
    return SegmentMap(
        SegmentRange(number, part) for number, part in enumerate(split_evenly(FULL_RANGE, count))
    )


def divide(batches, segments, *, arrays, bytes_max=1 << 20):
    import numpy as np

    waiting, acks = WaitingBatches(), []
    for batch in batches:
        acks.append(Ack(1))
        events, places = [event for event, _ in batch], [place for _, place in batch]
        waiting.add(events, list(map(len, events)), np.array(places) if arrays else places, acks[-1])
        waiting.check()
    assert waiting.count == sum(map(len, batches))
    shares, found = waiting.take_shares(segments, bytes_max)
    waiting.check()
    assert waiting.count == 0
    assert found == acks
    return shares, acks


def framed(events):
    return [part for event in events for part in (len(event).to_bytes(8), event)]


@settings(max_examples=examples(60))
@given(
    st.lists(st.lists(EVENTS, min_size=1, max_size=9), min_size=1, max_size=6),
    st.integers(2, 9),
    st.booleans(),
    st.sampled_from([1, 30]),
    st.sampled_from([1, 12, 17, 50, 1 << 20]),
)
def test_segments_get_their_events_in_order_and_batches_count_their_shares(
    batches, count, arrays, times, bytes_max
):
    batches = [batch * times for batch in batches]
    segments = map_of(count)
    shares, acks = divide(batches, segments, arrays=arrays, bytes_max=bytes_max)
    given_to = {}
    for ack, batch in zip(acks, batches, strict=True):
        for event, place in batch:
            given_to.setdefault(segments.segment_at(place), []).append((event, place, ack))
    assert list(dict.fromkeys(share[0] for share in shares)) == sorted(given_to)
    for segment_id, parts, places, size, mine in shares:
        count = len(places)
        expected = given_to[segment_id][:count]
        del given_to[segment_id][:count]
        assert parts == framed(event for event, _, _ in expected)
        assert places == [place for _, place, _ in expected]
        assert size == sum(map(len, parts))
        assert size <= bytes_max or count == 1
        if given_to[segment_id]:
            assert size + 8 + len(given_to[segment_id][0][0]) > bytes_max
        assert list(mine) == list(dict.fromkeys(ack for _, _, ack in expected))
    assert not any(given_to.values())
    for ack in acks:
        for _ in range(sum(ack in mine for *_, mine in shares)):
            ack.settle_part()
        ack.settle_part()  # it was waiting
        assert not ack.done()  # its maker's own part
        ack.settle_part()
        assert ack.done()


@pytest.mark.parametrize("size", [1, FEW_EVENTS, 5000])
def test_events_of_one_length_and_of_many_are_framed_alike(size):
    same = [(b"x" * 5, 0.3)] * size
    shares, _ = divide([same], map_of(3), arrays=True)
    assert [(segment_id, size) for segment_id, _, _, size, _ in shares] == [(0, 13 * size)]
    [(_, parts, *_)], _ = divide([same, [(b"y" * 5000, 0.3)]], map_of(3), arrays=True)
    assert parts == framed([b"x" * 5] * size + [b"y" * 5000])


def test_nothing_divides_into_nothing():
    assert WaitingBatches().take_shares(map_of(3), 1 << 20) == ([], [])
