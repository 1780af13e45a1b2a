"""What one report leads to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.policies import auto_scale
from headrace.controller.policies.auto_scale import decide
from headrace.controller.policies.scale_request import plan_scale
from headrace.controller.store.rows.epoch_row import EpochRecord, SegmentRecord
from headrace.controller.store.rows.load_marks_row import FOR_EVER, ColdMark, LoadMarksRow, SplitMark
from headrace.controller.store.rows.stream_row import StreamRow, StreamState
from headrace.controller.streams.epochs import scaled_epoch
from headrace.model.key_space import FULL_RANGE, KeyRange, split_evenly
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.model.segment_report import Load, SegmentReport

NOW = 1_700_000_000_000
NONE = LoadMarksRow()


def stream(segments=4, segments_min=1, factor=4, state=StreamState.ACTIVE, **fields):
    pieces = split_evenly(FULL_RANGE, segments)
    return StreamRow(
        uid=bytes(16),
        created_ms=0,
        state=state,
        config=StreamConfiguration(scaling=ScalingPolicy.by_event_rate(10, factor, segments_min)),
        epoch=EpochRecord(0, 0, 0, tuple(SegmentRecord(i, 0, each) for i, each in enumerate(pieces))),
        **fields,
    )


def hot(pieces=2, permille=2500, time_ms=NOW):
    return SegmentReport("s", Load.HOT, time_ms, pieces, permille)


def cold(permille=100, time_ms=NOW):
    return SegmentReport("s", Load.COLD, time_ms, 0, permille, 900_000)


SILENT = SegmentReport("s", Load.SILENT, NOW)
WARM = SegmentReport("s", Load.WARM, NOW)


def marked(**loads):
    return LoadMarksRow({int(key[1:]): ColdMark(NOW + 1000, load) for key, load in loads.items()})


@pytest.mark.parametrize(
    ("requested", "factor", "pieces"), [(0, 0, 2), (2, 1, 2), (3, 2, 2), (9, 4, 4), (3, 4, 3)]
)
def test_a_hot_segment_is_divided_evenly(requested, factor, pieces):
    row = stream(factor=1)
    row = replace(row, config=replace(row.config, scaling=ScalingPolicy(2, 10, factor, 1)))
    found = decide(row, NONE, 3, hot(requested), NOW)
    assert found.sealed == (3,)
    assert list(found.ranges) == split_evenly(KeyRange(0.75, 1.0), pieces)
    assert found.ranges[-1].high == 1.0


@pytest.mark.parametrize(
    "row",
    [
        replace(stream(), config=StreamConfiguration(scaling=ScalingPolicy.fixed(4))),
        stream(state=StreamState.SEALED),
        stream(state=StreamState.SEALING),
        stream(state=StreamState.SEALED, deleting=True),
        stream(state=StreamState.CREATING),
    ],
    ids=["fixed", "sealed", "sealing", "deleting", "creating"],
)
@pytest.mark.parametrize("report", [hot(), cold(), SILENT, WARM], ids=lambda each: each.load.name)
def test_a_stream_that_does_not_scale_ignores_reports(row, report):
    found = decide(row, marked(s0=1), 1, report, NOW)
    assert (found.marks, found.sealed) == (marked(s0=1), ())


@pytest.mark.parametrize("report", [hot(), cold(), SILENT, WARM], ids=lambda each: each.load.name)
def test_reports_that_are_late_or_about_replaced_segments_do_nothing(report):
    marks = marked(s0=1, s2=1)
    assert decide(stream(), marks, 99, report, NOW).marks is marks
    late = decide(stream(), marks, 1, report, NOW + auto_scale.REPORT_AGE_MS_MAX + 1)
    assert late.marks is marks
    assert late.sealed == ()


def test_a_report_of_cold_whose_time_is_over_does_nothing():
    assert decide(stream(), NONE, 1, replace(cold(), valid_ms=1000), NOW + 1000).marks is NONE


def test_a_segment_becomes_cold_alone_and_is_merged_when_a_neighbour_is():
    first = decide(stream(), NONE, 1, cold(), NOW)
    assert first.sealed == ()
    assert first.marks.cold == {1: ColdMark(NOW + 900_000, 100)}
    second = decide(stream(), first.marks, 2, SILENT, NOW + 1)
    assert second.sealed == (1, 2)
    assert second.ranges == (KeyRange(0.25, 0.75),)
    assert second.marks.cold[2] == ColdMark(FOR_EVER)
    assert decide(stream(), first.marks, 3, cold(), NOW).sealed == (), "they are no neighbours"
    assert decide(stream(), first.marks, 2, cold(), NOW + 900_000).sealed == (), "it is not cold any more"


def test_both_neighbours_are_merged_if_enough_segments_are_left():
    both = marked(s0=300, s2=200)
    assert decide(stream(), both, 1, cold(), NOW).sealed == (0, 1, 2)
    assert decide(stream(segments_min=3), both, 1, cold(), NOW).sealed == (1, 2), "the colder one"
    assert decide(stream(segments_min=4), both, 1, cold(), NOW).sealed == ()
    assert decide(stream(segments_min=3), marked(s0=200, s2=200), 1, cold(), NOW).sealed == (0, 1)


def test_a_merged_segment_would_not_be_hot():
    assert decide(stream(), marked(s0=450), 1, cold(450), NOW).sealed == ()
    assert decide(stream(), marked(s0=400, s2=400), 1, cold(400), NOW).sealed == (0, 1)


def test_a_segment_that_is_hot_or_warm_is_not_cold():
    marks = marked(s1=5, s2=5)
    assert list(decide(stream(), marks, 1, WARM, NOW).marks.cold) == [2]
    assert list(decide(stream(), marks, 1, hot(), NOW).marks.cold) == [2]


def test_repeated_reports_lead_to_the_same():
    first = decide(stream(), marked(s0=100), 1, cold(), NOW)
    assert decide(stream(), first.marks, 1, cold(), NOW) == first
    first = decide(stream(), NONE, 1, hot(), NOW)
    again = decide(stream(), first.marks, 1, hot(), NOW)
    assert again == first
    assert again.marks is first.marks


def test_a_hot_key_is_not_split_for_ever():
    row, marks, now, segment_id = stream(1), NONE, NOW, 0
    splits = 0
    while (found := decide(row, marks, segment_id, hot(permille=3000, time_ms=now), now)).sealed:
        splits += 1
        plan = plan_scale(row, found.sealed, found.ranges, now)
        row, marks = replace(row, epoch=scaled_epoch(row.epoch, plan)), found.marks
        segment_id = row.epoch.segments[0].segment_id
        now += 60_000
    assert splits == 1 + auto_scale.IN_VAIN_MAX - 1
    grown = hot(permille=6000, time_ms=now)
    assert decide(row, marks, segment_id, grown, now).sealed
    later = now + auto_scale.SPLIT_AGAIN_MS
    assert decide(row, marks, segment_id, hot(permille=3000, time_ms=later), later).sealed


def test_a_split_that_divides_the_load_is_followed_by_others():
    mark = SplitMark(NOW, 8000, auto_scale.IN_VAIN_MAX)
    assert decide(stream(), LoadMarksRow({}, {1: mark}), 1, hot(permille=4000), NOW).sealed == (1,)


@pytest.mark.parametrize("minutes", [2, 60])
def test_a_load_that_grows_evenly_is_split_as_often_as_it_doubles(minutes):
    """Each time, a piece is hot with the load of what it was split from; so are its siblings."""
    row, marks, now = stream(1), NONE, NOW
    for load in (1100, 2200, 4400, 8800):
        for _ in range(2):  # a segment that stays hot is reported again
            for segment in row.epoch.segments:
                permille = int(load * (segment.key_range.high - segment.key_range.low))
                if permille <= 1000:
                    continue
                found = decide(row, marks, segment.segment_id, hot(2, permille, now), now)
                marks = found.marks
                if found.sealed:
                    plan = plan_scale(row, found.sealed, found.ranges, now)
                    row = replace(row, epoch=scaled_epoch(row.epoch, plan))
            now += 30_000
        now += minutes * 60_000
    assert len(row.epoch.segments) == 16, "each has 550 thousandths of its target"


def test_marks_are_bounded_and_those_of_replaced_segments_go():
    many = LoadMarksRow(
        {key: ColdMark(NOW + 1 + key) for key in range(2000)},
        {key: SplitMark(NOW + key, 1) for key in range(2000)},
    )
    row = stream(1500)
    found = decide(row, many, 1499, cold(), NOW)
    assert len(found.marks.cold) <= 1500
    found = decide(row, LoadMarksRow(dict(list(many.cold.items())[:1000])), 1499, cold(), NOW)
    assert len(found.marks.cold) == auto_scale.MARKS_MAX
    assert {0, 1499} - set(found.marks.cold) == {0}
    found = decide(row, many, 1499, hot(permille=10**6, time_ms=NOW + 5000), NOW)
    assert len(found.marks.splits) == auto_scale.MARKS_MAX
    assert (1 << 32) + 1500 in found.marks.splits
    assert 1700 not in found.marks.splits


REPORTS = st.tuples(
    st.integers(0, 40),
    st.sampled_from(list(Load)),
    st.integers(0, 20),
    st.integers(0, 5000),
    st.integers(0, 10**6),
)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 5), st.lists(REPORTS, max_size=25), st.booleans())
def test_whatever_is_reported_every_scale_is_allowed(segments, segments_min, factor, reports, follows):
    row = stream(max(segments, segments_min), segments_min, 1)
    row = replace(row, config=replace(row.config, scaling=ScalingPolicy(1, 10, factor, segments_min)))
    marks, now = NONE, NOW
    for index, load, pieces, permille, later in reports:
        now += later
        segment_id = row.epoch.segments[index % len(row.epoch.segments)].segment_id
        report = SegmentReport("s", load, now, pieces, permille, 900_000)
        found = decide(row, marks, segment_id, report, now)
        marks = found.marks
        if not found.sealed:
            continue
        assert (load is Load.HOT) == (len(found.ranges) > 1)
        plan = plan_scale(row, found.sealed, found.ranges, now)
        if follows:
            row = replace(row, epoch=scaled_epoch(row.epoch, plan))
            row.check()
