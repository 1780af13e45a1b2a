"""Decides what of a damaged long-term storage can be mended without guessing, from what a check has found.

=====================================  ==================================================================
Found                                  Done
=====================================  ==================================================================
first objects of a stream's segment    the segment is truncated behind them: readers skip what is lost
are missing, and others are not        instead of failing at it
other objects are missing              nothing: reads of them fail, and say so, until they are put back
orphans                                deleted: a log is cut only behind what rows name, so no orphan has
                                       the only copy of anything
objects of later owners                nothing, and nothing else either: the log is an older one, and what
                                       seems lost or orphaned may be neither
objects of other incarnations          nothing: lost metadata can be restored from them
=====================================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.segmentstore.inspection.findings import CheckReport, SegmentLoss
from headrace.segmentstore.inspection.object_verdict import ObjectCounts, Verdict
from headrace.segmentstore.segment_names import is_index

_SYSTEM: Final = "_system/"
_TRANSACTION: Final = "#transaction."
_PUT_BACK: Final = "put the objects back from a copy"


@dataclass(frozen=True, slots=True)
class Truncation:
    """A segment of a stream that has lost its first objects, up to ``head_end``."""

    container_id: int
    segment: str
    segment_id: int
    head_end: int


@dataclass(slots=True)
class RepairPlan:
    """What will be done, and what will not."""

    refusal: str = ""
    """Why nothing at all is done; or empty."""

    truncations: list[Truncation] = field(default_factory=list)
    orphans: int = 0
    orphan_bytes: int = 0
    left: list[str] = field(default_factory=list)
    """What stays as it is, one sentence each, with what an operator can do."""

    @property
    def does_nothing(self) -> bool:
        return bool(self.refusal) or not (self.truncations or self.orphans)


def plan_repair(reports: Sequence[CheckReport], counts: ObjectCounts) -> RepairPlan:
    """Decide for a whole system, all of whose containers were checked."""
    plan = RepairPlan(refusal=_refuse(reports, counts))
    if plan.refusal:
        return plan
    for report in reports:
        for loss in report.losses:
            _decide(plan, report.container_id, loss)
    plan.orphans = counts.by_verdict[Verdict.ORPHAN]
    plan.orphan_bytes = counts.bytes_by_verdict[Verdict.ORPHAN]
    return plan


def _refuse(reports: Sequence[CheckReport], counts: ObjectCounts) -> str:
    for report in reports:
        if report.begun and not (report.complete and report.rows_known):
            return (
                f"the metadata of container {report.container_id} are damaged, so nothing can be proven: put "
                "its log and its own chunks back, or rebuild the system from its storage checkpoints"
            )
    if counts.by_verdict[Verdict.LATER]:
        return (
            "the logs are older than the objects: find the newer ones, or rebuild the system from its "
            "storage checkpoints"
        )
    if any(report.losses for report in reports) and not counts.by_verdict[Verdict.NAMED]:
        return "none of the objects is there: this is not the store of these data, or it is not mounted"
    return ""


def _decide(plan: RepairPlan, container_id: int, loss: SegmentLoss) -> None:
    storage_name = loss.storage_name
    segment, _, number = storage_name.rpartition(".")
    if is_index(storage_name):
        plan.left.append(f"an attribute index has lost objects, {storage_name!r}: {_PUT_BACK}")
    elif loss.is_table or segment.startswith(_SYSTEM):
        plan.left.append(f"a table or a segment of the system has lost objects, {segment!r}: {_PUT_BACK}")
    elif _TRANSACTION in segment:
        plan.left.append(f"a transaction has lost objects, {segment!r}: abort it, or {_PUT_BACK}")
    else:
        if loss.head_end:
            plan.truncations.append(Truncation(container_id, segment, int(number, 16), loss.head_end))
        if loss.gaps:
            plan.left.append(
                f"{loss.gaps} objects are missing in the middle of {segment!r}, reads of them fail: "
                f"{_PUT_BACK}, or truncate the stream behind them"
            )
