"""What an object is called, from its name alone."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.inspection.findings import CheckReport
from headrace.segmentstore.inspection.object_verdict import ObjectJudge, Verdict
from headrace.storage.chunks.chunk_names import parse_chunk_name

INCARNATIONS = ["00000001", "00000002", "00000003"]


def name_of(incarnation, epoch, number):
    return f"demo/s.5.E-{epoch}-O-0.{incarnation}{number:024x}"


NAMES = st.builds(
    name_of, st.sampled_from(INCARNATIONS), st.integers(1, 4), st.integers(0, 2)
) | st.sampled_from(["_system/identity", "_system/checkpoints/0/1-1.manifest", "readme"])
REPORTS = st.builds(
    lambda incarnation, epoch, names, complete, rows_known: CheckReport(
        0, complete=complete, epoch=epoch, incarnation=incarnation, chunk_names=names, rows_known=rows_known
    ),
    st.sampled_from([*INCARNATIONS, ""]),
    st.integers(1, 4),
    st.sets(NAMES, max_size=3),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(REPORTS, max_size=3), NAMES, st.booleans(), st.booleans())
def test_only_what_certainly_nobody_needs_is_an_orphan(reports, name, all_checked, running):
    judge = ObjectJudge(reports, all_checked=all_checked, running=running)
    verdict = judge.judge(name)
    named = any(name in report.chunk_names for report in reports)
    assert (verdict is Verdict.NAMED) == named
    parsed = parse_chunk_name(name)
    if verdict in {Verdict.ORPHAN, Verdict.LATER}:
        found, owner = judge.owner_of(name)
        assert found == parsed
        assert owner.incarnation == parsed.incarnation
        assert (parsed.epoch > owner.epoch) == (verdict is Verdict.LATER) or running
        if verdict is Verdict.ORPHAN:
            assert owner.rows_known
            assert not running or parsed.epoch < owner.epoch
    if verdict is Verdict.STRANGER:
        assert all_checked
        assert all(report.complete and report.rows_known for report in reports)
        assert parsed is None or all(report.incarnation != parsed.incarnation for report in reports)
    if verdict is Verdict.BESIDE:
        assert name.startswith("_system/")
