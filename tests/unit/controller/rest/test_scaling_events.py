"""Pages of scaling events: bounded, and together all of them."""

from itertools import pairwise

import pytest

from headrace.controller.rest import documents
from headrace.controller.rest.documents import EventsPage
from headrace.controller.store.rows.stream_row import ScalePlan
from headrace.controller.streams.epochs import first_epoch, scaled_epoch


def epochs(count, segments):
    records = [first_epoch(segments, 0, 1000)]
    for _ in range(count - 1):
        active = records[-1]
        last = active.segments[-1]
        plan = ScalePlan(active.epoch, (last.segment_id,), (last.key_range,), 0)
        records.append(scaled_epoch(active, plan))
    return records


def page_of(records, from_ms, to_ms):
    page = EventsPage(from_ms, to_ms)
    for record in records:
        if not page.take(record):
            break
    return [event.timestamp for event in page.events]


@pytest.mark.parametrize(("segments", "at_most"), [(1, 10), (7, 3), (50, 3)])
def test_pages_that_begin_where_the_last_one_ended_show_every_event(monkeypatch, segments, at_most):
    monkeypatch.setattr(documents, "EVENTS_MAX", 10)
    monkeypatch.setattr(documents, "EVENT_SEGMENTS_MAX", 20)
    records = epochs(40, segments)
    times = [record.created_ms for record in records]
    seen = page_of(records, 0, 5000)
    assert seen == times[:at_most]
    while seen[-1] != times[-1]:
        page = page_of(records, seen[-1], 5000)
        assert len(page) <= at_most
        assert page[:2] == seen[-2:]
        seen += page[2:]
    assert seen == times
    assert all(one < other for one, other in pairwise(seen))


def test_nothing_is_shown_of_a_time_before_the_stream():
    assert page_of(epochs(3, 1), 0, 999) == []
    assert page_of(epochs(3, 1), 1001, 1001) == [1000, 1001]
    assert page_of(epochs(3, 1), 9000, 9001) == [1002]
