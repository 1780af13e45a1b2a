"""``headrace log copy``: the log of a stopped system in another place, and nowhere else."""

from __future__ import annotations

import asyncio

from headrace.cli.cluster.cluster_session import in_session
from headrace.cli.output import print_json, print_line, printable
from headrace.cli.progress import Progress
from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import read_facts
from headrace.cluster.node_reads import read_stores
from headrace.coordination.contract import Session
from headrace.errors import PreconditionError
from headrace.repair.log_copy.move import LogMove, MoveReport, note_move
from headrace.runtime.context import system_runtime


def copy_log(*, source: str | None, target: str, coordinator: str | None, as_json: bool) -> None:
    """Move the logs, and say what was moved."""
    facts = in_session(coordinator, _stopped_cluster) if source is None else None
    with Progress("copying", "B", quiet=as_json) as progress, asyncio.Runner() as runner:
        report = LogMove(source or facts or "", target, system_runtime(), runner.run, progress.show).run()
    if facts is not None:
        in_session(coordinator, lambda session: note_move(session, facts, report.target))
    if as_json:
        print_json(_document(report))
    else:
        _print(report)


async def _stopped_cluster(session: Session) -> Facts:
    """Return the facts of a cluster. Raises PreconditionError: its stores are not stopped."""
    facts, stores = await read_facts(session), await read_stores(session)
    for node in stores.values():
        raise PreconditionError(
            f"segment store {node.endpoint} of the cluster runs, and nothing was changed: stop all of them"
        )
    return facts


def _document(report: MoveReport) -> dict[str, object]:
    logs = [
        {
            "container": each.container,
            "records": each.contents.records,
            "bytes": each.contents.size,
            "checksum": f"{each.contents.checksum:08x}",
            "epoch": each.epoch,
        }
        for each in report.logs
    ]
    return {"from": report.source, "to": report.target, "system": report.system, "logs": logs}


def _print(report: MoveReport) -> None:
    for each in report.logs:
        print_line(f"container {each.container}: {each.contents}, container epoch {each.epoch}")
    print_line(
        printable(
            f"the log of system {report.system} is in {report.target} now, and was compared; the one in "
            f"{report.source} has ended there, and may be deleted"
        )
    )
