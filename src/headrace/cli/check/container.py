"""What ``headrace check container`` prints: one line per finding, and how much was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from headrace.cli.inspect.data import UNMADE, InspectedData, open_data
from headrace.cli.output import print_json, print_line, printable, progress
from headrace.errors import DataCorruptionError, SnapshotLostError
from headrace.segmentstore.inspection.container_check import check_container
from headrace.segmentstore.inspection.findings import CheckReport, Finding, Severity
from headrace.segmentstore.inspection.object_check import find_strays
from headrace.segmentstore.inspection.object_verdict import ObjectCounts

_GARBAGE_SHOWN: Final = 10_000
_LOOKS_MAX: Final = 3


@dataclass(slots=True)
class Strays:
    """What lies below ``chunks`` and is of no container's rows. Of garbage there may be very much."""

    damage: list[Finding] = field(default_factory=list)
    garbage: list[Finding] = field(default_factory=list)
    garbage_left_out: int = 0
    counts: ObjectCounts = field(default_factory=ObjectCounts)

    def add(self, finding: Finding) -> None:
        if finding.severity is Severity.DAMAGE:
            self.damage.append(finding)
        elif len(self.garbage) < _GARBAGE_SHOWN:
            self.garbage.append(finding)
        else:
            self.garbage_left_out += 1


@dataclass(slots=True)
class Checked:
    """What a check has found."""

    data: InspectedData
    reports: list[CheckReport]
    strays: Strays

    @property
    def damaged(self) -> int:
        """How many findings are damage."""
        found = sum(report.damaged for report in self.reports) + len(self.strays.damage)
        return found + bool(self.data.problem)


def check_containers(*, data_dir: str, container: int | None, deep: bool, as_json: bool) -> None:
    """Check containers; raises DataCorruptionError at the end if anything is damaged."""
    checked = examine(open_data(data_dir), container, deep=deep)
    if as_json:
        print_json(document_of(checked))
    else:
        print_findings(checked)
    conclude(checked)


def examine(data: InspectedData, container: int | None, *, deep: bool) -> Checked:
    """Check one container, or all; look again at those of a running server.

    Raises:
        DataCorruptionError: the store is another system's.
        StorageReadError: the store did not answer.
    """
    data.check_system()
    checked = Checked(data, *_check(data, container, deep=deep))
    if checked.damaged:
        data.find_holder()  # a server may have started meanwhile
        if data.holder:
            checked = Checked(data, *_look_again(data, container, checked.reports, deep=deep))
    return checked


def conclude(checked: Checked) -> None:
    """Raises: DataCorruptionError if anything is damaged; SnapshotLostError if that is not known."""
    if checked.damaged:
        raise DataCorruptionError(f"{_count(checked.damaged)} in {checked.data.directory}")
    if not all(report.complete for report in checked.reports):
        raise SnapshotLostError(
            f"the logs in {checked.data.directory} keep changing: a running server truncates them"
        )


def _check(data: InspectedData, container: int | None, *, deep: bool) -> tuple[list[CheckReport], Strays]:
    containers = data.chosen(container)
    unmade = data.find_unmade()
    data.chunks.look_ahead()
    reports = [
        CheckReport(container_id, complete=True, begun=False)
        if container_id in unmade
        else _check_one(data, container_id, deep=deep)
        for container_id in containers
    ]
    # Without a true record the containers are unknown: an object may belong to a lost one.
    everything = containers == data.containers and not data.problem
    strays = Strays()
    if data.may_change:
        data.chunks.look_ahead()  # what has gone since the first listing, and its rows with it, is no orphan
    for finding in find_strays(
        data.chunks, reports, all_checked=everything, running=data.may_change, counts=strays.counts
    ):
        strays.add(finding)
    return reports, strays


def _check_one(data: InspectedData, container_id: int, *, deep: bool) -> CheckReport:
    try:
        return check_container(container_id, data.log(container_id), data.chunks, deep=deep)
    except SnapshotLostError as error:
        progress(f"container {container_id}: {error}")
        return CheckReport(container_id)  # incomplete, and the remaining ones are checked


