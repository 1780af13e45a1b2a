"""Whose turn it is with a segment: the table says what the two questions about it need, and nothing else."""

import pytest

from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.flush_turn import LEGAL, Turn, TurnEvent
from headrace.segmentstore.storagewriter.segment_aggregator import SegmentAggregator


def after(*events):
    found = SegmentAggregator(SegmentState(1, "a/b/0.#epoch.0"), in_storage=False)
    for event in events:
        found.take_turn(event)
    return found.busy, found.waiting


BEGIN, WAIT, END, RESUME, HOLD, RELEASE = TurnEvent


@pytest.mark.parametrize(
    ("events", "busy", "waiting"),
    [
        ([], False, False),
        ([BEGIN], True, False),
        ([BEGIN, END], False, False),
        ([BEGIN, WAIT, END], False, True),
        ([BEGIN, WAIT, END, RESUME, BEGIN], True, False),
        ([HOLD], True, False),
        ([HOLD, RELEASE], False, False),
        ([BEGIN, WAIT, END, HOLD], True, True),
        ([BEGIN, WAIT, END, HOLD, RELEASE], False, True),
        ([BEGIN, WAIT, END, HOLD, RESUME, RELEASE], False, False),
        ([BEGIN, RESUME], True, False),
    ],
)
def test_whether_a_flush_may_begin(events, busy, waiting):
    assert after(*events) == (busy, waiting)


@pytest.mark.parametrize(
    "events", [[BEGIN, BEGIN], [HOLD, BEGIN], [BEGIN, HOLD], [RELEASE], [END], [HOLD, HOLD]]
)
def test_two_never_work_on_a_segment_at_a_time(events):
    with pytest.raises(KeyError):
        after(*events)


def test_every_turn_is_reached_and_comes_to_its_end():
    following = {turn: set(LEGAL[turn].values()) for turn in Turn}
    for turn in Turn:
        reached, todo = set(), [turn]
        while todo:
            new = following[todo.pop()] - reached
            reached |= new
            todo += new
        assert reached == set(Turn)
