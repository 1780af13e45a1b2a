import re
from pathlib import Path

import pytest

from headrace.console.segment_picture import RECTANGLES_MAX, draw_segments
from headrace.console.segment_spans import SegmentSpan, SegmentSpans
from headrace.controller.store.rows.epoch_row import EpochRecord, SegmentRecord
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.segment_id import make_segment_id

GOLDEN = Path(__file__).parents[2] / "golden" / "console"
BEGIN = 1_700_000_000_000
S = 1000


def epoch(number, at_s, *segments):
    """An epoch of segments that are given as (number, epoch, range)."""
    records = [SegmentRecord(make_segment_id(n, born), BEGIN + at_s * S, keys) for n, born, keys in segments]
    return EpochRecord(number, number, BEGIN + at_s * S, tuple(records))


def test_spans_last_from_epoch_to_epoch():
    low, high = split_evenly(FULL_RANGE, 2)
    spans = SegmentSpans()
    spans.take(epoch(0, 0, (0, 0, FULL_RANGE)))
    spans.take(epoch(1, 10, (1, 1, low), (2, 1, high)))
    spans.take(epoch(2, 30, (1, 1, low), (3, 2, high)))
    found = {each.segment_id & 0xFF: (each.begin_ms - BEGIN, each.end_ms) for each in spans.found()}
    assert found == {
        0: (0, BEGIN + 10 * S),
        1: (10 * S, None),
        2: (10 * S, BEGIN + 30 * S),
        3: (30 * S, None),
    }


def few():
    one = make_segment_id(0, 0), make_segment_id(1, 1), make_segment_id(2, 1), make_segment_id(3, 2)
    return [
        SegmentSpan(one[0], 0.0, 1.0, BEGIN, BEGIN + 60 * S, 6_000_000),
        SegmentSpan(one[1], 0.0, 0.5, BEGIN + 60 * S, None, 0),
        SegmentSpan(one[2], 0.5, 1.0, BEGIN + 60 * S, BEGIN + 90 * S, 90_000_000),
        SegmentSpan(one[3], 0.5, 1.0, BEGIN + 90 * S, None, None),
    ]


def test_the_picture_of_a_few_segments_is_the_golden_one():
    drawn = draw_segments(few(), BEGIN + 120 * S, "/console/streams/s/t/events?at=")
    assert drawn + "\n" == (GOLDEN / "segments.svg").read_text()


def test_the_warmest_segment_is_the_one_with_most_bytes_a_second():
    levels = re.findall(r"heat-(\d).*?<title>segment (\d)", draw_segments(few(), BEGIN + 120 * S))
    assert levels == [("2", "0"), ("0", "1"), ("5", "2"), ("0", "3")]


def test_a_stream_without_segments_is_an_empty_picture():
    assert "<rect" not in draw_segments([], BEGIN)


@pytest.mark.slow
def test_a_thousand_epochs_of_five_hundred_segments_are_cut_to_what_can_be_seen():
    ranges = split_evenly(FULL_RANGE, 500)
    spans, born = SegmentSpans(), [0] * 500
    for number in range(1000):
        born[number % 500] = number
        segments = [(index, born[index], keys) for index, keys in enumerate(ranges)]
        spans.take(epoch(number, number, *segments))
    found = spans.found()
    drawn = draw_segments(found, BEGIN + 1000 * S, "x")
    assert len(found) > 1000
    assert drawn.count('class="segment') <= RECTANGLES_MAX
    assert drawn.count('class="many"') <= 96 * 28
    assert len(drawn) < 1_500_000
    assert "<a " not in drawn
