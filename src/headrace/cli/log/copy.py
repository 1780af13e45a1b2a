"""``headrace log copy``: the log of a stopped system in another place, and nowhere else."""

from __future__ import annotations

import asyncio

from headrace.cli.output import print_json, print_line, printable
from headrace.cli.progress import Progress
from headrace.repair.log_copy.move import LogMove, MoveReport
from headrace.runtime.context import system_runtime


def copy_log(*, source: str, target: str, as_json: bool) -> None:
    """Move the logs, and say what was moved."""
    with Progress("copying", "B", quiet=as_json) as progress, asyncio.Runner() as runner:
        report = LogMove(source, target, system_runtime(), runner.run, progress.show).run()
    if as_json:
        print_json(_document(report))
    else:
        _print(report)


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
