"""Random histories, scales and rolls of every shape, and positions of readers in them."""

from itertools import pairwise

from hypothesis import strategies as st

from headrace.controller.store.rows.stream_row import ScalePlan
from headrace.controller.streams.epochs import duplicated_epoch, first_epoch, scaled_epoch
from headrace.model.key_space import KeyRange
from tests.unit.controller.streams.history_model import EpochHistory

KEYS = [index / 97 for index in range(97)]


@st.composite
def histories(draw):
    """Draw a history of up to six changes, some of them rolls."""
    history = EpochHistory([first_epoch(draw(st.integers(1, 4)), draw(st.integers(0, 3)), 1000)])
    for _ in range(draw(st.integers(0, 6))):
        active = history.records[-1]
        if len(history.records) > 1 and draw(st.booleans()):
            original = history.records[draw(st.integers(0, active.epoch))]
            history.extend(duplicated_epoch(original, active.epoch + 1, active.created_ms + 1))
            history.extend(duplicated_epoch(active, active.epoch + 2, active.created_ms + 2))
        else:
            history.extend(scaled_epoch(active, draw(scales(active))))
    return history


@st.composite
def scales(draw, active):
    first = draw(st.integers(0, len(active.segments) - 1))
    last = draw(st.integers(first, min(first + 2, len(active.segments) - 1)))
    sealed = active.segments[first : last + 1]
    low, high = sealed[0].key_range.low, sealed[-1].key_range.high
    inner = draw(st.lists(st.integers(1, 15), max_size=3, unique=True))
    bounds = sorted({low, high} | {low + (high - low) * each / 16 for each in inner})
    ranges = tuple(KeyRange(left, right) for left, right in pairwise(bounds))
    return ScalePlan(active.epoch, tuple(segment.segment_id for segment in sealed), ranges, 0)


def chain(history, key):
    """Return the segments that hold the key's data, in the order readers meet them."""
    found = []
    for record in history.records:
        (segment,) = [each for each in record.segments if each.key_range.contains(key)]
        if not found or found[-1] is not segment.segment_id:
            found.append(segment.segment_id)
    return list(dict.fromkeys(found))


@st.composite
def reader_cuts(draw, history):
    """Draw a position that a reader of the whole stream can be in: segment by segment, in order."""
    active = {segment.segment_id for segment in history.records[0].segments}
    finished = set()
    for _ in range(draw(st.integers(0, 12))):
        if not active:
            break
        done = draw(st.sampled_from(sorted(active)))
        followers = history.successors(done)
        if not followers:
            continue
        finished.add(done)
        active.discard(done)
        for follower in followers:
            if set(follower.predecessors) <= finished:
                active.add(follower.segment.segment_id)
    cut = {segment: draw(st.integers(0, 3)) for segment in active}
    for done in finished:
        for follower in history.successors(done):
            if not set(follower.predecessors) <= finished:
                cut[follower.segment.segment_id] = -1
    return cut
