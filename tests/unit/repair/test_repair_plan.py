"""What is mended, and what is left to people."""

import pytest

from headrace.repair.repair_plan import Truncation, plan_repair
from headrace.segmentstore.inspection.findings import CheckReport, SegmentLoss
from headrace.segmentstore.inspection.object_verdict import ObjectCounts, Verdict

STREAM = "demo/orders/0.#epoch.0.1f"


def report_of(*losses, **fields):
    return CheckReport(3, complete=True, losses=list(losses), **fields)


def loss(name, head_end=0, gaps=0, *, is_table=False):
    return SegmentLoss(name, 1000, head_end, gaps, is_table)


def counts_of(**objects):
    counts = ObjectCounts()
    counts.by_verdict[Verdict.NAMED] = 7
    for name, count in objects.items():
        counts.by_verdict[Verdict(name)] = count
        counts.bytes_by_verdict[Verdict(name)] = 10 * count
    return counts


def test_what_is_lost_at_the_beginning_of_a_stream_is_skipped():
    plan = plan_repair([report_of(loss(STREAM, 400))], counts_of())
    assert plan.truncations == [Truncation(3, "demo/orders/0.#epoch.0", 0x1F, 400)]
    assert plan.left == []
    assert not plan.does_nothing


def test_what_is_lost_in_the_middle_stays_an_error():
    plan = plan_repair([report_of(loss(STREAM, 0, 2))], counts_of())
    assert plan.does_nothing
    (left,) = plan.left
    assert "2 objects are missing in the middle of 'demo/orders/0.#epoch.0', reads of them fail" in left
    both = plan_repair([report_of(loss(STREAM, 400, 2))], counts_of())
    assert (len(both.truncations), both.left) == (1, plan.left)


@pytest.mark.parametrize(
    "lost",
    [
        loss("demo/_tables/t.5", 400, is_table=True),
        loss("_system/containers/metadata_3.2", 400),
        loss("_system/_requeststream/0.#epoch.0.9", 400),
        loss(STREAM + "$index", 400),
        loss("demo/orders/0.#epoch.0#transaction.00000000000000010000000000000002.7", 400),
    ],
    ids=lambda lost: lost.storage_name,
)
def test_only_segments_of_streams_are_cut(lost):
    plan = plan_repair([report_of(lost)], counts_of())
    assert plan.does_nothing
    assert "put the objects back from a copy" in plan.left[0]


def test_orphans_are_deleted_and_strangers_are_not():
    plan = plan_repair([report_of()], counts_of(orphan=2, stranger=5, beside=3))
    assert (plan.orphans, plan.orphan_bytes, plan.does_nothing) == (2, 20, False)
    assert plan_repair([report_of()], counts_of(stranger=5)).does_nothing


@pytest.mark.parametrize(
    ("report", "counts", "why"),
    [
        (report_of(loss(STREAM, 400), rows_known=False), counts_of(orphan=1), "metadata of container 3"),
        (CheckReport(3), counts_of(orphan=1), "metadata of container 3"),
        (report_of(loss(STREAM, 400)), counts_of(later=1, orphan=1), "older than the objects"),
        (report_of(loss(STREAM, 400)), counts_of(named=0), "not the store of these data"),
    ],
)
def test_where_nothing_can_be_proven_nothing_is_done(report, counts, why):
    plan = plan_repair([report], counts)
    assert why in plan.refusal
    assert plan.does_nothing
    assert not plan.truncations


def test_a_container_that_never_began_stands_in_nobodys_way():
    begun = report_of(loss(STREAM, 400))
    assert plan_repair([begun, CheckReport(4, complete=True, begun=False)], counts_of()).truncations
