"""Which segments leave memory."""

import pytest

from headrace.model import attributes as attr
from headrace.segmentstore.state import eviction_plan as plan
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState


def segment(number, **fields):
    state = SegmentState(number, f"s/{number}", last_used=number)
    for name, value in fields.items():
        setattr(state, name, value)
    return state


def chosen(states, cutoff=1000, *, idle=True):
    found = plan.find_idle(states, cutoff, lambda _: idle)
    plan.sort_idle(found)
    return [state.segment_id for state in found]


def test_the_least_recently_used_go_first():
    states = [segment(n) for n in (5, 3, 9, 1, 7)]
    assert chosen(states) == [1, 3, 5, 7, 9]
    assert chosen(states, cutoff=7) == [1, 3, 5]
    assert chosen(states, cutoff=0) == []


@pytest.mark.parametrize(
    "reason",
    [
        {"users": 1},
        {"pinned": True},
        {"durable_length": 5, "accepted_length": 5},
        {"durable_length": 5, "accepted_length": 6, "stored_length": 5},
        {"accepted_length": 5, "accepted_start_offset": 1, "durable_length": 5, "stored_length": 5},
        {"accepted_sealed": True},
        {"accepted_deleted": True},
        {"accepted_sealed": True, "sealed": True, "accepted_merged": True},
        {"attributes": SegmentAttributes({attr.SEGMENT_TYPE: attr.TYPE_TRANSIENT})},
    ],
)
def test_a_segment_stays_that_is_used_or_not_stored_or_on_its_way(reason):
    assert chosen([segment(1, **reason), segment(2)]) == [2]


def test_a_table_goes_only_when_nothing_uses_it():
    table = segment(1, attributes=SegmentAttributes({attr.SEGMENT_TYPE: attr.TYPE_TABLE}))
    assert chosen([table], idle=False) == []
    assert chosen([table]) == [1]
    assert chosen([segment(2)], idle=False) == [2]


@pytest.mark.parametrize(("active", "bound", "room"), [(100, 100, 25), (130, 100, 55), (4, 4, 1), (1, 1, 1)])
def test_making_room_makes_enough(active, bound, room):
    assert plan.count_to_evict(active, bound) == room