def _look_again(
    data: InspectedData, container: int | None, reports: list[CheckReport], *, deep: bool
) -> tuple[list[CheckReport], Strays]:
    """Of a directory in use: only what two looks found is a finding. What is new gets another look."""
    seen = [{finding.identity for finding in report.findings} for report in reports]
    strays = Strays()
    for _ in range(_LOOKS_MAX - 1):
        progress("retrying: a running server changes files while they are read")
        reports, strays = _check(data, container, deep=deep)
        found = [{finding.identity for finding in report.findings} for report in reports]
        for report, known in zip(reports, seen, strict=True):
            report.keep_seen(known)
        if all(now <= known for now, known in zip(found, seen, strict=True)):
            break
        seen = [known | now for known, now in zip(seen, found, strict=True)]
    return reports, strays


def document_of(checked: Checked) -> dict[str, Any]:
    """Return what was found, for programs."""
    data, reports, strays = checked.data, checked.reports, checked.strays
    return {
        "directory": data.directory,
        "problem": data.problem,
        "findings": [_finding_document(finding) for finding in strays.damage],
        "containers": [
            {
                "container": report.container_id,
                "complete": report.complete,
                "container_epoch": report.epoch,
                "frames": report.frames,
                "operations": report.operations,
                "segments": report.segments,
                "inactive_segments": report.inactive_segments,
                "chunks": report.chunks,
                "chunk_bytes": report.chunk_bytes,
                "verified_bytes": report.verified_bytes,
                "table_entries": report.table_entries,
                "tables_left_out": report.tables_left_out,
                "findings": [_finding_document(finding) for finding in report.findings],
                "findings_left_out": report.findings_left_out,
            }
            for report in reports
        ],
        "garbage": [_finding_document(finding) for finding in strays.garbage],
        "garbage_left_out": strays.garbage_left_out,
    }


def _finding_document(finding: Finding) -> dict[str, str]:
    return {
        "severity": finding.severity.value,
        "what": finding.what,
        "where": finding.where,
        "advice": finding.advice,
    }


def print_findings(checked: Checked) -> None:
    """Print one line per finding, then one per container."""
    data, reports, strays = checked.data, checked.reports, checked.strays
    if data.problem:
        advice = "write it again with the right number of containers (docs/formats/data-directory.md)"
        print_line(f"damage: {data.problem} | do: {advice}")
    for report in reports:
        for finding in report.findings:
            _print_finding(f"container {report.container_id}: ", finding)
        if report.findings_left_out:
            print_line(f"container {report.container_id}: and {report.findings_left_out} findings more")
        if report.tables_left_out:
            why = "because something is damaged: check again when it is repaired"
            print_line(f"container {report.container_id}: tables were not checked, {why}")
    for finding in (*strays.damage, *strays.garbage):
        _print_finding("", finding)
    if strays.garbage_left_out:
        print_line(f"garbage: and {strays.garbage_left_out} objects more")
    for report in reports:
        state = "not checked beyond the log" if not report.complete else "clean"
        if not report.begun:
            state = UNMADE
        if report.damaged and report.complete:
            state = _count(report.damaged)
        print_line(
            f"container {report.container_id}: {report.frames} frames, {report.operations} operations, "
            f"{report.segments} active and {report.inactive_segments} inactive segments, "
            f"{report.chunks} chunks with {report.chunk_bytes} bytes ({report.verified_bytes} verified): "
            f"{state}"
        )


def _count(findings: int) -> str:
    return f"{findings} finding" + "s" * (findings != 1)


def _print_finding(prefix: str, finding: Finding) -> None:
    kind = "damage" if finding.severity is Severity.DAMAGE else "garbage"
    line = f"{kind}: {prefix}{finding.what} | {finding.where} | do: {finding.advice}"
    print_line(printable(line))
