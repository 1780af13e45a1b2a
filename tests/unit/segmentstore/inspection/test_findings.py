"""Findings are told apart by what and where they are, not by lengths that grow while somebody looks."""

from headrace.segmentstore.inspection.findings import CheckReport, Finding, Severity


def too_short(length, path="chunks/a.chunk"):
    what = f"the chunk that holds [0, {length}) is too short"
    return Finding(Severity.DAMAGE, "chunk", what, path, "restore it", f" at offset {length}")


def test_a_finding_is_the_same_whatever_lengths_it_tells():
    assert too_short(5).identity == too_short(9).identity
    assert too_short(5) != too_short(9)
    assert too_short(5).where == "chunks/a.chunk at offset 5"
    assert too_short(5).identity != too_short(5, "chunks/b.chunk").identity


def test_what_an_earlier_look_has_found_stays():
    report = CheckReport(0, findings=[too_short(9), too_short(9, "chunks/b.chunk")])
    report.keep_seen({too_short(5).identity})
    assert report.findings == [too_short(9)]
    report.keep_seen(set())
    assert report.findings == []
