"""``headrace storage repair``: what can be mended without guessing, in the data of a stopped server."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.cli.check.container import conclude, examine
from headrace.cli.cluster.live_claims import refuse_while_served
from headrace.cli.inspect.chunk_access import ChunkAccess
from headrace.cli.inspect.data import open_data
from headrace.cli.output import print_json, print_line, printable
from headrace.cli.progress import Progress
from headrace.cli.servers import confirm
from headrace.errors import DataCorruptionError, DirectoryLockedError
from headrace.processes.config import SegmentStoreConfig
from headrace.repair.repair_plan import RepairPlan, plan_repair
from headrace.repair.storage_repair import RepairReport, repair_storage


def repair(*, data_dir: str, dry_run: bool, yes: bool, coordinator: str | None, as_json: bool) -> None:
    """Check, say what will be done, do it, check again; raises DataCorruptionError if damage is left."""
    with Progress("checking", "B", quiet=as_json) as progress:
        data = open_data(data_dir, ChunkAccess(progress=progress))
        if data.locked and not dry_run:
            raise DirectoryLockedError(data.directory, f"{data.holder}: stop it first")
        if not dry_run:
            refuse_while_served(coordinator, data.files, data.directory)
        checked = examine(data, None, deep=False)
    plan = plan_repair(checked.reports, checked.strays.counts)
    if not as_json:
        _print_plan(plan, dry=dry_run)
    report = RepairReport()
    if not (dry_run or plan.does_nothing):
        confirm(f"mend {data.directory}", yes=yes)
        report = asyncio.run(repair_storage(SegmentStoreConfig(data_dir=data.directory), plan))
        if not as_json:
            _print_report(report)
        with Progress("checking again", "B", quiet=as_json) as progress:
            checked = examine(open_data(data_dir, ChunkAccess(progress=progress)), None, deep=False)
    if as_json:
        print_json(_document(plan, report) | {"damaged": checked.damaged})
    if plan.refusal:
        raise DataCorruptionError(f"nothing was done: {plan.refusal}")
    conclude(checked)


def _document(plan: RepairPlan, report: RepairReport) -> dict[str, Any]:
    return {
        "refusal": plan.refusal,
        "planned": {
            "truncations": [
                {"segment": found.segment, "lost_to": found.head_end} for found in plan.truncations
            ],
            "orphans": plan.orphans,
            "orphan_bytes": plan.orphan_bytes,
        },
        "truncated": [
            {"segment": segment, "lost_to": lost_to, "begins_at": offset}
            for segment, lost_to, offset in report.truncated
        ],
        "deleted": report.deleted,
        "left": [*plan.left, *report.left],
    }


def _print_plan(plan: RepairPlan, *, dry: bool) -> None:
    word = "would be" if dry else "will be"
    for found in plan.truncations:
        text = f"{found.segment!r} has lost its bytes up to {found.head_end}: it {word} truncated behind them"
        print_line(printable(text))
    if plan.orphans:
        print_line(f"{plan.orphans} orphans with {plan.orphan_bytes} bytes {word} deleted")
    for what in plan.left:
        print_line(printable(f"left: {what}"))
    if plan.does_nothing and not plan.refusal:
        print_line("there is nothing that could be mended")


def _print_report(report: RepairReport) -> None:
    for segment, lost_to, offset in report.truncated:
        skipped = f", {offset - lost_to} bytes of an event of which the beginning is lost included"
        print_line(printable(f"{segment!r} begins at {offset} now{skipped if offset > lost_to else ''}"))
    print_line(f"{report.deleted} objects deleted")
    for what in report.left:
        print_line(printable(f"left: {what}"))
